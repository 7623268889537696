"""A long steady load: latency, clock, temperature and power over time, the first minute against the last.

A device that throttles at minute three is measured wrong by a run of one minute. Memory is bounded: an
interval leaves one point, and intervals grow with the duration. A thread reads the meter beside the load, so
that slow sensors take nothing from it. Refuses to name the cause of a slowdown: the curve shows what changed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from threading import Event, Thread
from time import monotonic
from typing import Literal

from deploy.device import DeviceMeter, Sample
from deploy.frames import Frames
from deploy.measurement import CurvePoint, Sustained
from deploy.offline import DECODED
from deploy.preprocess import Image
from deploy.progress import Bar
from deploy.segmenter import Segmenter

POINTS = 600
LIMIT = 0.05
_WINDOW_S = 60.0


class _Watch(Thread):
    """Reads the meter once an interval; `last` is the newest sample."""

    def __init__(self, meter: DeviceMeter, interval_s: float) -> None:
        super().__init__(daemon=True)
        self.last, self._meter, self._interval_s, self._stop_it = meter.read(), meter, interval_s, Event()

    def run(self) -> None:
        while not self._stop_it.wait(self._interval_s):
            self.last = self._meter.read()

    def end(self) -> None:
        self._stop_it.set()
        self.join()


def sustain(
    segmenter: Segmenter,
    source: Frames,
    duration_s: float,
    meter: DeviceMeter,
    clock: Callable[[], float] = monotonic,
) -> tuple[Sustained | None, bool]:
    """Segment frames for `duration_s`; (the curve, whether Ctrl-C ended it early).

    None where it ended before the first interval did.
    """
    images = [source.image(index) for index in range(min(DECODED, len(source)))]
    interval_s = max(min(1.0, duration_s / 4), duration_s / POINTS)
    watch, points, interrupted = _Watch(meter, interval_s), list[CurvePoint](), False
    watch.start()
    start = clock()
    try:
        with Bar("sustained", duration_s) as bar:
            while (now := clock() - start) < duration_s:
                bar.show(now)
                points.append(_interval(segmenter, images, start, now + interval_s, watch, clock))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        watch.end()
    return (summarise(points, watch.last) if points else None), interrupted


def summarise(points: Sequence[CurvePoint], last: Sample) -> Sustained:
    """The curve with its verdict."""
    duration_s = points[-1].at_s
    window_s = min(_WINDOW_S, duration_s / 3)
    first = statistics.median([p.p50_ms for p in points if p.at_s <= window_s] or [points[0].p50_ms])
    end = statistics.median(
        [p.p50_ms for p in points if p.at_s > duration_s - window_s] or [points[-1].p50_ms]
    )
    figures = ("clock_mhz", "temperature_c", "power_w")
    lacking = [name for name in figures if all(getattr(point, name) is None for point in points)]
    absent = {name: last.absent.get(name, "no reading while it ran") for name in lacking}
    return Sustained(duration_s, window_s, first, end, verdict(end / first - 1), absent, tuple(points))


def verdict(change: float) -> Literal["steady", "slowed", "sped up"]:
    """In words, of the last window's latency relative to the first's, minus 1."""
    if abs(change) <= LIMIT:
        return "steady"
    return "slowed" if change > 0 else "sped up"


def _interval(
    segmenter: Segmenter,
    images: Sequence[Image],
    start: float,
    end: float,
    watch: _Watch,
    clock: Callable[[], float],
) -> CurvePoint:
    times: list[int] = []
    while not times or clock() - start < end:
        times.append(segmenter.timed(images[len(times) % len(images)])[1].total_ns)
    at, now = round(clock() - start, 3), watch.last
    return CurvePoint(
        at, len(times), statistics.median(times) / 1e6, now.clock_mhz, now.temperature_c, now.power_w
    )
