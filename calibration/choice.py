"""Which plan to ship: the fastest that stays within the budget, and what else is worth looking at.

Refuses to know how plans were made and measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A plan with its figures.

    Args:
        name: of the plan. method: of cutting off ranges, or None where the target has its own.
        blocks: block -> precision; none in the baseline.
        int8_share: of the multiplications of all convolutions, computed in int8.
        drop: points of mIoU lost on the held-out images (negative: gained). agreement: with the checkpoint.
        size_bytes: of the bundle's model files.
        helps: what was done so that int8 loses less.
        ratio: latency as a multiple of the baseline's (median, smallest, largest of the rounds), or None.
    """

    name: str
    method: str | None
    blocks: dict[str, str]
    int8_share: float
    drop: float
    agreement: float
    size_bytes: int
    ratio: tuple[float, float, float] | None = None
    helps: tuple[str, ...] = ()


def choose(rows: Sequence[Row], budget: float) -> tuple[Row, str]:
    """The row to ship, and why, in words.

    With latencies: the fastest within the budget that beat the baseline in every round, else the baseline.
    Without: the one with most int8 within the budget.
    """
    baseline = next(row for row in rows if not row.blocks)
    fitting = [row for row in rows if row.drop <= budget]
    if all(row.ratio is None for row in rows):
        most = max([*fitting, baseline], key=lambda row: (row.int8_share, -row.drop))
        return most, f"most int8 within {budget:g} points; latency was not measured"
    faster = [row for row in fitting if row.ratio and row.ratio[2] < 1]
    if not faster:
        quickest = min((row for row in rows if row is not baseline), key=_median, default=baseline)
        return baseline, f"int8 does not pay here: {_told(quickest, baseline)}"
    fastest = min(faster, key=_median)
    return fastest, f"the fastest within {budget:g} points: {_told(fastest, baseline)}"


def pareto(rows: Sequence[Row]) -> list[Row]:
    """The rows that no other beats in both drop and latency (int8 share, where no latency is known), fastest
    first."""
    cost = {id(row): (_median(row) if row.ratio else -row.int8_share) for row in rows}
    best: list[Row] = []
    for row in sorted(rows, key=lambda row: (cost[id(row)], row.drop)):
        if not best or row.drop < best[-1].drop:
            best.append(row)
    return best


def _median(row: Row) -> float:
    return row.ratio[0] if row.ratio else 1.0


def _told(row: Row, baseline: Row) -> str:
    median, low, high = row.ratio or (1.0, 1.0, 1.0)
    time = f"{median:.2f} ({low:.2f}..{high:.2f}) of {baseline.name}'s time"
    return f"{row.name} takes {time} and loses {row.drop:.2f} points"
