"""`python -m pipeline summary b1 --size 512x1024`: parameters and MACs, by stage and attention layer.

Of a checkpoint (`summary street+ct`) also what its domain trains, and every part that its method added.

The network runs on torch's meta device: shapes only, no numbers, so any size takes a second. Counted are
convolutions and attention's products, as the paper does; the head's interpolation matrices stand beside them.
Refuses to know weights, files, speed.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.options import add_json, parse_size
from pipeline.models import arithmetic

if TYPE_CHECKING:
    from pipeline.models.accounting import Accounting

NOTES = (
    "n tokens, width C, heads of width d; multiply-accumulates, one set of tokens.",
    "A layer here has two sets, tokens and aggregated ones: twice these pair terms.",
    "linear from: size where the linear core gets cheaper (n > d + 1), softmax below;",
    "pairs from: size where softmax's pairs outgrow the projections (n > 2C).",
)
FROZEN = "Frozen parts are not stored again, but they still cost their MACs and time.\n"
SIZE = (1024, 2048)
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
    activation: str
    domain: Accounting | None = None


def summarise(
    variant: str,
    size: tuple[int, int],
    classes: int | None = None,
    attention: str = "linear",
    head: str = "cityscapes",
    activation: str = "published",
) -> Summary:
    """Count one segmenter at `size` (H, W). `classes` None: those of the head's data set.

    Raises:
        InputError: an unknown variant, attention, head or activation.
    """
    count = DEFAULT_CLASSES.get(head, 1) if classes is None else classes
    spec = {"variant": variant, "classes": count, "attention": attention, "head": head}
    return summarise_spec({**spec, "activation": activation}, size)


def summarise_spec(spec: dict[str, Any], size: tuple[int, int]) -> Summary:
    """Count the segmenter that a checkpoint describes (`CheckpointMeta.model`) at `size` (H, W).

    Raises:
        InputError: a description of no model.
    """
    import torch

    from pipeline.models.accounting import account
    from pipeline.models.adaptation import Adaptation
    from pipeline.models.checkpoints import build_model

    with torch.device("meta"):
        model = build_model(spec).eval()
        counter = Counter(model, size)
        with torch.no_grad():
            model(torch.empty(1, 3, *size))
    stages, how = counter.stages, spec.get("adaptation")
    return Summary(
        spec["variant"],
        spec["attention"],
        spec["head"],
        model.classes,
        size,
        sum(stage["parameters"] for stage in stages.values()),
        sum(stage["macs"] for stage in stages.values()),
        counter.upsampling,
        stages,
        tuple(counter.layers),
        model.activation,
        account(model, Adaptation(**how)) if how else None,
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
    """MODEL, --size, --attention, --head, --activation, --classes, --json."""
    parser.add_argument("model", metavar="MODEL", help="b0, b1, b2, b3, l1, l2, or a checkpoint's name")
    parser.add_argument(
        "--size", type=parse_size, metavar="HxW", help="default: 1024x2048, or the checkpoint's own"
    )
    parser.add_argument("--attention", help="linear or softmax (default: linear)")
    parser.add_argument("--head", help="cityscapes or ade20k (default: cityscapes)")
    parser.add_argument("--activation", help="published or relu (default: published)")
    parser.add_argument("--classes", type=int, metavar="N", help="default: those of the head's data set")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Count, print the tables, write the JSON file."""
    from deploy.files import write_json

    summary = _asked(args)
    if args.json:
        write_json(args.json, asdict(summary))
    if args.json != "-":
        print_summary(summary)
    return 0


def _asked(args: argparse.Namespace) -> Summary:
    """Of a variant with the options given, or of a checkpoint as it is.

    Raises:
        InputError: neither, or options that a checkpoint answers itself.
    """
    from pipeline.models.checkpoints import read_meta, resolve_checkpoint
    from pipeline.models.efficientvit import VARIANTS

    options = ("attention", "head", "activation", "classes")
    chosen = {key: getattr(args, key) for key in options if getattr(args, key)}
    if args.model in VARIANTS:
        return summarise(args.model, args.size or SIZE, **chosen)
    if chosen:
        got = f"{args.model!r}, which is no variant"
        raise InputError(f"--{next(iter(chosen))}", got, f"one of {', '.join(VARIANTS)}")
    meta = read_meta(resolve_checkpoint(args.model))
    return summarise_spec(meta.model, args.size or tuple(meta.preprocess.get("size", SIZE)))


def print_summary(summary: Summary) -> None:
    """Two tables: stages, attention layers."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    kind = f"{summary.attention} attention, {summary.activation}, {summary.head} head"
    what = f"{summary.variant}, {kind}, {summary.classes} classes"
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
    if summary.domain:
        console.print(_domain_table(summary.domain))
        console.print(FROZEN, highlight=False)
    console.print(_layer_table(summary))
    for line in NOTES:
        console.print(line, highlight=False)


def _domain_table(domain: Accounting) -> Any:
    """What was added, shape by shape, and what else trains."""
    from rich.box import SIMPLE
    from rich.table import Table

    title = f"trained by {domain.method}: {domain.share:.1%} without the head"
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for column in ("part", "C, C'", "r", "weights\nr(C+C')", "biases\nr+C'", "each", "n", "all"):
        table.add_column(column, justify="left" if column == "part" else "right", no_wrap=True)
    for part in domain.added:
        each = part.weights + part.biases
        shape = f"{part.channels[0]}, {part.channels[1]}"
        numbers = (part.bottleneck, part.weights, part.biases, each, part.count, each * part.count)
        table.add_row(part.kind, shape, *(f"{number:,}" for number in numbers))
    table.add_section()
    for kind in ("norms", "blocks", "head"):
        table.add_row(kind, *[""] * 6, f"{domain.trained[kind]:,}")
    table.add_row("whole model", *[""] * 6, f"{domain.parameters:,}")
    return table


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
