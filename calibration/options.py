"""Options of the commands that read a calibration set. Refuses to know what they do with it."""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.errors import InputError
from deploy.options import parse_size


def add_images(parser: argparse.ArgumentParser) -> None:
    """--data, --calibration, --size."""
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="labelled folder")
    parser.add_argument(
        "--calibration", type=Path, metavar="FILE", help="images (default runs/RUN/calibration.json)"
    )
    parser.add_argument("--size", type=parse_size, metavar="HxW", help="input size (default: the training's)")


def add_method(parser: argparse.ArgumentParser) -> None:
    """--method."""
    parser.add_argument("--method", default="mse", help="of cutting off: see docs/precision.md (default mse)")


def require_method(name: str) -> None:
    """Raise InputError for one that there is not."""
    from export.clipping import METHODS

    if name not in METHODS:
        raise InputError("--method", got=name, expected=", ".join(METHODS))
