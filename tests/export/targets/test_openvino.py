"""OpenVINO: which operators int8 touches, the graph's ends, and what the runtime refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from deploy import runtimes
from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.manifest import Preprocess, TensorSpec
from deploy.preprocess import prepare_input, read_image
from export.precision_plan import PrecisionPlan
from export.source import read_source
from export.targets import BuildContext
from export.targets import openvino as target
from export.trace import example_input
from pipeline.models import attention
from pipeline.models.checkpoints import load_checkpoint
from pipeline.models.labelmap import LabelMapper
from tests.export.naive import naive_attention

pytestmark = pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))


def built_int8(built, folder: Path, plan: PrecisionPlan | None = None):
    """The untrained network in int8, ranges from noise."""
    import openvino

    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (1, 75, 93, 3), np.uint8) for _ in range(4)]
    net = LabelMapper(built.model, (75, 93), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    context = BuildContext("int8", folder, calibration=frames, plan=plan)
    return openvino.Core().read_model(target.build(net, context)[target.MODEL_FILE])


@pytest.fixture(scope="module")
def int8(built, tmp_path_factory: pytest.TempPathFactory):
    return built_int8(built, tmp_path_factory.mktemp("int8"))


def test_int8_is_around_convolutions_only(int8) -> None:
    fed: set[str] = set()
    for op in int8.get_ops():
        if op.get_type_name() == "FakeQuantize":
            readers = [reader.get_node().get_type_name() for reader in op.output(0).get_target_inputs()]
            fed.update(readers)
    assert fed <= {"Convolution", "GroupConvolution", "Reshape", "Multiply"} and "Convolution" in fed


def test_every_convolution_is_int8(int8) -> None:
    convolutions = [op for op in int8.get_ops() if op.get_type_name() in target.QUANTISED]
    quantised = [op for op in convolutions if op.input_value(0).get_node().get_type_name() == "FakeQuantize"]
    assert len(convolutions) == 57 and len(quantised) == len(convolutions)


def test_a_plans_blocks_alone_are_in_int8(built, tmp_path: Path) -> None:
    """With and without a bias: OpenVINO renames a convolution that has one."""
    block = "backbone.stages.2.op_list.1.context_module"
    plan = PrecisionPlan("openvino", "", "", (75, 93), "min-max", "fp32", {block: "int8"}, 0.5).sealed()
    ops = built_int8(built, tmp_path, plan).get_ops()
    every = [op for op in ops if op.get_type_name() in target.QUANTISED]
    rounded = [op for op in every if op.input_value(1).get_node().get_type_name() == "Multiply"]
    part = [
        m for name, m in built.model.named_modules() if name.startswith(block) and isinstance(m, nn.Conv2d)
    ]
    assert len(every) == 57 and len(rounded) == len(part) == 4


def test_a_manifest_of_another_network_is_refused(built, make_openvino: Bundle) -> None:
    for field, change in (("name", "other"), ("shape", (1, 75, 92, 3)), ("dtype", "float32")):
        spec = dataclasses.replace(make_openvino.manifest.inputs[0], **{field: change})
        manifest = dataclasses.replace(make_openvino.manifest, inputs=(spec,))
        with pytest.raises(InputError, match=r"not what bundle\.json says"):
            runtimes.open_session(dataclasses.replace(make_openvino, manifest=manifest), 1)


@pytest.fixture(scope="module")
def make_openvino(built, export_bundle) -> Bundle:
    """The untrained network's bundle."""
    return export_bundle("openvino", "fp32")


def test_a_damaged_file_is_one_line(make_openvino: Bundle, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "b"
    shutil.copytree(make_openvino.root, copy)
    (copy / "model.xml").write_text("<net/>")
    with pytest.raises(InputError, match="OpenVINO cannot load"):
        runtimes.open_session(dataclasses.replace(make_openvino, root=copy), 1)


def logits_in_half(model: Any, images: list[Path], rule: Preprocess) -> list[np.ndarray]:
    """What an OpenVINO model gives for images, in half arithmetic."""
    import openvino

    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f16"})
    assert compiled.get_property("INFERENCE_PRECISION_HINT") == openvino.Type.f16
    spec = TensorSpec("x", "float32", (1, 3, *rule.size), "NCHW")
    return [compiled(prepare_input(read_image(path), rule, spec))[0] for path in images]


@pytest.mark.slow
def test_half_arithmetic_gives_not_one_nan_but_for_the_naive_form(
    trained: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openvino

    capabilities = openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if "FP16" not in capabilities:
        pytest.skip(f"this processor computes nothing in half precision: {', '.join(capabilities)}")
    images = sorted((shared_data / "camvid" / "val" / "images").iterdir())[::25][:4]
    rule = read_source(str(trained), None).preprocess

    def convert() -> Any:
        net = LabelMapper(load_checkpoint(trained)[0], rule.size, rule.mean, rule.std, "float", "logits")
        return openvino.convert_model(torch.export.export(net, (example_input(net),)))

    for logits in logits_in_half(convert(), images, rule):
        assert np.isfinite(logits).all()
    monkeypatch.setitem(attention.CORES, "linear", naive_attention)
    assert all(np.isnan(logits).any() for logits in logits_in_half(convert(), images, rule))
