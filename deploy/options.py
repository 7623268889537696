"""Command-line arguments that several commands share, and a parser whose errors are one line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from deploy.errors import InputError


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that reports wrong use as InputError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise InputError(message, fix=f"see: {self.prog} --help")


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """BUNDLE and --threads N."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle")
    parser.add_argument(
        "--threads", type=count, metavar="N", help="CPU threads of the runtime (default: all cores)"
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """--data DIR and --split NAME."""
    parser.add_argument("--data", type=Path, metavar="DIR", help="labelled folder (dataset.toml)")
    parser.add_argument("--split", default="val", metavar="NAME", help="split of the folder (default: val)")


def add_json(parser: argparse.ArgumentParser) -> None:
    """--json FILE."""
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON (- for stdout)")


def count(text: str) -> int:
    """argparse type: a whole number from 1 to 100000."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:7]) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 100000")
    return int(text)


def share(text: str) -> float:
    """argparse type: a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value
