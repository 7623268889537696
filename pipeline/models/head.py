"""The segmentation head: three stages brought to stride 8, added, a few blocks, class logits.

Refuses to know: the backbone (it gets features), the label map (see labelmap.py).
Source: EfficientViT (Cai et al., ICCV 2023; reference Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from pipeline.models.layers import Activation, ConvLayer, FusedMBConv, MBConv, OpSequential, Residual
from pipeline.models.upsample import Upsample


@dataclass(frozen=True)
class HeadConfig:
    """Shape of one head. `final_expand` 0: no layer between the blocks and the classifier."""

    width: int
    depth: int
    expand: int = 4
    fused: bool = False
    final_expand: int = 4


class SegHead(nn.Module):
    """Features at strides 32, 16, 8 -> logits at stride 8.

    Args:
        channels: of the three features, deepest first.
    """

    strides = (32, 16, 8)

    def __init__(self, channels: Sequence[int], classes: int, config: HeadConfig, act: Activation) -> None:
        super().__init__()
        width = config.width
        *deep, skip = (ConvLayer(c, width) for c in channels)
        # A chain of one: its second member in the official models is the upsampling, which has no parameters.
        self.input_ops = nn.ModuleList([*(OpSequential([op]) for op in deep), skip])
        self.upsample = nn.ModuleList(Upsample() for _ in deep)
        block = FusedMBConv if config.fused else MBConv
        blocks = (Residual(block(width, width, act, expand=config.expand)) for _ in range(config.depth))
        self.middle = OpSequential(blocks)
        last = width * (config.final_expand or 1)
        final = [ConvLayer(width, last, act=act)] if config.final_expand else []
        classifier = ConvLayer(last, classes, bias=True, norm=False)
        self.output_ops = nn.ModuleList([OpSequential([*final, classifier])])

    @property
    def classifier(self) -> nn.Conv2d:
        """The last convolution; its output channels are the classes."""
        last: Any = self.output_ops[0]
        convolution: nn.Conv2d = last.op_list[-1].conv
        return convolution

    def forward(self, features: Sequence[Tensor]) -> Tensor:
        """Three `[B, C_i, ceil(H/s), ceil(W/s)]`, deepest first -> `[B, classes, ceil(H/8), ceil(W/8)]`."""
        size = (features[-1].shape[-2], features[-1].shape[-1])
        total = None
        for op, up, x in zip(self.input_ops, self.upsample, features, strict=False):
            y = up(op(x), size)
            total = y if total is None else total + y
        total = total + self.input_ops[-1](features[-1])
        return self.output_ops[0](self.middle(total))
