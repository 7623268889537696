"""EfficientViT segmenters B0..B3, L1, L2 with the Cityscapes and ADE20K heads, linear or softmax attention.

The backbone halves the image five times, rounding up; the last one (L) or two (B) stages attend over all
tokens. Parameter names are the official checkpoints', so those load unchanged. Any height and width works;
nothing pads.

Refuses to know: preprocessing, label maps, files. Source: "EfficientViT: Multi-Scale Linear Attention for
High-Resolution Dense Prediction" (Cai et al., ICCV 2023); widths and depths from its reference implementation
(mit-han-lab/efficientvit, Apache-2.0); the code is our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from deploy.errors import InputError
from pipeline.models.attention import CORES, MultiScaleAttention
from pipeline.models.head import HeadConfig, SegHead
from pipeline.models.layers import (
    Activation,
    ConvLayer,
    DSConv,
    FusedMBConv,
    MBConv,
    OpSequential,
    ResBlock,
    Residual,
    initialise,
)


@dataclass(frozen=True)
class Variant:
    """One size of the family: five widths and depths (strides 2, 4, 8, 16, 32), and `dim`, a head's width."""

    widths: tuple[int, int, int, int, int]
    depths: tuple[int, int, int, int, int]
    dim: int
    large: bool = False

    @property
    def activation(self) -> str:
        """The published one."""
        return "gelu" if self.large else "hardswish"

    @property
    def bn_eps(self) -> float:
        """BatchNorm's epsilon, as the official models were trained."""
        return 1e-7 if self.large else 1e-5


PUBLISHED = "published"
ACTIVATIONS: dict[str, Activation] = {
    "hardswish": nn.Hardswish,
    "gelu": partial(nn.GELU, approximate="tanh"),
    "relu": nn.ReLU,
}
CHOICES = (PUBLISHED, "relu")  # of whom trains: the paper's, or what int8 runtimes fuse into a convolution
VARIANTS = {
    "b0": Variant((8, 16, 32, 64, 128), (1, 2, 2, 2, 2), 16),
    "b1": Variant((16, 32, 64, 128, 256), (1, 2, 3, 3, 4), 16),
    "b2": Variant((24, 48, 96, 192, 384), (1, 3, 4, 4, 6), 32),
    "b3": Variant((32, 64, 128, 256, 512), (1, 4, 6, 6, 9), 32),
    "l1": Variant((32, 64, 128, 256, 512), (1, 1, 1, 6, 6), 32, large=True),
    "l2": Variant((32, 64, 128, 256, 512), (1, 2, 2, 8, 8), 32, large=True),
}
# B0 was published with the Cityscapes head only; its ADE20K head here follows B1's pattern.
HEADS = {
    "cityscapes": {
        "b0": HeadConfig(32, 1),
        "b1": HeadConfig(64, 3),
        "b2": HeadConfig(96, 3),
        "b3": HeadConfig(128, 3),
        "l1": HeadConfig(256, 3, expand=1, fused=True, final_expand=0),
        "l2": HeadConfig(256, 5, expand=1, fused=True, final_expand=0),
    },
    "ade20k": {
        "b0": HeadConfig(32, 1, final_expand=0),
        "b1": HeadConfig(64, 3, final_expand=0),
        "b2": HeadConfig(96, 3, final_expand=0),
        "b3": HeadConfig(128, 3, final_expand=0),
        "l1": HeadConfig(128, 3, fused=True, final_expand=8),
        "l2": HeadConfig(128, 3, fused=True, final_expand=8),
    },
}
MAX_CLASSES = 256  # a label map is uint8


class AttentionBlock(nn.Module):
    """Global attention, then a local inverted residual, each with its skip."""

    def __init__(self, channels: int, dim: int, core: str, expand: int, act: Activation) -> None:
        super().__init__()
        self.context_module = Residual(MultiScaleAttention(channels, dim, core))
        self.local_module = Residual(MBConv(channels, channels, act, expand=expand, fewer_norm=True))

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> the same shape."""
        return self.local_module(self.context_module(x))


class BackboneB(nn.Module):
    """Stem and four stages; the last two attend."""

    def __init__(self, variant: Variant, core: str, act: Activation) -> None:
        super().__init__()
        (stem, *widths), (stem_depth, *depths) = variant.widths, variant.depths
        local = (Residual(DSConv(stem, stem, act)) for _ in range(stem_depth))
        self.input_stem = OpSequential([ConvLayer(3, stem, 3, stride=2, act=act), *local])
        stages, c_in = [], stem
        for index, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            attends = index >= 2
            first = Residual(MBConv(c_in, width, act, stride=2, fewer_norm=attends), skip=False)
            rest: list[nn.Module]
            if attends:
                rest = [AttentionBlock(width, variant.dim, core, 4, act) for _ in range(depth)]
            else:
                rest = [Residual(MBConv(width, width, act)) for _ in range(depth - 1)]
            stages.append(OpSequential([first, *rest]))
            c_in = width
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """`[B, 3, H, W]` -> features at strides 32, 16, 8."""
        x = self.input_stem(x)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features[:0:-1]


class BackboneL(nn.Module):
    """Five stages from stride 2 on: full convolutions, fused blocks, inverted residuals, attention last."""

    def __init__(self, variant: Variant, core: str, act: Activation) -> None:
        super().__init__()
        widths, depths = variant.widths, variant.depths
        stem = ConvLayer(3, widths[0], 3, stride=2, act=act)
        stages = [OpSequential([stem, *(Residual(ResBlock(widths[0], act)) for _ in range(depths[0]))])]
        for index in range(1, 5):
            c_in, c_out = widths[index - 1], widths[index]
            first: nn.Module
            rest: list[nn.Module]
            if index < 3:
                first = FusedMBConv(c_in, c_out, act, stride=2, expand=16)
                rest = [Residual(FusedMBConv(c_out, c_out, act)) for _ in range(depths[index])]
            elif index == 3:
                first = MBConv(c_in, c_out, act, stride=2, expand=16, fewer_norm=True)
                rest = [Residual(MBConv(c_out, c_out, act, fewer_norm=True)) for _ in range(depths[index])]
            else:
                first = MBConv(c_in, c_out, act, stride=2, expand=24, fewer_norm=True)
                rest = [AttentionBlock(c_out, variant.dim, core, 6, act) for _ in range(depths[index])]
            stages.append(OpSequential([Residual(first, skip=False), *rest]))
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """`[B, 3, H, W]` -> features at strides 32, 16, 8."""
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features[:1:-1]


class EfficientViTSeg(nn.Module):
    """Backbone and head of a `variant`, `attention`, `head_name`, `activation` (of `ACTIVATIONS`), `classes`.

    With `moving_statistics` False, BatchNorm keeps its running statistics in train mode, too, and uses them.
    """

    def __init__(self, variant: str, classes: int, attention: str, head: str, activation: str) -> None:
        super().__init__()
        self.variant, self.attention, self.head_name, self.classes = variant, attention, head, classes
        self.moving_statistics = True
        spec = VARIANTS[variant]
        self.activation = spec.activation if activation == PUBLISHED else activation
        act = ACTIVATIONS[self.activation]
        self.backbone = (BackboneL if spec.large else BackboneB)(spec, attention, act)
        self.head = SegHead(spec.widths[:1:-1], classes, HEADS[head][variant], act)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.eps = spec.bn_eps
        initialise(self)
        nn.init.normal_(self.head.classifier.weight, std=0.01)  # all classes start nearly equal

    def train(self, mode: bool = True) -> EfficientViTSeg:
        """As in torch, but frozen statistics stay frozen."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d) and not self.moving_statistics:
                module.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """`[B, 3, H, W]` normalised RGB -> logits `[B, classes, ceil(H/8), ceil(W/8)]`."""
        return self.head(self.backbone(x))


def create_model(
    variant: str,
    classes: int,
    attention: str = "linear",
    head: str = "cityscapes",
    activation: str = PUBLISHED,
) -> EfficientViTSeg:
    """A segmenter with fresh weights, in training mode.

    Args:
        variant: "b0".."b3", "l1", "l2". classes: 1..256.
        attention: "linear" or "softmax". head: "cityscapes" or "ade20k".
        activation: "published" (Hardswish in B, GELU in L), or "relu", which int8 runtimes make part of a
        convolution.

    Raises:
        InputError: a value that is none of these.
    """
    for what, value, known in (
        ("model variant", variant, VARIANTS),
        ("attention", attention, CORES),
        ("head", head, HEADS),
        ("activation", activation, CHOICES),
    ):
        if value not in known:
            raise InputError(f"unknown {what}", repr(value), " or ".join(known))
    if not 1 <= classes <= MAX_CLASSES:
        raise InputError(
            "number of classes out of range", classes, f"1..{MAX_CLASSES} (a label map is uint8)"
        )
    return EfficientViTSeg(variant, classes, attention, head, activation)
