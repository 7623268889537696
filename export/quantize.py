"""INT8 for ONNX graphs: QuantizeLinear and DequantizeLinear around convolutions, nothing else.

The attention's products span five orders of magnitude and stay in float: quantised, they cost 20 points of
mIoU. Weights are symmetric, one scale a channel; ranges are means of the images' extremes. The first
convolution, whose channels differ most, stays in float, and so do those in groups, a small part of the
arithmetic. For TensorRT the outputs stay in float, too, because its symmetric activations waste half of their
numbers below zero. docs/targets.md has what each of these is worth. Refuses to know which images, and what
executes the result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from export.trace import write

_TENSORRT = {
    "ActivationSymmetric": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": ["Conv"],
}
Inputs = Callable[[], Iterator[npt.NDArray[Any]]]


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Network inputs one after the other, as onnxruntime asks for them."""

    def __init__(self, name: str, inputs: Inputs) -> None:
        self._feeds = ({name: array} for array in inputs())

    def get_next(self) -> dict[str, npt.NDArray[Any]] | None:
        """The next feed, or None at the end."""
        return next(self._feeds, None)


def quantise_convolutions(source: Path, out: Path, inputs: Inputs, symmetric: bool) -> Path:
    """Write `source` with its convolutions in int8 to `out`; returns `out`.

    Args:
        inputs: yields network inputs. symmetric: for TensorRT, which asks for activations in int8 around
            zero and biases in float; otherwise uint8 with a zero point, which x86 and Arm multiply faster.
    """
    graph = onnx.load(source, load_external_data=False).graph
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    kept = [node.name for index, node in enumerate(convolutions) if index == 0 or _groups(node) > 1]
    logging.getLogger().addFilter(_no_advice)
    try:
        quantize_static(
            source,
            out,
            _Reader(graph.input[0].name, inputs),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8 if symmetric else QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["Conv"],
            nodes_to_exclude=kept,
            extra_options={
                "WeightSymmetric": True,
                "CalibMovingAverage": True,
                **(_TENSORRT if symmetric else {}),
            },
        )
    finally:
        logging.getLogger().removeFilter(_no_advice)
    model = onnx.load(out)
    if symmetric:
        _unquantise_others(model)
    return write(model, out)


def _unquantise_others(model: onnx.ModelProto) -> None:
    """Readers of a quantised tensor that are no convolution (the sum around a block) get the float again."""
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            maker = makers.get(name)
            if node.op_type != "Conv" and maker is not None and maker.op_type == "DequantizeLinear":
                node.input[index] = makers[maker.input[0]].input[0]


def _groups(convolution: onnx.NodeProto) -> int:
    return next((int(attribute.i) for attribute in convolution.attribute if attribute.name == "group"), 1)


def _no_advice(record: logging.LogRecord) -> bool:
    """onnxruntime advises a preprocessing that exported graphs have had (folding, shape inference)."""
    return "pre-processing before quantization" not in record.getMessage()
