"""Latency of a table's rows on this machine: fresh processes in turns, the middle run kept beside a bundle.

A slow spell of a shared machine then touches a round of many rows, and not one row as a whole. A row whose
stored measurement is of the same bytes and threads is not timed again. Refuses to know how rows come about.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from deploy.errors import InputError
from deploy.files import write_json
from deploy.measurement import Measurement, measurement_to_json, read_measurement
from deploy.runtimes import available, default_threads
from deploy.turns import measured, middle
from export.table import Row
from export.targets import entries

ROUNDS, FRAMES, WARMUP = 3, 40, 5


def timed(rows: Sequence[Row], threads: int | None) -> list[Row]:
    """The rows with their latency: median from decoded frame to label map; or with the reason why not."""
    runnable = [row for row in rows if row.bundle and _absence(row) is None]
    untimed = [row for row in runnable if not _is_of(stored(row), threads or default_threads())]
    failed = _measure(untimed, threads)
    return [_filled(row, failed) for row in rows]


def stored(row: Row) -> Measurement | None:
    """The measurement beside the row's bundle, if it is of exactly these bytes."""
    try:
        found = read_measurement(_beside(row))
    except InputError:
        return None
    return found if found.bundle_sha256 == row.bundle_sha256 else None


def _measure(rows: Sequence[Row], threads: int | None) -> dict[str, str]:
    """Time and store them; returns bundle -> the error's line of those that cannot be run."""
    words = [
        "--frames",
        str(FRAMES),
        "--warmup",
        str(WARMUP),
        *(["--threads", str(threads)] if threads else []),
    ]
    taken: dict[str, list[Measurement]] = {str(row.bundle): [] for row in rows}
    failed: dict[str, str] = {}
    for _ in range(ROUNDS):
        for bundle in taken.keys() - failed.keys():
            try:
                taken[bundle].append(measured(Path(bundle), words))
            except InputError as error:
                failed[bundle] = str(error)
    for row in rows:
        if row.bundle not in failed:
            write_json(_beside(row), measurement_to_json(middle(taken[str(row.bundle)])))
    return failed


def _filled(row: Row, failed: dict[str, str]) -> Row:
    reason = failed.get(str(row.bundle)) or _absence(row)
    if row.bundle is None or reason:
        return dataclasses.replace(row, latency_reason=reason or row.latency_reason)
    found = stored(row)
    assert found is not None, "it was just measured"
    return dataclasses.replace(row, latency_ms=found.latency_ms.p50, latency_reason=None)


def _absence(row: Row) -> str | None:
    """Why nothing here executes the row's bundle, or None."""
    target = entries()[row.target].target
    runtime = target.RUNTIME if target else None
    return available()[runtime] if runtime else "not timed"


def _is_of(found: Measurement | None, threads: int) -> bool:
    return found is not None and found.threads == threads


def _beside(row: Row) -> Path:
    return Path(f"{row.bundle}.bench.json")
