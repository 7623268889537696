"""A sustained run as one inline SVG: latency, clock, temperature and power, a panel each, over one time axis.

Colours come from the page's style. Figures that the device did not give have no panel. Refuses to smooth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deploy.measurement import CurvePoint, Sustained
from deploy.scatter import nice_ticks

WIDTH, LEFT, RIGHT = 560, 74, 10
_TALL, _LOW, _GAP = 110, 56, 14
_PANELS = {
    "p50_ms": ("ms", "a", _TALL),
    "clock_mhz": ("MHz", "b", _LOW),
    "temperature_c": ("\N{DEGREE SIGN}C", "c", _LOW),
    "power_w": ("W", "d", _LOW),
}


def curve(held: Sustained) -> str:
    """The `<svg>` element."""
    parts: list[str] = []
    top = 8.0
    for name, (unit, css, tall) in _PANELS.items():
        values = [(p, getattr(p, name)) for p in held.points if getattr(p, name) is not None]
        if values:
            parts += _panel(values, held.duration_s, (top, top + tall), unit, css)
            top += tall + _GAP
    parts += _time_axis(held.duration_s, top)
    text = f"latency from {held.first_ms:.1f} to {held.last_ms:.1f} ms in {held.duration_s:.0f} s"
    return (
        f'<svg viewBox="0 0 {WIDTH} {top + 24:.0f}" role="img" aria-label="{text}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _panel(
    values: Sequence[tuple[CurvePoint, float]],
    duration_s: float,
    span: tuple[float, float],
    unit: str,
    css: str,
) -> Iterator[str]:
    """Grid, scale and line of one figure; latency starts at 0, the others at what they need."""
    numbers = [value for _, value in values]
    high = max(numbers) * 1.08 or 1.0
    low = 0.0 if unit in ("ms", "W") else max(0.0, min(numbers) - 0.15 * (high - min(numbers)))
    yield f'<path class="axis" d="M{LEFT} {span[0]:.1f}V{span[1]:.1f}H{WIDTH - RIGHT}"/>'
    yield f'<text class="title" x="4" y="{span[0] + 10:.1f}">{unit}</text>'
    for tick in nice_ticks(low, high)[:: 1 if span[1] - span[0] > _LOW else 2]:
        at = _y(tick, low, high, span)
        yield f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/>'
        yield f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
    line = "L".join(f"{_x(p.at_s, duration_s):.1f} {_y(v, low, high, span):.1f}" for p, v in values)
    yield f'<path class="line {css}" d="M{line}"/>'


def _time_axis(duration_s: float, top: float) -> Iterator[str]:
    unit, scale = ("min", 60.0) if duration_s > 180 else ("s", 1.0)
    for tick in nice_ticks(0.0, duration_s / scale):
        at = _x(tick * scale, duration_s)
        yield f'<text class="tick" x="{at:.1f}" y="{top + 4:.1f}" text-anchor="middle">{tick:g}</text>'
    yield f'<text class="title" x="{WIDTH - RIGHT}" y="{top + 20:.1f}" text-anchor="end">{unit}</text>'


def _x(at_s: float, duration_s: float) -> float:
    return LEFT + (WIDTH - RIGHT - LEFT) * min(1.0, at_s / (duration_s or 1.0))


def _y(value: float, low: float, high: float, span: tuple[float, float]) -> float:
    return span[1] - (value - low) / (high - low) * (span[1] - span[0])
