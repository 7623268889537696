"""`python -m calibration helps`: what equalisation, bias correction and training for int8 are worth.

For every checkpoint named, every kind of plan and every help that the target allows, the points of mIoU lost
on images of the training split that no range was taken from. No latency: helps leave the operators as they
are. Refuses to know how a help works, and which plan to ship (`calibration search`).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING, Any

from calibration.options import add_images, add_method, require_method
from deploy.errors import InputError
from deploy.options import add_json

if TYPE_CHECKING:
    from calibration.trials import Trials

Record = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m calibration helps`."""
    parser.add_argument(
        "--checkpoint",
        required=True,
        action="append",
        metavar="RUN",
        help="a run, a zoo name, or a file; again for others to compare, as one trained for int8",
    )
    parser.add_argument("--target", required=True, help="see `python -m export list`")
    add_images(parser)
    add_method(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Try them, and print the table."""
    from calibration.trials import open_trials
    from deploy.files import write_json

    require_method(args.method)
    opened = [open_trials(checkpoint, args) for checkpoint in args.checkpoint]
    _require_same_images(opened)
    rows = [row for trials in opened for row in tried(trials, args.method)]
    if args.json:
        write_json(args.json, _record(args, opened, rows))
    if args.json != "-":
        _print(rows)
    return 0


def tried(trials: Trials, method: str) -> Iterator[Record]:
    """A checkpoint's rows: fp32, then both kinds of plan without and with helps."""
    from calibration import proposals

    blocks = list(trials.blocks)
    plans = {
        "fp32": {},
        "all int8": proposals.everything(blocks),
        "first in float": proposals.but_first(blocks),
    }
    for name, plan in plans.items():
        for helps in _sets(trials.helps) if plan else [()]:
            row = trials.row(", ".join((name, *helps)), method if plan else None, plan, helps)
            yield {
                "checkpoint": trials.order.source.name,
                "plan": name,
                "helps": list(helps),
                "int8_share": row.int8_share,
                "drop": row.drop,
                "agreement": row.agreement,
                "miou": trials.miou(row),
            }


def _sets(helps: tuple[str, ...]) -> list[tuple[str, ...]]:
    """None, each, and all together."""
    return [chosen for count in range(len(helps) + 1) for chosen in combinations(helps, count)]


def _require_same_images(opened: list[Trials]) -> None:
    """Raise InputError where checkpoints would be judged on different images."""
    first, *others = ([pair.stem for pair in trials.order.pictures.pairs] for trials in opened)
    if any(stems != first for stems in others):
        fix = "collect one set without --checkpoint, and pass it: --calibration FILE"
        raise InputError("--checkpoint", "sets of different calibration images", "the same images", fix)


def _record(args: argparse.Namespace, opened: list[Trials], rows: list[Record]) -> Record:
    first = opened[0].described()
    return {
        "schema_version": 1,
        "command": shlex.join(["python", "-m", "calibration", *sys.argv[1:]]),
        "target": args.target,
        "method": args.method if opened[0].methods != (None,) else None,
        **{key: first[key] for key in ("size", "calibration_key", "judged_on", "versions")},
        "checkpoints": {t.order.source.name: t.order.source.sha256 for t in opened},
        "rows": rows,
    }


def _print(rows: list[Record]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from pipeline.accuracy import points
    from pipeline.display import plain_console

    table = Table("checkpoint", "plan", box=SIMPLE)
    table.add_column("helps", no_wrap=True)
    for title in ("mIoU", "mIoU drop", "agreement"):
        table.add_column(title, justify="right")
    for row in rows:
        figures = (f"{row['miou']:.4f}", points(row["drop"]), f"{row['agreement']:.4f}")
        table.add_row(row["checkpoint"], row["plan"], ", ".join(row["helps"]) or "-", *figures)
    plain_console().print(table)
