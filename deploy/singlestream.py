"""SingleStream, in MLPerf's terms: one frame after the other, each timed from decoded frame to label map.

Frames are decoded outside the clock. Ctrl-C ends the pass with the frames it has. Refuses to know what the
figures are for. Source of the term: MLPerf Inference (Reddi et al., ISCA 2020).
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np

from deploy.errors import InputError
from deploy.frames import Frames, SplitFrames
from deploy.measurement import Latency, Stages
from deploy.metrics import ConfusionMatrix, Counts
from deploy.progress import track
from deploy.segmenter import Segmenter, StageTimes


@dataclass
class Pass:
    """The timed frames in their order; `around_ns` is all the time that went by around a frame's stages.

    `overlaps`: (hits, unions) by class of every image that was compared, as `ConfusionMatrix.overlap`.
    """

    times: list[StageTimes] = field(default_factory=list)
    around_ns: int = 0
    matrix: ConfusionMatrix | None = None
    overlaps: list[tuple[Counts, Counts]] = field(default_factory=list)
    interrupted: bool = False

    @property
    def inference_ms(self) -> list[float]:
        """Of every frame; the stage that does not depend on a frame's own size."""
        return [taken.inference_ns / 1e6 for taken in self.times]

    @property
    def overhead(self) -> float:
        """Share of the time that no stage accounts for."""
        return 1 - sum(taken.total_ns for taken in self.times) / self.around_ns


def timed_pass(segmenter: Segmenter, source: Frames, frames: int) -> Pass:
    """Every frame once, then again from the start until `frames` are timed; truth is compared once.

    Raises:
        InputError: a damaged image or a mask that does not fit. KeyboardInterrupt: before the first frame.
    """
    done = Pass()
    if isinstance(source, SplitFrames):
        done.matrix = ConfusionMatrix(len(source.info.classes), source.info.ignore_index)
    try:
        for index in track(range(max(frames, len(source))), "bench"):
            _one(done, segmenter, source, index)
    except KeyboardInterrupt:
        if not done.times:
            raise
        done.interrupted = True
        if len(done.times) < len(source):
            done.matrix = None  # of some images only
    return done


def _one(done: Pass, segmenter: Segmenter, source: Frames, index: int) -> None:
    image = source.image(index % len(source))
    start = perf_counter_ns()
    labels, taken = segmenter.timed(image)
    end = perf_counter_ns()
    if done.matrix and isinstance(source, SplitFrames) and index < len(source):
        one = ConfusionMatrix(done.matrix.classes, done.matrix.ignore_index)
        try:
            one.update(labels, source.mask(index))
        except InputError as error:
            raise InputError(f"{source.pairs[index].mask}: {error}") from error
        done.matrix.merge(one)
        done.overlaps.append(one.overlap())
    done.around_ns += end - start
    done.times.append(taken)


def latency(times: Sequence[StageTimes]) -> Latency:
    """Percentiles of decoded frame to label map."""
    total = np.array([taken.total_ns for taken in times]) / 1e6
    p50, p90, p99 = (float(value) for value in np.percentile(total, [50, 90, 99]))
    return Latency(p50, p90, p99, float(total.mean()))


def stages(times: Sequence[StageTimes]) -> Stages:
    """Medians, stage by stage."""
    columns = [(taken.preprocess_ns, taken.inference_ns, taken.postprocess_ns) for taken in times]
    preprocess, inference, postprocess = (float(value) / 1e6 for value in np.median(columns, axis=0))
    return Stages(preprocess, inference, postprocess)


def jitter_ms(times: Sequence[StageTimes]) -> float:
    """Mean difference of frames that follow each other."""
    total = [taken.total_ns / 1e6 for taken in times]
    steps = [abs(after - before) for before, after in itertools.pairwise(total)]
    return statistics.fmean(steps) if steps else 0.0
