"""`compare OLD NEW`: whether anything became slower, judged against the runs' own noise; exit status 1 if so.

OLD and NEW are measurements, or folders of them; several runs of one thing count as one, by their median.
Unlike rows are refused with the field that differs. A slowdown within the noise is said to be unproven.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from deploy.errors import GateError, InputError
from deploy.files import write_json
from deploy.options import add_json, percentage
from deploy.schema import encode

if TYPE_CHECKING:
    from deploy.measurement import Measurement


@dataclass(frozen=True)
class Change:
    """One thing before and after: medians in ms, and shares; `noise` of both together."""

    name: str
    old_ms: float
    new_ms: float
    slowdown: float
    noise: float
    miou_old: float | None
    miou_new: float | None
    verdict: Literal["ok", "slower", "unproven"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `compare`."""
    parser.add_argument("old", type=Path, metavar="OLD", help="a measurement, or a folder of them")
    parser.add_argument("new", type=Path, metavar="NEW", help="the same, later")
    parser.add_argument(
        "--max-slowdown", type=percentage, default=0.05, metavar="X%", help="allowed (default: 5%%)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare; raises GateError where something is slower than allowed."""
    from deploy.report import read_all

    changes = compare(read_all([args.old]), read_all([args.new]), args.max_slowdown)
    if args.json:
        write_json(args.json, {"max_slowdown": args.max_slowdown, "changes": encode(changes)})
    if args.json != "-":
        print("\n".join(map(line, changes)))
    slower = [change for change in changes if change.verdict == "slower"]
    if slower:
        worst = max(slower, key=lambda change: change.slowdown)
        got = f"{100 * worst.slowdown:+.1f} %, noise {100 * worst.noise:.1f} %"
        expected = f"at most {100 * args.max_slowdown:g} %"
        raise GateError(f"{len(slower)} of {len(changes)} slower, worst {worst.name}", got, expected)
    return 0


def compare(old: Sequence[Measurement], new: Sequence[Measurement], most: float) -> list[Change]:
    """Everything that both sides measured, in the old side's order.

    Raises:
        InputError: nothing is alike; the first pair's differing field is named.
    """
    from deploy.comparison import CONDITIONS, PROGRAM, differing, key_of

    fields = {**CONDITIONS, **PROGRAM}
    before: dict[object, list[Measurement]] = {}
    after: dict[object, list[Measurement]] = {}
    for side, rows in ((before, old), (after, new)):
        for m in rows:
            side.setdefault(key_of(m, fields), []).append(m)
    changes = [_change(before[key], after[key], most) for key in before if key in after]
    if not changes:
        name, _ = next(iter(differing([old[0], new[0]], fields).items()))
        got, expected = fields[name](new[0]), fields[name](old[0])
        raise InputError(f"OLD and NEW differ in {name}", got, expected, fix="measure under equal conditions")
    return changes


def line(change: Change) -> str:
    """One row for a reader."""
    accuracy = ""
    if change.miou_old is not None and change.miou_new is not None:
        accuracy = f", mIoU {change.miou_old:.4f} -> {change.miou_new:.4f}"
    times = f"{change.old_ms:.2f} -> {change.new_ms:.2f} ms ({100 * change.slowdown:+.1f} %"
    return f"{change.verdict:<9} {change.name}: {times}, noise {100 * change.noise:.1f} %){accuracy}"


def _change(old: Sequence[Measurement], new: Sequence[Measurement], most: float) -> Change:
    from deploy.comparison import median_p50, noise_of

    before, after = median_p50(old), median_p50(new)
    slowdown, noise = after / before - 1, math.hypot(noise_of(old), noise_of(new))
    verdict = _verdict(slowdown, noise, most)
    return Change(new[-1].name, before, after, slowdown, noise, old[-1].miou, new[-1].miou, verdict)


def _verdict(slowdown: float, noise: float, most: float) -> Literal["ok", "slower", "unproven"]:
    if slowdown <= most:
        return "ok"
    return "slower" if slowdown - noise > most else "unproven"
