"""TensorRT for NVIDIA Jetson: a strongly typed ONNX file, and the recipe of the engine the device builds.

fp16: half-precision tensors; nodes whose values leave half precision on real images stay float32 between
Casts. int8: convolutions only, explicit symmetric Q/DQ, half precision elsewhere. Engines are bound to a
GPU and a version, so the Jetson builds its own at the first run (`deploy.runtimes.tensorrt`). Proven here
as far as a machine without a GPU can: parsed and built by a relative (`export/rtx.py`), numbers by
onnxruntime node by node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from deploy.bundle import Bundle
    from deploy.runtimes import RuntimeSession
    from pipeline.models.labelmap import LabelMapper

NAME = "tensorrt"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "compare with --target onnxruntime"),
    "fp16": Budget(0.995, None, 0.1, "see ranges.json in the bundle: which tensors leave half precision"),
    "int8": Budget(0.97, 1.0, 1.5, "collect more calibration images, or fp16"),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".onnx"
RUNTIME = "tensorrt"
MIN_VERSION = "10.3"  # of JetPack 6.1 and 6.2; no older one was tried
TOOLS = ("onnx", "onnxscript", "onnxruntime", "tensorrt-rtx-cu12-bindings", "tensorrt-rtx-cu12-libs")
PROOF = "built"
SUPPORT = Support(calibrated=("int8",), plans=True, ranges=True)
RULES = GraphRules(
    allowed="Abs Add ArgMax Cast Concat Conv DequantizeLinear Div Gelu HardSwish MatMul Max Mul "
    "QuantizeLinear Reciprocal ReduceMax ReduceSum Relu Reshape Slice Softmax Split Sqrt Sub Transpose "
    "Unsqueeze",
    most={"Transpose": Most(2, linear=1, softmax=5)},
)
MODEL_FILE = "model.onnx"


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages(
        "torch", "onnx", "onnxscript", "onnxruntime", "tensorrt_rtx_bindings", "tensorrt_rtx_libs"
    )


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Write model.onnx, engine.json (recipe), for fp16 and int8 ranges.json; TensorRT-RTX must build it."""
    from export import rtx, typed

    files = typed.write(net, context, MODEL_FILE)
    rtx.prove(files[MODEL_FILE], typed.RECIPE)
    return files


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The same graph ending at the head's logits."""
    from export.trace import cut_at_logits

    return {MODEL_FILE: cut_at_logits(files[MODEL_FILE], net, folder / MODEL_FILE)}


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """ONNX operator types."""
    import onnx

    return Counter(node.op_type for node in onnx.load(files[MODEL_FILE]).graph.node)


def open_proof(bundle: Bundle, threads: int | None) -> RuntimeSession:
    """onnxruntime, node by node: each tensor rounded to its declared type."""
    from export.nodewise import NodewiseSession

    return NodewiseSession(bundle, threads)
