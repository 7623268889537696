"""`python -m pipeline evaluate`: accuracy of a checkpoint on a labelled split.

mIoU is at the masks' own size, from one confusion matrix over all images (accuracy.py), through the deployed
path (predict.py): an exported artifact must give the same. Slices of CT volumes are also summed volume by
volume. --flip and --scales (off by default) leave that
path, and the result says so.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.options import add_json, parse_size, thread_count

if TYPE_CHECKING:
    import torch

    from deploy.labels import DatasetInfo
    from deploy.manifest import Preprocess
    from pipeline.accuracy import Evaluation, Timed
    from pipeline.datasets.folder import LabelledFolder
    from pipeline.models.checkpoints import CheckpointMeta
    from pipeline.models.efficientvit import EfficientViTSeg

WORST = 8


def preprocess_of(meta: CheckpointMeta, where: object, size: tuple[int, int] | None = None) -> Preprocess:
    """The checkpoint's rule from frame to input; `size` (H, W) takes the place of its own.

    Raises:
        InputError: the checkpoint does not say, and `size` is None; a value that no rule has.
    """
    from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD, Preprocess, check_preprocess
    from deploy.schema import decode

    known = {"mean": list(IMAGENET_MEAN), "std": list(IMAGENET_STD), "in_graph": False, **meta.preprocess}
    if size:
        known["size"] = list(size)
    if "size" not in known:
        raise InputError(
            f"checkpoint {where} names no size", expected="--size HxW", fix="such as --size 360x480"
        )
    rule: Preprocess = decode(Preprocess, known, f"checkpoint {where}: preprocess")
    check_preprocess(rule, f"checkpoint {where}")
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
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--flip", action="store_true", help="average with the mirrored image's answer")
    parser.add_argument(
        "--scales", type=scales, default=(1.0,), metavar="S,S", help="average over sizes, e.g. 0.75,1,1.25"
    )
    parser.add_argument(
        "--pictures", type=Path, metavar="DIR", help="draw the confusion matrix and the worst images there"
    )
    add_json(parser)


def scales(text: str) -> tuple[float, ...]:
    """argparse type: one to ten numbers from 0.1 to 4, separated by commas."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not 1 <= len(values) <= 10 or not all(0.1 <= value <= 4 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of scales from 0.1 to 4, such as 0.75,1,1.25"
        )
    return values


def run(args: argparse.Namespace) -> int:
    """Evaluate, print a table, and write the JSON file and the pictures."""
    from deploy.files import write_json

    result = measure(args)
    if args.json != "-":
        _print(result)  # first: a file that cannot be written loses no figure
        if args.pictures:
            print(f"pictures: {args.pictures}")
    if args.json:
        write_json(args.json, result)
    return 0


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The whole evaluation as a JSON object; draws the pictures if they are wanted."""
    from deploy.files import sha256_file
    from deploy.labels import dataset_digest
    from deploy.progress import track
    from pipeline.accuracy import evaluate
    from pipeline.datasets import open_dataset
    from pipeline.device import pick_device, set_threads, versions
    from pipeline.mistakes import draw_mistakes
    from pipeline.models.checkpoints import load_checkpoint, resolve_checkpoint

    threads = set_threads(args.threads)
    path = resolve_checkpoint(args.checkpoint)
    model, meta = load_checkpoint(path)
    rule = preprocess_of(meta, path, args.size)
    dataset = open_dataset(args.data, args.split, rule)
    require_classes(meta, dataset.info, args.data)
    device = pick_device(args.device)
    predict = _predictor(model, rule, args, device)
    predict.timed(dataset[0][0])  # warm-up
    files = [pair.mask for pair in dataset.pairs]
    done = evaluate(predict, dataset, dataset.info, lambda indices: track(indices, "evaluate"), files)
    if args.pictures:
        draw_mistakes(args.pictures, done, done.worst(WORST), predict, dataset)
    return {
        **_figures(done, dataset),
        "size": list(rule.size),
        "looks": {"scales": list(args.scales), "flip": args.flip},
        "checkpoint": {"file": str(path), "sha256": sha256_file(path)},
        "model": meta.model,
        "dataset": {"name": dataset.info.name, "split": args.split, "sha256": dataset_digest(dataset.pairs)},
        "device": str(device),
        "threads": threads,
        "versions": versions(),
        "command": shlex.join(["python", "-m", "pipeline", *sys.argv[1:]]),
    }


def _predictor(
    model: EfficientViTSeg, rule: Preprocess, args: argparse.Namespace, device: torch.device
) -> Timed:
    """The deployed path, or several looks at each image if they are asked for."""
    from pipeline.multiscale import MultiScale
    from pipeline.predict import Predictor

    if args.flip or args.scales != (1.0,):
        return MultiScale(model, rule, args.scales, args.flip, device)
    return Predictor(model, rule, device)


def _figures(done: Evaluation, dataset: LabelledFolder) -> dict[str, Any]:
    """All that was counted and timed."""
    from pipeline.bootstrap import miou_interval

    miou = done.image_miou()
    worst = [{"image": dataset.pairs[i].image.name, "miou": float(miou[i])} for i in done.worst(WORST)]
    return {
        **done.summary(),
        **_by_volume(done, dataset),
        "miou_interval": miou_interval(done.hits, done.unions),
        "confusion": done.matrix.matrix.tolist(),
        "worst": worst,
        "latency_ms": done.latency(),
    }


def _by_volume(done: Evaluation, dataset: LabelledFolder) -> dict[str, Any]:
    """IoU and Dice of every CT volume, and the mean Dice over volumes; nothing where images are no slices."""
    from deploy.metrics import mean_dice, volume_scores
    from deploy.slicetable import volumes_of

    known = volumes_of(dataset.info.root, dataset.split)
    if not known:
        return {}
    volumes = [known.get(pair.stem, "of no volume") for pair in dataset.pairs]
    scores = volume_scores(done.hits, done.unions, volumes, done.classes)
    dice = {volume: one["dice"] for volume, one in scores.items()}
    return {"volumes": scores, "mean_volume_dice": mean_dice(dice, done.classes)}


def _print(result: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from pipeline.accuracy import shown
    from pipeline.display import plain_console

    data, size = result["dataset"], "x".join(map(str, result["size"]))
    where = f"{data['name']} {data['split']}: {result['images']} images, {size}"
    print(f"{result['checkpoint']['file']} on {where}{_looks(result['looks'])}")
    table = Table(box=SIMPLE)
    table.add_column("class")
    columns = [result["iou"], result["dice"], *filter(None, [result.get("mean_volume_dice")])]
    for title in ("IoU", "Dice", "Dice, mean over volumes")[: len(columns)]:
        table.add_column(title, justify="right")
    for name in result["iou"]:
        table.add_row(name, *(shown(column[name]) for column in columns))
    table.add_section()
    table.add_row("mIoU", shown(result["miou"]))
    table.add_row("pixel accuracy", shown(result["pixel_accuracy"]))
    table.add_row("ms an image (p50)", f"{result['latency_ms']['p50']:.1f}")
    plain_console().print(table)
    interval = result["miou_interval"]
    if interval:
        print(
            f"{interval['level']:.0%} interval of mIoU {shown(interval['low'])} to {shown(interval['high'])}"
        )
        print(f"  ({interval['resamples']} bootstrap resamples; {interval['note']})")
    print("worst images: " + ", ".join(f"{w['image']} {w['miou']:.3f}" for w in result["worst"][:3]))


def _looks(looks: dict[str, Any]) -> str:
    """What was done beyond the deployed path, if anything."""
    if looks == {"scales": [1.0], "flip": False}:
        return ""
    flip = " and mirrored" if looks["flip"] else ""
    return (
        f"; averaged over scales {', '.join(f'{s:g}' for s in looks['scales'])}{flip}: no exported model does"
    )
