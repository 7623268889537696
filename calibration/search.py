"""`python -m calibration search`: the fastest precision plan of a target within a budget of mIoU, by trying.

Each plan is built by the target's own converter and judged on images of the training split that no range was
taken from; latencies are measured on the target's runtime, in turns. What was tried is kept and not tried
again. It may conclude that int8 does not pay. Refuses to know targets.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibration.options import add_images
from deploy.errors import InputError
from deploy.options import add_json, count, thread_count

if TYPE_CHECKING:
    from calibration.choice import Row
    from calibration.trials import Trials
    from export.precision_plan import Helps

BUDGET = 0.5
ROUNDS, FRAMES = 3, 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m calibration search`."""
    parser.add_argument("--checkpoint", required=True, metavar="RUN", help="a run, a zoo name, or a file")
    parser.add_argument("--target", required=True, help="see `python -m export list`")
    add_images(parser)
    parser.add_argument(
        "--budget", type=float, default=BUDGET, metavar="POINTS", help=f"of mIoU (default {BUDGET})"
    )
    parser.add_argument(
        "--rounds", type=count, default=ROUNDS, metavar="N", help=f"of timing (default {ROUNDS})"
    )
    parser.add_argument(
        "--frames", type=count, default=FRAMES, metavar="N", help=f"timed a round (default {FRAMES})"
    )
    parser.add_argument("--threads", type=thread_count, metavar="N", help="CPU threads (default: all cores)")
    parser.add_argument("--device", metavar="URI", help="measure latency there: ssh://user@host")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the plan (default runs/RUN/plan-TARGET.json)"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE", help="mIoU against latency as a PNG")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Try plans, choose one, write it, and print the table."""
    from calibration.choice import choose
    from calibration.latency import Effort
    from calibration.search_picture import draw
    from calibration.trials import open_trials
    from deploy.files import write_json
    from export.precision_plan import save_plan

    if not 0 <= args.budget <= 100:
        raise InputError("--budget", got=args.budget, expected="points of mIoU, 0 to 100")
    trials = open_trials(args.checkpoint, args, Effort(args.rounds, args.frames, args.threads, args.device))
    rows, unable = tried(trials)
    chosen, why = choose(rows, args.budget)
    out = args.out or trials.folder.parent / f"plan-{args.target}.json"
    save_plan(out, trials.plan(chosen.method, chosen.blocks, args.budget, chosen.helps))
    if args.picture:
        draw(rows, chosen, args.budget, args.picture)
    if args.json:
        found = {"chosen": chosen.name, "why": why, "rows": [asdict(row) for row in rows], "not_run": unable}
        write_json(args.json, {**_record(args, trials), **found})
    if args.json != "-":
        _print(rows, chosen)
        for name, why_not in unable.items():
            print(f"{name}: not run: {why_not}")
        print(f"{chosen.name}: {why}")
        print(f"plan: {out} (python -m export build --target {args.target} --plan {out} ...)")
    return 0


def tried(trials: Trials) -> tuple[list[Row], dict[str, str]]:
    """Every plan that a search looks at, measured: the baseline first; and by name, why others were not."""
    from calibration import proposals
    from calibration.trials import UNABLE, reason

    unable: dict[str, str] = {}

    def rows(name: str, method: str | None, blocks: proposals.Blocks, helps: Helps = ()) -> list[Row]:
        """The plan's row, or none if the target cannot handle it."""
        try:
            return [trials.row(name, method, blocks, helps)]
        except UNABLE as error:
            unable[name] = reason(error)
            return []

    base = trials.row(trials.order.precision, None, {})
    if not trials.blocks:
        return [base], {}
    blocks = list(trials.blocks)
    whole = proposals.everything(blocks)
    names = {method: f"all int8, {method}" if method else "all int8" for method in trials.methods}
    every = [row for method, name in names.items() for row in rows(name, method, whole)]
    plain = min(every, key=lambda row: row.drop, default=None)
    best = plain.method if plain else trials.methods[0]
    helped = [row for name in trials.helps for row in rows(f"{names[best]}, {name}", best, whole, (name,))]
    gained = tuple(name for row in helped if plain and row.drop < plain.drop for name in row.helps)
    alone = proposals.alone(blocks)
    singles = [row for name, plan in alone.items() for row in rows(name, best, plan)]
    measured = trials.with_latency([base, *every, *helped, *singles])
    sensitivity = {next(iter(row.blocks)): row for row in measured if row.name in alone}
    plans = proposals.together(sensitivity, trials.blocks)
    joint = [row for name, plan in plans.items() for row in rows(name, best, plan, gained)]
    return [*measured, *trials.with_latency([base, *joint])[1:]], unable


def _record(args: argparse.Namespace, trials: Trials) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "command": shlex.join(["python", "-m", "calibration", *sys.argv[1:]]),
        "target": args.target,
        "budget": args.budget,
        **trials.described(),
    }


def _print(rows: list[Row], chosen: Row) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from export.layers import short_name
    from pipeline.accuracy import points
    from pipeline.display import plain_console

    table = Table(box=SIMPLE, caption="time: as a multiple of the first row's")
    table.add_column("plan", no_wrap=True)
    for title in ("int8 MACs", "mIoU drop", "agreement", "MB", "time"):
        table.add_column(title, justify="right")
    for row in rows:
        time = "-" if row.ratio is None else f"{row.ratio[0]:.2f}"
        mark = "> " if row is chosen else ""
        table.add_row(
            mark + short_name(row.name),
            f"{row.int8_share:.0%}",
            points(row.drop),
            f"{row.agreement:.4f}",
            f"{row.size_bytes / 1e6:.2f}",
            time,
        )
    plain_console().print(table)
