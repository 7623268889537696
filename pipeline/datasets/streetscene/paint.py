"""Random surface colours, drawn so that colour says little about the class.

Buildings, cars and clothes share one distribution; poles, signs, ground, sky and leaves have habits of their
own, as in real streets, which overlap it and each other. Colours are `(r, g, b)` floats in 0..255 before
lighting. Knows nothing of shapes or light.
"""

from __future__ import annotations

import colorsys

import numpy as np

Colour = tuple[float, float, float]


def hsv(hue_deg: float, saturation: float, value: float) -> Colour:
    """RGB colour (0..255) of a hue in degrees, saturation 0..1 and value 0..255."""
    red, green, blue = colorsys.hsv_to_rgb(hue_deg % 360 / 360, min(saturation, 1.0), 1.0)
    return red * value, green * value, blue * value


def scale(colour: Colour, factor: float) -> Colour:
    """The colour made lighter or darker by a factor (not clipped)."""
    return colour[0] * factor, colour[1] * factor, colour[2] * factor


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """`share` of the second colour, the rest of the first."""
    keep = 1 - share
    return (
        first[0] * keep + second[0] * share,
        first[1] * keep + second[1] * share,
        first[2] * keep + second[2] * share,
    )


def made_thing(rng: np.random.Generator) -> Colour:
    """Colour of anything people make: grey, muted, earthy, leaf-like or vivid."""
    kind = rng.random()
    hue = float(rng.uniform(0, 360))
    if kind < 0.35:
        return hsv(hue, float(rng.uniform(0, 0.1)), float(rng.uniform(30, 240)))
    if kind < 0.55:
        return hsv(hue, float(rng.uniform(0.1, 0.4)), float(rng.uniform(60, 230)))
    if kind < 0.75:
        return hsv(float(rng.uniform(0, 50)), float(rng.uniform(0.2, 0.7)), float(rng.uniform(50, 220)))
    if kind < 0.85:
        return hsv(float(rng.uniform(60, 150)), float(rng.uniform(0.2, 0.6)), float(rng.uniform(40, 170)))
    return hsv(hue, float(rng.uniform(0.5, 0.95)), float(rng.uniform(70, 240)))


def metal(rng: np.random.Generator) -> Colour:
    """Colour of a post: mostly bare or painted dark, sometimes anything."""
    if rng.random() < 0.3:
        return made_thing(rng)
    return hsv(float(rng.uniform(60, 240)), float(rng.uniform(0, 0.2)), float(rng.uniform(45, 150)))


def signal(rng: np.random.Generator) -> Colour:
    """Colour of a sign's border: mostly red, yellow, green or blue, sometimes anything."""
    if rng.random() < 0.25:
        return made_thing(rng)
    hue = float(rng.choice([0, 50, 140, 215])) + float(rng.normal(0, 8))
    return hsv(hue, float(rng.uniform(0.6, 0.95)), float(rng.uniform(130, 240)))


def asphalt(rng: np.random.Generator) -> Colour:
    """Colour of a carriageway: mostly grey, sometimes paved."""
    if rng.random() < 0.2:
        return paving(rng)
    return hsv(float(rng.uniform(0, 360)), float(rng.uniform(0, 0.1)), float(rng.uniform(55, 150)))


def paving(rng: np.random.Generator) -> Colour:
    """Colour of a pavement: concrete, brick, sandstone or asphalt."""
    kind = rng.random()
    if kind < 0.45:
        return hsv(float(rng.uniform(0, 360)), float(rng.uniform(0, 0.1)), float(rng.uniform(110, 215)))
    if kind < 0.85:
        return hsv(float(rng.uniform(-15, 55)), float(rng.uniform(0.12, 0.5)), float(rng.uniform(80, 205)))
    return hsv(float(rng.uniform(0, 360)), float(rng.uniform(0, 0.1)), float(rng.uniform(55, 150)))


def leaves(rng: np.random.Generator) -> Colour:
    """Colour of foliage: green, autumn, dark, or pale with blossom or frost."""
    kind = rng.random()
    if kind < 0.45:
        return hsv(float(rng.uniform(60, 150)), float(rng.uniform(0.15, 0.7)), float(rng.uniform(60, 170)))
    if kind < 0.75:
        return hsv(float(rng.uniform(0, 55)), float(rng.uniform(0.3, 0.8)), float(rng.uniform(80, 210)))
    if kind < 0.9:
        return hsv(float(rng.uniform(0, 360)), float(rng.uniform(0, 0.25)), float(rng.uniform(50, 130)))
    return hsv(float(rng.uniform(0, 360)), float(rng.uniform(0, 0.25)), float(rng.uniform(150, 235)))


def skin(rng: np.random.Generator) -> Colour:
    """Colour of skin, from pale to dark."""
    return hsv(float(rng.uniform(10, 32)), float(rng.uniform(0.25, 0.6)), float(rng.uniform(70, 235)))
