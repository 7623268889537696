"""`python -m pipeline import`: an official EfficientViT checkpoint (.pt) becomes one of ours.

Writes where a training would, but never over one. Refuses to know the file's format (`models/official.py`).
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from deploy.errors import InputError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--checkpoint, and --run or --out."""
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="FILE", help="official .pt file")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--run", metavar="NAME", help="write runs/NAME, as a training would")
    where.add_argument("--out", type=Path, metavar="DIR", help="write into this folder instead")


def run(args: argparse.Namespace) -> int:
    """Import one file and say what it is."""
    from pipeline.artifact import run_folder
    from pipeline.models.checkpoints import save_checkpoint
    from pipeline.models.official import import_official

    folder = run_folder(args.run) / "train" if args.run else args.out
    target = folder / "best.safetensors"
    _require_free(target)
    state, meta = import_official(args.checkpoint)
    save_checkpoint(target, state, meta)
    model = meta.model
    parameters = sum(t.numel() for name, t in state.items() if not re.search(r"running_|num_batches", name))
    print(
        f"{args.checkpoint.name}: {model['variant']}, {model['head']} head, {model['classes']} classes, "
        f"{parameters / 1e6:.1f} M parameters"
    )
    print(f"wrote {target}")
    return 0


def _require_free(target: Path) -> None:
    """An import replaces an import, never something that was trained."""
    from pipeline.models.checkpoints import read_meta

    if target.exists() and "imported_from" not in read_meta(target).provenance:
        raise InputError(f"{target} exists and was trained", fix="choose another --run or --out")
