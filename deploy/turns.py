"""Rival bundles measured in turns: every round gives each of them a fresh process, so that they share a
drifting machine fairly and never one process; only ratios within a round are compared.

Refuses to know what is measured (`deploy/bench.py`), and to compare across runs (`deploy/compare.py`).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.child import ChildFailed, call
from deploy.errors import InputError
from deploy.measurement import Measurement, measurement_from_json
from deploy.progress import track

Rounds = dict[str, list[Measurement]]


def measured(bundle: Path, words: Sequence[str]) -> Measurement:
    """`deploy bench BUNDLE` with these options, in a process of its own.

    Raises:
        InputError: it failed; its own line is passed on.
    """
    try:
        told = call("deploy", "bench", str(bundle), *words, "--json", "-")
    except ChildFailed as error:
        raise InputError(f"{bundle} cannot be measured", got=error) from None
    return measurement_from_json(json.loads(told), str(bundle))


def take_turns(bundles: Sequence[Path], words: Sequence[str], rounds: int) -> Rounds:
    """Bundle -> its measurements, round by round.

    Raises:
        InputError: as `measured`.
    """
    found: Rounds = {str(bundle): [] for bundle in bundles}
    for turn in track(range(rounds * len(bundles)), "bench"):
        bundle = bundles[turn % len(bundles)]
        found[str(bundle)].append(measured(bundle, words))
    return found


def middle(rounds: Sequence[Measurement]) -> Measurement:
    """The one with the median latency (of an even number the upper of the middle two)."""
    return sorted(rounds, key=lambda found: found.latency_ms.p50)[len(rounds) // 2]


def ratios(taken: Sequence[float], baseline: Sequence[float]) -> tuple[float, float, float]:
    """Figures as multiples of a baseline's, round by round: (median, smallest, largest)."""
    pairs = [mine / other for mine, other in zip(taken, baseline, strict=True)]
    return statistics.median(pairs), min(pairs), max(pairs)


def compared(found: Mapping[str, Sequence[Measurement]]) -> Iterator[str]:
    """Lines of a table: latency against the first bundle's, as median (smallest..largest) over the rounds."""
    first = [one.latency_ms.p50 for one in next(iter(found.values()))]
    for name, rounds in found.items():
        median, least, most = ratios([one.latency_ms.p50 for one in rounds], first)
        spread = f"{median:.2f} ({least:.2f}..{most:.2f})"
        best = middle(rounds)
        miou = "-" if best.miou is None else f"{best.miou:.4f}"
        yield f"{best.latency_ms.p50:8.2f} ms   {spread:>18} of the first   mIoU {miou}   {name}"
