"""`python -m export all`: every available target in every precision of a checkpoint, as one table.

Each bundle is built, and each is timed, by child processes of its own: converters and runtimes disturb each
other, and one that dies costs one row. A row whose bundle is unchanged starts no process at all. Builds may
overlap (`--jobs`); timings never do. Refuses to know how a target works.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.files import write_json
from deploy.options import add_json, count
from export.build import BUNDLES, add_source, default_name, open_pictures, open_source, order_of
from export.targets import entries

if TYPE_CHECKING:
    from export.given import GivenNetwork
    from export.pictures import Pictures
    from export.source import Source
    from export.table import Row

SHAPE = {"input": None, "output": None, "batch": 1, "dynamic": False}  # each target's own defaults


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m export all`."""
    add_source(parser)
    parser.add_argument("--only", metavar="TARGET,...", help="some of the targets")
    parser.add_argument("--jobs", type=count, default=2, metavar="N", help="builds at a time (default 2)")
    parser.add_argument(
        "--threads", type=count, metavar="N", help="CPU threads of the timings (default: all)"
    )
    parser.add_argument("--out", type=Path, default=BUNDLES, metavar="DIR", help="folder of the bundles")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Build what has changed, time it, print the table and store it; 1 if an artifact was refused."""
    from export import table, timing

    source, given = open_source(args)
    with open_pictures(args, source) as pictures, ThreadPoolExecutor(args.jobs) as pool:
        wanted = list(_wanted(args))
        built = list(pool.map(lambda pair: _built(args, source, given, pictures, *pair), wanted))
        timings = timing.timings(built, args.threads)
        rows = [table.with_latency(row, timings.get(row.bundle or "")) for row in built]
        report = table.report(rows, source, pictures, timings)
    if args.json:
        write_json(args.json, report)
    if args.json != "-":
        table.show(rows, f"{source.name}, {pictures.source}")
    return int(any(row.refused for row in rows))


def _wanted(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(target, precision) of every row; a target that cannot be loaded has one row without a precision."""
    known = entries()
    for name in args.only.split(",") if args.only else known:
        if name not in known:
            raise InputError("--only: unknown target", got=name, expected=f"of {', '.join(known)}")
        target = known[name].target
        for precision in target.PRECISIONS if target else ("-",):
            yield name, precision


def _built(
    args: argparse.Namespace,
    source: Source,
    given: GivenNetwork | None,
    pictures: Pictures,
    target: str,
    precision: str,
) -> Row:
    """One row: the bundle as it is, or built anew in a child process, or why there is none."""
    from export import children, record, table

    one = argparse.Namespace(**{**vars(args), **SHAPE, "target": target, "precision": precision})
    out = args.out / default_name(one, source)
    try:
        stage = record.stage_of(order_of(one, source, pictures, given))
    except InputError as error:
        return table.absent(target, precision, str(error))
    bundle, how = (None, "built") if args.force else record.look_up(out, stage)
    if bundle is None:
        if failure := children.build(one, out):
            return table.absent(target, precision, failure, refused=True)
        bundle, _ = record.look_up(out, stage)
    assert bundle is not None, "the child wrote what was ordered"
    return table.row(target, bundle, how)
