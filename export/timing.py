"""Latency of bundles on this machine: fresh processes in turns, the middle run kept beside each bundle.

A slow spell of a shared machine then touches a round of many bundles, and not one bundle as a whole. What is
stored for the same bytes and threads is not timed again. Refuses to know how bundles come about.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deploy.errors import InputError
from deploy.files import write_json
from deploy.measurement import Measurement, measurement_to_json, read_measurement
from deploy.progress import track
from deploy.runtimes import available, default_threads
from deploy.turns import measured, middle
from export.table import Row
from export.targets import entries

ROUNDS, FRAMES, WARMUP = 3, 40, 5
Timings = dict[str, Measurement | str]


def timings(rows: Sequence[Row], threads: int | None) -> Timings:
    """Bundle -> its measurement, stored or made now, or the reason why there is none."""
    count = threads or default_threads()
    found = {row.bundle: _absence(row.target) or _stored(row, count) for row in rows if row.bundle}
    made = _measure([bundle for bundle, known in found.items() if known is None], count)
    for bundle, new in made.items():
        if isinstance(new, Measurement):
            write_json(_beside(bundle), measurement_to_json(new))
    return {bundle: known or made[bundle] for bundle, known in found.items()}


def _measure(bundles: Sequence[str], threads: int) -> Timings:
    """Of each bundle the middle of `ROUNDS` runs, or the line of the error that ended one."""
    words = ["--frames", str(FRAMES), "--warmup", str(WARMUP), "--threads", str(threads)]
    taken: dict[str, list[Measurement]] = {bundle: [] for bundle in bundles}
    failed: Timings = {}
    for turn in track(range(ROUNDS * len(bundles)), "bench"):
        bundle = bundles[turn % len(bundles)]
        try:
            if bundle not in failed:
                taken[bundle].append(measured(Path(bundle), words))
        except InputError as error:
            failed[bundle] = str(error)
    return {bundle: failed.get(bundle) or middle(taken[bundle]) for bundle in bundles}


def _absence(name: str) -> str | None:
    """Why nothing here executes the target's bundles, or None."""
    target = entries()[name].target
    runtime = target.RUNTIME if target else None
    return available()[runtime] if runtime else "not timed"


def _stored(row: Row, threads: int) -> Measurement | None:
    """The measurement beside the row's bundle, if it is of exactly these bytes and threads."""
    try:
        found = read_measurement(_beside(str(row.bundle)))
    except InputError:
        return None
    return found if (found.bundle_sha256, found.threads) == (row.bundle_sha256, threads) else None


def _beside(bundle: str) -> Path:
    return Path(f"{bundle}.bench.json")
