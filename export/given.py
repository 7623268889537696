"""Somebody else's segmentation network, as an ONNX file: read, checked, its sizes fixed, its output named.

It takes the place of a checkpoint: the file is the reference (run by ONNX Runtime), and what a target makes
of it is compared with it. One input, RGB: floats (planes or channels last) normalised by --mean and --std, or
bytes `[B, H, W, 3]`. The first output counts: logits `[B, C, h, w]` at any stride, or a label map. Refuses to
know targets, and what is inside the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, ValueInfoProto

from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.labels import Pair, read_dataset, read_description
from deploy.manifest import Preprocess, TensorSpec
from deploy.postprocess import output_to_labels
from deploy.preprocess import prepare_input
from deploy.progress import track
from export.parity import Answer
from export.pictures import Pictures
from export.source import Source
from export.trace import sides, strip
from pipeline.models.checkpoints import CheckpointMeta

_DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.UINT8: "uint8",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
}
Size = tuple[int, int]


@dataclass(frozen=True)
class GivenNetwork:
    """A network that comes as ONNX. `final`: how its logits are enlarged, bilinear or bicubic.

    `input_spec` and `output_spec` describe one frame a call.
    """

    model: ModelProto
    size: Size
    input_spec: TensorSpec
    output_spec: TensorSpec
    final: str

    @property
    def input(self) -> str:
        """As in `LabelMapper`: uint8 or float."""
        return "uint8" if self.input_spec.dtype == "uint8" else "float"

    @property
    def output(self) -> str:
        """As in `LabelMapper`: labels or logits."""
        return "labels" if self.output_spec.layout == "NHW" else "logits"


def read_given(
    file: Path, labels: Path, size: Size | None, mean: tuple[float, ...], std: tuple[float, ...], final: str
) -> tuple[Source, GivenNetwork]:
    """The file with its description.

    Args:
        labels: dataset.toml by whatever name, or its folder: names and colours of the classes.
        size: (H, W), where the file leaves it open. mean, std: of float inputs, RGB, in 0..1 units.

    Raises:
        InputError: no such file, not ONNX, or a network this module cannot describe (it says why).
    """
    info = read_dataset(labels) if labels.is_dir() else read_description(labels)
    model = _load(file)
    spec = _input(model, size, file)
    model = _fixed(model, spec, file)
    output = _output(model, len(info.classes), file)
    hw = spec.shape[1:3] if spec.layout == "NHWC" else spec.shape[2:]
    rule = Preprocess((hw[0], hw[1]), _triple(mean), _triple(std), in_graph=spec.dtype == "uint8")
    meta = CheckpointMeta({"variant": file.stem, "attention": "given", "classes": len(info.classes)})
    source = Source(file, sha256_file(file), file.stem, meta, info, rule)
    return source, GivenNetwork(model, rule.size, spec, output, final)


def ask_given(net: GivenNetwork, rule: Preprocess, pictures: Pictures) -> dict[str, Answer]:
    """The given network's own answer to every picture, by stem, by ONNX Runtime without its optimisations."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    session = InferenceSession(net.model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def ask(pair: Pair) -> Answer:
        frame = prepare_input(pictures.read(pair), rule, net.input_spec)
        output = session.run([net.output_spec.name], {net.input_spec.name: frame})[0]
        labels = output_to_labels(output, net.output_spec, net.size, net.final)
        return Answer(output if net.output == "logits" else np.zeros((1, 2, 1, 1), np.float32), labels)

    return {pair.stem: ask(pair) for pair in track(pictures.pairs, "the network itself")}


def _load(file: Path) -> ModelProto:
    try:
        model = onnx.load(file)
        onnx.checker.check_model(model)
    except FileNotFoundError as error:
        raise InputError(f"no file {file}") from error
    except Exception as error:  # protobuf and onnx have no common base
        raise InputError(f"{file} is not a valid ONNX model", got=error) from error
    if len(model.graph.input) != 1:
        names = [value.name for value in model.graph.input]
        raise InputError(f"{file}: inputs", got=names, expected="one, the image")
    del model.graph.output[1:]
    strip(model)
    return model


def _input(model: ModelProto, size: Size | None, file: Path) -> TensorSpec:
    """The image, with its size fixed."""
    value = model.graph.input[0]
    shape, dtype = sides(value) or (), _DTYPES.get(value.type.tensor_type.elem_type)
    expected = "floats [B, 3, H, W] or [B, H, W, 3], or bytes [B, H, W, 3]"
    if len(shape) != 4 or dtype not in ("float32", "uint8") or 3 not in (shape[1], shape[3]):
        raise InputError(f"{file}: input {value.name}", got=f"{dtype} {shape}", expected=expected)
    last = shape[3] == 3
    if dtype == "uint8" and not last:
        raise InputError(f"{file}: input {value.name}", got=f"{dtype} {shape}", expected=expected)
    found = shape[1:3] if last else shape[2:4]
    if not all(found) and size is None:
        raise InputError(f"{file} leaves its input size open", got=found, fix="say it: --size HxW")
    if size is not None and any(side and side != asked for side, asked in zip(found, size, strict=True)):
        raise InputError("--size", got=f"{size[0]}x{size[1]}", expected=f"{file} was built for {found}")
    height, width = size or (found[0], found[1])
    fixed = (1, height, width, 3) if last else (1, 3, height, width)
    return TensorSpec(value.name, dtype, fixed, "NHWC" if last else "NCHW")


def _fixed(model: ModelProto, spec: TensorSpec, file: Path) -> ModelProto:
    """The model at that input size, every other size inferred anew."""
    del model.graph.value_info[:]
    for dim, side in zip(model.graph.input[0].type.tensor_type.shape.dim, spec.shape, strict=True):
        dim.dim_value = side
    model.graph.output[0].type.tensor_type.ClearField("shape")
    try:
        return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise InputError(f"{file} does not fit {spec.shape}", got=error) from error


def _output(model: ModelProto, classes: int, file: Path) -> TensorSpec:
    """Logits or a label map of one frame."""
    value: ValueInfoProto = model.graph.output[0]
    shape, dtype = sides(value) or (), _DTYPES.get(value.type.tensor_type.elem_type)
    if dtype == "float32" and len(shape) == 4 and shape[1] == classes and all(shape):
        return TensorSpec(value.name, dtype, shape, "NCHW")
    if dtype in ("uint8", "int32", "int64") and len(shape) == 3 and all(shape):
        return TensorSpec(value.name, dtype, shape, "NHW")
    expected = (
        f"float logits [1, {classes}, h, w] of the {classes} classes, or an integer label map [1, H, W]"
    )
    raise InputError(f"{file}: output {value.name}", got=f"{dtype} {shape}", expected=expected)


def _triple(values: Any) -> tuple[float, float, float]:
    red, green, blue = map(float, values)
    return red, green, blue
