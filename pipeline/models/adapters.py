"""Small trainable parts in a frozen model: bottleneck adapters, and low-rank additions to 1x1 convolutions.

Both start as nothing: an adapter's up projection and a low-rank factor are zero, so a model with them first
computes what it computed before. Refuses to know: which parts train, domains, files.

Sources: adapters: Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", ICML 2019 (section 2.1),
here as 1x1 convolutions; low rank: Hu et al., "LoRA", ICLR 2022 (equation 3, with alpha = r).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.models.efficientvit import AttentionBlock, EfficientViTSeg
from pipeline.models.layers import Residual


class Adapter(nn.Module):
    """x + up(relu(down(x))) with 1x1 convolutions C -> r -> C and biases: 2 C r + r + C parameters.

    Args:
        channels: C; bottleneck: r.
    """

    def __init__(self, channels: int, bottleneck: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, bottleneck, 1)
        self.up = nn.Conv2d(bottleneck, channels, 1)
        nn.init.kaiming_normal_(self.down.weight, nonlinearity="relu")
        for values in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(values)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> the same shape."""
        return x + self.up(F.relu(self.down(x)))


class LowRankConv(nn.Conv2d):
    """A 1x1 convolution whose kernel is W + B A, with A `[r, C]` and B `[C', r]`; B starts at zero.

    Args:
        conv: the convolution it replaces (its weight and bias become this one's); rank: r.
    """

    def __init__(self, conv: nn.Conv2d, rank: int) -> None:
        super().__init__(conv.in_channels, conv.out_channels, 1, bias=conv.bias is not None)
        self.weight, self.bias = conv.weight, conv.bias
        self.low = nn.Parameter(torch.empty(rank, conv.in_channels))
        self.high = nn.Parameter(torch.zeros(conv.out_channels, rank))
        nn.init.kaiming_uniform_(self.low, a=5**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> `[B, C', H, W]`."""
        return F.conv2d(x, self.weight + (self.high @ self.low)[:, :, None, None], self.bias)


def insert_adapters(model: EfficientViTSeg, bottleneck: int, local: bool = False) -> None:
    """An adapter on the output of every attention and every feed-forward part, before its skip is added.

    Args:
        local: on that of every other block of the backbone, too.
    """
    within = [model.backbone] if local else attention_blocks(model)
    parts = [part for block in within for part in block.modules() if isinstance(part, Residual)]
    for branch in parts:
        *_, last = (module for module in branch.main.modules() if isinstance(module, nn.Conv2d))
        branch.adapter = Adapter(last.out_channels, bottleneck)


def insert_low_rank(model: EfficientViTSeg, rank: int) -> None:
    """A low-rank addition to every ungrouped 1x1 convolution of the attention blocks."""
    for block in attention_blocks(model):
        for parent in list(block.modules()):
            for name, child in parent.named_children():
                if type(child) is nn.Conv2d and child.kernel_size == (1, 1) and child.groups == 1:
                    setattr(parent, name, LowRankConv(child, rank))


def merge_low_rank(model: nn.Module) -> None:
    """Every low-rank addition becomes part of its kernel: plain convolutions W + B A, the same function."""
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, LowRankConv):
                plain = nn.Conv2d(child.in_channels, child.out_channels, 1, bias=child.bias is not None)
                merged = child.weight + (child.high @ child.low)[:, :, None, None]
                plain.weight, plain.bias = nn.Parameter(merged.detach(), requires_grad=False), child.bias
                setattr(parent, name, plain)


def attention_blocks(model: EfficientViTSeg) -> Iterator[AttentionBlock]:
    """From the first to the last."""
    return (module for module in model.modules() if isinstance(module, AttentionBlock))
