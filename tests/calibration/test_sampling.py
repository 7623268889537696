"""Which images are chosen: seeded, and no class that occurs is left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.sampling import choose
from deploy.errors import InputError


def rare(images: int = 400, classes: int = 12) -> np.ndarray:
    """Class c occurs in about one of 2^c images, the rarest in a single one."""
    rng = np.random.default_rng(0)
    presence = rng.random((images, classes)) < 0.5 ** np.arange(classes)
    presence[:, -1] = False
    presence[np.arange(classes) * (images // classes), np.arange(classes)] = True
    return presence


@pytest.mark.parametrize("seed", range(5))
def test_every_class_is_shown_the_rarest_too(seed: int) -> None:
    presence = rare()
    chosen = choose(presence, 32, seed)
    assert len(set(chosen)) == 32 and chosen == sorted(chosen)
    assert presence[chosen].any(0).all()
    wanted = np.minimum(presence.sum(0), 32 // 24)
    assert (presence[chosen].sum(0) >= wanted).all()


def test_plain_random_draws_would_miss_it() -> None:
    """The twin: it shows that the test above can fail."""
    presence = rare()
    drawn = [np.random.default_rng(seed).permutation(400)[:32] for seed in range(5)]
    assert not all(presence[indices].any(0).all() for indices in drawn)


def test_same_seed_same_images_other_seed_others() -> None:
    presence = rare()
    assert choose(presence, 64, 1) == choose(presence, 64, 1)
    assert choose(presence, 64, 1) != choose(presence, 64, 2)


def test_a_class_that_never_occurs_costs_nothing() -> None:
    presence = rare()
    presence[:, 3] = False
    assert len(choose(presence, 32, 0)) == 32


def test_all_images_may_be_asked_for_but_not_more() -> None:
    assert choose(rare(40), 40, 0) == list(range(40))
    with pytest.raises(InputError, match="at most 40"):
        choose(rare(40), 41, 0)


def test_more_classes_than_places_are_refused_not_dropped() -> None:
    with pytest.raises(InputError, match="raise --count"):
        choose(np.eye(64, dtype=bool), 32, 0)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(0, 1 << 30), st.data())
def test_whatever_the_labels(images: int, classes: int, seed: int, data: st.DataObject) -> None:
    presence = np.random.default_rng(seed).random((images, classes)) < data.draw(st.floats(0, 1))
    count = data.draw(st.integers(1, images))
    try:
        chosen = choose(presence, count, seed)
    except InputError:
        assert count < classes, "one image a class is always enough"
        return
    assert len(set(chosen)) == count
    assert (presence[chosen].any(0) == presence.any(0)).all()
