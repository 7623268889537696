"""Measurements as CSV, one row each, for spreadsheets and data frames.

A text that a spreadsheet would take for a formula gets an apostrophe before it: names come from anywhere.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from deploy.comparison import data, limits, power_mode, processor
from deploy.measurement import Measurement

_COLUMNS: dict[str, Callable[[Measurement], object]] = {
    "name": lambda m: m.name,
    "variant": lambda m: m.model.get("variant", ""),
    "attention": lambda m: m.model.get("attention", ""),
    "target": lambda m: m.target,
    "precision": lambda m: m.precision,
    "provider": lambda m: m.options.get("providers", ""),
    "proof": lambda m: m.proof,
    "brought": lambda m: m.brought,
    "height": lambda m: m.size[0],
    "width": lambda m: m.size[1],
    "data": lambda m: data(m),
    "images": lambda m: m.images,
    "miou": lambda m: m.miou,
    "pixel_accuracy": lambda m: m.pixel_accuracy,
    "p50_ms": lambda m: m.latency_ms.p50,
    "p90_ms": lambda m: m.latency_ms.p90,
    "p99_ms": lambda m: m.latency_ms.p99,
    "jitter_ms": lambda m: m.jitter_ms,
    "preprocess_ms": lambda m: m.stages_ms.preprocess,
    "inference_ms": lambda m: m.stages_ms.inference,
    "postprocess_ms": lambda m: m.stages_ms.postprocess,
    "throughput_fps": lambda m: m.throughput_fps,
    "offline_fps": lambda m: max((row.throughput_fps for row in m.offline or ()), default=None),
    "load_ms": lambda m: m.startup and m.startup.load_ms,
    "first_ms": lambda m: m.startup and m.startup.first_ms,
    "sustained": lambda m: m.sustained and m.sustained.verdict,
    "sustained_first_ms": lambda m: m.sustained and m.sustained.first_ms,
    "sustained_last_ms": lambda m: m.sustained and m.sustained.last_ms,
    "noisy": lambda m: m.noise and m.noise.noisy,
    "interrupted": lambda m: m.interrupted,
    "peak_memory_bytes": lambda m: m.peak_memory_bytes,
    "bundle_bytes": lambda m: m.bundle_bytes,
    "threads": lambda m: m.threads,
    "device": lambda m: processor(m),
    "platform": lambda m: m.machine.platform,
    "power_mode": lambda m: power_mode(m),
    "limits": lambda m: limits(m),
    "bundle_sha256": lambda m: m.bundle_sha256,
    "timestamp": lambda m: m.timestamp,
    "command": lambda m: m.command,
}


def to_csv(rows: Sequence[Measurement]) -> str:
    """A header and one line per measurement; an absent figure is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for m in rows:
        writer.writerow(_cell(value(m)) for value in _COLUMNS.values())
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str) and value.lstrip()[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return "" if value is None else value
