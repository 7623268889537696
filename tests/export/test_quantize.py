"""INT8 for ONNX graphs: which convolutions, which ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from export.quantize import quantise_convolutions
from export.targets import BuildContext

SHAPE = (1, 8, 6, 10)


def frames(count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [(step + 1) * rng.normal(0, 4, SHAPE).astype(np.float32) for step in range(count)]


def network(path: Path) -> Path:
    """Four convolutions in a row (the second in groups), HardSwish behind each."""
    rng, nodes, weights, before = np.random.default_rng(1), [], [], "x"
    for index, groups in enumerate((1, 2, 1, 1)):
        weight = rng.normal(0, 0.5, (8, 8 // groups, 1, 1)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{index}"))
        conv = helper.make_node("Conv", [before, f"w{index}"], [f"c{index}"], name=f"conv{index}")
        conv.attribute.append(helper.make_attribute("group", groups))
        nodes += [conv, helper.make_node("HardSwish", [f"c{index}"], [f"a{index}"], name=f"act{index}")]
        before = f"a{index}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", before)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def quantised(folder: Path, symmetric: bool = False) -> ModelProto:
    plain = network(folder / "plain.onnx")
    context = BuildContext("int8", folder, calibration=list(frames()))
    return onnx.load(quantise_convolutions(plain, folder / "int8.onnx", context, symmetric))


def lowest(model: ModelProto, tensor: str) -> float:
    """The smallest value that the tensor's quantisation can hold."""
    constants = {part.name: numpy_helper.to_array(part) for part in model.graph.initializer}
    (node,) = [n for n in model.graph.node if n.op_type == "QuantizeLinear" and n.input[0] == tensor]
    scale, zero = (constants[name] for name in node.input[1:])
    return float((np.iinfo(zero.dtype).min - zero.astype(np.float64)) * scale)


def test_first_and_grouped_convolutions_stay_in_float(tmp_path: Path) -> None:
    model = quantised(tmp_path)
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    fed = [makers.get(node.input[0]) for node in model.graph.node if node.op_type == "Conv"]
    assert fed == [None, "HardSwish", "DequantizeLinear", "DequantizeLinear"]


def test_ranges_are_means_of_the_images_extremes(tmp_path: Path) -> None:
    plain = network(tmp_path / "p.onnx")
    graph = onnx.load(plain)
    graph.graph.output.append(helper.make_tensor_value_info("c2", TensorProto.FLOAT, SHAPE))
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    lows = [session.run(["c2"], {"x": frame})[0].min() for frame in frames()]
    assert lowest(quantised(tmp_path), "c2") == pytest.approx(np.mean(lows), rel=0.02)


def test_int8_computes_the_network(tmp_path: Path) -> None:
    quantised(tmp_path)
    frame = frames(1)[0]
    plain, int8 = (
        onnxruntime.InferenceSession(tmp_path / name).run(None, {"x": frame})[0]
        for name in ("plain.onnx", "int8.onnx")
    )
    assert 0 < np.abs(plain - int8).max() < 0.05 * np.abs(plain).max()


def test_symmetric_leaves_outputs_in_float(tmp_path: Path) -> None:
    model = quantised(tmp_path, symmetric=True)
    outputs = {node.output[0] for node in model.graph.node if node.op_type == "Conv"}
    assert outputs.isdisjoint(n.input[0] for n in model.graph.node if n.op_type == "QuantizeLinear")
