"""OpenVINO: an IR (`model.xml`, `model.bin`) for Intel processors and graphics, and for Arm.

fp16 stores half-precision weights, and computes in half precision where the processor does. int8 quantises
convolutions only, with ranges from calibration images: the attention, quantised, loses points of mIoU and
gains no time. Refuses to know the processor; `deploy.runtimes.openvino` asks it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from pipeline.models.labelmap import LabelMapper

NAME = "openvino"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "compare with --target onnxruntime: both read the same graph"),
    "fp16": Budget(0.995, None, 5e-2, "fp32, or --final bilinear; see which tensors leave half precision"),
    "int8": Budget(0.97, 1.0, 1.0, "collect more calibration images, or fp16"),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".xml"
RUNTIME = "openvino"
MIN_VERSION = "2024.0"  # 2024.0.0 tried
TOOLS = ("onnx", "onnxscript", "openvino", "nncf")
PROOF = "executed"
SUPPORT = Support(batch=True, dynamic=True, calibrated=("int8",), plans=True, grouped=True)
RULES = GraphRules(
    allowed="Abs Add Clamp Concat Constant Convert Convolution Divide FakeQuantize Gelu GroupConvolution "
    "HSwish MatMul Multiply Parameter ReduceMax ReduceSum Relu Reshape Result Slice Softmax Split Sqrt "
    "Squeeze Subtract TopK Transpose Unsqueeze",
    most={"Transpose": Most(2, linear=0, softmax=4)},
)
CLASS_AXIS = "first"  # over the last axis its TopK took 0.4 of a B0's time
MODEL_FILE, WEIGHTS_FILE = "model.xml", "model.bin"
BIAS_APART = "/WithoutBiases"  # what the converter adds to the name of a convolution whose bias it splits off
QUANTISED = ("Convolution", "GroupConvolution")


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "onnx", "onnxscript", "openvino", "nncf")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Write the IR, converted from the ONNX graph."""
    from export.trace import to_onnx

    return from_onnx(to_onnx(net, context.folder / "graph.onnx", context.shape), context)


def from_onnx(graph: Path, context: BuildContext) -> dict[str, Path]:
    """The IR of an ONNX graph."""
    import openvino

    model = openvino.convert_model(graph)
    if context.precision == "int8":
        model = _quantise(model, context, _left_in_float(model, graph, context))
    return _save(model, context.folder, half=context.precision == "fp16")


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """Operator types of the IR's opsets."""
    import openvino

    return Counter(op.get_type_name() for op in openvino.Core().read_model(files[MODEL_FILE]).get_ops())


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The same graph ending at the head's logits."""
    import openvino

    model = openvino.Core().read_model(files[MODEL_FILE])
    shape = list(net.logits_shape)
    heads = [op for op in model.get_ordered_ops() if op.get_output_size() == 1 and _shape(op)[1:] == shape]
    logits = heads[-1].output(0)
    logits.set_names({"logits"})
    return _save(openvino.Model([logits], model.get_parameters()), folder, half=False)


def _shape(op: Any) -> list[int]:
    """Sizes of an operator's output, 0 where they are not fixed; empty for an unknown rank."""
    shape = op.output(0).get_partial_shape()
    return [side.get_length() if side.is_static else 0 for side in shape] if shape.rank.is_static else []


def _left_in_float(model: Any, graph: Path, context: BuildContext) -> list[str]:
    """OpenVINO's names of the convolutions that the plan, if there is one, does not put in int8."""
    import onnx

    from export.layers import convolutions

    if context.plan is None:
        return []
    nodes = convolutions(onnx.load(graph))
    left = {node.name for layer, node in nodes.items() if not context.plan.in_int8(layer)}
    names = [op.get_friendly_name() for op in model.get_ops() if op.get_type_name() in QUANTISED]
    found = [name for name in names if name.removesuffix(BIAS_APART) in left]
    assert len(found) == len(left), "every convolution has its node's name"
    return found


def _quantise(model: Any, context: BuildContext, left: list[str]) -> Any:
    """Convolutions in int8, everything else as it is."""
    import nncf

    assert context.calibration is not None, "int8 is listed as calibrated"
    kept = {op.get_type_name() for op in model.get_ops()} - {*QUANTISED, "Parameter", "Constant", "Result"}
    with _quiet():
        return nncf.quantize(
            model,
            nncf.Dataset(context.calibration),
            preset=nncf.QuantizationPreset.MIXED,
            subset_size=len(context.calibration),
            ignored_scope=nncf.IgnoredScope(names=left, types=sorted(kept), validate=False),
        )


def _save(model: Any, folder: Path, half: bool) -> dict[str, Path]:
    import openvino

    openvino.save_model(model, folder / MODEL_FILE, compress_to_fp16=half)
    return {name: folder / name for name in (MODEL_FILE, WEIGHTS_FILE)}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without NNCF naming every operator that it leaves alone."""
    logger = logging.getLogger("nncf")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
