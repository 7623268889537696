"""ONNX Runtime's own file format, for its mobile builds: no ONNX parser there, and graph fusions done in
advance.

The graph is that of target onnxruntime after the runtime's fusions that depend on no processor; the same
runtime executes it, on phones its mobile package. Refuses to know how the graph is made.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from export.graphrules import GraphRules, Most
from export.targets import BuildContext, onnxruntime

if TYPE_CHECKING:
    from deploy.manifest import Manifest
    from pipeline.models.labelmap import LabelMapper

NAME = "ort"
BUDGET = onnxruntime.BUDGET
PRECISIONS = tuple(BUDGET)
EXTENSION = ".ort"
RUNTIME = "onnxruntime"
MIN_VERSION = onnxruntime.MIN_VERSION
TOOLS = onnxruntime.TOOLS
PROOF = "executed"
SUPPORT = onnxruntime.SUPPORT
RULES = GraphRules(
    allowed="Abs Add ArgMax Cast Clip Concat Conv DequantizeLinear Div FusedConv FusedMatMul Gelu "
    "HardSigmoid MatMul Mul QLinearAdd QLinearConcat QLinearConv QuantizeLinear Reciprocal "
    "ReduceMax ReduceSum Relu Reshape Slice Softmax Split Sqrt Sub Transpose Unsqueeze",
    most={"Transpose": Most(2, linear=0, softmax=5)},
)
MODEL_FILE = "model.ort"


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return onnxruntime.requires()


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Write model.ort, converted from the ONNX graph."""
    from export.trace import to_onnx

    return from_onnx(to_onnx(net, context.folder / "graph.onnx", context.shape), context)


def from_onnx(graph: Path, context: BuildContext) -> dict[str, Path]:
    """The graph, in int8 if asked, converted."""
    files = onnxruntime.from_onnx(graph, context)
    return {MODEL_FILE: _convert(files[onnxruntime.MODEL_FILE], context.folder / MODEL_FILE)}


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """Operator types after fusion."""
    from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs.InferenceSession import InferenceSession

    content = bytearray(files[MODEL_FILE].read_bytes())
    graph = InferenceSession.GetRootAsInferenceSession(content, 0).Model().Graph()
    return Counter(graph.Nodes(index).OpType().decode() for index in range(graph.NodesLength()))


def adapt_manifest(manifest: Manifest) -> Manifest:
    """Measurements name this target, and not its runtime, which has another one."""
    target = manifest.target
    named = dataclasses.replace(target, options={**target.options, "target": NAME})
    return dataclasses.replace(manifest, target=named)


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The .onnx file that it was converted from, cut at its logits and converted."""
    original = files[MODEL_FILE].with_name(onnxruntime.MODEL_FILE)
    cut = onnxruntime.expose_logits({onnxruntime.MODEL_FILE: original}, net, folder)
    return {MODEL_FILE: _convert(cut[onnxruntime.MODEL_FILE], folder / MODEL_FILE)}


def _convert(source: Path, out: Path) -> Path:
    """ONNX -> ORT format, with the fusions that hold on every processor."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.add_session_config_entry("session.save_model_format", "ORT")
    options.optimized_model_filepath = str(out)
    options.log_severity_level = 3  # no warning that the file is bound to this machine: EXTENDED is not
    InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return out
