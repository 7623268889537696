"""Label maps back to the frame's size, logits to labels, and pictures, against slow references."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.bundle import ClassInfo, Preprocess, TensorSpec
from deploy.errors import GateError, InputError
from deploy.postprocess import (
    colourise,
    logits_to_labels,
    nearest,
    output_to_labels,
    overlay,
    to_frame_size,
)
from deploy.preprocess import letterbox_window, resize_image

CLASSES = (ClassInfo(0, "a", (10, 20, 30)), ClassInfo(1, "b", (200, 0, 100)))


def _rule(size: tuple[int, int], resize: str = "stretch") -> Preprocess:
    return Preprocess(size, (0.5, 0.5, 0.5), (1, 1, 1), True, resize=resize)  # type: ignore[arg-type]


def _nearest_by_loop(labels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    result = np.zeros(size, np.uint8)
    for row in range(size[0]):
        for column in range(size[1]):
            source = (
                (2 * row + 1) * labels.shape[0] // (2 * size[0]),
                (2 * column + 1) * labels.shape[1] // (2 * size[1]),
            )
            result[row, column] = labels[source]
    return result


@settings(max_examples=40, deadline=None)
@given(*[st.integers(1, 40)] * 4)
def test_nearest_matches_the_loop(h: int, w: int, height: int, width: int) -> None:
    labels = np.random.default_rng(h * w).integers(0, 256, (h, w), np.uint8)
    assert np.array_equal(nearest(labels, (height, width)), _nearest_by_loop(labels, (height, width)))


def test_nearest_follows_pixel_centres_as_torch_does() -> None:
    labels = np.random.default_rng(0).integers(0, 20, (36, 48), np.uint8)
    for size in ((72, 96), (360, 480), (18, 24), (50, 31)):
        expected = torch.nn.functional.interpolate(
            torch.from_numpy(labels)[None, None].float(), size, mode="nearest-exact"
        )
        assert (nearest(labels, size) == expected[0, 0].numpy()).mean() > 0.999  # torch rounds in float32


def test_equal_sizes_are_not_copied() -> None:
    labels = np.zeros((5, 6), np.uint8)
    assert to_frame_size(labels, _rule((5, 6)), (5, 6)) is labels


@pytest.mark.parametrize("frame", [(40, 60), (60, 40), (100, 100), (33, 71)])
def test_letterbox_is_undone(frame: tuple[int, int]) -> None:
    size = (64, 64)
    rule = _rule(size, "letterbox")
    blocks = np.zeros((*frame, 3), np.uint8)
    blocks[: frame[0] // 2] = 255
    network_view = resize_image(blocks, size, "letterbox", "linear", (128, 128, 128))
    labels = np.where(network_view[:, :, 0] > 192, 1, np.where(network_view[:, :, 0] < 64, 0, 2)).astype(
        np.uint8
    )
    top, left, height, width = letterbox_window(frame, size)
    labels[:top], labels[top + height :], labels[:, :left], labels[:, left + width :] = 9, 9, 9, 9
    got = to_frame_size(labels, rule, frame)
    assert got.shape == frame and 9 not in got
    assert (got == (blocks[:, :, 0] > 0)).mean() > 0.94


@pytest.mark.parametrize("upsample", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(48, 64), (41, 57), (6, 8)])
def test_logits_match_torch(upsample: str, size: tuple[int, int]) -> None:
    logits = np.random.default_rng(0).standard_normal((1, 5, 6, 8)).astype(np.float32)
    tensor = torch.from_numpy(logits)
    expected = (
        torch.nn.functional.interpolate(tensor, size, mode=upsample, align_corners=False).argmax(1)[0].numpy()
    )
    got = logits_to_labels(logits, size, upsample)
    assert got.dtype == np.uint8 and (got == expected).mean() >= 0.999


def test_ties_go_to_the_first_class_as_argmax_does() -> None:
    assert logits_to_labels(np.zeros((1, 3, 2, 2), np.float32), (4, 4)).max() == 0


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_fail(value: float) -> None:
    logits = np.zeros((1, 3, 2, 2), np.float32)
    logits[0, 1, 1, 1] = value
    with pytest.raises(GateError, match="not finite"):
        logits_to_labels(logits, (4, 4))


def test_unknown_upsample_is_refused() -> None:
    with pytest.raises(InputError, match="bilinear or bicubic"):
        logits_to_labels(np.zeros((1, 3, 2, 2), np.float32), (4, 4), "lanczos")


def test_every_kind_of_output_becomes_labels() -> None:
    labels = np.random.default_rng(0).integers(0, 3, (1, 4, 6))
    for dtype in ("uint8", "int32", "int64"):
        got = output_to_labels(labels.astype(dtype), TensorSpec("y", dtype, (1, 4, 6), "NHW"), (4, 6))
        assert got.dtype == np.uint8 and np.array_equal(got, labels[0])
    logits = np.random.default_rng(1).integers(-100, 100, (1, 3, 4, 6)).astype(np.int8)
    spec = TensorSpec("y", "int8", (1, 3, 4, 6), "NCHW", scale=0.1, zero_point=3)
    assert np.array_equal(output_to_labels(logits, spec, (4, 6)), logits[0].argmax(0))
    half = logits.astype(np.float16)
    assert np.array_equal(
        output_to_labels(half, TensorSpec("y", "float16", half.shape, "NCHW"), (4, 6)), half[0].argmax(0)
    )


def test_channels_last_logits_are_the_same_logits() -> None:
    logits = np.random.default_rng(2).standard_normal((1, 3, 4, 6)).astype(np.float32)
    last = np.ascontiguousarray(logits.transpose(0, 2, 3, 1))
    spec = TensorSpec("y", "float32", last.shape, "NHWC")
    expected = output_to_labels(logits, TensorSpec("y", "float32", logits.shape, "NCHW"), (16, 24))
    np.testing.assert_array_equal(output_to_labels(last, spec, (16, 24)), expected)


def test_pictures() -> None:
    labels = np.array([[0, 1], [255, 0]], np.uint8)
    colours = colourise(labels, CLASSES)
    assert colours.tolist() == [[[10, 20, 30], [200, 0, 100]], [[0, 0, 0], [10, 20, 30]]]
    frame = np.full((2, 2, 3), 100, np.uint8)
    assert np.array_equal(overlay(frame, labels, CLASSES, 0.0), frame)
    assert np.array_equal(overlay(frame, labels, CLASSES, 1.0), colours)
    assert np.abs(overlay(frame, labels, CLASSES) - (frame / 2 + colours / 2)).max() <= 0.5


def test_opencv_exact_nearest_is_not_exact() -> None:
    """Why `nearest` has index arrays of its own; if this fails, OpenCV has changed and may be used."""
    differs = 0
    for h, w, height, width in np.random.default_rng(0).integers(1, 300, (60, 4)).tolist():
        labels = np.random.default_rng(h).integers(0, 256, (h, w), np.uint8)
        theirs = cv2.resize(labels, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
        differs += not np.array_equal(theirs, nearest(labels, (height, width)))
    assert differs
