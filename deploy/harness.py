"""Speed, memory and accuracy of a bundle on this machine, as one measurement.

Frames are decoded outside the clock, which runs from the decoded frame to the label map at the frame's own
size, one frame at a time (MLPerf's SingleStream). Warm-up is dropped. Accuracy is that of the same label
maps. Refuses to know the runtime and the command line.
"""

from __future__ import annotations

import math
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from deploy.bundle import Bundle
from deploy.device import this_machine
from deploy.errors import InputError
from deploy.frames import Frames, SplitFrames, open_frames
from deploy.labels import dataset_digest
from deploy.measurement import DatasetRef, Latency, Measurement, Stages
from deploy.memory import peak_memory
from deploy.metrics import ConfusionMatrix
from deploy.progress import track
from deploy.segmenter import Segmenter, StageTimes

NO_DATA = "no --data given: speed only"


def measure(
    bundle: Bundle,
    threads: int | None = None,
    data: Path | None = None,
    split: str = "val",
    frames: int = 100,
    warmup: int = 10,
    command: str = "",
) -> Measurement:
    """Time at least `frames` frames and every image of the split once; see `Measurement`.

    Raises:
        InputError: the data does not fit the bundle, a damaged image, or a runtime that is missing.
    """
    source = open_frames(bundle, data, split)
    with Segmenter(bundle, threads) as segmenter:
        for index in range(warmup):
            segmenter.segment(source.image(index % len(source)))
        times, matrix = _timed_pass(segmenter, source, frames)
        versions = {"numpy": np.__version__, "opencv": cv2.__version__, **segmenter.session.versions()}
        threads = segmenter.threads
    peak, peak_reason = peak_memory(bundle.root, threads, data, split)
    return Measurement(
        **_identity(bundle),
        **_accuracy(bundle, source, matrix, split),
        **_timing(times),
        warmup=warmup,
        peak_memory_bytes=peak,
        peak_memory_reason=peak_reason,
        threads=threads,
        machine=this_machine(),
        versions=versions,
        command=command,
        timestamp=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _timed_pass(
    segmenter: Segmenter, source: Frames, frames: int
) -> tuple[list[StageTimes], ConfusionMatrix | None]:
    """Every frame once, then again from the start until `frames` are timed; truth is compared once."""
    times: list[StageTimes] = []
    matrix = None
    if isinstance(source, SplitFrames):
        matrix = ConfusionMatrix(len(source.info.classes), source.info.ignore_index)
    for index in track(range(max(frames, len(source))), "bench"):
        labels, taken = segmenter.timed(source.image(index % len(source)))
        times.append(taken)
        if matrix and isinstance(source, SplitFrames) and index < len(source):
            try:
                matrix.update(labels, source.mask(index))
            except InputError as error:
                raise InputError(f"{source.pairs[index].mask}: {error}") from error
    return times, matrix


def _identity(bundle: Bundle) -> dict[str, Any]:
    manifest = bundle.manifest
    return {
        "name": manifest.name,
        "proof": "executed",
        "target": manifest.target.runtime,
        "precision": manifest.target.precision,
        "options": manifest.target.options,
        "size": manifest.preprocess.size,
        "model": manifest.provenance.model,
        "bundle_bytes": sum(entry.bytes for entry in manifest.files),
        "bundle_sha256": bundle.sha256,
    }


def _accuracy(bundle: Bundle, source: Frames, matrix: ConfusionMatrix | None, split: str) -> dict[str, Any]:
    if matrix is None or not isinstance(source, SplitFrames):
        empty = dict.fromkeys(("dataset", "miou", "iou", "pixel_accuracy"))
        return {**empty, "images": 0, "accuracy_reason": NO_DATA}
    names = [info.name for info in bundle.manifest.classes]
    miou = _figure(matrix.miou())
    return {
        "dataset": DatasetRef(source.info.name, split, dataset_digest(source.pairs)),
        "images": len(source),
        "miou": miou,
        "iou": {name: _figure(value) for name, value in zip(names, matrix.iou().tolist(), strict=True)},
        "pixel_accuracy": _figure(matrix.pixel_accuracy()),
        "accuracy_reason": None if miou is not None else "every pixel of every mask is ignored",
    }


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else value


def _timing(times: list[StageTimes]) -> dict[str, Any]:
    total = np.array([taken.total_ns for taken in times]) / 1e6
    p50, p90, p99 = (float(value) for value in np.percentile(total, [50, 90, 99]))
    stages = [(taken.preprocess_ns, taken.inference_ns, taken.postprocess_ns) for taken in times]
    preprocess, inference, postprocess = (float(value) / 1e6 for value in np.median(stages, axis=0))
    return {
        "frames": len(times),
        "latency_ms": Latency(p50, p90, p99, float(total.mean())),
        "stages_ms": Stages(preprocess, inference, postprocess),
        "throughput_fps": 1000 / float(total.mean()),
    }
