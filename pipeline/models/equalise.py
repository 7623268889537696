"""Cross-layer equalisation: channels are rescaled between convolutions so that they round better in 8 bits.

A channel that one convolution writes times s, and the next reads divided by s, leaves the function as it is
wherever nothing between them but sums, constant products and ReLU touches it. Such links here:

    stream      a residual sum, of a stage or the head: all convolutions that add to it, all that read it
    value       an attention's values, tokens and aggregated tokens apart, to its projection
    aggregate   an attention's depthwise convolution to the grouped one behind it
    activation  two convolutions with a ReLU between: an adapter's; with activation "relu" every block's

Hardswish and GELU do not pass a factor on: a network with them has none of the last kind, but an adapter's,
and its first stream, which begins behind an activation, is left alone. Queries and keys could be rescaled
against each other, but both are rows of one convolution, and in int8 its rows have scales of their own.

Refuses to know int8 and files. Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and
Bias Correction", ICCV 2019 (arXiv 1906.04721), section 4.1; several writers and readers are taken by their
largest weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from pipeline.models.adapters import Adapter
from pipeline.models.attention import MultiScaleAttention
from pipeline.models.efficientvit import BackboneB, EfficientViTSeg
from pipeline.models.layers import ConvLayer, DSConv, FusedMBConv, MBConv, ResBlock, Residual

ROUNDS = 50
SETTLED = 1e-3  # of a channel's scale
_PASSING = (type(None), nn.Identity, nn.ReLU)  # activations that a positive factor passes


@dataclass(frozen=True)
class End:
    """A convolution's output channels (of a writer) or input channels (of a reader); None: all."""

    conv: nn.Conv2d
    channels: Tensor | None = None


@dataclass(frozen=True)
class Link:
    """Channels that `writers` make and `readers` take, nothing else; `kind`: as in the module's table."""

    kind: str
    writers: tuple[End, ...]
    readers: tuple[End, ...]


def equalise(model: EfficientViTSeg) -> None:
    """Rescale a model's channels, in place: the same function in eval mode. BatchNorm is folded first."""
    fold_norms(model)
    found = links(model)
    with torch.no_grad():
        for _ in range(ROUNDS):
            if max(map(_balance, found), default=0.0) < SETTLED:
                break


def fold_norms(model: nn.Module) -> None:
    """Every BatchNorm becomes part of the convolution before it, in place; for eval mode."""
    for layer in model.modules():
        if isinstance(layer, ConvLayer) and layer.norm is not None:
            layer.conv, layer.norm = fuse_conv_bn_eval(layer.conv.eval(), layer.norm.eval()), None


def links(model: EfficientViTSeg) -> list[Link]:
    """Every link of a model, in its order."""
    return [*_streams(model), *_inside(model)]


def _streams(model: EfficientViTSeg) -> Iterator[Link]:
    """Residual sums: of the stem and the stages, and of the head."""
    backbone, head = model.backbone, model.head
    stem = [backbone.input_stem] if isinstance(backbone, BackboneB) else []
    chains = [list(stage.op_list) for stage in (*stem, *backbone.stages)]  # type: ignore[union-attr,arg-type]
    to_head = dict(zip(reversed(range(len(chains))), head.input_ops, strict=False))
    for index, (first, *rest) in enumerate(chains):
        behind = [chain[0] for chain in chains[index + 1 : index + 2]]
        yield from _stream([first], rest, [*behind, to_head[index]] if index in to_head else behind)
    yield from _stream(list(head.input_ops), list(head.middle.op_list), [head.output_ops[0]])


def _stream(
    begin: Sequence[nn.Module], adding: Sequence[nn.Module], behind: Sequence[nn.Module]
) -> list[Link]:
    """The link of a sum that `begin` starts, `adding` reads and adds to, and `behind` reads; none where an
    activation stands between."""
    residuals = [part for op in adding for part in op.modules() if isinstance(part, Residual)]
    makers = [*begin, *(residual.main for residual in residuals)]
    last = [[part for part in maker.modules() if isinstance(part, ConvLayer)][-1] for maker in makers]
    if not all(isinstance(layer.act, _PASSING) for layer in last):
        return []
    adapters = [
        part.adapter for op in (*begin, *adding) for part in op.modules() if isinstance(part, Residual)
    ]
    added = [adapter for adapter in adapters if isinstance(adapter, Adapter)]
    readers = [_first(part) for part in (*(residual.main for residual in residuals), *behind)]
    writers = [layer.conv for layer in last] + [adapter.up for adapter in added]
    return [_link("stream", writers, readers + [adapter.down for adapter in added])]


def _inside(model: EfficientViTSeg) -> Iterator[Link]:
    """Links inside blocks."""
    for module in model.modules():
        if isinstance(module, MultiScaleAttention):
            yield from _attention(module)
        elif isinstance(module, Adapter):
            yield _link("activation", [module.down], [module.up])
        elif isinstance(module, (DSConv, MBConv, FusedMBConv, ResBlock)):
            yield from _row(list(module.children()))
    yield from _row(list(model.head.output_ops[0].op_list))  # type: ignore[union-attr,arg-type]


def _row(layers: Sequence[nn.Module]) -> Iterator[Link]:
    for first, second in pairwise(layers):
        assert isinstance(first, ConvLayer) and isinstance(second, ConvLayer), "blocks are rows of those"
        if isinstance(first.act, _PASSING):
            yield _link("activation", [first.conv], [second.conv])


def _attention(module: MultiScaleAttention) -> Iterator[Link]:
    """Values come out of the core as they went in, channel by channel: a head's are d rows of its 3 d."""
    depthwise, pointwise = module.aggreg[0]  # type: ignore[misc]
    width = depthwise.out_channels
    values = torch.arange(width).reshape(-1, 3, module.dim)[:, 2].flatten()
    tokens, aggregated = torch.arange(2 * len(values)).chunk(2)
    project = module.proj.conv
    yield Link("value", (End(module.qkv.conv, values),), (End(project, tokens), End(depthwise, values)))
    yield Link("value", (End(pointwise, values),), (End(project, aggregated),))
    yield _link("aggregate", [depthwise], [pointwise])


def _link(kind: str, writers: Sequence[nn.Conv2d], readers: Sequence[nn.Conv2d]) -> Link:
    return Link(kind, tuple(map(End, writers)), tuple(map(End, readers)))


def _first(module: nn.Module) -> nn.Conv2d:
    return next(part for part in module.modules() if isinstance(part, nn.Conv2d))


def _balance(link: Link) -> float:
    """Give both sides the same largest weight, channel by channel; how far the largest scale was from 1."""
    written = torch.stack([_of(end, _rows(end.conv).abs().amax(1)) for end in link.writers]).amax(0)
    read = torch.stack([_of(end, _columns(end.conv).abs().amax((1, 3, 4)).flatten()) for end in link.readers])
    scale = (read.amax(0) / written).sqrt()
    scale = torch.where((written > 0) & (read.amax(0) > 0), scale, torch.ones_like(scale))
    for end in link.writers:
        whole = _whole(end, scale, end.conv.out_channels)
        _rows(end.conv).mul_(whole[:, None])
        if end.conv.bias is not None:
            end.conv.bias.mul_(whole)
    for end in link.readers:
        view = _columns(end.conv)
        view.div_(_whole(end, scale, end.conv.in_channels).reshape(len(view), 1, -1, 1, 1))
    return float((scale - 1).abs().max())


def _rows(conv: nn.Conv2d) -> Tensor:
    """`[out, ...]`, a view of the weight."""
    return conv.weight.detach().flatten(1)


def _columns(conv: nn.Conv2d) -> Tensor:
    """`[groups, out of a group, in of a group, kH, kW]`, a view of the weight."""
    return conv.weight.detach().unflatten(0, (conv.groups, -1))


def _of(end: End, values: Tensor) -> Tensor:
    return values if end.channels is None else values[end.channels]


def _whole(end: End, scale: Tensor, channels: int) -> Tensor:
    """The scale of all channels of the convolution's side: 1 for those that are not the link's."""
    if end.channels is None:
        return scale
    return scale.new_ones(channels).index_copy(0, end.channels, scale)
