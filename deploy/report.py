"""`report FILE... --html OUT --csv OUT`: many measurement files, from any machine, as one page and one table.

Refuses a file that is no measurement, is malformed, has a newer schema, or is not what its own name says,
before anything is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.files import atomic_write_text, require_another_file
from deploy.options import output_file

if TYPE_CHECKING:
    from deploy.measurement import Measurement

MAX_FILES = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `report`."""
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="bench files (or folders of *.json)"
    )
    parser.add_argument("--html", type=output_file, metavar="OUT", help="page to write")
    parser.add_argument("--csv", type=output_file, metavar="OUT", help="table to write")


def run(args: argparse.Namespace) -> int:
    """Read every measurement and write what is asked for."""
    from deploy.csvfile import to_csv
    from deploy.page import page

    if not args.html and not args.csv:
        raise InputError("nothing to write", expected="--html OUT, --csv OUT or both")
    files = list_files(args.files)
    for path in filter(None, (args.html, args.csv)):
        require_another_file(path, *files)
    rows = read_all(args.files)
    for path, write in ((args.html, page), (args.csv, to_csv)):
        if path:
            atomic_write_text(Path(path), write(rows))
            print(f"{len(rows)} measurement{'s' * (len(rows) != 1)} -> {path}")
    return 0


def read_all(sources: Sequence[Path]) -> list[Measurement]:
    """The measurements of files and folders.

    Raises:
        InputError: none, too many, or one that cannot be read.
    """
    from deploy.measurement import read_measurement

    return [read_measurement(path) for path in list_files(sources)]


def list_files(sources: Sequence[Path]) -> list[Path]:
    """The given files, and the *.json of given folders.

    Raises:
        InputError: none, or too many.
    """
    files: list[Path] = []
    for source in sources:
        if not source.exists():
            raise InputError(f"no measurement {source}", fix="make bench or `deploy bench --json` writes one")
        files += sorted(source.glob("*.json")) if source.is_dir() else [source]
    if not 1 <= len(files) <= MAX_FILES:
        where = ", ".join(map(str, sources))
        raise InputError(f"measurement files in {where}", got=len(files), expected=f"1 to {MAX_FILES}")
    return files
