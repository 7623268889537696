"""From a LabelMapper to the strongly typed ONNX file that TensorRT builds from, its recipe, and the evidence.

TensorRT has uint8 only at a network's ends, next to a cast: frames are floats before anything else, the
bands of labels are joined as floats and become uint8 last. A Clip without an upper bound would get one that
half precision cannot hold, so it is written as Max. Refuses to know what builds engines.
"""

from __future__ import annotations

import copy
from itertools import islice
from pathlib import Path

import onnx
import torch
from onnx import ModelProto
from torch import Tensor

from deploy.engine.build import RECIPE_FILE, Recipe
from deploy.files import write_json
from deploy.schema import encode
from export import half, ranges
from export.targets import BuildContext
from export.trace import to_onnx
from export.trace import write as write_onnx
from pipeline.models.labelmap import BandedLabels, LabelMapper

RANGES_FILE = "ranges.json"
IMAGES = 8  # enough to see a tensor's order of magnitude; HEADROOM in export/ranges.py covers the rest
WORKSPACE_MB = 1024
LEVEL = 3
RECIPE = Recipe(
    network="model.onnx",
    workspace_bytes=WORKSPACE_MB << 20,
    optimization_level=LEVEL,
    command="trtexec --onnx=model.onnx --stronglyTyped --saveEngine=model.plan "
    f"--memPoolSize=workspace:{WORKSPACE_MB} --builderOptimizationLevel={LEVEL}",
)


class FloatLabels(LabelMapper):
    """A LabelMapper that joins its label bands as floats."""

    @classmethod
    def of(cls, net: LabelMapper) -> LabelMapper:
        """The same network; logits need no change."""
        if net.labels is None:
            return net
        twin = copy.deepcopy(net)
        twin.__class__ = cls
        twin.labels = BandedLabels(net.size, net.final, dtype=torch.float32)
        return twin

    def forward(self, frame: Tensor) -> Tensor:
        """As LabelMapper's, `[B, H, W]` uint8."""
        return super().forward(frame).to(torch.uint8)


def write(net: LabelMapper, context: BuildContext, name: str) -> dict[str, Path]:
    """The network in the precision asked for as `name`, its recipe, its ranges: by path in the bundle."""
    plain = to_onnx(FloatLabels.of(net), context.folder / "fp32.onnx")
    model = unbounded_clips(onnx.load(plain))
    files = {name: context.folder / name, RECIPE_FILE: context.folder / RECIPE_FILE}
    write_json(files[RECIPE_FILE], encode(RECIPE))
    if context.precision != "fp32":
        found = ranges.measure(model, islice(context.examples(), IMAGES))
        keep = ranges.leave_half(model, found)
        files[RANGES_FILE] = context.folder / RANGES_FILE
        write_json(files[RANGES_FILE], {"kept_in_float32": keep, "tensors": encode(found)})
        if context.precision == "int8":
            model = _quantised(model, context)
        model = half.to_half(model, keep)
    write_onnx(model, files[name])
    return files


def unbounded_clips(model: ModelProto) -> ModelProto:
    """Clip(x, low) becomes Max(x, low): the same function."""
    for node in model.graph.node:
        if node.op_type == "Clip" and len(node.input) == 2:
            node.op_type = "Max"
    return model


def _quantised(model: ModelProto, context: BuildContext) -> ModelProto:
    from export.quantize import quantise_convolutions

    plain = write_onnx(model, context.folder / "plain.onnx")
    return onnx.load(quantise_convolutions(plain, context.folder / "int8.onnx", context, symmetric=True))
