"""Bias correction: the means of an int8 network's channels become the float network's."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from export.bias_correction import correct_biases, spread
from export.layers import convolutions

SHAPE = (1, 4, 6, 10)


def network() -> ModelProto:
    """Two 1x1 convolutions, HardSwish between; the first has no bias."""
    rng = np.random.default_rng(1)
    constants = [
        numpy_helper.from_array(rng.normal(0, 0.5, shape).astype(np.float32), name)
        for name, shape in (("w0", (4, 4, 1, 1)), ("w1", (4, 4, 1, 1)), ("b1", (4,)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c0"], name="conv0"),
        helper.make_node("HardSwish", ["c0"], ["a0"], name="act0"),
        helper.make_node("Conv", ["a0", "w1", "b1"], ["c1"], name="conv1"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "c1")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def rounded(model: ModelProto) -> ModelProto:
    """A copy whose weights are multiples of 0.25: coarse on purpose."""
    copy = ModelProto.FromString(model.SerializeToString())
    for tensor in copy.graph.initializer:
        if tensor.name.startswith("w") and len(tensor.dims) == 4:
            coarse = np.round(numpy_helper.to_array(tensor) * 4) / 4
            tensor.CopyFrom(numpy_helper.from_array(coarse, tensor.name))
    return copy


def means(model: ModelProto, inputs: Iterable[np.ndarray]) -> np.ndarray:
    """`[2, 4]`, of both convolutions' channels."""
    shown = ModelProto.FromString(model.SerializeToString())
    shown.graph.output.append(helper.make_tensor_value_info("c0", TensorProto.FLOAT, SHAPE))
    session = onnxruntime.InferenceSession(shown.SerializeToString())
    return np.mean([[v.mean((0, 2, 3)) for v in session.run(["c0", "c1"], {"x": x})] for x in inputs], 0)


def test_means_become_those_of_the_float_network() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.normal(1, 2, SHAPE).astype(np.float32) for _ in range(3)]
    model, plain = network(), network()
    correct_biases(model, convolutions(model), rounded, inputs)
    before, after = (np.abs(means(rounded(each), inputs) - means(plain, inputs)) for each in (plain, model))
    assert before.max() > 0.1 and after.max() < 1e-5
    onnx.checker.check_model(model)


@pytest.mark.parametrize(("count", "kept"), [(0, []), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (7, [0, 2, 4, 6])])
def test_few_inputs_are_spread_over_all(count: int, kept: list[int]) -> None:
    assert [int(x) for x in spread(iter(np.arange(count)), 4)] == kept


def test_never_many_more_inputs_than_asked_for() -> None:
    for count in range(1, 200):
        kept = [int(x) for x in spread(iter(np.arange(count)), 4)]
        assert min(count, 3) <= len(kept) <= 4 and kept[0] == 0 and kept[-1] >= count // 2
        assert len(set(np.diff(kept).tolist())) <= 1
