"""Any number of frames through a network for a fixed number: what the network sees, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deploy.batches import Batched, group_size
from deploy.bundle import Target


class Doubling:
    """Notes the frames of each call."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def run(self, array: np.ndarray) -> np.ndarray:
        self.calls.append(array.ravel().tolist())
        return 2 * array


@pytest.mark.parametrize(
    ("frames", "calls"),
    [(1, [[0, 0, 0]]), (3, [[0, 1, 2]]), (4, [[0, 1, 2], [3, 3, 3]]), (6, [[0, 1, 2], [3, 4, 5]])],
)
def test_groups_are_full_and_only_real_frames_come_back(frames: int, calls: list[list[int]]) -> None:
    session = Doubling()
    output = Batched(session, 3).run(np.arange(frames)[:, None])
    assert session.calls == calls
    np.testing.assert_array_equal(output, 2 * np.arange(frames)[:, None])


def test_group_size_is_the_artifacts(make_bundle: Any) -> None:
    assert group_size(make_bundle().manifest) == 1
    assert group_size(make_bundle(target=Target("onnxruntime", "fp32", {"dynamic": True})).manifest) > 1
