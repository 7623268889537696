"""Convolution blocks that EfficientViT is built from, with the official checkpoints' parameter names.

Knows only blocks: no stages, no attention, no head. Names (`conv`, `norm`, `main`, `op_list`,
`inverted_conv`, ...) are fixed by the official checkpoints and must not change.

Source: MobileNetV2 inverted residuals (Sandler et al., CVPR 2018) as used by EfficientViT (Cai et al., ICCV
2023, reference Apache-2.0); written from the papers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

Activation = Callable[[], nn.Module]


class ConvLayer(nn.Module):
    """Convolution, optional BatchNorm and activation: `[B, C, H, W]` -> `[B, C', ceil(H/s), ceil(W/s)]`.

    Args:
        act: makes the activation, or None. `norm=False` drops the BatchNorm; `bias` follows it by default.
    """

    def __init__(
        self,
        c_in: int,
        c_out: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        bias: bool = False,
        norm: bool = True,
        act: Activation | None = None,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=bias)
        self.norm = nn.BatchNorm2d(c_out) if norm else None
        self.act = act() if act else None

    def forward(self, x: Tensor) -> Tensor:
        """Apply the three in order."""
        x = self.conv(x)
        if self.norm is not None:
            x = self.norm(x)
        return self.act(x) if self.act is not None else x


class DSConv(nn.Module):
    """Depthwise 3x3, then a linear 1x1."""

    def __init__(self, c_in: int, c_out: int, act: Activation) -> None:
        super().__init__()
        self.depth_conv = ConvLayer(c_in, c_in, 3, groups=c_in, act=act)
        self.point_conv = ConvLayer(c_in, c_out)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> `[B, C', H, W]`."""
        return self.point_conv(self.depth_conv(x))


class MBConv(nn.Module):
    """1x1 expansion, depthwise 3x3, linear 1x1. `fewer_norm`: biases instead of the first two BatchNorms."""

    def __init__(
        self,
        c_in: int,
        c_out: int,
        act: Activation,
        stride: int = 1,
        expand: int = 4,
        fewer_norm: bool = False,
    ) -> None:
        super().__init__()
        mid, norm = c_in * expand, not fewer_norm
        self.inverted_conv = ConvLayer(c_in, mid, bias=fewer_norm, norm=norm, act=act)
        self.depth_conv = ConvLayer(mid, mid, 3, stride, groups=mid, bias=fewer_norm, norm=norm, act=act)
        self.point_conv = ConvLayer(mid, c_out)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> `[B, C', ceil(H/s), ceil(W/s)]`."""
        return self.point_conv(self.depth_conv(self.inverted_conv(x)))


class FusedMBConv(nn.Module):
    """Full 3x3 expansion, linear 1x1 (EfficientNetV2's fused block)."""

    def __init__(self, c_in: int, c_out: int, act: Activation, stride: int = 1, expand: int = 4) -> None:
        super().__init__()
        self.spatial_conv = ConvLayer(c_in, c_in * expand, 3, stride, act=act)
        self.point_conv = ConvLayer(c_in * expand, c_out)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> `[B, C', ceil(H/s), ceil(W/s)]`."""
        return self.point_conv(self.spatial_conv(x))


class ResBlock(nn.Module):
    """Two full 3x3 convolutions, the second linear."""

    def __init__(self, channels: int, act: Activation) -> None:
        super().__init__()
        self.conv1 = ConvLayer(channels, channels, 3, act=act)
        self.conv2 = ConvLayer(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> the same shape."""
        return self.conv2(self.conv1(x))


class Residual(nn.Module):
    """`main(x) + x`, or `main(x)` alone where the shape changes (`skip=False`).

    `adapter`, if a domain has put one here, works on the branch before the skip is added.
    """

    def __init__(self, main: nn.Module, skip: bool = True) -> None:
        super().__init__()
        self.main = main
        self.skip = skip
        self.adapter: nn.Module | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Shape as `main` gives it."""
        y: Tensor = self.main(x)
        if self.adapter is not None:
            y = self.adapter(y)
        return y + x if self.skip else y


class OpSequential(nn.Module):
    """A chain under the name `op_list`."""

    def __init__(self, ops: Iterable[nn.Module]) -> None:
        super().__init__()
        self.op_list = nn.ModuleList(ops)

    def forward(self, x: Tensor) -> Tensor:
        """Each in turn."""
        for op in self.op_list:
            x = op(x)
        return x


def initialise(model: nn.Module) -> None:
    """Weights for training from scratch: He-normal (fan-out) convolutions, BatchNorm 1/0, biases 0.

    Draws from torch's global generator, so `torch.manual_seed` fixes them.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            # torch's fan-out ignores groups: a depthwise layer would start with weights C times too small.
            with torch.no_grad():
                module.weight.mul_(module.groups**0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)
