"""Training for int8 rounds where an exported int8 graph does; a ReLU is no operator there; helps hold."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from export.layers import blocks, convolutions, groups, layer_of
from export.precision_plan import HELPS, PrecisionPlan
from export.quantize import quantise_convolutions
from export.targets import BuildContext, Shape
from export.trace import infer, to_onnx
from pipeline.fakequant import Int8ConvLayer, round_as_int8
from pipeline.models.efficientvit import create_model
from pipeline.models.equalise import equalise
from pipeline.models.labelmap import LabelMapper

SIZE = (48, 64)
EARLY = (
    "backbone.input_stem.op_list.0",
    "backbone.input_stem.op_list.1.main.point_conv",
    "backbone.stages.0.op_list.0.main.inverted_conv",
)
X = np.random.default_rng(0).normal(0, 1, (1, 3, *SIZE)).astype(np.float32)


def int8_of(
    graph: Path, folder: Path, symmetric: bool = False, helps: tuple[str, ...] = ()
) -> onnx.ModelProto:
    """The graph with every dense convolution in int8, ranges from X."""
    dense = [layer for layer, node in convolutions(onnx.load(graph)).items() if groups(node) == 1]
    chosen = dict.fromkeys(blocks(dense), "int8")
    plan = PrecisionPlan("onnxruntime", "a", "b", SIZE, "min-max", "fp32", chosen, 0.5, helps)
    context = BuildContext("int8", folder, calibration=[X], plan=plan)
    return onnx.load(quantise_convolutions(graph, folder / "int8.onnx", context, symmetric))


def answer(model: onnx.ModelProto) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"image": X})[0]


@pytest.fixture(scope="module", params=["published", "relu"])
def exported(request, rule_weights, tmp_path_factory):
    """(model, its graph from floats to logits)."""
    model = rule_weights(create_model("b0", 5, activation=request.param))
    net = LabelMapper(model, SIZE, (0.0,) * 3, (1.0,) * 3, "float", "logits")
    return model, to_onnx(net, tmp_path_factory.mktemp("graph") / "graph.onnx", Shape("float", "logits"))


def behind(model: onnx.ModelProto, layers: list[str]) -> dict[str, np.ndarray]:
    """What the layers' rounded outputs are."""
    shown, users = infer(model), {name: node.output[0] for node in model.graph.node for name in node.input}
    tensors = {}
    for node in model.graph.node:
        layer = (
            layer_of(node.input[1].removesuffix("_DequantizeLinear_Output")) if node.op_type == "Conv" else ""
        )
        if layer in layers:
            tensors[layer] = users[users[node.output[0]]]  # Conv, QuantizeLinear, DequantizeLinear
    shown.graph.output.extend(value for value in shown.graph.value_info if value.name in tensors.values())
    options = onnxruntime.SessionOptions()  # the graph as it is written, without kernels for integers
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(shown.SerializeToString(), options)
    return dict(zip(tensors, session.run(list(tensors.values()), {"image": X}), strict=True))


def test_training_rounds_where_the_graph_does(exported, tmp_path: Path, monkeypatch) -> None:
    model, graph = exported
    twin = copy.deepcopy(model)
    round_as_int8(twin)
    rounding = [name for name, part in twin.named_modules() if isinstance(part, Int8ConvLayer)]
    dense = [layer for layer, node in convolutions(onnx.load(graph)).items() if groups(node) == 1]
    assert {f"{name}.conv" for name in rounding} == set(dense)
    with torch.no_grad(), monkeypatch.context() as patch:
        for kind in (
            "tensor",
            "channel",
        ):  # the ranges are to be those of the float network, as the graph's are
            patch.setattr(torch, f"fake_quantize_per_{kind}_affine", lambda x, *rest: x)
        twin.train()(torch.from_numpy(X))
    made: dict[str, np.ndarray] = {}
    for name in EARLY:
        twin.get_submodule(name).made.register_forward_hook(
            lambda part, given, out, name=name: made.update({name: out.numpy()})
        )
    with torch.no_grad():
        trained, plain = (net.eval()(torch.from_numpy(X)).numpy() for net in (twin, model))
    int8 = int8_of(graph, tmp_path)
    for layer, found in behind(int8, [f"{name}.conv" for name in EARLY]).items():
        wanted = made[layer.removesuffix(".conv")]
        step = (wanted.max() - wanted.min()) / 255
        # later, a value on the edge between two steps may fall either way, and the sums behind it with it
        assert (np.abs(found - wanted) < step / 2).mean() > 0.98, layer
    errors = [float(np.square(found - plain).mean() ** 0.5) for found in (answer(int8), trained)]
    assert 0.5 < errors[0] / errors[1] < 2


def test_a_relu_becomes_part_of_the_range(exported, tmp_path: Path) -> None:
    model, graph = exported
    kinds = [node.op_type for node in int8_of(graph, tmp_path).graph.node]
    before = [node.op_type for node in onnx.load(graph).graph.node]
    fused = 0 if model.activation == "hardswish" else 13  # stem, 11 expansions, the head's last layer
    assert before.count("Relu") - kinds.count("Relu") == fused
    symmetric = [node.op_type for node in int8_of(graph, tmp_path, symmetric=True).graph.node]
    assert symmetric.count("Relu") == before.count("Relu"), "TensorRT fuses them itself"


def test_helps_keep_the_network(exported, tmp_path: Path) -> None:
    model, graph = exported
    twin = copy.deepcopy(model)
    equalise(twin)
    net = LabelMapper(twin, SIZE, (0.0,) * 3, (1.0,) * 3, "float", "logits")
    equalised = to_onnx(net, tmp_path / "equalised.onnx", Shape("float", "logits"))
    plain = answer(onnx.load(graph))
    assert np.abs(answer(onnx.load(equalised)) - plain).max() < 1e-4 * np.abs(plain).max()
    for symmetric in (False, True):
        helped = answer(int8_of(equalised, tmp_path, symmetric, HELPS))
        assert 0 < np.square(helped - plain).mean() < 0.1 * plain.var()
