"""SingleStream: statistics against slow twins, overhead, and what Ctrl-C leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.bundle import Bundle
from deploy.frames import SplitFrames
from deploy.segmenter import Segmenter, StageTimes
from deploy.singlestream import Pass, jitter_ms, latency, stages, timed_pass

TIMES = [StageTimes(n * 1_000_000, 2_000_000, 500_000) for n in range(1, 12)]


def test_statistics_match_numpy() -> None:
    total = [n + 2.5 for n in range(1, 12)]
    figures = latency(TIMES)
    assert figures.p50 == pytest.approx(np.median(total))
    assert figures.p99 == pytest.approx(np.percentile(total, 99))
    assert figures.mean == pytest.approx(np.mean(total))
    assert stages(TIMES).preprocess == 6.0 and stages(TIMES).inference == 2.0


def test_jitter_is_the_mean_step() -> None:
    assert jitter_ms(TIMES) == pytest.approx(1.0) and jitter_ms(TIMES[:1]) == 0.0
    uneven = [StageTimes(0, ns, 0) for ns in (1_000_000, 5_000_000, 2_000_000)]
    assert jitter_ms(uneven) == pytest.approx((4 + 3) / 2)


def test_overhead_counts_what_no_stage_does() -> None:
    assert Pass([StageTimes(0, 90, 0), StageTimes(0, 90, 5)], around_ns=200).overhead == pytest.approx(0.075)


class _Stops(SplitFrames):
    """Raises as Ctrl-C does, when image number `at` is read."""

    at = 0
    reads = 0

    def image(self, index: int) -> Any:
        if self.reads == self.at:
            raise KeyboardInterrupt
        self.reads += 1
        return super().image(index)


def test_ctrl_c_keeps_the_frames_so_far(tiny_bundle: Bundle, colour_folder: Path) -> None:
    with Segmenter(tiny_bundle, 1) as segmenter:
        for at, has_accuracy in ((2, False), (3, True), (7, True)):
            source = _Stops(tiny_bundle, colour_folder, "val")
            source.at = at
            done = timed_pass(segmenter, source, 100)
            assert done.interrupted and len(done.times) == at
            assert (done.matrix is not None) == has_accuracy, "three images: accuracy of all or of none"
        source = _Stops(tiny_bundle, colour_folder, "val")
        with pytest.raises(KeyboardInterrupt):
            timed_pass(segmenter, source, 100)
