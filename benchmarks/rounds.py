"""Runs rival commands in turn, one fresh process each, and compares their medians.

Speed on a shared machine drifts, so rivals alternate (A B C, A B C, ...) and only ratios taken within one run
are worth quoting. Each command prints one JSON object on its last line; what it means is its business.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import turns

ROOT = Path(__file__).resolve().parent.parent
Figures = dict[str, float]


@dataclass(frozen=True)
class Effort:
    """How a comparison is run: rounds of fresh processes, each timing for `seconds` with `threads`."""

    rounds: int
    seconds: float
    threads: int

    def words(self) -> list[str]:
        """As arguments of a child process."""
        return ["--threads", str(self.threads), "--seconds", str(self.seconds)]


def child(contender: str, model: Path, source: Path, effort: Effort) -> list[str]:
    """The command of one process of child.py."""
    words = [contender, str(model), str(source), *effort.words()]
    return [sys.executable, "-m", "benchmarks.child", *words]


def alternate(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Figures]]:
    """Run every command once per round, in turn, in the project's root folder.

    Returns:
        name -> one dict of figures per round.

    Raises:
        RuntimeError: a command failed; its stderr is in the message.
    """
    results: dict[str, list[Figures]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            print(f"round {number + 1}/{rounds}: {name}", file=sys.stderr)
            results[name].append(_run(command))
    return results


def _run(command: Sequence[str]) -> Figures:
    done = subprocess.run(list(command), cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def medians(rounds: Sequence[Figures]) -> Figures:
    """Median over the rounds, figure by figure."""
    return {key: statistics.median(figures[key] for figures in rounds) for key in rounds[0]}


def ratios(baseline: Sequence[Figures], rival: Sequence[Figures], key: str) -> Figures:
    """baseline / rival of one figure, round by round: its median, smallest and largest value."""
    figures = turns.ratios([a[key] for a in baseline], [b[key] for b in rival])
    return dict(zip(("median", "min", "max"), figures, strict=True))
