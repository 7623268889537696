"""`python -m pipeline summary b1 --size 512x1024`: parameters and MACs, by stage and attention layer.

The network runs on torch's meta device: shapes only, no numbers, so any size takes a second. Counted are
convolutions and attention's products, as the paper does; the head's interpolation matrices stand beside them.
Refuses to know weights, files, speed.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

from deploy.options import add_json, parse_size
from pipeline.models import arithmetic

NOTES = (
    "n tokens, width C, heads of width d; multiply-accumulates, one set of tokens.",
    "A layer here has two sets, tokens and aggregated ones: twice these pair terms.",
    "linear from: size where the linear core gets cheaper (n > d + 1), softmax below;",
    "pairs from: size where softmax's pairs outgrow the projections (n > 2C).",
)
DEFAULT_CLASSES = {"cityscapes": 19, "ade20k": 150}


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer at one image size; all costs in multiply-accumulates.

    `projection`: 4 n C^2 of a plain layer. `layer`: everything here, which projects tokens and aggregated
    tokens, so that its pair terms are twice the plain layer's as well. `linear_from`, `pair_from`: smallest
    image (H, W) at which the linear core is cheaper, and at which softmax's pair term exceeds the
    projections.
    """

    name: str
    tokens: int
    channels: int
    dim: int
    projection: int
    softmax_pair: int
    linear_pair: int
    layer: int
    linear_from: tuple[int, int]
    pair_from: tuple[int, int]


@dataclass(frozen=True)
class Summary:
    """Parameters and multiply-accumulates of one segmenter at one size; stages in the order of execution."""

    variant: str
    attention: str
    head: str
    classes: int
    size: tuple[int, int]
    parameters: int
    macs: int
    upsampling_macs: int
    stages: dict[str, dict[str, int]]
    layers: tuple[AttentionLayer, ...]


def summarise(
    variant: str,
    size: tuple[int, int],
    classes: int | None = None,
    attention: str = "linear",
    head: str = "cityscapes",
) -> Summary:
    """Count one segmenter at `size` (H, W). `classes` None: those of the head's data set.

    Raises:
        InputError: an unknown variant, attention or head.
    """
    import torch

    from pipeline.models.efficientvit import create_model

    with torch.device("meta"):
        count = DEFAULT_CLASSES.get(head, 1) if classes is None else classes
        model = create_model(variant, count, attention, head).eval()
        counter = Counter(model, size)
        with torch.no_grad():
            model(torch.empty(1, 3, *size))
    stages = counter.stages
    return Summary(
        variant,
        attention,
        head,
        model.classes,
        size,
        sum(stage["parameters"] for stage in stages.values()),
        sum(stage["macs"] for stage in stages.values()),
        counter.upsampling,
        stages,
        tuple(counter.layers),
    )


class Counter:
    """Forward hooks that add up what each layer costs while the model runs once."""

    def __init__(self, model: Any, size: tuple[int, int]) -> None:
        from torch import nn

        from pipeline.models.attention import MultiScaleAttention
        from pipeline.models.upsample import Upsample

        self.size, self.upsampling = size, 0
        self.layers: list[AttentionLayer] = []
        self.stages: dict[str, dict[str, int]] = {}
        for name, parameter in model.named_parameters():
            self._stage(name)["parameters"] += parameter.numel()
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(self._convolution(name))
            elif isinstance(module, MultiScaleAttention):
                module.register_forward_hook(self._attention(name))
            elif isinstance(module, Upsample):
                module.register_forward_hook(self._upsample)

    def _stage(self, name: str) -> dict[str, int]:
        """The counts of the stage a module belongs to: `head`, `backbone.input_stem`, `backbone.stages.2`."""
        parts = name.split(".")
        length = {"head": 1, "input_stem": 2, "stages": 3}[parts[0] if parts[0] == "head" else parts[1]]
        return self.stages.setdefault(".".join(parts[:length]), {"parameters": 0, "macs": 0})

    def _convolution(self, name: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            self._stage(name)["macs"] += output[0].numel() * module.weight[0].numel()

        return hook

    def _attention(self, name: str) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            channels, height, width = inputs[0].shape[1:]
            layer = describe_layer(
                name, height * width, channels, module.dim, self._stride(height), self.size
            )
            pairs = 2 * (layer.linear_pair if module.core == "linear" else layer.softmax_pair)
            convolutions = (
                height
                * width
                * sum(part.weight.numel() for part in module.modules() if hasattr(part, "kernel_size"))
            )
            self.layers.append(AttentionLayer(**{**vars(layer), "layer": convolutions + pairs}))
            self._stage(name)["macs"] += pairs

        return hook

    def _stride(self, height: int) -> int:
        return next(stride for stride in (16, 32) if -(-self.size[0] // stride) == height)

    def _upsample(self, module: Any, inputs: Any, output: Any) -> None:
        (_, channels, height, width), (rows, columns) = inputs[0].shape, inputs[1]
        self.upsampling += channels * columns * height * (width + rows)


def describe_layer(
    name: str, tokens: int, channels: int, dim: int, stride: int, size: tuple[int, int]
) -> AttentionLayer:
    """The formulas for one layer: linear is cheaper from d + 2 tokens on, pairs outgrow from 2C + 1 on."""
    aspect = size[1] / size[0]
    return AttentionLayer(
        name=name,
        tokens=tokens,
        channels=channels,
        dim=dim,
        projection=arithmetic.projection_macs(tokens, channels),
        softmax_pair=arithmetic.softmax_pair_macs(tokens, channels),
        linear_pair=arithmetic.linear_pair_macs(tokens, channels, dim),
        layer=0,
        linear_from=arithmetic.smallest_size(dim + 2, stride, aspect),
        pair_from=arithmetic.smallest_size(2 * channels + 1, stride, aspect),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """VARIANT, --size, --attention, --head, --classes, --json."""
    parser.add_argument("variant", help="b0, b1, b2, b3, l1 or l2")
    parser.add_argument(
        "--size", type=parse_size, default=(1024, 2048), metavar="HxW", help="default: 1024x2048"
    )
    parser.add_argument("--attention", default="linear", help="linear or softmax (default: linear)")
    parser.add_argument("--head", default="cityscapes", help="cityscapes or ade20k (default: cityscapes)")
    parser.add_argument("--classes", type=int, metavar="N", help="default: those of the head's data set")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Count, print the tables, write the JSON file."""
    from deploy.files import write_json

    summary = summarise(args.variant, args.size, args.classes, args.attention, args.head)
    if args.json:
        write_json(args.json, asdict(summary))
    if args.json != "-":
        print_summary(summary)
    return 0


def print_summary(summary: Summary) -> None:
    """Two tables: stages, attention layers."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    what = f"{summary.variant}, {summary.attention} attention, {summary.head} head, {summary.classes} classes"
    stages = Table(title=f"{what}, {_size(summary.size)}", title_justify="left", box=SIMPLE)
    stages.add_column("stage")
    for column in ("parameters", "MACs", "share"):
        stages.add_column(column, justify="right")
    for name, counts in summary.stages.items():
        share = counts["macs"] / summary.macs
        stages.add_row(name, f"{counts['parameters']:,}", _short(counts["macs"]), f"{share:.0%}")
    stages.add_section()
    stages.add_row("all", f"{summary.parameters:,}", _short(summary.macs), "")
    stages.add_row("upsampling as matrices, besides", "", _short(summary.upsampling_macs), "")
    console = Console()
    console.print(stages)
    console.print(_layer_table(summary))
    for line in NOTES:
        console.print(line, highlight=False)


def _layer_table(summary: Summary) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title="attention layers", title_justify="left", box=SIMPLE)
    table.add_column("stage,\nblock", no_wrap=True)
    terms = ("proj.\n4nC²", "softmax\n2n²C", "linear\n2nC(d+1)")
    for column in ("n", "C", "d", *terms, "linear\nfrom", "pairs\nfrom"):
        table.add_column(column, justify="right", no_wrap=True)
    for layer in summary.layers:
        _, _, stage, _, block, *_ = layer.name.split(".")  # backbone.stages.2.op_list.1.context_module.main
        costs = (_short(cost) for cost in (layer.projection, layer.softmax_pair, layer.linear_pair))
        sizes = (_size(layer.linear_from), _size(layer.pair_from))
        table.add_row(
            f"{stage}, {block}", str(layer.tokens), str(layer.channels), str(layer.dim), *costs, *sizes
        )
    return table


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _short(macs: int) -> str:
    return f"{macs / 1e9:.2f} G" if macs >= 1e9 else f"{macs / 1e6:.1f} M"
