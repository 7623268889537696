"""ncnn: `model.param` and `model.bin`, for phones and small Arm boards, by way of TorchScript and pnnx.

ncnn has no argmax and takes floats: normalised planes in, logits out, and the label map is made by
`deploy/postprocess.py`. fp16 stores half-precision weights and values; Arm processors with half arithmetic
compute in it, but for depthwise convolutions: little arithmetic, and half of the digits that are lost (camvid
train, logits in true half arithmetic: mean error 0.033 instead of 0.078, agreement 0.998 instead of 0.996).
Refuses to know the processor.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import GateError, InputError
from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from deploy.manifest import Manifest
    from pipeline.models.labelmap import LabelMapper

NAME = "ncnn"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "compare with --target onnxruntime --output logits"),
    "fp16": Budget(0.995, None, 0.2, "fp32; see which tensors leave half precision"),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".param"
RUNTIME = "ncnn"
MIN_VERSION = "1.0.20250503"  # tried; 1.0.20241226 dies on what pnnx writes now
TOOLS = ("pnnx", "ncnn")
PROOF = "executed"
SUPPORT = Support(inputs=("float",), outputs=("logits",))
RULES = GraphRules(
    allowed="BinaryOp Clip Concat Convolution ConvolutionDepthWise ExpandDims GELU Gemm HardSwish Input "
    "MatMul MemoryData Permute ReLU Reduction Reshape SDPA Slice Split UnaryOp",
    most={"Permute": Most(0, linear=0, softmax=4)},
)
MODEL_FILE, WEIGHTS_FILE = "model.param", "model.bin"
_NO_HALF_ARITHMETIC = "31=1"  # ncnn's feature mask of a layer
INPUT_NAME, OUTPUT_NAME = "in0", "out0"  # pnnx numbers them


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "pnnx", "ncnn")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Trace, and convert the trace."""
    from export.trace import to_torchscript

    return _convert(to_torchscript(net, context.folder / "net.pt"), (1, 3, *net.size), context)


def from_onnx(graph: Path, context: BuildContext) -> dict[str, Path]:
    """Convert a graph that takes planes.

    Raises:
        InputError: it takes channels last, which ncnn does not have.
    """
    import onnx

    from export.trace import static_shape

    shape = static_shape(onnx.load(graph).graph.input[0])
    if shape is None or shape[1] != 3:
        raise InputError("ncnn cannot build --onnx: its input", got=shape, expected="[1, 3, H, W]")
    return _convert(graph, shape, context)


def _convert(source: Path, shape: tuple[int, ...], context: BuildContext) -> dict[str, Path]:
    """Run the pnnx program, and keep the two files that ncnn reads."""
    import pnnx

    half, sides = context.precision == "fp16", ",".join(map(str, shape))
    command = [pnnx.EXEC_PATH, source.name, f"inputshape=[{sides}]f32", f"fp16={int(half)}"]
    command += [f"ncnnparam={MODEL_FILE}", f"ncnnbin={WEIGHTS_FILE}"]
    done = subprocess.run(command, cwd=context.folder, capture_output=True, text=True)
    if done.returncode or not (context.folder / WEIGHTS_FILE).is_file():
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise GateError("pnnx cannot convert the network", got=said, fix="--target onnxruntime")
    if half:
        _sum_in_float(context.folder / MODEL_FILE, "ConvolutionDepthWise")
    return {name: context.folder / name for name in (MODEL_FILE, WEIGHTS_FILE)}


def _sum_in_float(param: Path, kind: str) -> None:
    """Exempt layers of a type from half arithmetic by a parameter of their own; their values stay half."""
    lines = param.read_text().splitlines()
    exempt = f"{kind} "
    marked = [f"{line} {_NO_HALF_ARITHMETIC}" if line.startswith(exempt) else line for line in lines]
    param.write_text("\n".join(marked) + "\n")


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """Layer types: the first word of each line after the two of the header."""
    lines = files[MODEL_FILE].read_text().splitlines()[2:]
    return Counter(line.split()[0] for line in lines if line.strip())


def adapt_manifest(manifest: Manifest) -> Manifest:
    """pnnx's names of the tensors."""
    import dataclasses

    return dataclasses.replace(
        manifest,
        inputs=(dataclasses.replace(manifest.inputs[0], name=INPUT_NAME),),
        outputs=(dataclasses.replace(manifest.outputs[0], name=OUTPUT_NAME),),
    )
