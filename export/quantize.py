"""INT8 for ONNX graphs: QuantizeLinear and DequantizeLinear around convolutions, nothing else.

The attention's products span five orders of magnitude and stay in float: quantised, they cost 20 points of
mIoU. Weights are symmetric, one scale a channel. Without a plan the first convolution, whose channels differ
most, stays in float, and so do those in groups, a small part of the arithmetic; with one, the dense
convolutions of the blocks it names are in int8, with corrected biases if it says so. For TensorRT the outputs
stay in float, too, because its symmetric activations waste half of their numbers below zero. Refuses to know
where ranges are from and what executes the result.

A ReLU behind a convolution becomes part of its output's range, which begins at 0: no operator is left
(ONNX Runtime's `QDQRemovableActivation`). TensorRT fuses the two itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationMethod, QuantType
from onnxruntime.quantization.calibrate import TensorData, TensorsData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

from export.bias_correction import correct_biases, spread
from export.clipping import clip
from export.histogram import Histogram
from export.layers import convolutions, groups, int8_layers
from export.observe import Observed, observe
from export.precision_plan import BIAS_CORRECTION, PrecisionPlan
from export.targets import BuildContext, Frames
from export.trace import write

METHOD = "mean-max"  # where no plan says another
_TENSORRT = {
    "ActivationSymmetric": True,
    "OpTypesToExcludeOutputQuantization": ["Conv"],
}


def quantise_convolutions(source: Path, out: Path, context: BuildContext, symmetric: bool) -> Path:
    """Write `source` with convolutions in int8 to `out`; returns `out`.

    Args:
        context: with calibration images or a table of what they showed, and perhaps a plan.
        symmetric: for TensorRT, which asks for activations in int8 around zero and biases in float; otherwise
            uint8 with a zero point, which x86 and Arm multiply faster.
    """
    model = onnx.load(source)
    chosen = chosen_layers(model, context.plan)
    method = context.plan.method if context.plan else METHOD
    nodes = [*chosen.values(), *([] if symmetric else _relus(model, chosen))]
    ranges = _ranges(model, _seen(model, context), nodes, method, symmetric)
    if context.plan and BIAS_CORRECTION in context.plan.helps:
        draft = partial(_quantised, nodes=nodes, ranges=ranges, symmetric=symmetric, float_biases=True)
        correct_biases(model, chosen, draft, spread(_images(context)))
    return write(_quantised(model, nodes, ranges, symmetric, float_biases=symmetric), out)


def _quantised(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    ranges: TensorsData,
    symmetric: bool,
    float_biases: bool,
) -> onnx.ModelProto:
    """A copy of the model with these nodes in int8."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quantizer = QDQQuantizer(
        copy,
        per_channel=True,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8 if symmetric else QuantType.QUInt8,
        tensors_range=ranges,
        nodes_to_quantize=[node.name for node in nodes],
        nodes_to_exclude=[],
        op_types_to_quantize=["Conv", "Relu"],
        extra_options={
            "WeightSymmetric": True,
            "QuantizeBias": not float_biases,
            **(_TENSORRT if symmetric else {}),
        },
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    quantised: onnx.ModelProto = quantizer.model.model
    if symmetric:
        _unquantise_others(quantised)
    return quantised


def _images(context: BuildContext) -> Frames:
    assert context.calibration is not None, "int8 is listed as calibrated"
    return context.calibration


def _seen(model: onnx.ModelProto, context: BuildContext) -> Mapping[str, Observed]:
    """What the layers held: by the table, or by running the images now."""
    if context.table:
        return context.table.observed()
    return observe(model, _images(context))


def chosen_layers(model: onnx.ModelProto, plan: PrecisionPlan | None) -> dict[str, onnx.NodeProto]:
    """Layer name -> the Conv node, of those to be in int8; a plan takes dense ones only, too."""
    dense = {layer: node for layer, node in convolutions(model).items() if groups(node) == 1}
    return {layer: dense[layer] for layer in int8_layers(list(dense), plan)}


def _relus(model: onnx.ModelProto, nodes: Mapping[str, onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The ReLUs that alone read one of these convolutions, and that feed one: so their range is known."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    shown = {value.name for value in model.graph.output}
    behind = [readers.get(node.output[0], []) for node in nodes.values() if node.output[0] not in shown]
    relus = [found[0] for found in behind if [node.op_type for node in found] == ["Relu"]]
    return [relu for relu in relus if any(node.op_type == "Conv" for node in readers.get(relu.output[0], []))]


def _ranges(
    model: onnx.ModelProto,
    seen: Mapping[str, Observed],
    nodes: Sequence[onnx.NodeProto],
    method: str,
    symmetric: bool,
) -> TensorsData:
    """The ranges of the nodes' ends, by tensor."""
    ends: dict[str, Histogram] = {}
    for layer, node in convolutions(model).items():
        ends |= {node.input[0]: seen[layer].input, node.output[0]: seen[layer].output}
    ranges = {}
    for tensor in dict.fromkeys(name for node in nodes for name in (node.input[0], node.output[0])):
        low, high = clip(ends[tensor], method, symmetric)
        ranges[tensor] = TensorData(lowest=np.array(low, np.float32), highest=np.array(high, np.float32))
    return TensorsData(CalibrationMethod.MinMax, ranges)


def _unquantise_others(model: onnx.ModelProto) -> None:
    """Readers of a quantised tensor that are no convolution (the sum around a block) get the float again."""
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            maker = makers.get(name)
            if node.op_type != "Conv" and maker is not None and maker.op_type == "DequantizeLinear":
                node.input[index] = makers[maker.input[0]].input[0]
