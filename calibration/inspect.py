"""`python -m calibration inspect`: the calibration table of a checkpoint, made if it is not there, and a look
at it: which tensors 8 bits would hurt most, what each method of cutting off would keep of them.

Refuses to know targets, but for whether their numbers are symmetric.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calibration.options import add_images, add_method, require_method
from deploy.options import add_json, count

if TYPE_CHECKING:
    from calibration.risk import Risk

SHOWN = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m calibration inspect`."""
    parser.add_argument("--checkpoint", required=True, metavar="RUN", help="a run, a zoo name, or a file")
    add_images(parser)
    parser.add_argument("--table", type=Path, metavar="FILE", help="the table (default runs/RUN/ranges.json)")
    add_method(parser)
    parser.add_argument("--symmetric", action="store_true", help="ranges as TensorRT wants them")
    parser.add_argument(
        "--top", type=count, default=SHOWN, metavar="N", help=f"riskiest tensors shown (default {SHOWN})"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="their histograms as a PNG")
    parser.add_argument("--force", action="store_true", help="observe again even if nothing changed")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read or make the table, and print the riskiest tensors."""
    from calibration.histograms import draw
    from calibration.risk import risks
    from deploy.files import write_json
    from export.calibration_images import find_calibration
    from export.find_table import find_table
    from export.source import read_source

    require_method(args.method)
    source = read_source(args.checkpoint, args.size)
    images = find_calibration(args.calibration, args.data, source, "the calibration table")
    table, path, how = find_table(args.table, images, source, args.force)
    found = risks(table.observed(), args.method, args.symmetric)
    if args.picture:
        draw(found[: args.top], args.picture)
    if args.json:
        rows = [{k: v for k, v in vars(risk).items() if k != "found"} for risk in found]
        write_json(args.json, {"table": str(path), "method": args.method, "tensors": rows})
    if args.json != "-":
        _print(found[: args.top], args.method)
        print(f"{len(found)} tensors, {len(images.images.images)} images -> {path} ({how})")
    return 0


def _print(found: Sequence[Risk], method: str) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from export.layers import short_name
    from pipeline.display import plain_console

    table = Table(box=SIMPLE)
    table.add_column("tensor", no_wrap=True)
    for title in ("holds", f"{method} keeps", "cut off", "S/N dB"):
        table.add_column(title, justify="right")
    for risk in found:
        table.add_row(
            f"{risk.end} of {short_name(risk.layer)}",
            f"{risk.found.low:.3g}..{risk.found.high:.3g}",
            f"{risk.low:.3g}..{risk.high:.3g}",
            f"{risk.clipped:.2%}",
            f"{risk.signal_to_noise_db:.1f}",
        )
    plain_console().print(table)
