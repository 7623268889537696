"""From a LabelMapper to coremltools' model: by torch.export, normalisation in the graph, weights as asked.

Core ML's image type brings pixels of 0..255; its own scale and bias know no standard deviation per channel,
so normalising is left to the network. Only the weights of convolutions are made smaller: the interpolation
matrices are few, and their errors would be errors of position. Refuses to know files.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from export.mil.quiet import coremltools, quiet
from pipeline.models.labelmap import BandedLabels, LabelMapper

IMAGE = "image"
_SMALLEST_WEIGHT = 512  # elements; what is smaller costs more as tables than it saves


class PlanarLabels(nn.Module):
    """A LabelMapper as Core ML feeds it: `[1, 3, H, W]` pixels or normalised floats in, int32 labels out."""

    def __init__(self, net: LabelMapper) -> None:
        super().__init__()
        self.net = net
        int32 = BandedLabels(net.size, net.final, dtype=torch.int32)  # the one integer that Core ML returns
        self.labels = int32 if net.output == "labels" else None
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """`[1, H, W]` int32, or logits."""
        if self.net.input == "uint8":
            x = (x - self.net.shift) * self.net.scale
        logits: Tensor = self.net.model(x)
        return logits if self.labels is None else self.labels(logits)


def convert(net: LabelMapper, half: bool) -> Any:
    """coremltools' MLModel with input `image` and an output named after `net.output`; needs iOS 17, macOS 14.

    Args:
        half: float16 inside, else float32.
    """
    ct = coremltools()
    shape = (1, 3, *net.size)
    image = ct.ImageType(name=IMAGE, shape=shape)
    given = image if net.input == "uint8" else ct.TensorType(name=IMAGE, shape=shape, dtype=float)
    precision = ct.precision.FLOAT16 if half else ct.precision.FLOAT32
    floats = {"dtype": float} if net.output == "logits" else {}
    with quiet():
        program = torch.export.export(PlanarLabels(net), (torch.zeros(shape),)).run_decompositions({})
        return ct.convert(
            program,
            inputs=[given],
            outputs=[ct.TensorType(name=net.output, **floats)],
            minimum_deployment_target=ct.target.iOS17,
            compute_precision=precision,
            skip_model_load=True,
        )


def quantise_weights(model: Any) -> Any:
    """The model with its convolutions' weights in int8, a scale for each output channel."""
    optimize = coremltools("optimize.coreml")
    config = optimize.OpLinearQuantizerConfig(mode="linear_symmetric", weight_threshold=_SMALLEST_WEIGHT)
    with quiet():
        return optimize.linear_quantize_weights(model, _convolutions(optimize, config))


def palettise_weights(model: Any, bits: int) -> Any:
    """The model with its convolutions' weights as indices into palettes of 2^bits values, one a layer."""
    optimize = coremltools("optimize.coreml")
    config = optimize.OpPalettizerConfig(mode="kmeans", nbits=bits, weight_threshold=_SMALLEST_WEIGHT)
    with quiet():
        return optimize.palettize_weights(model, _convolutions(optimize, config))


def _convolutions(optimize: Any, config: Any) -> Any:
    return optimize.OptimizationConfig(op_type_configs={"conv": config})
