"""`python -m benchmarks.precision --search F.json`: a search's result on the split that is reported.

Beside fp32 (TensorRT: fp16) and the plan that the search chose: everything in int8 as the target's converter
does it by default, convolutions only as `export build --precision int8` does, and the plan with most int8
within the budget. All are built by the target's converter and compared with the checkpoint on every image of
the split, which no search saw; where the target runs here, fresh processes take turns for the latency.
Refuses to know how a plan was found.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import record
from benchmarks.whole_int8 import whole
from calibration import latency
from calibration.options import add_images
from calibration.trials import UNABLE, Trials, miou_of, open_trials, reason
from deploy.errors import InputError, run_cli
from deploy.options import Parser, count
from deploy.runtimes import default_threads
from deploy.schema import read_json
from export.order import Order
from export.pictures import from_data

ROUNDS, FRAMES = 5, 40
NEEDED = {"model", "target", "size", "budget", "chosen", "rows", "checkpoint_sha256", "calibration_key"}
Row = dict[str, Any]


def contestants(trials: Trials, found: Mapping[str, Any]) -> dict[str, Order | None]:
    """Name -> what to build, None where the converter has no such form; fp32 first."""
    int8, rival = trials.planned(None), whole(trials.order.target.NAME)
    rows = {row["name"]: row for row in found["rows"]}
    within = [row for row in rows.values() if row["drop"] <= found["budget"]]
    most = max(within, key=lambda row: (row["int8_share"], -row["drop"]))

    def searched(row: Mapping[str, Any]) -> Order:
        return trials.planned(trials.plan(row["method"], row["blocks"], helps=tuple(row["helps"])))

    return {
        trials.order.precision: trials.order,
        "everything int8, the converter's defaults": rival and replace(int8, target=rival),
        "convolutions only": int8,
        f"search, most int8: {most['name']}": searched(most),
        f"search, chosen: {found['chosen']}": searched(rows[found["chosen"]]),
    }


def measure(trials: Trials, found: Mapping[str, Any], effort: latency.Effort) -> list[Row]:
    """A row for each contestant; one that its converter or runtime cannot handle says so."""
    with TemporaryDirectory(prefix="edgeseg-") as folder:
        bundles: dict[str, Path] = {}
        rows = []
        for number, (name, order) in enumerate(contestants(trials, found).items()):
            print(name, file=sys.stderr)
            rows.append(_built(trials, name, order, Path(folder, str(number)), bundles))
        times = {}
        if trials.order.target.PROOF == "executed":
            rounds = latency.take_turns(bundles, effort, {}, lambda _: None)
            times = latency.ratios_to(rounds, next(iter(bundles)))
    return [{**row, "ratio": times.get(row["name"])} for row in rows]


def _built(trials: Trials, name: str, order: Order | None, out: Path, bundles: dict[str, Path]) -> Row:
    if order is None:
        return {"name": name, "not_run": "the converter quantises what it is told, and has no default"}
    try:
        drop, agreement, size = trials.build(order, out)
    except UNABLE as error:
        return {"name": name, "not_run": reason(error)}
    bundles[name] = out
    return {
        "name": name,
        "int8_share": _share(trials, order),
        "miou": miou_of(out),
        "drop": drop,
        "agreement": agreement,
        "size_bytes": size,
    }


def _share(trials: Trials, order: Order) -> float | None:
    """Of the convolutions' multiplications, in int8; None where the order does not say."""
    if order.precision == "int8" and order.plan is None:
        return None
    return trials.share(order.plan.blocks if order.plan else {})


def read_search(path: Path) -> dict[str, Any]:
    """What `python -m calibration search --json` wrote.

    Raises:
        InputError: unreadable, or something else.
    """
    found = read_json(path)
    missing = sorted(NEEDED - set(found if isinstance(found, dict) else ()))
    if missing:
        fix = "run: python -m calibration search ... --json FILE"
        raise InputError(f"{path} is no search", f"no {', '.join(missing)}", "a search's record", fix)
    return dict(found)


def main() -> int:
    """Build, compare, time, and write the record."""
    parser = Parser(prog="python -m benchmarks.precision", description="a search's result on unseen images")
    parser.add_argument("--search", type=Path, required=True, metavar="JSON", help="of `calibration search`")
    parser.add_argument("--split", default="val", help="to be compared on (default val)")
    add_images(parser)
    parser.add_argument("--rounds", type=count, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--threads", type=count, default=default_threads(), help="default: all cores")
    parser.add_argument("--json", metavar="FILE", default="-", help="where the result goes (default: stdout)")
    parser.set_defaults(seconds=0.0)
    args: argparse.Namespace = parser.parse_args()
    found = read_search(args.search)
    args.target = found["target"]
    trials = open_trials(found["model"], args)
    mine = {"checkpoint_sha256": trials.order.source.sha256, "calibration_key": trials.table.calibration_key}
    for what, expected in mine.items():
        if found[what] != expected:
            raise InputError(f"{args.search}: {what}", found[what], expected, "search again")
    source = trials.order.source
    pictures = from_data(args.data, args.split, source.meta, source.preprocess, most=None)
    trials = replace(trials, order=replace(trials.order, pictures=pictures))
    rows = measure(trials, found, latency.Effort(args.rounds, FRAMES, args.threads))
    told = {key: found[key] for key in ("model", "target", "size", "budget", "chosen")}
    record.write("precision", args, {**told, "compared_on": pictures.source, "frames": FRAMES, "rows": rows})
    return 0


if __name__ == "__main__":
    sys.exit(run_cli(main))
