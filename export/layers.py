"""Names of a network's convolutions, the same in every graph of one checkpoint, and the blocks they form.

A convolution is called by the module that owns its weight, e.g. `backbone.stages.2.op_list.1.local_module.
main.point_conv.conv`; in a graph of other people, whose weights have any name, by its node. Refuses to know
precisions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import onnx

if TYPE_CHECKING:
    from export.precision_plan import PrecisionPlan

_WEIGHT = re.compile(r"(?:model\.)?(.+)\.weight")
_BLOCK = re.compile(r".*?\bop_list\.\d+(?:\.(?:context|local)_module)?|head\.input_ops\.\d+")


def layer_of(weight: str) -> str:
    """The layer that a weight is of, by the weight's name."""
    found = _WEIGHT.fullmatch(weight)
    return found[1] if found else weight


def layer_name(node: onnx.NodeProto) -> str:
    """Of a Conv node: by its weight, in other people's graphs by its own name."""
    return layer_of(node.input[1]) if _WEIGHT.fullmatch(node.input[1]) else str(node.name)


def int8_layers(layers: Sequence[str], plan: PrecisionPlan | None) -> list[str]:
    """Which of a network's layers, in their order, are to be in int8: the plan's, or without one all but the
    first, whose channels differ most.
    """
    return [layer for layer in layers if plan.in_int8(layer)] if plan else list(layers[1:])


def short_name(layer: str) -> str:
    """For tables and pictures: without the words that say nothing there."""
    return re.sub(r"backbone\.|op_list\.|\.main|_module|\.conv$|_ops|_conv", "", layer)


def convolutions(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """Layer name -> node, in the graph's order."""
    return {layer_name(node): node for node in model.graph.node if node.op_type == "Conv"}


def multiplications(model: onnx.ModelProto) -> dict[str, int]:
    """Layer name -> multiplications of one call, bias aside; shapes must be fixed and inferred."""
    shapes = {
        value.name: [side.dim_value for side in value.type.tensor_type.shape.dim]
        for value in (*model.graph.value_info, *model.graph.output)
    }
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    return {
        layer: math.prod(shapes[node.output[0]]) // shapes[node.output[0]][1] * sizes[node.input[1]]
        for layer, node in convolutions(model).items()
    }


def groups(convolution: onnx.NodeProto) -> int:
    """1 for a dense convolution; as many as channels for a depthwise one."""
    return next((int(attribute.i) for attribute in convolution.attribute if attribute.name == "group"), 1)


def block_of(layer: str) -> str:
    """The residual block, or the part of the head, that a layer belongs to; the layer itself outside of ours.

    >>> block_of("backbone.stages.2.op_list.1.local_module.main.point_conv.conv")
    'backbone.stages.2.op_list.1.local_module'
    """
    found = _BLOCK.match(layer)
    return found[0] if found else layer


def blocks(layers: Iterable[str]) -> dict[str, list[str]]:
    """Block -> its layers, both in the order given."""
    grouped: dict[str, list[str]] = {}
    for layer in layers:
        grouped.setdefault(block_of(layer), []).append(layer)
    return grouped
