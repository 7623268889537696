"""A stem as wide as a vector register: channels that are always zero, added where its width is no multiple.

ONNX Runtime keeps activations in blocks of 16 channels on AVX-512 processors. The B0's stem has 8: its layers
then run half empty, and are copied between layouts around the residual and before the first stage. With 8
channels of zeros the function is exactly the same and the network about 7 % faster there, for 9 % more
multiply-accumulates, which count where no such blocks exist; so it is the target's choice.

Refuses to know: targets and runtimes. Works on a copy; the checkpoint's tensors are untouched.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from pipeline.models.adapters import Adapter
from pipeline.models.efficientvit import BackboneB
from pipeline.models.labelmap import LabelMapper
from pipeline.models.layers import ConvLayer


def with_wide_stem(net: LabelMapper, multiple: int) -> LabelMapper:
    """A copy of `net` whose stem's width is rounded up to `multiple`; equal outputs but for rounding.

    The L variants have no narrow stem and come back as they are.
    """
    net = copy.deepcopy(net)
    backbone = net.model.backbone
    if not isinstance(backbone, BackboneB):
        return net
    first, *blocks = backbone.input_stem.op_list
    width = -(-first.conv.out_channels // multiple) * multiple
    _pad(first, width_out=width)
    for block in blocks:
        _pad(block.main.depth_conv, width_out=width)
        _pad(block.main.point_conv, width_out=width, width_in=width)
        if isinstance(block.adapter, Adapter):
            _pad_adapter(block.adapter, width)
    _pad(backbone.stages[0].op_list[0].main.inverted_conv, width_in=width)
    return net


def _pad(layer: ConvLayer, width_out: int | None = None, width_in: int | None = None) -> None:
    """Zero weights for the added channels; a depthwise layer (one input channel a group) keeps its shape."""
    conv, norm = layer.conv, layer.norm
    if width_in is not None:
        conv.weight = _extended(conv.weight, 1, width_in)
        conv.in_channels = width_in
    if width_out is None:
        return
    conv.weight = _extended(conv.weight, 0, width_out)
    conv.bias = _extended(conv.bias, 0, width_out) if conv.bias is not None else None
    if conv.groups > 1:
        conv.in_channels = conv.groups = width_out
    conv.out_channels = width_out
    if norm is not None:
        # scale and shift 0: the added channels stay 0 whatever the statistics
        norm.weight, norm.bias = _extended(norm.weight, 0, width_out), _extended(norm.bias, 0, width_out)
        norm.running_mean = _extended(norm.running_mean, 0, width_out).data
        norm.running_var = _extended(norm.running_var, 0, width_out, fill=1.0).data
        norm.num_features = width_out


def _pad_adapter(adapter: Adapter, width: int) -> None:
    """The added channels are read with weight 0, and nothing is added to them."""
    down, up = adapter.down, adapter.up
    down.weight, down.in_channels = _extended(down.weight, 1, width), width
    assert up.bias is not None, "adapters have biases"
    up.weight, up.bias = _extended(up.weight, 0, width), _extended(up.bias, 0, width)
    up.out_channels = width


def _extended(values: Tensor, axis: int, width: int, fill: float = 0.0) -> nn.Parameter:
    shape = list(values.shape)
    shape[axis] = width - shape[axis]
    added = values.detach().new_full(shape, fill)
    return nn.Parameter(torch.cat([values.detach(), added], dim=axis), requires_grad=False)
