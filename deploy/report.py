"""`report FILE... --html OUT`: many measurement files, from any machine, as one page.

Refuses a file that is no measurement, is malformed, or has a newer schema, with its name, before writing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deploy.errors import InputError
from deploy.files import atomic_write_text

MAX_FILES = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `report`."""
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="bench files (or folders of *.json)"
    )
    parser.add_argument("--html", type=Path, required=True, metavar="OUT", help="page to write")


def run(args: argparse.Namespace) -> int:
    """Read every measurement and write the page."""
    from deploy.measurement import read_measurement
    from deploy.page import page

    files = list_files(args.files)
    atomic_write_text(args.html, page([read_measurement(path) for path in files]))
    print(f"{len(files)} measurements -> {args.html}")
    return 0


def list_files(sources: list[Path]) -> list[Path]:
    """The given files, and the *.json of given folders.

    Raises:
        InputError: none, or too many.
    """
    files: list[Path] = []
    for source in sources:
        files += sorted(source.glob("*.json")) if source.is_dir() else [source]
    if not 1 <= len(files) <= MAX_FILES:
        raise InputError("measurement files", got=len(files), expected=f"1 to {MAX_FILES}")
    return files
