"""Accuracy against latency as one inline SVG: labelled points, axes with units, nothing from outside.

Colours come from the page's style (classes `s0`..`s7`), so the plot follows light and dark. Every text is
escaped here. Refuses to know where points come from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 920, 460
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 20, 56
SERIES = 8
_CHAR_PX, _LINE_PX = 7.0, 15
_LABELS_UP_TO = 16
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
    """`x` latency in ms, `y` mIoU in per cent; `series` picks the colour, `shape` the mark."""

    x: float
    y: float
    label: str
    title: str
    series: int
    shape: int


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels, linearly or by logarithm."""

    low: float
    high: float
    start_px: float
    end_px: float
    ticks: tuple[float, ...]
    log: bool = False

    def px(self, value: float) -> float:
        """Pixel of a value."""
        turn = math.log10 if self.log else float
        share = (turn(value) - turn(self.low)) / (turn(self.high) - turn(self.low))
        return self.start_px + share * (self.end_px - self.start_px)


def scatter(points: Sequence[Point], front: Sequence[tuple[float, float]] = ()) -> str:
    """The `<svg>` element; needs at least one point. `front`: the (x, y) of the Pareto front, by x."""
    assert points
    x = latency_axis([point.x for point in points])
    y = accuracy_axis([point.y for point in points])
    parts = [*_grid(x, y), *_axis_titles(), *_front(front, x, y), *(_mark(point, x, y) for point in points)]
    if len(points) <= _LABELS_UP_TO:
        parts += _labels(points, x, y)
    name = f"mIoU against latency of {len(points)} measurements"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def latency_axis(values: Sequence[float]) -> Axis:
    """From 0 where the values are close, logarithmic where they span more than a factor of 6."""
    low, high = min(values), max(values)
    span = (float(LEFT), float(WIDTH - RIGHT))
    if high <= 6 * low:
        ticks = nice_ticks(0.0, high * 1.12)
        return Axis(0.0, max(high * 1.12, ticks[-1]), *span, ticks)
    low, high = low / 1.4, high * 1.4
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 2, 5) if len(exponents) <= 6 else (1,)
    candidates = [digit * 10.0**exponent for exponent in exponents for digit in digits]
    return Axis(low, high, *span, tuple(v for v in candidates if low <= v <= high), log=True)


def accuracy_axis(values: Sequence[float]) -> Axis:
    """Per cent, with a margin of at least 4 points around the values, within 0..100."""
    margin = max(4.0, 0.25 * (max(values) - min(values)))
    low, high = max(0.0, min(values) - margin), min(100.0, max(values) + margin)
    ticks = nice_ticks(low, high)
    return Axis(min(low, ticks[0]), max(high, ticks[-1]), float(HEIGHT - BOTTOM), float(TOP), ticks)


def nice_ticks(low: float, high: float) -> tuple[float, ...]:
    """About five multiples of 1, 2 or 5 times a power of ten inside [low, high]."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(index * step for index in range(first, last + 1))


def mark_path(shape: int, x: float, y: float) -> str:
    """SVG path of a mark around (x, y): circle, square, triangle, diamond."""
    r = 7.0
    if shape % 4 == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    if shape % 4 == 1:
        return f"M{x - 6:.1f} {y - 6:.1f}h12v12h-12z"
    if shape % 4 == 2:
        return f"M{x:.1f} {y - 7.5:.1f}l7.5 13.5h-15z"
    return f"M{x:.1f} {y - 8.5:.1f}l8.5 8.5l-8.5 8.5l-8.5 -8.5z"


def _grid(x: Axis, y: Axis) -> Iterator[str]:
    for tick in x.ticks:
        at = x.px(tick)
        yield f'<path class="grid" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
        place = f'x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle"'
        yield f'<text class="tick" {place}>{tick:g}</text>'
    for tick in y.ticks:
        at = y.px(tick)
        yield f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 10}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
    yield f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>'


def _axis_titles() -> Iterator[str]:
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text class="title" x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">latency p50 (ms)</text>'
    turned = f'transform="translate(18 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"'
    yield f'<text class="title" {turned} text-anchor="middle">mIoU (%)</text>'
    yield f'<text class="hint" x="{LEFT + 12}" y="{TOP + 16}">&#8598; better</text>'


def _front(front: Sequence[tuple[float, float]], x: Axis, y: Axis) -> Iterator[str]:
    """A staircase: up to each point's accuracy only from its latency on."""
    if len(front) > 1:
        steps = "".join(f"H{x.px(at):.1f}V{y.px(value):.1f}" for at, value in front[1:])
        yield f'<path class="front" d="M{x.px(front[0][0]):.1f} {y.px(front[0][1]):.1f}{steps}"/>'


def _mark(point: Point, x: Axis, y: Axis) -> str:
    path = mark_path(point.shape, x.px(point.x), y.px(point.y))
    return (
        f'<path class="mark s{point.series % SERIES}" d="{path}"><title>{escape(point.title)}</title></path>'
    )


def _labels(points: Sequence[Point], x: Axis, y: Axis) -> Iterator[str]:
    """Each label at the first of eight places that covers no mark and no other label."""
    taken: list[Box] = [_box(x.px(p.x) - 9, y.px(p.y) - 9, 18, 18) for p in points]
    for point in points:
        text = point.label if len(point.label) <= 44 else point.label[:43] + "…"
        wide = len(text) * _CHAR_PX
        at_x, at_y = x.px(point.x), y.px(point.y)
        places = [(at_x + 13, at_y - 8), (at_x - 13 - wide, at_y - 8), (at_x - wide / 2, at_y - 28)]
        places += [(at_x - wide / 2, at_y + 13), (at_x + 8, at_y - 26), (at_x + 8, at_y + 12)]
        places += [(at_x + 9 - wide, at_y - 28), (at_x + 9 - wide, at_y + 12)]
        boxes = [_box(left, top, wide, _LINE_PX) for left, top in places]
        free = [b for b in boxes if _fits(b) and not any(_overlap(b, other) for other in taken)]
        box = next(iter([*free, *filter(_fits, boxes), boxes[0]]))
        taken.append(box)
        place = f'x="{(box[0] + box[2]) / 2:.1f}" y="{box[1] + 12:.1f}" text-anchor="middle"'
        yield f'<text class="label" {place}>{escape(text)}</text>'


def _box(left: float, top: float, wide: float, tall: float) -> Box:
    return left, top, left + wide, top + tall


def _fits(box: Box) -> bool:
    return box[0] >= LEFT + 2 and box[2] <= WIDTH and box[1] >= TOP and box[3] <= HEIGHT - BOTTOM


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
