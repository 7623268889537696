"""INT8 for ONNX graphs: QuantizeLinear and DequantizeLinear around convolutions, nothing else.

The attention's products span five orders of magnitude and stay in float: quantised, they cost 20 points of
mIoU; the convolutions alone, 0.1. Weights are symmetric, one scale a channel. Ranges are the extremes over
the calibration images. Refuses to know which images, and what executes the result.
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
        inputs: yields network inputs. symmetric: activations in int8 around zero and biases in float, as
            TensorRT asks; otherwise uint8 with a zero point, which x86 and Arm multiply faster.
    """
    name = onnx.load(source, load_external_data=False).graph.input[0].name
    rules = {"ActivationSymmetric": True, "QuantizeBias": False} if symmetric else {}
    logging.getLogger().addFilter(_no_advice)
    try:
        quantize_static(
            source,
            out,
            _Reader(name, inputs),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8 if symmetric else QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["Conv"],
            extra_options={"WeightSymmetric": True, **rules},
        )
    finally:
        logging.getLogger().removeFilter(_no_advice)
    return write(onnx.load(out), out)


def _no_advice(record: logging.LogRecord) -> bool:
    """onnxruntime advises a preprocessing that exported graphs have had (folding, shape inference)."""
    return "pre-processing before quantization" not in record.getMessage()
