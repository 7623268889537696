"""The three readings of half precision, each against plain scalar loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from export.mil.arithmetic import FLOAT32, SAVED, STRICT

HALF = {
    name: replace(arithmetic, half=True)
    for name, arithmetic in (("saved", SAVED), ("float32", FLOAT32), ("strict", STRICT))
}


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Float32 that are float16 numbers."""
    drawn = np.random.default_rng(seed).normal(0, scale, shape)
    return drawn.astype(np.float16).astype(np.float32)


def test_finish_rounds_like_numpy_and_overflows_like_it() -> None:
    x = np.concatenate([numbers(1000) * np.float32(1.00037), np.float32([65519, 65520, -1e6, 1e-8, np.nan])])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(HALF["saved"].finish(x), expected)
    np.testing.assert_array_equal(HALF["float32"].finish(x), x)
    np.testing.assert_array_equal(SAVED.finish(x), x)  # float32 is declared: nothing to round


def test_strict_results_that_are_no_normal_numbers_become_zero() -> None:
    x = np.float32([2**-14, 2**-15, -(2**-15), 2**-24, 1])
    np.testing.assert_array_equal(HALF["strict"].finish(x), np.float32([2**-14, 0, 0, 0, 1]))
    np.testing.assert_array_equal(HALF["saved"].finish(x), x)


def _accumulate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Slow twin: one element at a time, rounded to half after every term."""
    out = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for i, j in np.ndindex(out.shape):
        for k in range(a.shape[1]):
            out[i, j] = np.float16(np.float32(out[i, j]) + a[i, k] * b[k, j])
    return out.astype(np.float32)


def test_strict_product_is_the_scalar_loop() -> None:
    a, b = numbers(5, 40), numbers(40, 7, seed=1)
    np.testing.assert_array_equal(HALF["strict"].matmul(a, b), _accumulate(a, b))
    assert not np.array_equal(HALF["strict"].matmul(a, b), HALF["saved"].matmul(a, b))
    np.testing.assert_array_equal(STRICT.matmul(a, b), SAVED.matmul(a, b))  # declared float32


def test_products_broadcast_alike() -> None:
    a, b = numbers(3, 1, 4, 6), numbers(5, 6, 2, seed=1)
    expected = np.matmul(a.astype(np.float64), b)
    for arithmetic, tolerance in ((HALF["saved"], 1e-6), (HALF["strict"], 1e-2)):
        np.testing.assert_allclose(arithmetic.matmul(a, b), expected, atol=tolerance * 10)


@pytest.mark.parametrize("axes", [(3,), (1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_sums_are_numpys_and_strict_ones_the_scalar_loop(axes: tuple[int, ...], keep_dims: bool) -> None:
    x = numbers(2, 3, 4, 50)
    expected = x.astype(np.float64).sum(axes, keepdims=keep_dims)
    saved, strict = (HALF[name].sum(x, axes, keep_dims) for name in ("saved", "strict"))
    assert saved.shape == strict.shape == expected.shape
    np.testing.assert_allclose(saved, expected, atol=1e-4)
    np.testing.assert_allclose(strict, expected, atol=1.0)
    line = np.float16(0)
    for term in x[0, 0, 0]:
        line = np.float16(np.float32(line) + term)
    assert HALF["strict"].sum(x, (3,), False)[0, 0, 0] == line


def test_a_sum_whose_parts_overflow_is_finite_as_saved_and_infinite_when_strict() -> None:
    a, b = np.full((1, 3), 300, np.float32), np.float32([[200], [200], [-200]])
    assert HALF["saved"].finish(HALF["saved"].matmul(a, b)) == 60000
    assert np.isinf(HALF["strict"].matmul(a, b))
    terms = np.float32([[60000, 60000, -60000]])
    assert HALF["saved"].sum(terms, (1,), False) == 60000
    assert np.isinf(HALF["strict"].sum(terms, (1,), False))
