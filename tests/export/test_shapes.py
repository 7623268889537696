"""Several frames a call, and any number of them: built, proven on distinct frames, run."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deploy.batches import group_size
from deploy.runtimes import open_session
from deploy.segmenter import Segmenter
from deploy.verify import replay_golden, shortfall
from export.targets import entries

BATCHED = ["onnxruntime", "openvino"]
OTHERS = [name for name, entry in entries().items() if entry.target and entry.target.SUPPORT.batch]


def frames(count: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    coarse = rng.integers(0, 256, (count, 5, 3, 3), np.uint8)
    return np.kron(coarse, np.ones((1, 15, 31, 1), np.uint8))


def check(bundle, expected: np.ndarray) -> None:
    """The golden holds, and five distinct frames give what one frame at a time gives."""
    assert shortfall(replay_golden(bundle, 1), bundle.manifest.golden) is None
    session = open_session(bundle, 1)
    found = session.run(frames(5))
    session.close()
    assert found.shape == expected.shape and np.mean(found == expected) >= 0.999
    with Segmenter(bundle, 1) as segmenter:
        assert np.mean(segmenter.segment(frames(1)[0]) == expected[0]) >= 0.999


@pytest.fixture(scope="module")
def expected(built) -> np.ndarray:
    session = open_session(built.bundle, 1)
    return np.concatenate([session.run(frame[None]) for frame in frames(5)])


@pytest.mark.parametrize(
    "name", [*BATCHED, *(pytest.param(n, marks=pytest.mark.slow) for n in OTHERS if n not in BATCHED)]
)
def test_a_batch_of_three(export_bundle, expected: np.ndarray, name: str) -> None:
    if reason := entries()[name].reason:
        pytest.skip(reason)
    bundle = export_bundle(name, "fp32", "--batch", "3")
    assert bundle.manifest.inputs[0].shape[0] == bundle.manifest.outputs[0].shape[0] == 3
    assert group_size(bundle.manifest) == 3
    check(bundle, expected)


@pytest.mark.parametrize("name", BATCHED)
def test_any_number_of_frames(export_bundle, expected: np.ndarray, name: str) -> None:
    if reason := entries()[name].reason:
        pytest.skip(reason)
    bundle = export_bundle(name, "fp32", "--dynamic")
    assert bundle.manifest.target.options["dynamic"] is True
    check(bundle, expected)


def test_only_the_batch_of_a_dynamic_graph_is_dynamic(export_bundle) -> None:
    graph = onnx.load(export_bundle("onnxruntime", "fp32", "--dynamic").model_file(".onnx")).graph
    for value in (*graph.input, *graph.output):
        batch, *rest = value.type.tensor_type.shape.dim
        assert batch.dim_param and all(side.dim_value for side in rest)


def test_batch_and_dynamic_exclude_each_other(built, export_cli, capsys) -> None:
    options = ("--target", "onnxruntime", "--dynamic", "--batch", "2")
    assert export_cli("build", "--checkpoint", built.checkpoint, *options) == 2
    assert "--dynamic and --batch | expected one of them" in capsys.readouterr().err
