"""Figures of a comparison, and the gate that reads them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deploy.errors import GateError
from export.parity import Comparison, gate
from export.targets import Budget

NAMES = ("sky", "road", "pole")
FP32 = Budget(0.999, None, 1e-3, "look at the graph")
INT8 = Budget(0.9, 1.0, 0.1, "keep the attention in float")


def labels(*rows: str) -> np.ndarray:
    return np.array([[int(c) for c in row] for row in rows], np.uint8)


def comparison(masks: bool = False) -> Comparison:
    """Image `a` agrees everywhere, of `b` one of two pole pixels and three of four in all."""
    result = Comparison(3, 255, masks)
    result.add_labels("a", labels("0011"), labels("0011"))
    result.add_labels("b", labels("0122"), labels("0120"))
    return result


def test_agreement_and_the_worst_places() -> None:
    result = comparison()
    assert result.agreement == pytest.approx(7 / 8)
    assert result.worst_image() == ("b", 0.75)
    assert result.worst_class() == (2, 0.5)
    assert result.miou_difference is None and result.max_abs_error is None and result.mean_abs_error is None


def test_logit_errors_are_largest_and_mean_over_images() -> None:
    result = comparison()
    result.add_logits(np.zeros((1, 2, 1, 2), np.float32), np.array([[[[0.0, 1.0]], [[0.0, -3.0]]]]))
    result.add_logits(np.zeros((1, 2, 1, 2), np.float32), np.zeros((1, 2, 1, 2)))
    assert result.max_abs_error == 3.0 and result.mean_abs_error == 0.5


def test_gate_names_worst_class_and_image_and_what_to_try() -> None:
    with pytest.raises(GateError) as caught:
        gate(comparison(), FP32, "run for onnxruntime fp32", NAMES)
    text = str(caught.value)
    for part in (
        "0.87500",
        ">= 0.999",
        "worst class pole: 0.5000",
        "worst image b: 0.7500",
        "look at the graph",
    ):
        assert part in text
    assert "\n" not in text and caught.value.exit_status == 1


def test_gate_lets_equal_labels_pass() -> None:
    result = Comparison(3, None, False)
    result.add_labels("a", labels("012"), labels("012"))
    gate(result, FP32, "x", NAMES)


def test_nan_agreement_never_passes() -> None:
    result = Comparison(3, None, False)
    result.agreements["a"] = math.nan
    with pytest.raises(GateError):
        gate(result, FP32, "x", NAMES)


@pytest.mark.parametrize(("wrong", "passes"), [(0, True), (1, True), (30, False)])
def test_miou_drop_is_in_points(wrong: int, passes: bool) -> None:
    mask = np.repeat(np.arange(2, dtype=np.uint8), 500)[None]
    found = mask.copy()
    found[0, :wrong] = 1
    result = Comparison(2, None, True)
    result.add_labels("a", mask, found)
    result.fp32.update(mask, mask)
    result.here.update(found, mask)
    if passes:
        gate(result, INT8, "x", NAMES[:2])
    else:
        with pytest.raises(GateError, match=r"mIoU -\d\.\d\d points.*keep the attention in float"):
            gate(result, INT8, "x", NAMES[:2])


def test_a_budget_in_miou_needs_masks() -> None:
    result = Comparison(3, None, False)
    result.add_labels("a", labels("012"), labels("012"))
    with pytest.raises(GateError, match="--data"):
        gate(result, INT8, "x", NAMES)
