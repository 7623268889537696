"""Augmentation of an image and its mask, with albumentations. A sample's draws depend only on its own seed.

Two traps of albumentations 2.0.8 are avoided here (each has a test): with workers, draws depend on their
number unless every sample is seeded; and `Compose.set_random_seed` gives each step the *same* stream, so that
two steps of equal probability always happen together; here all steps share one stream, one after the other.
Masks are only ever moved by nearest neighbour. Refuses to know files, epochs and batches.
"""

from __future__ import annotations

import math
import os
import random
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from deploy.preprocess import letterbox_window
from pipeline.config import AugmentConfig, Range, Size

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # it would ask the network for its latest version
import albumentations as A

Array = npt.NDArray[np.uint8]
PAD_COLOUR = (124, 116, 104)  # the mean colour that normalises to about 0, as deploy pads


class ScaleCrop(A.DualTransform):  # type: ignore[misc]
    """A random scale and aspect, then a random window of the size `crop`, padded where it leaves the image.

    Scale 1 is an image as the network sees it in use: resized to `whole` by `rule`. The window is cut out
    before it is resized, so the cost does not grow with the scale.
    """

    def __init__(
        self, crop: Size, scale: Range, aspect: float, whole: Size, rule: str, pad_label: int
    ) -> None:
        super().__init__(p=1.0)
        self.crop, self.scale, self.aspect = crop, scale, aspect
        self.whole, self.rule, self.pad_label = whole, rule, pad_label

    def get_params_dependent_on_data(self, params: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Draw scale, aspect and place: `window` = (top, left, height, width) in the image's own pixels."""
        height, width = params["shape"][:2]
        scale = math.exp(self.py_random.uniform(math.log(self.scale[0]), math.log(self.scale[1])))
        aspect = (1 + self.aspect) ** self.py_random.uniform(-0.5, 0.5)
        by_height, by_width = self._to_whole((height, width))
        tall = max(1, round(self.crop[0] * aspect / (scale * by_height)))
        wide = max(1, round(self.crop[1] / aspect / (scale * by_width)))
        top, left = self._place(height - tall), self._place(width - wide)
        return {"window": (top, left, tall, wide)}

    def _to_whole(self, frame: Size) -> tuple[float, float]:
        """Factors from the image's own pixels to the network's, down and across."""
        inner = self.whole if self.rule == "stretch" else letterbox_window(frame, self.whole)[2:]
        return inner[0] / frame[0], inner[1] / frame[1]

    def _place(self, room: int) -> int:
        return int(self.py_random.randint(min(0, room), max(0, room)))

    def apply(self, img: Array, window: tuple[int, int, int, int], **params: Any) -> Array:
        """`[H, W, 3]` -> `[*crop, 3]`: area average where it shrinks, linear where it grows."""
        cut = _cut(img, window, PAD_COLOUR)
        shrinks = cut.shape[0] > self.crop[0] and cut.shape[1] > self.crop[1]
        return self._resize(cut, cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)

    def apply_to_mask(self, mask: Array, window: tuple[int, int, int, int], **params: Any) -> Array:
        """`[H, W]` -> `crop`, by nearest neighbour."""
        return self._resize(_cut(mask, window, (self.pad_label,)), cv2.INTER_NEAREST_EXACT)

    def _resize(self, array: Array, method: int) -> Array:
        if array.shape[:2] == self.crop:
            return np.ascontiguousarray(array)
        resized = cv2.resize(array, (self.crop[1], self.crop[0]), interpolation=method)
        return np.asarray(resized, np.uint8)


def _cut(array: Array, window: tuple[int, int, int, int], pad: tuple[int, ...]) -> Array:
    """The window of an array; what lies outside gets the value `pad`."""
    top, left, tall, wide = window
    bottom, right = top + tall, left + wide
    inner = array[max(0, top) : bottom, max(0, left) : right]
    beyond = (max(0, -top), max(0, bottom - array.shape[0]), max(0, -left), max(0, right - array.shape[1]))
    if not any(beyond):
        return inner
    return np.asarray(cv2.copyMakeBorder(inner, *beyond, cv2.BORDER_CONSTANT, value=pad), np.uint8)


class Augmentation:
    """All steps of an `AugmentConfig`, applied to one sample at a time.

    Args:
        config: probabilities and strengths; its `crop` is the size of what comes out.
        whole: (height, width) at which the network sees a whole image; rule: "stretch" or "letterbox".
        pad_label: mask value of padding, which must count nowhere in the loss.
    """

    def __init__(self, config: AugmentConfig, whole: Size, rule: str, pad_label: int) -> None:
        place = ScaleCrop(config.crop, config.scale, config.aspect, whole, rule, pad_label)
        self.steps = A.Compose([place, *_flip(config), *_light(config), *_colour(config), *_lens(config)])

    def __call__(self, image: Array, mask: Array, seed: int) -> tuple[Array, Array]:
        """`[H, W, 3]` and `[H, W]` uint8 -> `[*crop, 3]` and `crop` uint8; equal seeds give equal bytes."""
        self.steps.set_random_state(np.random.default_rng(seed), random.Random(seed))
        done = self.steps(image=image, mask=mask)
        return np.ascontiguousarray(done["image"]), np.ascontiguousarray(done["mask"])


def _flip(c: AugmentConfig) -> list[Any]:
    return [A.HorizontalFlip(p=c.flip_p)] if c.flip_p else []


def _light(c: AugmentConfig) -> list[Any]:
    steps: list[Any] = []
    if c.brightness or c.contrast:
        steps.append(A.RandomBrightnessContrast(c.brightness, c.contrast, brightness_by_max=False, p=1.0))
    if c.gamma:
        low, high = 100 * (1 - c.gamma), 100 * (1 + c.gamma)
        steps.append(A.RandomGamma(gamma_limit=(low, high), p=1.0))
    if c.shadow_p:
        steps.append(A.RandomShadow(shadow_roi=(0, 0, 1, 1), num_shadows_limit=(1, 2), p=c.shadow_p))
    return steps


def _colour(c: AugmentConfig) -> list[Any]:
    steps: list[Any] = []
    if c.white_balance:
        gain = (1 - c.white_balance, 1 + c.white_balance)
        steps.append(A.MultiplicativeNoise(multiplier=gain, per_channel=True, p=1.0))
    if c.saturation or c.hue:
        still = (1.0, 1.0)
        saturation = (1 - c.saturation, 1 + c.saturation)
        steps.append(A.ColorJitter(still, still, saturation, (-c.hue, c.hue), p=1.0))
    if c.grey_p:
        steps.append(A.ToGray(p=c.grey_p))
    return steps


def _lens(c: AugmentConfig) -> list[Any]:
    steps: list[Any] = []
    if c.blur_p:
        steps.append(A.GaussianBlur(blur_limit=(3, 7), p=c.blur_p))
    if c.noise_p:
        steps.append(A.GaussNoise(std_range=(0.01, 0.05), p=c.noise_p))
    return steps
