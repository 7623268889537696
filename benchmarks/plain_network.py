"""EfficientViT-B0 with linear attention and the Cityscapes head, written plainly: the rival in plain.py.

The published formulas as they stand: bicubic `interpolate` inside the head, a row of ones beside the values
for the denominator, an added epsilon, logits at stride 8. Parameter names are the official checkpoints', so
it takes the same weights as the project's own model. It shares no code with that on purpose: that both give
the same logits is a check of both. Refuses to know label maps, other variants, exports.

Source: "EfficientViT: Multi-Scale Linear Attention for High-Resolution Dense Prediction" (Cai et al., ICCV
2023; reference implementation Apache-2.0); written from the paper.
"""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DIM = 16  # width of one attention head
EPS = 1e-15


def _conv(
    c_in: int, c_out: int, k: int = 1, stride: int = 1, groups: int = 1, norm: bool = True, act: bool = False
) -> nn.Sequential:
    """Convolution (with a bias where there is no BatchNorm), BatchNorm, Hardswish."""
    conv = nn.Conv2d(c_in, c_out, k, stride, k // 2, groups=groups, bias=not norm)
    parts: list[tuple[str, nn.Module]] = [("conv", conv)]
    parts += [("norm", nn.BatchNorm2d(c_out))] if norm else []
    parts += [("act", nn.Hardswish())] if act else []
    return nn.Sequential(OrderedDict(parts))


def _mbconv(c_in: int, c_out: int, stride: int = 1, norm: bool = True) -> nn.Sequential:
    """Inverted residual with an expansion of 4."""
    mid = 4 * c_in
    return nn.Sequential(
        OrderedDict(
            inverted_conv=_conv(c_in, mid, norm=norm, act=True),
            depth_conv=_conv(mid, mid, 3, stride, groups=mid, norm=norm, act=True),
            point_conv=_conv(mid, c_out),
        )
    )


class _Skip(nn.Module):
    """main(x) + x."""

    def __init__(self, main: nn.Module) -> None:
        super().__init__()
        self.main = main

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x) + x


def _chain(*ops: nn.Module) -> nn.Sequential:
    return nn.Sequential(OrderedDict(op_list=nn.Sequential(*ops)))


def _down(c_in: int, c_out: int, norm: bool = True) -> nn.Sequential:
    return nn.Sequential(OrderedDict(main=_mbconv(c_in, c_out, stride=2, norm=norm)))


class _Attention(nn.Module):
    """Multi-scale linear attention: 1x1 and 5x5-aggregated tokens."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        width = 3 * channels
        self.qkv = nn.Sequential(OrderedDict(conv=nn.Conv2d(channels, width, 1, bias=False)))
        depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width, bias=False)
        pointwise = nn.Conv2d(width, width, 1, groups=width // DIM, bias=False)
        self.aggreg = nn.ModuleList([nn.Sequential(depthwise, pointwise)])
        self.proj = _conv(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        qkv = self.qkv(x)
        qkv = torch.cat([qkv, self.aggreg[0](qkv)], dim=1).reshape(batch, -1, 3 * DIM, height * width)
        q, k, v = qkv[:, :, :DIM], qkv[:, :, DIM : 2 * DIM], qkv[:, :, 2 * DIM :]
        v = F.pad(v, (0, 0, 0, 1), value=1.0)
        out = torch.matmul(torch.matmul(v, F.relu(k).transpose(-1, -2)), F.relu(q))
        out = out[:, :, :-1] / (out[:, :, -1:] + EPS)
        return self.proj(out.reshape(batch, -1, height, width))


def _attending(channels: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            context_module=_Skip(_Attention(channels)),
            local_module=_Skip(_mbconv(channels, channels, norm=False)),
        )
    )


def _separable(channels: int) -> nn.Sequential:
    depth = _conv(channels, channels, 3, groups=channels, act=True)
    return nn.Sequential(OrderedDict(depth_conv=depth, point_conv=_conv(channels, channels)))


class _Head(nn.Module):
    """Three features to 32 channels at stride 8, added; one block; the classifier."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.input_ops = nn.ModuleList([_chain(_conv(128, 32)), _chain(_conv(64, 32)), _conv(32, 32)])
        last = nn.Sequential(OrderedDict(conv=nn.Conv2d(128, classes, 1)))
        self.middle = _chain(_Skip(_mbconv(32, 32)))
        self.output_ops = nn.ModuleList([_chain(_conv(32, 128, act=True), last)])

    def forward(self, deep: Tensor, middle: Tensor, shallow: Tensor) -> Tensor:
        x = self.input_ops[2](shallow)
        for op, feature in zip(self.input_ops, (deep, middle), strict=False):
            size = shallow.shape[-2:]
            x = x + F.interpolate(op(feature), size=size, mode="bicubic", align_corners=False)
        return self.output_ops[0](self.middle(x))


class PlainB0(nn.Module):
    """`[B, 3, H, W]` normalised RGB -> logits `[B, classes, H / 8, W / 8]`; H and W multiples of 32."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        stem = _chain(_conv(3, 8, 3, 2, act=True), _Skip(_separable(8)))
        stages = nn.ModuleList(
            [
                _chain(_down(8, 16), _Skip(_mbconv(16, 16))),
                _chain(_down(16, 32), _Skip(_mbconv(32, 32))),
                _chain(_down(32, 64, norm=False), _attending(64), _attending(64)),
                _chain(_down(64, 128, norm=False), _attending(128), _attending(128)),
            ]
        )
        self.backbone = nn.ModuleDict({"input_stem": stem, "stages": stages})
        self.head = _Head(classes)

    def forward(self, x: Tensor) -> Tensor:
        """Shapes as above."""
        x, features = self.backbone["input_stem"](x), []
        for stage in self.backbone["stages"]:
            x = stage(x)
            features.append(x)
        return self.head(*features[:0:-1])
