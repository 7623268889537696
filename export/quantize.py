"""INT8 for ONNX graphs: QuantizeLinear and DequantizeLinear around convolutions, nothing else.

The attention's products span five orders of magnitude and stay in float: quantised, they cost 20 points of
mIoU. Weights are symmetric, one scale a channel. Without a plan the first convolution, whose channels differ
most, stays in float, and so do those in groups, a small part of the arithmetic; with one, the dense
convolutions of the blocks it names are in int8. For TensorRT the outputs stay in float, too, because its
symmetric activations waste half of their numbers below zero. Refuses to know where ranges are from and what
executes the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationMethod, QuantType
from onnxruntime.quantization.calibrate import TensorData, TensorsData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

from export.clipping import clip
from export.layers import convolutions, groups, int8_layers
from export.observe import Observed, observe
from export.precision_plan import PrecisionPlan
from export.targets import BuildContext
from export.trace import write

METHOD = "mean-max"  # where no plan says another
_TENSORRT = {
    "ActivationSymmetric": True,
    "QuantizeBias": False,
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
    quantizer = QDQQuantizer(
        model,
        per_channel=True,
        reduce_range=False,
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QInt8 if symmetric else QuantType.QUInt8,
        tensors_range=_ranges(_seen(model, context), chosen, method, symmetric),
        nodes_to_quantize=[node.name for node in chosen.values()],
        nodes_to_exclude=[],
        op_types_to_quantize=["Conv"],
        extra_options={"WeightSymmetric": True, **(_TENSORRT if symmetric else {})},
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    quantised = quantizer.model.model
    if symmetric:
        _unquantise_others(quantised)
    return write(quantised, out)


def _seen(model: onnx.ModelProto, context: BuildContext) -> Mapping[str, Observed]:
    """What the layers held: by the table, or by running the images now."""
    if context.table:
        return context.table.observed()
    assert context.calibration is not None, "int8 is listed as calibrated"
    return observe(model, context.calibration())


def chosen_layers(model: onnx.ModelProto, plan: PrecisionPlan | None) -> dict[str, onnx.NodeProto]:
    """Layer name -> the Conv node, of those to be in int8; a plan takes dense ones only, too."""
    dense = {layer: node for layer, node in convolutions(model).items() if groups(node) == 1}
    return {layer: dense[layer] for layer in int8_layers(list(dense), plan)}


def _ranges(
    seen: Mapping[str, Observed], nodes: Mapping[str, onnx.NodeProto], method: str, symmetric: bool
) -> TensorsData:
    """The ranges of the layers' ends, by tensor."""
    ranges = {}
    for layer, node in nodes.items():
        for tensor, found in ((node.input[0], seen[layer].input), (node.output[0], seen[layer].output)):
            low, high = clip(found, method, symmetric)
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
