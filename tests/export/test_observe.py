"""What convolutions see, and what a plan makes of it, on a small network of ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from export.calibration_table import CalibrationTable
from export.find_table import checkpoint_graph
from export.layers import block_of, convolutions, groups, multiplications
from export.observe import Observed, observe
from export.precision_plan import PrecisionPlan
from export.quantize import chosen_layers, quantise_convolutions
from export.source import read_source
from export.targets import BuildContext

LAYER = "backbone.stages.1.op_list.0.main.inverted_conv.conv"


@pytest.fixture(scope="module")
def graph(built, tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, object]:
    source = read_source(str(built.checkpoint), (48, 64))
    return checkpoint_graph(source, tmp_path_factory.mktemp("graph"))[0], source


@pytest.fixture(scope="module")
def frames() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (1, 48, 64, 3), np.uint8) for _ in range(3)]


@pytest.fixture(scope="module")
def seen(graph, frames) -> dict[str, Observed]:
    return observe(graph[0], frames)


def test_every_convolution_is_seen_as_onnxruntime_computes_it(graph, frames, seen) -> None:
    import onnxruntime

    model = graph[0]
    nodes = convolutions(model)
    assert list(seen) == list(nodes) and LAYER in seen
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    tensor = nodes[LAYER].output[0]
    shown.graph.output.extend(value for value in model.graph.value_info if value.name == tensor)
    session = onnxruntime.InferenceSession(shown.SerializeToString(), providers=["CPUExecutionProvider"])
    values = [session.run([tensor], {model.graph.input[0].name: frame})[0] for frame in frames]
    found = seen[LAYER].output
    assert found.counts.sum() == sum(map(np.size, values)) and found.images == 3
    assert found.high == pytest.approx(max(map(np.max, values)), rel=1e-5)
    assert found.mean_low == pytest.approx(np.mean([value.min() for value in values]), rel=1e-5)


def test_multiplications_are_those_of_the_summary(graph) -> None:
    model, source = graph
    assert sum(multiplications(model).values()) == pytest.approx(_macs_of_convolutions(source), rel=1e-6)


def _macs_of_convolutions(source) -> float:
    """Counted by torch's hooks on the eager model."""
    import torch

    from pipeline.models.checkpoints import load_checkpoint

    model, _ = load_checkpoint(source.path)
    total = 0.0

    def count(module, _, output) -> None:
        nonlocal total
        total += output[0, 0].numel() * module.weight.numel()

    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(count)
    with torch.no_grad():
        model(torch.zeros(1, 3, *source.preprocess.size))
    return total


def _plan(**changes) -> PrecisionPlan:
    plan = PrecisionPlan("onnxruntime", "", "", (48, 64), "mse", "fp32", {block_of(LAYER): "int8"}, 0.5)
    return replace(plan, **changes)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_plan_puts_its_blocks_in_int8_and_nothing_else(
    graph, seen, tmp_path: Path, symmetric: bool
) -> None:
    model = graph[0]
    plain = tmp_path / "plain.onnx"
    onnx.save(model, plain)
    table = CalibrationTable.of("", "", seen)
    context = BuildContext("int8", tmp_path, plan=_plan(), table=table)
    quantised = onnx.load(quantise_convolutions(plain, tmp_path / "int8.onnx", context, symmetric))
    makers = {name: node.op_type for node in quantised.graph.node for name in node.output}
    stored = {tensor.name: tensor.data_type for tensor in quantised.graph.initializer}
    in_int8 = [
        node.name
        for node in quantised.graph.node
        if node.op_type == "Conv"
        and makers.get(node.input[0]) == makers.get(node.input[1]) == "DequantizeLinear"
    ]
    expected = [
        node.name
        for layer, node in convolutions(model).items()
        if block_of(layer) == block_of(LAYER) and groups(node) == 1
    ]
    assert len(expected) == 2 and in_int8 == expected
    assert list(stored.values()).count(onnx.TensorProto.INT8) >= 2


def test_without_a_plan_the_first_and_the_grouped_ones_stay_in_float(graph) -> None:
    nodes = convolutions(graph[0])
    chosen = chosen_layers(graph[0], None)
    assert next(iter(nodes)) not in chosen and LAYER in chosen
    assert all(groups(node) == 1 for node in chosen.values())


def test_ranges_need_not_be_observed_twice(graph, seen, frames, tmp_path: Path) -> None:
    plain = tmp_path / "plain.onnx"
    onnx.save(graph[0], plain)
    by_table = BuildContext("int8", tmp_path, table=CalibrationTable.of("", "", seen))
    by_images = BuildContext("int8", tmp_path, calibration=frames)
    first = quantise_convolutions(plain, tmp_path / "a.onnx", by_table, symmetric=False).read_bytes()
    assert first == quantise_convolutions(plain, tmp_path / "b.onnx", by_images, symmetric=False).read_bytes()
