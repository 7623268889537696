"""The calibration table: what every convolution saw on the calibration images, as a JSON file.

It holds the histograms, not the ranges, so that one table serves every method of cutting off and targets with
symmetric and asymmetric numbers alike. It belongs to one calibration set and one checkpoint, by their keys.
Refuses to know how it is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deploy.errors import InputError
from deploy.files import atomic_write_text
from deploy.schema import digest, encode, read_versioned
from export.histogram import BINS, Histogram
from export.observe import Observed

SCHEMA_VERSION = 1
_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class TensorCounts:
    """A histogram (`export/histogram.py`) without the empty bins at its ends: `first` is the first kept."""

    limit: float
    first: int
    counts: tuple[int, ...]
    low: float
    high: float
    mean_low: float
    mean_high: float
    images: int

    @classmethod
    def of(cls, found: Histogram) -> TensorCounts:
        """Of a histogram."""
        used = np.flatnonzero(found.counts)
        first, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        return cls(
            found.limit,
            first,
            tuple(map(int, found.counts[first:end])),
            found.low,
            found.high,
            found.mean_low,
            found.mean_high,
            found.images,
        )

    def histogram(self, where: str) -> Histogram:
        """As a histogram again.

        Raises:
            InputError: bins or extremes that no histogram has (`where` is named).
        """
        end = self.first + len(self.counts)
        extremes = self.low <= self.mean_low <= 0 <= self.mean_high <= self.high < self.limit < np.inf
        if not (0 <= self.first <= end <= BINS and min(self.counts, default=0) >= 0 and extremes):
            raise InputError(f"{where} is no histogram", fix="run: python -m calibration inspect")
        counts = np.zeros(BINS, np.int64)
        counts[self.first : end] = self.counts
        return Histogram(self.limit, counts, self.low, self.high, self.mean_low, self.mean_high, self.images)


@dataclass(frozen=True)
class LayerCounts:
    """A convolution's ends."""

    input: TensorCounts
    output: TensorCounts


@dataclass(frozen=True)
class CalibrationTable:
    """What the layers saw.

    Args:
        calibration_key: of the set (`export/plan.py`). checkpoint_sha256: of the network.
        layers: by name (`export/layers.py`), in the graph's order.
        key: hex SHA-256 over all of it.
    """

    calibration_key: str
    checkpoint_sha256: str
    layers: dict[str, LayerCounts]
    key: str = ""
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def of(
        cls, calibration_key: str, checkpoint_sha256: str, seen: Mapping[str, Observed]
    ) -> CalibrationTable:
        """Of observed layers, with its key."""
        layers = {
            name: LayerCounts(TensorCounts.of(ends.input), TensorCounts.of(ends.output))
            for name, ends in seen.items()
        }
        table = cls(calibration_key, checkpoint_sha256, layers)
        return replace(table, key=digest(table))

    def observed(self) -> dict[str, Observed]:
        """The layers as histograms again.

        Raises:
            InputError: what no histogram can be.
        """
        return {
            name: Observed(
                ends.input.histogram(f"the input of {name}"), ends.output.histogram(f"the output of {name}")
            )
            for name, ends in self.layers.items()
        }


def save_table(path: Path, table: CalibrationTable) -> None:
    """Write it as JSON, without spaces: half a million numbers."""
    atomic_write_text(path, json.dumps(encode(table), separators=(",", ":"), allow_nan=False) + "\n")


def load_table(path: Path, calibration_key: str, checkpoint_sha256: str) -> CalibrationTable:
    """Read the table of a calibration set and a checkpoint.

    Raises:
        InputError: unreadable, changed since it was written, or of another set or checkpoint.
    """
    fix = "run: python -m calibration inspect"
    table = read_versioned(CalibrationTable, path, SCHEMA_VERSION, fix, _MAX_BYTES)
    for what, found, expected in (
        ("content", digest(table), table.key),
        ("calibration set", table.calibration_key, calibration_key),
        ("checkpoint", table.checkpoint_sha256, checkpoint_sha256),
    ):
        if found != expected:
            raise InputError(f"{path} is of another {what}", found[:12], expected[:12], fix)
    return table
