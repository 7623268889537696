"""The streaming histogram and the methods of cutting off, against the whole data at once."""

from __future__ import annotations

import numpy as np
import pytest

from deploy.errors import InputError
from export.clipping import LEVELS, METHODS, clip, clipped_share, squared_error
from export.histogram import BINS, Histogram

ARRAYS = [np.random.default_rng(seed).standard_normal(5000) * 3**seed - 1 for seed in range(4)]


def _seen(arrays: list[np.ndarray]) -> Histogram:
    found = Histogram()
    for array in arrays:
        found.add(array.astype(np.float32))
    return found


def test_it_widens_and_loses_nothing() -> None:
    found, values = _seen(ARRAYS), np.concatenate(ARRAYS).astype(np.float32)
    assert found.counts.sum() == values.size and found.images == 4
    assert (found.low, found.high) == (values.min(), values.max())
    assert found.mean_high == pytest.approx(np.mean([a.astype(np.float32).max() for a in ARRAYS]))
    assert found.limit / 2 <= np.abs(values).max() < found.limit
    at_once = np.histogram(values, BINS, (-found.limit, found.limit))[0]
    assert np.abs(at_once - found.counts).sum() <= 0.002 * values.size, "bins' edges round differently"


def test_the_order_does_not_matter() -> None:
    there, back = _seen(ARRAYS), _seen(ARRAYS[::-1])
    assert there.limit == back.limit
    assert np.abs(there.counts - back.counts).sum() <= 0.002 * there.counts.sum(), "values at bins' edges"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="the output of stem"):
        Histogram().add(np.array([1.0, value], np.float32), "the output of stem")


def test_a_tensor_of_zeros_has_an_empty_range() -> None:
    found = _seen([np.zeros(10)])
    assert all(clip(found, method) == pytest.approx((0, 0), abs=1e-5) for method in METHODS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("symmetric", [False, True])
def test_every_method_keeps_zero_and_stays_within_the_extremes(method: str, symmetric: bool) -> None:
    found = _seen([np.maximum(array, -0.375) for array in ARRAYS])
    low, high = clip(found, method, symmetric)
    reach = max(-found.low, found.high)
    assert -reach <= low <= 0 <= high <= reach
    assert low == -high if symmetric else low >= found.low


def test_a_lone_outlier_is_cut_off_by_share_and_by_entropy() -> None:
    found = _seen([np.concatenate([np.random.default_rng(0).standard_normal(200_000), [90.0]])])
    assert clip(found, "min-max")[1] == pytest.approx(90)
    for method in ("percentile", "entropy"):
        low, high = clip(found, method)
        assert 3 < high < 10 and -10 < low < -2.5, method
        assert 0 < clipped_share(found, low, high) < 1e-2


def test_the_squared_error_is_that_of_rounding() -> None:
    values = np.random.default_rng(1).standard_normal(300_000).astype(np.float32)
    found, (low, high) = _seen([values]), (-2.0, 2.5)
    step = (high - low) / (LEVELS - 1)
    rounded = np.clip(np.round((values - low) / step), 0, LEVELS - 1) * step + low
    assert squared_error(found, low, high) == pytest.approx(np.mean((rounded - values) ** 2), rel=0.02)


def test_mse_is_the_least_of_all_methods() -> None:
    found = _seen(ARRAYS)
    errors = {method: squared_error(found, *clip(found, method)) for method in METHODS}
    assert errors["mse"] <= min(errors.values()) * 1.05
