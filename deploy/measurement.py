"""The measurement file: what `bench` writes and `report` reads, as dataclasses with a schema version.

What each figure means: mIoU is taken at the masks' own size from one accumulated confusion matrix; latency is
decoded frame to label map at the frame's own size; memory is a fresh process's peak resident set. A file that
was measured elsewhere is untrusted: its size, its keys and the range of every number are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.device import Machine
from deploy.errors import InputError
from deploy.manifest import is_proof
from deploy.schema import decode, encode, read_json

SCHEMA_VERSION = 1
FILE_LIMIT = 1 << 20
_LEAST_MS, _MOST_MS = 1e-6, 1e7
_MOST_BYTES = 1 << 50
_LONGEST_TEXT = 4096


@dataclass(frozen=True)
class Latency:
    """Milliseconds from decoded frame to label map."""

    p50: float
    p90: float
    p99: float
    mean: float


@dataclass(frozen=True)
class Stages:
    """Median milliseconds of each stage."""

    preprocess: float
    inference: float
    postprocess: float


@dataclass(frozen=True)
class DatasetRef:
    """Which labelled images; `sha256` over all stems and bytes (`labels.dataset_digest`)."""

    name: str
    split: str
    sha256: str


@dataclass(frozen=True)
class Measurement:
    """One bundle measured once on one machine.

    `images` were compared with their masks; `frames` were timed after `warmup` dropped ones. Where a figure
    is None, the `_reason` beside it says why.
    """

    name: str
    proof: str
    target: str
    precision: str
    options: dict[str, str | int | float | bool]
    size: tuple[int, int]
    model: dict[str, str | int]
    dataset: DatasetRef | None
    images: int
    miou: float | None
    iou: dict[str, float | None] | None
    pixel_accuracy: float | None
    accuracy_reason: str | None
    frames: int
    warmup: int
    latency_ms: Latency
    stages_ms: Stages
    throughput_fps: float
    peak_memory_bytes: int | None
    peak_memory_reason: str | None
    threads: int
    bundle_bytes: int
    bundle_sha256: str
    machine: Machine
    versions: dict[str, str]
    command: str
    timestamp: str
    schema_version: int = field(default=SCHEMA_VERSION)


def measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    """The JSON object, `schema_version` first; never holds a nan."""
    value: dict[str, Any] = encode(measurement)
    return {"schema_version": value.pop("schema_version"), **value}


def read_measurement(path: Path) -> Measurement:
    """Read a file that `bench` wrote, here or elsewhere.

    Raises:
        InputError: too large, not JSON, a newer schema, an unknown or missing key, a figure out of range.
    """
    value = read_json(path, FILE_LIMIT)
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int:
        raise InputError(
            f"{path} is not a measurement", expected="a file written by `python -m deploy bench --json`"
        )
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version", got=version, expected=SCHEMA_VERSION, fix="update edgeseg here"
        )
    measurement = decode(Measurement, value, str(path))
    _check(measurement, str(path))
    return measurement


def _check(m: Measurement, where: str) -> None:
    """Every number in its range and every text bounded, so that no page or plot can be broken by one."""
    shares = [m.miou, m.pixel_accuracy, *(m.iou or {}).values()]
    times = [m.latency_ms.p50, m.latency_ms.p90, m.latency_ms.p99, m.latency_ms.mean]
    stages = [m.stages_ms.preprocess, m.stages_ms.inference, m.stages_ms.postprocess]
    counts = [m.images, m.frames, m.warmup, m.threads, m.bundle_bytes, m.peak_memory_bytes or 0, *m.size]
    rules = {
        "proof": is_proof(m.proof),
        "miou, iou, pixel_accuracy (0..1)": all(v is None or 0 <= v <= 1 for v in shares),
        "latency_ms (positive)": all(_LEAST_MS <= v <= _MOST_MS for v in times),
        "stages_ms": all(0 <= v <= _MOST_MS for v in stages),
        "throughput_fps (positive)": 0 < m.throughput_fps <= 1e7,
        "counts and sizes (not negative)": all(0 <= v <= _MOST_BYTES for v in counts),
        "iou (at most 255 classes)": len(m.iou or {}) <= 255,
        "texts (too long)": all(len(text) <= _LONGEST_TEXT for text in _texts(encode(m))),
    }
    broken = [name for name, holds in rules.items() if not holds]
    if broken:
        raise InputError(f"{where}: figure out of range", got=", ".join(broken), fix="measure again")


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (str(key), *_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
