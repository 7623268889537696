"""The table of `export all`: one row for each target and precision, with its proof, and the report of it.

Every figure is read from a bundle or from a stored measurement of it. Refuses to know how either came about.
"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.bundle import Bundle
from deploy.measurement import Measurement
from deploy.schema import encode
from export.pictures import Pictures
from export.source import Source
from pipeline.accuracy import points, shown

SCHEMA_VERSION = 1
LINE = "{:<12} {:<12} {:<10} {:>9} {:>7} {:>6} {:>6} {:>7}  {}"


@dataclass(frozen=True)
class Row:
    """A target in a precision; figures are None where there are none.

    Args:
        proof: executed, evaluated, built, or "not run: why". refused: the artifact missed a gate.
        miou_drop_points: mIoU lost against the checkpoint, in points.
        size_bytes: of the model's files. latency_ms: median, decoded frame to label map, here.
        latency_reason: why there is no latency. how: built or cached.
    """

    target: str
    precision: str
    proof: str
    how: str
    refused: bool = False
    agreement: float | None = None
    max_abs_error: float | None = None
    mean_abs_error: float | None = None
    miou: float | None = None
    miou_drop_points: float | None = None
    size_bytes: int | None = None
    latency_ms: float | None = None
    latency_reason: str | None = "no bundle"
    bundle: str | None = None
    bundle_sha256: str | None = None


def absent(target: str, precision: str, why: str, refused: bool = False) -> Row:
    """A row without a bundle."""
    return Row(target, precision, f"not run: {why}", "refused" if refused else "not built", refused)


def row(target: str, bundle: Bundle, how: str) -> Row:
    """What a bundle says of itself, without a timing."""
    manifest = bundle.manifest
    parity, accuracy = manifest.parity, manifest.accuracy
    assert parity is not None and manifest.golden is not None, "build writes no bundle without them"
    drop = None if parity.miou_difference is None else -100 * parity.miou_difference
    evidence = {manifest.golden.file, "stage.json"}
    return Row(
        target,
        manifest.target.precision,
        parity.proof,
        how,
        agreement=parity.agreement,
        max_abs_error=parity.max_abs_error,
        mean_abs_error=parity.mean_abs_error,
        miou=accuracy.miou_here if accuracy else None,
        miou_drop_points=drop,
        size_bytes=sum(entry.bytes for entry in manifest.files if entry.path not in evidence),
        latency_reason="not timed",
        bundle=str(bundle.root),
        bundle_sha256=bundle.sha256,
    )


def with_latency(row: Row, timing: Measurement | str | None) -> Row:
    """The row with its median, from decoded frame to label map, or with the reason why there is none."""
    if isinstance(timing, Measurement):
        return dataclasses.replace(row, latency_ms=timing.latency_ms.p50, latency_reason=None)
    return dataclasses.replace(row, latency_reason=timing or row.latency_reason)


def report(
    rows: Sequence[Row], source: Source, pictures: Pictures, timings: Mapping[str, Measurement | str]
) -> dict[str, Any]:
    """The table as plain data, with what it was measured on."""
    timed = next((found for found in timings.values() if isinstance(found, Measurement)), None)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": source.name,
        "model": dict(source.meta.model),
        "checkpoint_sha256": source.sha256,
        "compared_on": pictures.source,
        "size": list(source.preprocess.size),
        "machine": encode(timed.machine) if timed else None,
        "threads": timed.threads if timed else None,
        "command": shlex.join(["python", "-m", "export", *sys.argv[1:]]),
        "rows": [dataclasses.asdict(row) for row in rows],
    }


def show(rows: Sequence[Row], title: str) -> None:
    """Print one line a row; not a table, whose columns would break long reasons."""
    print(title)
    print(LINE.format("target", "precision", "proof", "agreement", "mIoU", "drop", "MB", "ms", "state"))
    for row in rows:
        print(
            LINE.format(*_cells(row)) if row.bundle else f"{row.target:<12} {row.precision:<12} {row.proof}"
        )


def _cells(row: Row) -> list[str]:
    figures = [
        shown(row.agreement, ".5f"),
        shown(row.miou, ".4f"),
        points(row.miou_drop_points),
        shown(row.size_bytes and row.size_bytes / 1e6, ".2f"),
        shown(row.latency_ms, ".1f"),
    ]
    return [row.target, row.precision, row.proof, *figures, row.how]
