"""Speed, memory and accuracy of a bundle on this machine, as one measurement.

Each figure is taken by a module of its own; this one puts them together, in an order that lets Ctrl-C keep
what there is. Accuracy is that of the very label maps that were timed. Refuses to know the runtime and the
command line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import cv2
import numpy as np

from deploy import noise, singlestream
from deploy.bundle import Bundle
from deploy.device import open_meter, this_machine
from deploy.frames import Frames, SplitFrames, open_frames
from deploy.measurement import Measurement, OfflineRow, Startup, Sustained, identity
from deploy.memory import peak_memory
from deploy.metrics import ConfusionMatrix, overlap_scores, volume_scores
from deploy.offline import offline
from deploy.segmenter import Segmenter
from deploy.slicetable import volumes_of
from deploy.sustained import sustain

NO_DATA = "no --data given: speed only"
INTERRUPTED = "interrupted"


def measure(
    bundle: Bundle,
    threads: int | None = None,
    data: Path | None = None,
    split: str = "val",
    frames: int = 100,
    warmup: int = 10,
    command: str = "",
    all_at_once: bool = False,
    sustained_s: float | None = None,
) -> Measurement:
    """Time at least `frames` frames and every image of the split once; see `Measurement`.

    `all_at_once` adds the Offline rows, `sustained_s` the curve of so many seconds.

    Raises:
        InputError: the data does not fit the bundle, a damaged image, or a runtime that is missing.
        KeyboardInterrupt: before the first timed frame; later, what there is comes back as `interrupted`.
    """
    source = open_frames(bundle, data, split)
    start = perf_counter_ns()
    with Segmenter(bundle, threads) as segmenter:
        startup = _warm_up(segmenter, source, warmup, perf_counter_ns() - start)
        clocks = noise.read_clocks()
        done = singlestream.timed_pass(segmenter, source, frames)
        verdict = noise.judge(done.inference_ms, clocks, noise.read_clocks())
        more = _More(interrupted=done.interrupted)
        try:
            if not done.interrupted:
                _take_more(more, segmenter, source, (data, split), frames, all_at_once, sustained_s)
        except KeyboardInterrupt:
            more.interrupted = True
        versions = {"numpy": np.__version__, "opencv": cv2.__version__, **segmenter.session.versions()}
        threads = segmenter.threads
    return Measurement(
        **identity(bundle),
        **_accuracy(bundle, source, done.matrix),
        **_ct_accuracy(source, done),
        **_timing(done),
        warmup=warmup,
        peak_memory_bytes=more.peak[0],
        peak_memory_reason=more.peak[1],
        threads=threads,
        machine=this_machine(),
        versions=versions,
        command=command,
        timestamp=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        startup=startup,
        noise=verdict,
        offline=tuple(more.rows) if all_at_once else None,
        sustained=more.curve,
        interrupted=more.interrupted,
    )


def _warm_up(segmenter: Segmenter, source: Frames, warmup: int, load_ns: int) -> Startup:
    """Drop `warmup` frames; the first of them is timed."""
    first = segmenter.timed(source.image(0))[1].total_ns
    for index in range(1, warmup):
        segmenter.segment(source.image(index % len(source)))
    return Startup(load_ns / 1e6, first / 1e6)


@dataclass
class _More:
    """What is taken after the timed frames, as far as Ctrl-C let it come."""

    interrupted: bool
    curve: Sustained | None = None
    rows: list[OfflineRow] = field(default_factory=list)
    peak: tuple[int | None, str | None] = (None, INTERRUPTED)


def _take_more(
    more: _More,
    segmenter: Segmenter,
    source: Frames,
    folder: tuple[Path | None, str],
    frames: int,
    all_at_once: bool,
    sustained_s: float | None,
) -> None:
    bundle, threads = segmenter.bundle, segmenter.threads
    if sustained_s:
        more.curve, more.interrupted = sustain(segmenter, source, sustained_s, open_meter())
    if all_at_once and not more.interrupted:
        for row in offline(bundle, source, threads, frames):
            more.rows.append(row)
    if not more.interrupted:
        more.peak = peak_memory(bundle, threads, *folder)


def _accuracy(bundle: Bundle, source: Frames, matrix: ConfusionMatrix | None) -> dict[str, Any]:
    if matrix is None or not isinstance(source, SplitFrames):
        empty = dict.fromkeys(("dataset", "miou", "iou", "pixel_accuracy"))
        reason = INTERRUPTED if isinstance(source, SplitFrames) else NO_DATA
        return {**empty, "images": 0, "accuracy_reason": reason}
    names = [info.name for info in bundle.manifest.classes]
    miou = _figure(matrix.miou())
    return {
        "dataset": source.reference(),
        "images": len(source),
        "miou": miou,
        "iou": {name: _figure(value) for name, value in zip(names, matrix.iou().tolist(), strict=True)},
        "pixel_accuracy": _figure(matrix.pixel_accuracy()),
        "accuracy_reason": None if miou is not None else "every pixel of every mask is ignored",
    }


def _ct_accuracy(source: Frames, done: singlestream.Pass) -> dict[str, Any]:
    """Dice by class, as CT is judged by, and of every volume where images are slices of known ones."""
    if (
        done.matrix is None
        or not isinstance(source, SplitFrames)
        or not source.info.modality.startswith("ct")
    ):
        return {}
    names = source.info.classes
    found = {"dice": overlap_scores(*done.matrix.overlap(), names)["dice"]}
    known = volumes_of(source.info.root, source.split)
    if not known:
        return found
    hits, unions = (np.stack(part) for part in zip(*done.overlaps, strict=True))
    volumes = [known.get(pair.stem, "of no volume") for pair in source.pairs]
    scores = volume_scores(hits, unions, volumes, names)
    return {**found, "volume_dice": {volume: one["dice"] for volume, one in scores.items()}}


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else value


def _timing(done: singlestream.Pass) -> dict[str, Any]:
    latency = singlestream.latency(done.times)
    return {
        "frames": len(done.times),
        "latency_ms": latency,
        "stages_ms": singlestream.stages(done.times),
        "throughput_fps": 1000 / latency.mean,
        "jitter_ms": singlestream.jitter_ms(done.times),
        "overhead": done.overhead,
    }
