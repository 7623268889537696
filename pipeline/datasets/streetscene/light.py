"""Light and air of a scene: time of day, sun, ambient light, fog; and what they do to a surface colour.

Knows nothing of shapes; a surface is a colour, a normal and a depth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.datasets.streetscene.paint import Colour, hsv

Normal = tuple[float, float, float]
Fill = tuple[float, float, float]


@dataclass(frozen=True)
class Light:
    """One lighting of the whole scene. `sun` is the unit vector towards the sun in world axes (x, y, z)."""

    sun: Normal
    ambient: float
    direct: float
    tint: Colour  # multiplies colours, around 1
    fog: Colour
    fog_depth_m: float
    night: bool
    zenith: Colour
    horizon: Colour

    def shade_many(
        self, colours: NDArray[np.float64], normal: Normal, z_m: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """`shade` for N colours `[N, 3]` of one normal at N depths, without glow."""
        level = self.ambient + self.direct * max(
            sum(n * s for n, s in zip(normal, self.sun, strict=True)), 0.0
        )
        clear = np.exp(-z_m / self.fog_depth_m)[:, None]
        seen = colours * np.array(self.tint) * (level * clear) + np.array(self.fog) * (1 - clear)
        return np.asarray(np.minimum(np.maximum(seen, 0), 255))

    def shade(self, colour: Colour, normal: Normal, z_m: float, glow: float = 0.0) -> Fill:
        """Colour of a surface as seen through the air, floats 0..255; `glow` (0..1) is light of its own."""
        facing = normal[0] * self.sun[0] + normal[1] * self.sun[1] + normal[2] * self.sun[2]
        level = self.ambient + self.direct * max(facing, 0.0)
        level += (1.0 - level) * glow
        clear = math.exp(-z_m / self.fog_depth_m)
        haze = 1 - clear
        return (
            min(max(colour[0] * self.tint[0] * level * clear + self.fog[0] * haze, 0.0), 255.0),
            min(max(colour[1] * self.tint[1] * level * clear + self.fog[1] * haze, 0.0), 255.0),
            min(max(colour[2] * self.tint[2] * level * clear + self.fog[2] * haze, 0.0), 255.0),
        )


def _sun(rng: np.random.Generator) -> Normal:
    """A direction to the sun: any compass point, 12 to 65 degrees high."""
    azimuth, height = rng.uniform(0, 2 * math.pi), math.radians(rng.uniform(12, 65))
    flat = math.cos(height)
    return float(flat * math.sin(azimuth)), math.sin(height), float(flat * math.cos(azimuth))


def _tint(rng: np.random.Generator, spread: float) -> Colour:
    """Colour of the light: three factors around 1."""
    red, green, blue = (float(x) for x in rng.normal(1, spread, 3))
    return red, green, blue


def draw_light(rng: np.random.Generator) -> Light:
    """A random lighting: sunny, overcast, low sun, dusk or night, with clear air or fog."""
    kind = rng.choice(["sunny", "overcast", "dusk", "night"], p=[0.62, 0.26, 0.08, 0.04])
    foggy = rng.random() < 0.06
    depth = float(rng.uniform(25, 70)) if foggy else float(rng.uniform(90, 600))
    low, high = {"sunny": (0.42, 0.65), "overcast": (0.7, 0.95), "dusk": (0.35, 0.6), "night": (0.25, 0.4)}[
        kind
    ]
    ambient = float(rng.uniform(low, high))
    direct = {"sunny": 0.75, "overcast": 0.08, "dusk": 0.3, "night": 0.05}[kind] * float(
        rng.uniform(0.7, 1.3)
    )
    zenith, horizon = _sky_colours(rng, str(kind))
    return Light(
        sun=_sun(rng),
        ambient=ambient,
        direct=0.1 * direct if foggy else direct,
        tint=_tint(rng, 0.12 if kind in ("dusk", "night") else 0.05),
        fog=horizon,
        fog_depth_m=depth,
        night=kind == "night",
        zenith=horizon if foggy else zenith,
        horizon=horizon,
    )


def _sky_colours(rng: np.random.Generator, kind: str) -> tuple[Colour, Colour]:
    """Colours of the sky overhead and at the horizon."""
    hue = float(rng.normal(212, 16))
    if kind == "sunny":
        zenith = hsv(hue, float(rng.uniform(0.1, 0.7)), float(rng.uniform(140, 245)))
        return zenith, hsv(hue, float(rng.uniform(0, 0.3)), float(rng.uniform(180, 250)))
    if kind == "overcast":
        value = float(rng.uniform(90, 250))
        grey = hsv(float(rng.uniform(0, 360)), float(rng.uniform(0, 0.12)), value)
        return grey, hsv(hue, float(rng.uniform(0, 0.1)), min(value * float(rng.uniform(0.9, 1.3)), 250))
    if kind == "dusk":
        zenith = hsv(float(rng.uniform(190, 330)), float(rng.uniform(0.1, 0.6)), float(rng.uniform(60, 160)))
        glow = float(rng.uniform(-40, 60))
        return zenith, hsv(glow, float(rng.uniform(0.1, 0.65)), float(rng.uniform(120, 240)))
    base = float(rng.uniform(12, 70))
    zenith = hsv(float(rng.uniform(180, 420)), float(rng.uniform(0, 0.5)), base)
    return zenith, hsv(
        float(rng.uniform(180, 420)), float(rng.uniform(0, 0.4)), base * float(rng.uniform(1, 1.7))
    )
