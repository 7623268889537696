"""Latency of rival bundles, by `python -m deploy bench` in fresh processes that take turns.

A shared machine drifts, so only ratios within one round count. Refuses to know what the rivals are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.turns import measured, ratios

WARMUP = 5
Rounds = dict[str, list[float]]  # name -> p50 in ms, round by round


@dataclass(frozen=True)
class Effort:
    """`rounds` times `frames` are timed, with `threads` (None: all cores), on `device` (None: here)."""

    rounds: int
    frames: int
    threads: int | None
    device: str | None = None

    def words(self) -> list[str]:
        """As arguments of `deploy bench`."""
        words = ["--frames", str(self.frames), "--warmup", str(WARMUP)]
        words += ["--threads", str(self.threads)] if self.threads else []
        return words + (["--device", self.device] if self.device else [])


def take_turns(
    bundles: Mapping[str, Path], effort: Effort, known: Rounds, keep: Callable[[Rounds], None]
) -> Rounds:
    """Measure every bundle once a round; the first `len(known[...])` rounds of all are not measured again.

    Args:
        known: rounds of an earlier run, used if they are of exactly these bundles.
        keep: called with all rounds after each.

    Raises:
        InputError: a bundle that cannot be measured.
    """
    rounds = known if set(known) == set(bundles) else {name: [] for name in bundles}
    for _ in range(effort.rounds - min(map(len, rounds.values()))):
        taken = {name: _p50(bundle, effort) for name, bundle in bundles.items()}
        rounds = {name: [*before, taken[name]] for name, before in rounds.items()}
        keep(rounds)
    return rounds


def ratios_to(rounds: Rounds, baseline: str) -> dict[str, tuple[float, float, float]]:
    """Latency as a multiple of the baseline's, within each round: (median, smallest, largest)."""
    return {name: ratios(taken, rounds[baseline]) for name, taken in rounds.items()}


def _p50(bundle: Path, effort: Effort) -> float:
    return measured(bundle, effort.words()).latency_ms.p50
