"""`python -m pipeline evaluate`: accuracy of a checkpoint on a labelled split.

mIoU is at the masks' own size, from one confusion matrix over all images, through the deployed path
(predict.py): an exported artifact must give the same. Training validates with the same function.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.options import count, parse_size

if TYPE_CHECKING:
    from deploy.labels import DatasetInfo
    from deploy.manifest import Preprocess
    from deploy.metrics import ConfusionMatrix
    from pipeline.models.checkpoints import CheckpointMeta
    from pipeline.predict import Predictor
    from pipeline.samples import Pairs

Walk = Callable[[Sequence[int]], Iterator[int]]


@dataclass(frozen=True)
class Evaluation:
    """Accuracy over a split: `matrix` rows are truth; `latency_ms`: one an image (the first left out)."""

    matrix: ConfusionMatrix
    classes: tuple[str, ...]
    images: int
    latency_ms: tuple[float, ...]

    def summary(self) -> dict[str, Any]:
        """`miou`, `iou` by class name, `pixel_accuracy`, `images`; None where nothing was counted."""
        iou = zip(self.classes, self.matrix.iou().tolist(), strict=True)
        return {
            "miou": _figure(self.matrix.miou()),
            "iou": {name: _figure(value) for name, value in iou},
            "pixel_accuracy": _figure(self.matrix.pixel_accuracy()),
            "images": self.images,
        }

    def latency(self) -> dict[str, float]:
        """Percentiles of the time from decoded frame to label map, in ms."""
        import numpy as np

        p50, p90, p99 = np.percentile(self.latency_ms, [50, 90, 99]).tolist()
        return {"p50": p50, "p90": p90, "p99": p99, "mean": float(np.mean(self.latency_ms))}


def evaluate(
    predict: Predictor,
    pairs: Pairs,
    info: DatasetInfo,
    walk: Walk = iter,
    files: Sequence[object] = (),
) -> Evaluation:
    """Predict every image of `pairs` once and compare with its mask.

    Args:
        walk: turns the indices into an iterator over them (to show progress).
        files: names of the masks, for errors.

    Raises:
        InputError: a mask holds ids that are not declared (its file is named).
    """
    from deploy.metrics import ConfusionMatrix

    matrix = ConfusionMatrix(len(info.classes), info.ignore_index)
    times = []
    for index in walk(range(len(pairs))):
        image, mask = pairs[index]
        labels, taken = predict.timed(image)
        try:
            matrix.update(labels, mask)
        except InputError as error:
            raise InputError(f"{files[index] if files else f'mask {index}'}: {error}") from error
        times.append(taken)
    return Evaluation(matrix, info.classes, len(pairs), tuple(times[1:] or times))


def preprocess_of(meta: CheckpointMeta, where: object, size: tuple[int, int] | None = None) -> Preprocess:
    """The checkpoint's rule from frame to input; `size` (H, W) takes the place of its own.

    Raises:
        InputError: the checkpoint does not say, and `size` is None.
    """
    from deploy.manifest import Preprocess
    from deploy.schema import decode
    from pipeline.normalise import MEAN, STD

    known = {"mean": list(MEAN), "std": list(STD), "in_graph": False, **meta.preprocess}
    if size:
        known["size"] = list(size)
    if "size" not in known:
        raise InputError(
            f"checkpoint {where} names no size", expected="--size HxW", fix="such as --size 360x480"
        )
    rule: Preprocess = decode(Preprocess, known, f"checkpoint {where}: preprocess")
    return rule


def require_classes(meta: CheckpointMeta, info: DatasetInfo, where: object) -> None:
    """Raise InputError unless the data has the checkpoint's classes, in order (unnamed: as many)."""
    names = meta.dataset.get("classes")
    same = list(info.classes) == list(names) if names else len(info.classes) == meta.model["classes"]
    if not same:
        expected = ", ".join(names) if names else f"{meta.model['classes']} classes"
        fix = "evaluate on data with the checkpoint's classes"
        raise InputError(f"{where}: classes", got=", ".join(info.classes), expected=expected, fix=fix)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `evaluate`."""
    parser.add_argument("--checkpoint", required=True, metavar="RUN", help="a run, a zoo name, or a file")
    parser.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="labelled folder (dataset.toml)"
    )
    parser.add_argument("--split", default="val", metavar="NAME", help="split of the folder (default: val)")
    parser.add_argument(
        "--size", type=parse_size, metavar="HxW", help="network input (default: the training's)"
    )
    parser.add_argument("--threads", type=count, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for stdout)")


def run(args: argparse.Namespace) -> int:
    """Evaluate, print a table, and write the JSON file."""
    from deploy.files import write_json

    result = measure(args)
    if args.json:
        write_json(args.json, result)
    if args.json != "-":
        _print(result)
    return 0


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The whole evaluation as a JSON object."""
    from deploy.files import sha256_file
    from deploy.labels import dataset_digest
    from deploy.progress import track
    from pipeline.datasets import open_dataset
    from pipeline.device import pick_device, set_threads, versions
    from pipeline.models.checkpoints import load_checkpoint, resolve_checkpoint
    from pipeline.predict import Predictor

    threads = set_threads(args.threads)
    path = resolve_checkpoint(args.checkpoint)
    model, meta = load_checkpoint(path)
    dataset = open_dataset(args.data, args.split)
    require_classes(meta, dataset.info, args.data)
    rule = preprocess_of(meta, path, args.size)
    predict = Predictor(model, rule, pick_device(args.device))
    predict(dataset[0][0])  # warm-up
    files = [pair.mask for pair in dataset.pairs]
    done = evaluate(predict, dataset, dataset.info, lambda indices: track(indices, "evaluate"), files)
    return {
        **done.summary(),
        "latency_ms": done.latency(),
        "size": list(rule.size),
        "checkpoint": {"file": str(path), "sha256": sha256_file(path)},
        "model": meta.model,
        "dataset": {"name": dataset.info.name, "split": args.split, "sha256": dataset_digest(dataset.pairs)},
        "device": str(predict.device),
        "threads": threads,
        "versions": versions(),
        "command": shlex.join(["python", "-m", "pipeline", *sys.argv[1:]]),
    }


def _print(result: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    data, size = result["dataset"], "x".join(map(str, result["size"]))
    where = f"{data['name']} {data['split']}: {result['images']} images, {size}"
    print(f"{result['checkpoint']['file']} on {where}")
    table = Table(box=SIMPLE)
    table.add_column("class")
    table.add_column("IoU", justify="right")
    for name, value in result["iou"].items():
        table.add_row(name, shown(value))
    table.add_section()
    table.add_row("mIoU", shown(result["miou"]))
    table.add_row("pixel accuracy", shown(result["pixel_accuracy"]))
    table.add_row("ms an image (p50)", f"{result['latency_ms']['p50']:.1f}")
    Console().print(table)


def shown(value: float | None) -> str:
    """A share to four digits; `-` for a class that occurs nowhere."""
    return "-" if value is None else f"{value:.4f}"


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else value
