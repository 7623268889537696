"""`python -m calibration collect`: choose calibration images from a labelled folder's train split, as JSON.

Masks are read one by one and only say which class is in which image; the images are hashed, not decoded, so
memory does not grow with their number. Refuses to know ranges and targets: the file (`export/plan.py`) is all
that others need.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.options import count, output_or_stdout, parse_size
from deploy.progress import track
from export.plan import (
    CalibrationImage,
    CalibrationPreprocess,
    CalibrationSet,
    check_count,
    save_calibration_set,
)

if TYPE_CHECKING:
    from calibration.sampling import Presence
    from deploy.labels import DatasetInfo, Pair

COUNT = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m calibration collect`."""
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="labelled folder")
    parser.add_argument(
        "--split", default="train", help="of --data (default train; never the one you test on)"
    )
    parser.add_argument(
        "--checkpoint", metavar="RUN", help="a run, a zoo name or a file: its preprocessing counts"
    )
    parser.add_argument("--count", type=count, default=COUNT, metavar="N", help=f"images (default {COUNT})")
    parser.add_argument("--seed", type=seed, default=0, metavar="S", help="of the choice (default 0)")
    parser.add_argument(
        "--size", type=parse_size, metavar="HxW", help="input size (default: the checkpoint's training size)"
    )
    parser.add_argument(
        "--out", type=output_or_stdout, required=True, metavar="FILE", help="JSON file to write; - for stdout"
    )


def seed(text: str) -> int:
    """argparse type: a whole number of 0 or more."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Choose, write the file, and print how often each class is shown."""
    from calibration.sampling import choose
    from deploy.labels import list_pairs, read_dataset

    check_count(args.count, "--count")
    info = read_dataset(args.data)
    preprocess, checkpoint = _preprocess(args, info)
    pairs = list_pairs(info, args.split)
    presence = class_presence(pairs, info)
    chosen = choose(presence, args.count, args.seed)
    result = CalibrationSet(
        dataset=info.name,
        split=args.split,
        seed=args.seed,
        checkpoint_sha256=checkpoint,
        preprocess=preprocess,
        class_images=dict(zip(info.classes, presence[chosen].sum(0).tolist(), strict=True)),
        images=tuple(_image(pairs[index], info) for index in chosen),
    ).sealed()
    save_calibration_set(args.out, result)
    if args.out != "-":
        _print(result, presence, args.out)
    return 0


def class_presence(pairs: Sequence[Pair], info: DatasetInfo) -> Presence:
    """`[images, classes]`, whether a class occurs in an image.

    Raises:
        InputError: a mask that cannot be read or holds undeclared ids (the file is named).
    """
    import numpy as np

    from deploy.labels import read_mask

    presence = np.zeros((len(pairs), len(info.classes)), np.bool_)
    for index, pair in enumerate(track(pairs, "reading masks")):
        present = np.flatnonzero(np.bincount(read_mask(pair.mask).ravel(), minlength=256))
        classes = present[present != info.ignore_index] if info.ignore_index is not None else present
        if classes.size and classes[-1] >= len(info.classes):
            raise InputError(f"mask {pair.mask}", f"class id {classes[-1]}", f"0..{len(info.classes) - 1}")
        presence[index, classes] = True
    return presence


def _preprocess(args: argparse.Namespace, info: DatasetInfo) -> tuple[CalibrationPreprocess, str | None]:
    """How images are prepared, and the checkpoint's hash; without: stretched to --size, ImageNet's mean."""
    from export.source import read_source
    from pipeline.evaluate import preprocess_of, require_classes
    from pipeline.models.checkpoints import CheckpointMeta

    if args.checkpoint:
        source = read_source(args.checkpoint, args.size)
        require_classes(source.meta, info, args.data)
        rule, checkpoint = source.preprocess, source.sha256
    else:
        rule, checkpoint = preprocess_of(CheckpointMeta(model={}), "(none given)", args.size), None
    kept = CalibrationPreprocess(rule.size, rule.resize, rule.interpolation, rule.mean, rule.std)
    return kept, checkpoint


def _image(pair: Pair, info: DatasetInfo) -> CalibrationImage:
    return CalibrationImage(pair.image.relative_to(info.root).as_posix(), sha256_file(pair.image))


def _print(result: CalibrationSet, presence: Presence, out: str) -> None:
    from rich.table import Table

    from pipeline.display import plain_console

    console = plain_console()
    table = Table("class", "images chosen", "in the split")
    for (name, shown), total in zip(result.class_images.items(), presence.sum(0).tolist(), strict=True):
        table.add_row(name, str(shown), str(total) if total else "0: never calibrated")
    console.print(table)
    console.print(
        f"{len(result.images)} of {len(presence)} images of {result.dataset} {result.split} -> {out}"
    )
    console.print(f"key {result.key}")
