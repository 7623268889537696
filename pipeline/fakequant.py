"""Training for int8: dense convolutions round weights, inputs and outputs as an exported int8 graph will.

The places are those of `export/quantize.py` with every dense convolution in int8, the first and the last too,
so that any plan is met: BatchNorm folded with frozen statistics, weights symmetric with a scale for each
output channel, inputs and outputs in 256 steps with a zero point, an output behind its ReLU if it has one. A
rounded input is rounded for the sum around its block, too, as for ONNX Runtime; TensorRT's graph spares it.
Gradients pass the rounding as if it were not there, and stop where a value is cut off.

Ranges follow the batches by a moving average, in training only; they serve this training and are no part of
its checkpoints: exporters observe the result anew on calibration images. torch.ao's observers are not used:
they begin at infinity, which an average of weights cannot hold. Refuses to know exporters and recipes.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
Inference", CVPR 2018, section 3 (arXiv 1712.05877).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.models.layers import ConvLayer, Residual

FOLLOW = 0.01  # share of a range that a batch decides
STEPS = 255
LARGEST = 127  # of a weight


class Range(nn.Module):
    """A tensor's range, which always holds 0; `low` and `high` are equal until the first batch."""

    low: Tensor
    high: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        """`x` cut off and rounded to 256 steps; in training the range follows it first."""
        if self.training:
            self._follow(x.detach())
        scale = ((self.high - self.low) / STEPS).clamp(min=torch.finfo(torch.float32).tiny)
        zero_point = (-self.low / scale).round().to(torch.int32)
        return torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, STEPS)

    @torch.no_grad()
    def _follow(self, x: Tensor) -> None:
        low, high = (end.float() for end in torch.aminmax(x))
        share = FOLLOW if self.high > self.low else 1.0
        self.low.lerp_(low.clamp(max=0), share)
        self.high.lerp_(high.clamp(min=0), share)


class Int8ConvLayer(ConvLayer):
    """A dense ConvLayer (its parts become this one's) that computes as in int8; float32 under autocast."""

    def __init__(self, layer: ConvLayer) -> None:
        nn.Module.__init__(self)
        self.conv, self.norm, self.act = layer.conv, layer.norm, layer.act
        self.taken, self.made = Range(), Range()

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> as the layer's own."""
        with torch.autocast(x.device.type, enabled=False):
            weight, bias = self._folded()
            y = F.conv2d(
                self.taken(x.float()),
                rounded(weight),
                bias,
                self.conv.stride,
                self.conv.padding,  # type: ignore[arg-type]
            )
            if isinstance(self.act, nn.ReLU):
                return self.made(F.relu(y))
            y = self.made(y)
            return y if self.act is None else self.act(y)

    def _folded(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias with the BatchNorm in them."""
        weight, bias, norm = self.conv.weight, self.conv.bias, self.norm
        if norm is None:
            return weight, bias
        scale = norm.weight * (norm.running_var + norm.eps).rsqrt()
        shift = norm.bias - norm.running_mean * scale
        return weight * scale[:, None, None, None], shift if bias is None else shift + bias * scale


class Int8Residual(Residual):
    """A Residual (its parts become this one's) whose branch begins with such a layer."""

    def __init__(self, residual: Residual) -> None:
        nn.Module.__init__(self)
        self.main, self.skip, self.adapter = residual.main, residual.skip, residual.adapter
        self.taken = Range()

    def forward(self, x: Tensor) -> Tensor:
        """As the residual's own."""
        return super().forward(self.taken(x.float()))


def rounded(weight: Tensor) -> Tensor:
    """`[out, ...]` in 255 steps around 0, a scale for each output channel."""
    largest = weight.detach().flatten(1).abs().amax(1)
    scale = (largest / LARGEST).clamp(min=torch.finfo(torch.float32).tiny)
    zero_point = torch.zeros_like(scale, dtype=torch.int32)
    return torch.fake_quantize_per_channel_affine(weight, scale, zero_point, 0, -LARGEST, LARGEST)


def round_as_int8(model: EfficientViTSeg) -> None:
    """Every dense ConvLayer computes as in int8 from now on, and no BatchNorm statistic moves; in place."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is ConvLayer and child.conv.groups == 1:
                setattr(parent, name, Int8ConvLayer(child))
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if type(child) is Residual and child.skip and isinstance(_first(child.main), Int8ConvLayer):
                setattr(parent, name, Int8Residual(child))
    model.moving_statistics = False
    model.train(model.training)


def _first(branch: nn.Module) -> ConvLayer:
    return next(part for part in branch.modules() if isinstance(part, ConvLayer))


def plain_state(model: nn.Module) -> dict[str, Tensor]:
    """A model's state dict without the ranges: of an ordinary model, all of it."""
    ranges = {
        f"{name}.{end}"
        for name, part in model.named_modules()
        if isinstance(part, Range)
        for end in ("low", "high")
    }
    return {name: tensor for name, tensor in model.state_dict().items() if name not in ranges}
