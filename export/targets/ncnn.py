"""ncnn: `model.param` and `model.bin`, for phones and small Arm boards, by way of TorchScript and pnnx.

ncnn has no argmax and takes floats: normalised planes in, logits out, and the label map is made by
`deploy/postprocess.py`. fp16 stores half-precision weights; Arm processors with half arithmetic compute in
it. Refuses to know the processor.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from deploy.manifest import Manifest
    from pipeline.models.labelmap import LabelMapper

NAME = "ncnn"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "compare with --target onnxruntime --output logits"),
    "fp16": Budget(0.995, None, 5e-2, "fp32; see which tensors leave half precision"),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".param"
RUNTIME = "ncnn"
MIN_VERSION = "1.0.20250916"
TOOLS = ("pnnx", "ncnn")
PROOF = "executed"
SUPPORT = Support(inputs=("float",), outputs=("logits",))
RULES = GraphRules(
    allowed="BinaryOp Clip Concat Convolution ConvolutionDepthWise ExpandDims GELU Gemm HardSwish Input "
    "MatMul MemoryData Permute ReLU Reduction Reshape SDPA Slice Split UnaryOp",
    most={"Permute": Most(0, linear=0, softmax=4)},
)
MODEL_FILE, WEIGHTS_FILE = "model.param", "model.bin"
INPUT_NAME, OUTPUT_NAME = "in0", "out0"  # pnnx numbers them


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "pnnx", "ncnn")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Trace, convert by the pnnx program, and keep the two files that ncnn reads."""
    import pnnx

    from export.trace import to_torchscript

    script = to_torchscript(net, context.folder / "net.pt")
    shape = f"inputshape=[1,3,{net.size[0]},{net.size[1]}]f32"
    half = f"fp16={int(context.precision == 'fp16')}"
    command = [pnnx.EXEC_PATH, script.name, shape, half, f"ncnnparam={MODEL_FILE}", f"ncnnbin={WEIGHTS_FILE}"]
    done = subprocess.run(command, cwd=context.folder, capture_output=True, text=True)
    if done.returncode or not (context.folder / WEIGHTS_FILE).is_file():
        raise RuntimeError(f"pnnx failed ({done.returncode}): {done.stderr[-2000:]}")
    return {name: context.folder / name for name in (MODEL_FILE, WEIGHTS_FILE)}


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
