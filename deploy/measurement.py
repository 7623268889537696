"""The measurement file: what `bench` writes and `report` reads, as dataclasses with a schema version.

What each figure means: mIoU is taken at the masks' own size from one accumulated confusion matrix; latency is
decoded frame to label map at the frame's own size; memory is a fresh process's peak resident set. A file that
was measured elsewhere is untrusted: its size, its keys and the range of every number are checked. Files of
schema version 1 (before startup, noise, offline and sustained figures) load for ever.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from deploy.device import Machine
from deploy.errors import InputError
from deploy.files import atomic_write_text, sha256_file
from deploy.manifest import is_proof
from deploy.schema import decode, encode, read_json

if TYPE_CHECKING:
    from deploy.bundle import Bundle

SCHEMA_VERSION = 2
READABLE = (1, 2)
FILE_LIMIT = 1 << 20
MOST_POINTS = 1000
_LEAST_MS, _MOST_MS = 1e-6, 1e7
_MOST_BYTES = 1 << 50
LONGEST_TEXT = 4096
_DIGITS = 16  # of the content's hash in a file's name


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
class Startup:
    """What comes before warm frames: runtime imported and network loaded, and the very first frame."""

    load_ms: float
    first_ms: float


@dataclass(frozen=True)
class Noise:
    """Whether the machine was quiet while frames were timed; `why` it was not.

    `spread`: largest against smallest median of four consecutive parts of the run, minus 1; `others_cpu`:
    share of the machine that other processes used; `clock_jump_s`: how far wall clock and steady clock moved
    apart (a set clock, or sleep). None: not known here, or too short a run to tell.
    """

    noisy: bool
    why: tuple[str, ...]
    spread: float | None
    others_cpu: float | None
    clock_jump_s: float


@dataclass(frozen=True)
class OfflineRow:
    """Throughput where all frames are there at once: `streams` networks of `threads` threads each."""

    streams: int
    threads: int
    batch: int
    frames: int
    throughput_fps: float


@dataclass(frozen=True)
class CurvePoint:
    """One interval of a sustained run, `at_s` after its start."""

    at_s: float
    frames: int
    p50_ms: float
    clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None


@dataclass(frozen=True)
class Sustained:
    """Latency, clock, temperature and power under steady load; the first `window_s` against the last.

    `absent`: a figure that every point lacks -> why.
    """

    duration_s: float
    window_s: float
    first_ms: float
    last_ms: float
    verdict: Literal["steady", "slowed", "sped up"]
    absent: dict[str, str]
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True)
class Measurement:
    """One bundle measured once on one machine.

    `images` were compared with their masks; `frames` were timed after `warmup` dropped ones. Where a figure
    is None, the `_reason` beside it says why, or nobody asked for it. `jitter_ms`: mean difference of frames
    that follow each other; `overhead`: share of the time around a frame that no stage accounts for;
    `interrupted`: stopped by hand, so fewer frames; `brought`: no bundle of ours, timed only. Of CT: `dice`
    by class over all pixels, and `volume_dice` by volume and class where the slices' volumes are known.
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
    startup: Startup | None = None
    jitter_ms: float | None = None
    overhead: float | None = None
    noise: Noise | None = None
    offline: tuple[OfflineRow, ...] | None = None
    sustained: Sustained | None = None
    interrupted: bool = False
    brought: bool = False
    dice: dict[str, float | None] | None = None
    volume_dice: dict[str, dict[str, float | None]] | None = None
    schema_version: int = field(default=SCHEMA_VERSION)


def identity(bundle: Bundle) -> dict[str, Any]:
    """The fields that say which bundle was measured, where its network was executed.

    A target is called as its runtime, unless it says another name: of two that share one.
    """
    manifest = bundle.manifest
    return {
        "name": manifest.name,
        "proof": "executed",
        "target": str(manifest.target.options.get("target", manifest.target.runtime)),
        "precision": manifest.target.precision,
        "options": manifest.target.options,
        "size": manifest.preprocess.size,
        "model": manifest.provenance.model,
        "bundle_bytes": sum(entry.bytes for entry in manifest.files),
        "bundle_sha256": bundle.sha256,
    }


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
    _check_name(path)
    return measurement_from_json(value, str(path))


def measurement_from_json(value: Any, where: str) -> Measurement:
    """Parsed JSON -> Measurement; `where` names the place in errors.

    Raises:
        InputError: as `read_measurement`.
    """
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int:
        raise InputError(
            f"{where} is not a measurement", expected="a file written by `python -m deploy bench --json`"
        )
    if version not in READABLE:
        fix = "update edgeseg here"
        raise InputError(
            f"{where}: schema_version", got=version, expected=f"at most {SCHEMA_VERSION}", fix=fix
        )
    measurement = replace(decode(Measurement, value, where), schema_version=SCHEMA_VERSION)
    _check(measurement, where)
    return measurement


def keep_measurement(folder: Path, measurement: Measurement) -> Path:
    """Write to `folder` under a name that holds the content's hash, so that a later change shows.

    Raises:
        InputError: the folder cannot be written.
    """
    text = json.dumps(measurement_to_json(measurement), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    name = re.sub(r"[^\w.-]+", "_", measurement.name)[:100]
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = folder / f"{name}-{digest[:_DIGITS]}.json"
    atomic_write_text(path, text)
    return path


def _check_name(path: Path) -> None:
    """A file that is named by its content must still hold it."""
    named = re.search(rf"-([0-9a-f]{{{_DIGITS}}})$", path.stem)
    if named and (found := sha256_file(path)[:_DIGITS]) != named[1]:
        fix = "measure again, or rename the file if the change was meant"
        raise InputError(f"{path} has changed since it was measured", found, named[1], fix)


def _check(m: Measurement, where: str) -> None:
    """Every number in its range and every text bounded, so that no page or plot can be broken by one."""
    volumes = m.volume_dice or {}
    dice = [value for one in (m.dice or {}, *volumes.values()) for value in one.values()]
    shares = [m.miou, m.pixel_accuracy, *(m.iou or {}).values(), *dice]
    stages = [m.stages_ms.preprocess, m.stages_ms.inference, m.stages_ms.postprocess]
    counts = [m.images, m.warmup, m.bundle_bytes, m.peak_memory_bytes or 0, m.machine.memory_bytes or 0]
    compared = [m.images > 0, *(value is not None for value in (m.miou, m.iou, m.pixel_accuracy))]
    rules = {
        "proof": is_proof(m.proof),
        "miou, iou, dice, pixel_accuracy (0..1)": all(v is None or 0 <= v <= 1 for v in shares),
        "latency_ms (positive, ascending)": _latency_holds(m.latency_ms),
        "stages_ms": all(0 <= v <= _MOST_MS for v in stages),
        "throughput_fps (positive)": 0 < m.throughput_fps <= 1e7,
        "counts and sizes (not negative)": all(0 <= v <= _MOST_BYTES for v in counts),
        "frames, threads, cores, size (at least 1)": all(
            1 <= v <= _MOST_BYTES for v in (m.frames, m.threads, m.machine.cores, *m.size)
        ),
        "images, miou, iou, pixel_accuracy (need a dataset)": m.dataset is not None or not any(compared),
        "iou (at most 255 classes)": len(m.iou or {}) <= 255,
        "volume_dice (too many)": len(volumes) <= MOST_POINTS,
        "startup, jitter_ms, overhead, noise": _extras_hold(m),
        "offline": all(0 < v <= _MOST_BYTES for row in m.offline or () for v in vars(row).values()),
        "sustained": m.sustained is None or _curve_holds(m.sustained),
        "texts (too long)": all(len(text) <= LONGEST_TEXT for text in _texts(encode(m))),
    }
    broken = [name for name, holds in rules.items() if not holds]
    if broken:
        raise InputError(f"{where}: figure out of range", got=", ".join(broken), fix="measure again")


def _latency_holds(times: Latency) -> bool:
    ascending = [_LEAST_MS, times.p50, times.p90, times.p99, _MOST_MS]
    return ascending == sorted(ascending) and _LEAST_MS <= times.mean <= _MOST_MS


def _extras_hold(m: Measurement) -> bool:
    times = [m.jitter_ms, *(vars(m.startup).values() if m.startup else ())]
    shares = [m.overhead, *((m.noise.spread, m.noise.others_cpu) if m.noise else ())]
    jump = abs(m.noise.clock_jump_s) if m.noise else 0.0
    good = all(v is None or 0 <= v <= _MOST_MS for v in times)
    return good and all(v is None or -1 <= v <= 1e6 for v in shares) and jump <= 1e12


def _curve_holds(curve: Sustained) -> bool:
    """A bounded number of points with figures that a device can have."""
    figures = [(p.p50_ms, p.clock_mhz, p.power_w, abs(p.temperature_c or 0)) for p in curve.points]
    times = [curve.duration_s, curve.window_s]
    times += [value for p in curve.points for value in (p.at_s, p.frames)]
    good = all(v is None or 0 <= v <= 1e6 for point in figures for v in point)
    good = good and all(_LEAST_MS <= v <= _MOST_MS for v in (curve.first_ms, curve.last_ms))
    return good and len(curve.points) <= MOST_POINTS and all(0 <= v <= 1e9 for v in times)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (str(key), *_texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []
