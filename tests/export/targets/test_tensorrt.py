"""TensorRT: strong types, Q/DQ as its rules ask, the real builder's verdict, and half precision's islands."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, TensorProto, numpy_helper

from deploy.engine.build import RECIPE_FILE, read_recipe
from deploy.errors import GateError
from export import rtx, trace
from export.graphrules import check_graph, network_parts
from export.nodewise import Nodewise
from export.targets import BuildContext
from export.targets import tensorrt as target
from export.typed import RANGES_FILE, RECIPE
from pipeline.models import attention
from pipeline.models.labelmap import LabelMapper

pytestmark = pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))
SIZE = (75, 93)
Artifact = Callable[..., dict[str, Path]]


def frames(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (1, *SIZE, 3), np.uint8) for _ in range(count)]


@pytest.fixture(scope="module")
def net(built) -> LabelMapper:
    return LabelMapper(built.model, SIZE, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.fixture(scope="module")
def artifact(net: LabelMapper, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """artifact(precision) -> its files, built (and so taken by TensorRT-RTX) once; ranges from noise."""
    made: dict[str, dict[str, Path]] = {}

    def build(precision: str) -> dict[str, Path]:
        if precision not in made:
            noise = list(frames(4))
            folder = tmp_path_factory.mktemp(precision)
            made[precision] = target.build(
                net, BuildContext(precision, folder, calibration=noise, examples=lambda: iter(noise))
            )
        return made[precision]

    return build


def load(files: dict[str, Path]) -> ModelProto:
    return onnx.load(files[target.MODEL_FILE])


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_graph_keeps_the_rules_and_its_sizes_are_fixed(
    artifact: Artifact, net: LabelMapper, precision: str
) -> None:
    files = artifact(precision)
    check_graph(target.count_ops(files), target.RULES, network_parts(net), precision)
    graph = trace.infer(load(files)).graph
    assert None not in [
        trace.static_shape(value) for value in (*graph.input, *graph.value_info, *graph.output)
    ]
    assert {node.op_type for node in graph.node}.isdisjoint({"Resize", "Upsample", "Clip", "Shape"})


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_bytes_are_floats_first_and_labels_bytes_last(artifact: Artifact, precision: str) -> None:
    graph = trace.infer(load(artifact(precision))).graph
    assert graph.input[0].type.tensor_type.elem_type == TensorProto.UINT8
    (first,) = [node for node in graph.node if "image" in node.input]
    (last,) = [node for node in graph.node if "labels" in node.output]
    assert first.op_type == last.op_type == "Cast"
    inner = {value.type.tensor_type.elem_type for value in graph.value_info}
    assert TensorProto.UINT8 not in inner


def test_fp16_has_no_float32_tensor_but_where_it_is_kept(artifact: Artifact) -> None:
    files = artifact("fp16")
    kept = json.loads(files[RANGES_FILE].read_text())["kept_in_float32"]
    graph = trace.infer(load(files)).graph
    floats = [v.name for v in graph.value_info if v.type.tensor_type.elem_type == TensorProto.FLOAT]
    makers = {name: node.name for node in graph.node for name in node.output}
    assert {makers[name] for name in floats} <= {*kept, *(f"cast_to_{name}" for name in floats)}
    assert all(tensor.data_type != TensorProto.FLOAT for tensor in graph.initializer) or kept


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_numbers_are_the_networks(artifact: Artifact, net: LabelMapper, precision: str) -> None:
    (frame,) = frames(1)
    with torch.inference_mode():
        expected = net(torch.from_numpy(frame)).numpy()
    found = Nodewise(load(artifact(precision))).run({"image": frame})["labels"]
    assert found.dtype == np.uint8 and found.shape == expected.shape
    assert np.mean(found == expected) > (0.9995 if precision == "fp32" else 0.98)  # untrained: near ties


def test_int8_is_symmetric_explicit_and_around_dense_convolutions_only(artifact: Artifact) -> None:
    graph = load(artifact("int8")).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    quantisers = [node for node in graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    for node in quantisers:
        assert constants[node.input[1]].dtype == np.float16
        zero = constants[node.input[2]]
        assert zero.dtype == np.int8 and not zero.any()
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    groups = [next((a.i for a in node.attribute if a.name == "group"), 1) for node in convolutions]
    fed = [makers[node.input[0]].op_type == "DequantizeLinear" for node in convolutions]
    assert fed == [group == 1 and index > 0 for index, group in enumerate(groups)]
    assert Counter(fed) == {True: 36, False: 21}
    readers = {name: node.op_type for node in graph.node for name in node.input}
    outs = {readers[node.output[0]] for node in quantisers if node.op_type == "DequantizeLinear"}
    assert outs == {"Conv"}


def test_int8_weights_with_their_scales_take_at_most_0_30_of_their_fp32_bytes(artifact: Artifact) -> None:
    graph = load(artifact("int8")).graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    rounded = [
        makers[node.input[1]] for node in graph.node if node.op_type == "Conv" and node.input[1] in makers
    ]
    parts = [[constants[name] for name in node.input] for node in rounded]
    assert len(parts) == 36
    stored = sum(array.nbytes for each in parts for array in each)
    assert stored <= 0.30 * sum(4 * weights.size for weights, *_ in parts)


def test_same_input_gives_the_same_bytes(artifact: Artifact, net: LabelMapper, tmp_path: Path) -> None:
    files = artifact("fp16")
    again = target.build(net, BuildContext("fp16", tmp_path, examples=lambda: iter(frames(4))))
    for name, path in files.items():
        assert again[name].read_bytes() == path.read_bytes(), name


def test_recipe_is_the_devices(artifact: Artifact) -> None:
    assert read_recipe(artifact("fp16")[RECIPE_FILE]) == RECIPE
    assert "--stronglyTyped" in RECIPE.command and RECIPE.network == target.MODEL_FILE


def test_builder_refuses_what_tensorrt_refuses(built, net: LabelMapper, tmp_path: Path) -> None:
    """The plain ONNX file joins bands of uint8, which TensorRT does not have inside a network."""
    plain = trace.to_onnx(net, tmp_path / "plain.onnx")
    with pytest.raises(GateError, match="UINT8"):
        rtx.prove(plain, RECIPE)


def test_builder_refuses_zero_points(artifact: Artifact, tmp_path: Path) -> None:
    model = load(artifact("int8"))
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.INT8 and tensor.name.endswith("zero_point"):
            shifted = numpy_helper.to_array(tensor) + np.int8(3)
            tensor.CopyFrom(numpy_helper.from_array(shifted.astype(np.int8), tensor.name))
    with pytest.raises(GateError):
        rtx.prove(trace.write(model, tmp_path / "shifted.onnx"), RECIPE)


@pytest.mark.slow
def test_naive_attention_overflows_in_half_and_gets_its_island(
    built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over all tokens as the paper writes them: past 65504, they must stay float32."""

    def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scale = 2.0**9  # a trained network's spread, which an untrained one lacks
        q, k, v = q.relu() * scale, k.relu() * scale, v * scale
        state = torch.cat([v @ k.mT, k.sum(-1).unsqueeze(-2)], dim=-2)
        out = state @ q
        return out[..., :-1, :] / out[..., -1:, :].clamp(min=1e-6)

    monkeypatch.setitem(attention.CORES, "linear", naive)
    net = LabelMapper(built.model, SIZE, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    (frame,) = frames(1)
    with torch.inference_mode():
        expected = net(torch.from_numpy(frame)).numpy()
    examples = lambda: iter(frames(2))  # noqa: E731
    files = target.build(net, BuildContext("fp16", tmp_path, examples=examples))
    kept = json.loads(files[RANGES_FILE].read_text())["kept_in_float32"]
    assert any("MatMul" in reason for reason in kept.values())
    assert np.mean(Nodewise(load(files)).run({"image": frame})["labels"] == expected) > 0.95
    bare = tmp_path / "bare"
    bare.mkdir()
    files = target.build(net, BuildContext("fp16", bare))  # nothing measured: nothing kept
    finite = []
    Nodewise(load(files)).run({"image": frame}, lambda _, name, x: finite.append(bool(np.isfinite(x).all())))
    assert not all(finite)
