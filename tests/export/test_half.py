"""Half precision for ONNX graphs: types, islands, what is refused; node by node nothing is hidden."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from deploy.errors import GateError
from export.half import to_half
from export.nodewise import Nodewise
from export.ranges import leave_half, measure
from export.trace import infer

SHAPE = (1, 4, 6)


def graph(*nodes: tuple[str, Sequence[str], str], **constants: np.ndarray) -> ModelProto:
    """A float32 model from `x` to the last node's output; each node is (type, inputs, output)."""
    made = [helper.make_node(kind, list(given), [out], name=out) for kind, given, out in nodes]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    result = helper.make_tensor_value_info(nodes[-1][2], TensorProto.FLOAT, SHAPE)
    tensors = [numpy_helper.from_array(np.asarray(v, np.float32), name) for name, v in constants.items()]
    model = helper.make_model(
        helper.make_graph(made, "g", [given], [result], tensors), opset_imports=[helper.make_opsetid("", 20)]
    )
    model.ir_version = 9
    return model


def types(model: ModelProto) -> dict[str, int]:
    values = infer(model).graph
    return {value.name: value.type.tensor_type.elem_type for value in (*values.value_info, *values.output)}


X = np.random.default_rng(0).normal(0, 1, SHAPE).astype(np.float32)


def detour(large: float, small: float) -> ModelProto:
    """relu(x * large * small), by way of a large tensor `big`."""
    nodes = ("Mul", ["x", "large"], "big"), ("Mul", ["big", "small"], "back"), ("Relu", ["back"], "y")
    return graph(*nodes, large=large, small=small)


def test_tensors_are_half_and_the_ends_keep_their_types() -> None:
    model = to_half(graph(("Mul", ["x", "two"], "double"), ("Relu", ["double"], "y"), two=2.0))
    found = types(model)
    assert found["double"] == TensorProto.FLOAT16 and found["y"] == TensorProto.FLOAT
    assert {t.name: t.data_type for t in model.graph.initializer} == {"two_half": TensorProto.FLOAT16}
    assert [node.op_type for node in model.graph.node] == ["Cast", "Mul", "Relu", "Cast"]
    result = Nodewise(model).run({"x": X})["y"]
    expected = np.maximum(X.astype(np.float16) * np.float16(2), 0).astype(np.float32)
    np.testing.assert_array_equal(result, expected)


def test_kept_nodes_stay_float_between_casts() -> None:
    model = to_half(detour(6e4, 1e-5), keep={"big", "back"})
    found = types(model)
    assert found["big"] == found["back"] == TensorProto.FLOAT
    assert [node.op_type for node in model.graph.node] == ["Mul", "Mul", "Cast", "Relu", "Cast"]
    result = Nodewise(model).run({"x": X})["y"]
    np.testing.assert_allclose(result, np.maximum(X * 0.6, 0), rtol=1e-3, atol=1e-4)


def test_what_overflows_is_found_and_kept_and_then_comes_out_right() -> None:
    model = detour(6e4, 1e-3)
    ranges = measure(model, [X, 2 * X])
    assert ranges["big"].largest == pytest.approx(2 * np.abs(X).max() * 6e4, rel=1e-6)
    assert 0 < ranges["big"].overflows < 1 and ranges["back"].overflows == 0
    keep = leave_half(model, ranges)
    assert set(keep) == {"big", "back"} and "big reaches" in keep["back"]
    broken = Nodewise(to_half(model)).run({"x": 2 * X})["y"]
    assert np.isinf(broken).any()
    sound = Nodewise(to_half(model, keep)).run({"x": 2 * X})["y"]
    np.testing.assert_allclose(sound, np.maximum(2 * X * 60, 0), rtol=1e-3, atol=0.05)


def test_onnxruntime_as_a_whole_hides_the_overflow_that_node_by_node_shows() -> None:
    half = to_half(detour(6e4, 1e-3))
    (whole,) = onnxruntime.InferenceSession(half.SerializeToString()).run(None, {"x": 2 * X})
    single = Nodewise(half).run({"x": 2 * X})["y"]
    assert np.isinf(single).any()
    if np.isinf(whole).any():
        pytest.fail("onnxruntime rounds now: export/nodewise.py may not be needed any more")


def test_a_tiny_divisor_is_kept_in_float() -> None:
    nodes = ("Abs", ["x"], "size"), ("Mul", ["size", "tiny"], "below"), ("Div", ["x", "below"], "y")
    model = graph(*nodes, tiny=1e-5)
    keep = leave_half(model, measure(model, [X]))
    assert "divides by" in keep["y"]


def test_softly_vanishing_values_keep_nothing() -> None:
    model = graph(("Mul", ["x", "tiny"], "below"), ("Add", ["below", "x"], "y"), tiny=1e-9)
    ranges = measure(model, [X])
    assert ranges["below"].vanishes == 1 and not leave_half(model, ranges)


@pytest.mark.parametrize("value", [1e6, 1e-9])
def test_a_constant_that_half_cannot_hold_is_an_error_unless_its_node_is_kept(value: float) -> None:
    model = graph(("Mul", ["x", "factor"], "z"), ("Relu", ["z"], "y"), factor=value)
    with pytest.raises(GateError, match="Mul z: constant factor in half precision"):
        to_half(model)
    assert types(to_half(model, keep={"z"}))["z"] == TensorProto.FLOAT


def test_a_constant_shared_by_both_kinds_exists_twice() -> None:
    model = to_half(graph(("Mul", ["x", "c"], "a"), ("Mul", ["a", "c"], "y"), c=1.5), keep={"a"})
    assert {t.name: t.data_type for t in model.graph.initializer} == {
        "c": TensorProto.FLOAT,
        "c_half": TensorProto.FLOAT16,
    }


def test_the_original_is_untouched() -> None:
    model = detour(6e4, 1e-5)
    before = model.SerializeToString(deterministic=True)
    to_half(model)
    assert model.SerializeToString(deterministic=True) == before


def test_node_by_node_is_the_whole_graph_in_float32(built) -> None:
    path = built.bundle.model_file(".onnx")
    frame = np.random.default_rng(0).integers(0, 256, (1, 75, 93, 3), np.uint8)
    (expected,) = onnxruntime.InferenceSession(str(path)).run(None, {"image": frame})
    seen: list[str] = []

    def watch(node: NodeProto, name: str, value: np.ndarray) -> None:
        seen.append(name)

    found = Nodewise(onnx.load(path)).run({"image": frame}, watch)["labels"]
    assert np.mean(found == expected) > 0.9995
    assert len(seen) == len({*seen}) >= len(onnx.load(path).graph.node)
