"""Sustained load: the verdict on made-up points, and real short runs with a clock and meter of ours."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from deploy.bundle import Bundle
from deploy.device import Sample
from deploy.device._host import Host
from deploy.frames import GoldenFrames
from deploy.measurement import MOST_POINTS, CurvePoint
from deploy.segmenter import Segmenter
from deploy.sustained import POINTS, summarise, sustain


def _points(*latencies: float, step_s: float = 10.0) -> list[CurvePoint]:
    return [CurvePoint(step_s * (i + 1), 100, ms, 1500.0, None, None) for i, ms in enumerate(latencies)]


def test_the_first_minute_against_the_last() -> None:
    throttled = summarise(_points(*[20.0] * 30, *[26.0] * 30), Sample(absent={"temperature_c": "no zone"}))
    assert throttled.verdict == "slowed" and throttled.window_s == 60 and throttled.duration_s == 600
    assert (throttled.first_ms, throttled.last_ms) == (20.0, 26.0)
    assert throttled.absent == {"temperature_c": "no zone", "power_w": "no reading while it ran"}
    assert summarise(_points(*[20.0] * 5, *[40.0] * 50, *[20.5] * 6), Sample()).verdict == "steady"
    assert summarise(_points(*[20.0] * 30, *[15.0] * 30), Sample()).verdict == "sped up"
    short = summarise(_points(20.0, 21.0, 30.0, step_s=1), Sample())
    assert short.window_s == 1 and (short.first_ms, short.last_ms) == (20.0, 30.0)
    assert summarise(_points(20.0), Sample()).verdict == "steady"


class _Meter:
    """Clock and temperature as given, one reading after the other; the last one stays."""

    def __init__(self, host: Host | None = None) -> None:
        self.readings = itertools.count()

    def read(self) -> Sample:
        return Sample(
            clock_mhz=2000.0 - next(self.readings), temperature_c=40.0, absent={"power_w": "no rail"}
        )


def _ticks(step_s: float) -> Any:
    moments = itertools.count(0, step_s)
    return lambda: next(moments)


def test_a_curve_of_a_real_network(tiny_bundle: Bundle) -> None:
    with Segmenter(tiny_bundle, 1) as segmenter:
        curve, interrupted = sustain(segmenter, GoldenFrames(tiny_bundle), 1.0, _Meter())
    assert curve is not None and not interrupted and curve.duration_s >= 1.0
    assert all(p.frames > 0 and p.p50_ms > 0 and p.temperature_c == 40.0 for p in curve.points)
    assert [p.at_s for p in curve.points] == sorted(p.at_s for p in curve.points)
    clocks = [p.clock_mhz or 0 for p in curve.points]
    assert clocks == sorted(clocks, reverse=True) and curve.absent == {"power_w": "no rail"}


def test_a_day_leaves_a_bounded_curve(tiny_bundle: Bundle) -> None:
    with Segmenter(tiny_bundle, 1) as segmenter:
        curve, _ = sustain(segmenter, GoldenFrames(tiny_bundle), 86_400.0, _Meter(), _ticks(40.0))
    assert curve is not None and 100 < len(curve.points) <= POINTS <= MOST_POINTS
    assert curve.duration_s >= 86_400


def test_ctrl_c_keeps_the_points_so_far(tiny_bundle: Bundle) -> None:
    moments = itertools.count(0, 0.1)

    def clock() -> float:
        now = next(moments)
        if now > 30:
            raise KeyboardInterrupt
        return now

    with Segmenter(tiny_bundle, 1) as segmenter:
        curve, interrupted = sustain(segmenter, GoldenFrames(tiny_bundle), 600.0, _Meter(), clock)
        assert interrupted and curve is not None and 20 < curve.duration_s < 31
        moments = itertools.count(29.9, 0.1)
        curve, interrupted = sustain(segmenter, GoldenFrames(tiny_bundle), 600.0, _Meter(), clock)
        assert interrupted and curve is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), ("24h", 86400)]
)
def test_durations(text: str, seconds: float) -> None:
    from deploy.options import duration

    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "0", "-5s", "1e3", "25h", "10 m", "9999999", "١٠"])
def test_durations_that_are_none(text: str) -> None:
    from argparse import ArgumentTypeError

    from deploy.options import duration

    with pytest.raises(ArgumentTypeError):
        duration(text)
