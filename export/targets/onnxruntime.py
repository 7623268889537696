"""ONNX Runtime: one .onnx file that runs on x86 and arm64 processors, from servers to a Raspberry Pi.

The label map, or the logits, are computed in the graph. Refuses to know execution providers: the file is
plain ONNX, and `deploy.runtimes.onnxruntime` chooses how to run it. int8 quantises convolutions only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from pipeline.models.labelmap import LabelMapper

NAME = "onnxruntime"
BUDGET = {
    "fp32": Budget(
        agreement=0.999,
        miou_drop=None,
        logits_error=1e-3,
        advice="the graph is not the checkpoint's: build with --force, and with --final bilinear to see "
        "whether the last upsampling is at fault",
    ),
    "int8": Budget(
        0.95, 1.0, 1.5, "collect more calibration images, or fp32: int8 is not faster on every processor"
    ),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".onnx"
RUNTIME = "onnxruntime"
MIN_VERSION = "1.20"  # tests/test_bare_device.py runs 1.20.1
TOOLS = ("onnx", "onnxscript", "onnxruntime")
PROOF = "executed"
SUPPORT = Support(batch=True, dynamic=True, calibrated=("int8",), packs=True, plans=True, ranges=True)
RULES = GraphRules(
    allowed="Abs Add ArgMax Cast Clip Concat Conv DequantizeLinear Div Gelu HardSwish MatMul Mul "
    "QuantizeLinear Reciprocal ReduceMax ReduceSum Relu Reshape Slice Softmax Split Sqrt Sub Transpose "
    "Unsqueeze",
    most={"Transpose": Most(2, linear=1, softmax=5)},
)
# Where domains share a base's weights, the runtime folds normalisation at load.
PACK_RULES = replace(RULES, allowed=f"{RULES.allowed} BatchNormalization")
MODEL_FILE = "model.onnx"
STEM_MULTIPLE = 16  # channels in a block of the AVX-512 kernels


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "onnx", "onnxscript", "onnxruntime")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Write model.onnx (opset 20, static size), or a part of a bundle with domains."""
    from export.trace import to_onnx
    from pipeline.models.widen import with_wide_stem

    wide = with_wide_stem(net, STEM_MULTIPLE) if context.precision == "fp32" else net
    graph = to_onnx(wide, context.folder / "graph.onnx", context.shape, fold=context.pack is None)
    if context.pack is None:
        return from_onnx(graph, context)
    from export.packs import split

    return split(graph, context.folder, context.pack)


def from_onnx(graph: Path, context: BuildContext) -> dict[str, Path]:
    """The graph itself, or with its convolutions in int8."""
    model = context.folder / MODEL_FILE
    if context.precision == "fp32":
        return {MODEL_FILE: graph.rename(model)}
    from export.quantize import quantise_convolutions

    return {MODEL_FILE: quantise_convolutions(graph, model, context, symmetric=False)}


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The same graph ending at the head's logits."""
    from export.trace import cut_at_logits

    return {MODEL_FILE: cut_at_logits(_graph(files), net, folder / MODEL_FILE)}


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """ONNX operator types."""
    import onnx

    return Counter(node.op_type for node in onnx.load(_graph(files), load_external_data=False).graph.node)


def _graph(files: Mapping[str, Path]) -> Path:
    return next(path for name, path in files.items() if name.endswith(".onnx"))
