"""LiteRT: one .tflite file for Android and small Linux boards, channels last from frame to label map.

fp16 and weight-int8 store smaller weights and compute in float32. int8 quantises dense convolutions only, but
for the first, with ranges from calibration images: quantised, the attention's denominators become zero and
the runtime stops, and depthwise convolutions cost 1.5 points of mIoU. Refuses to know delegates;
`deploy.runtimes.litert` runs it by XNNPACK.
"""

from __future__ import annotations

import dataclasses
import io
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import redirect_stderr
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from deploy.manifest import Manifest, TensorSpec
    from pipeline.models.labelmap import LabelMapper

NAME = "litert"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "compare with --target onnxruntime"),
    "fp16": Budget(0.995, None, 5e-2, "fp32: only the weights are smaller"),
    "int8": Budget(0.95, 1.0, 1.5, "collect more calibration images, or weight-int8"),
    "weight-int8": Budget(0.97, 1.0, 1.0, "fp16"),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".tflite"
RUNTIME = "litert"
MIN_VERSION = "2.0"  # 2.0.2 tried
TOOLS = ("litert-torch", "litert-converter", "ai-edge-quantizer", "ai-edge-litert")
PROOF = "executed"
SUPPORT = Support(batch=True, calibrated=("int8",))
RULES = GraphRules(
    allowed="ABS ADD ARG_MAX BATCH_MATMUL BROADCAST_TO CAST CONCATENATION CONV_2D DELEGATE DEPTHWISE_CONV_2D "
    "DEQUANTIZE DIV FULLY_CONNECTED GELU HARD_SWISH MAXIMUM MUL PAD QUANTIZE REDUCE_MAX RELU "
    "RESHAPE RSQRT SLICE SOFTMAX SUB SUM TRANSPOSE",
    most={"TRANSPOSE": Most(2, linear=4, softmax=6), "DELEGATE": Most(1)},
)
MODEL_FILE = "model.tflite"
SIGNATURE, INPUT_NAME = "serving_default", "args_0"  # litert_torch's own
GROUP = 16  # calibration images in memory at a time


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "litert_torch", "ai_edge_litert", "ai_edge_quantizer")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Convert by torch.export, then quantise the file where the precision asks for it."""
    import litert_torch

    from export.trace import example_input

    plain = context.folder / "fp32.tflite"
    wrapped = channels_last(net)
    example = (wrapped.example(example_input(net, context.shape.batch)),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch about its own functions
        litert_torch.convert(wrapped, example).export(str(plain))
    return {MODEL_FILE: _quantise(plain, context)}


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """Operator types, and DELEGATE: the parts that XNNPACK takes over."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(files[MODEL_FILE]))
    interpreter.allocate_tensors()
    return Counter(op["op_name"] for op in interpreter._get_ops_details())


def adapt_manifest(manifest: Manifest) -> Manifest:
    """Floats are channels last, too."""
    inputs, outputs = (tuple(map(_last, specs)) for specs in (manifest.inputs, manifest.outputs))
    return dataclasses.replace(manifest, inputs=inputs, outputs=outputs)


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The same file with another output: the last float tensor of the logits' shape."""
    from export.tflite import with_output

    classes, height, width = net.logits_shape
    shape = (height, width, classes)
    return {MODEL_FILE: with_output(files[MODEL_FILE], shape, folder / MODEL_FILE)}


def channels_last(net: LabelMapper) -> Any:
    """`net` with float frames `[B, H, W, 3]` and logits `[B, h, w, C]`; bytes and labels are so anyway."""
    from torch import Tensor, nn

    class ChannelsLast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, frame: Tensor) -> Tensor:
            out: Tensor = self.net(frame.permute(0, 3, 1, 2) if net.input == "float" else frame)
            return out.permute(0, 2, 3, 1) if net.output == "logits" else out

        def example(self, frame: Tensor) -> Tensor:
            return frame.permute(0, 2, 3, 1).contiguous() if net.input == "float" else frame

    return ChannelsLast().eval()


def _last(spec: TensorSpec) -> TensorSpec:
    if spec.layout != "NCHW":
        return spec
    batch, channels, height, width = spec.shape
    return dataclasses.replace(spec, shape=(batch, height, width, channels), layout="NHWC")


def _quantise(plain: Path, context: BuildContext) -> Path:
    """The file in the precision asked for."""
    from ai_edge_quantizer.quantizer import Quantizer

    out = context.folder / MODEL_FILE
    if context.precision == "fp32":
        return plain.rename(out)
    quantizer, ranges = Quantizer(str(plain)), None
    with redirect_stderr(io.StringIO()):  # its progress bars
        if context.precision == "int8":
            ranges = _static(quantizer, plain, context)
        else:
            {"fp16": _half, "weight-int8": _weights}[context.precision](quantizer)
        made = quantizer.quantize(ranges, enable_progress_bar=False, enable_progress_report=False)
    made.export_model(str(out))
    return out


def _static(quantizer: Any, plain: Path, context: BuildContext) -> Any:
    """Ask for dense convolutions in int8, but for the first; returns the ranges of all tensors."""
    from ai_edge_quantizer.qtyping import TFLOperationName

    from export.tflite import first_output

    assert context.calibration is not None, "int8 is listed as calibrated"
    dense = TFLOperationName.CONV_2D
    quantizer.add_static_config(regex=".*", operation_name=dense, activation_num_bits=8, weight_num_bits=8)
    first = re.escape(first_output(plain, "CONV_2D"))
    quantizer.update_quantization_recipe(first, dense, algorithm_key="no_quantize")
    ranges = None
    feeds = ({INPUT_NAME: array} for array in context.calibration)
    while group := list(islice(feeds, GROUP)):  # the library makes a list of what it is given
        ranges = quantizer.calibrate({SIGNATURE: group}, ranges, num_threads=2)
    return ranges


def _weights(quantizer: Any) -> None:
    from ai_edge_quantizer.qtyping import TFLOperationName

    for name in (TFLOperationName.CONV_2D, TFLOperationName.DEPTHWISE_CONV_2D):
        quantizer.add_weight_only_config(regex=".*", operation_name=name, num_bits=8)


def _half(quantizer: Any) -> None:
    from ai_edge_quantizer import qtyping

    weights = qtyping.TensorQuantizationConfig(num_bits=16, dtype=qtyping.TensorDataType.FLOAT)
    config = qtyping.OpQuantizationConfig(
        weight_tensor_config=weights,
        compute_precision=qtyping.ComputePrecision.FLOAT,
        explicit_dequantize=True,
    )
    quantizer.update_quantization_recipe(
        ".*", qtyping.TFLOperationName.ALL_SUPPORTED, config, algorithm_key="float_casting"
    )
