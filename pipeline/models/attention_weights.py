"""Attention weights as numbers: which tokens a query draws from, and how flat that choice is.

Neither core ever forms these weights (linear attention avoids it, softmax may fuse it away), so they are
rebuilt here from queries and keys, for a few queries at a time. Refuses to know pictures and files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.models.attention import SHARPNESS, MultiScaleAttention, unit

STATISTICS_QUERIES = 256  # per layer, evenly spaced
Value = TypeVar("Value")


@dataclass(frozen=True)
class Layer:
    """Queries and keys of one attention layer for one image: `[heads, d, N]`, N = height * width tokens."""

    name: str
    query: Tensor
    key: Tensor
    height: int
    width: int


def linear_weights(query: Tensor, key: Tensor) -> Tensor:
    """relu(q) . relu(k), summing to 1 for a query: `[heads, d, Q]`, `[heads, d, N]` -> `[heads, Q, N]`.

    A query without any positive product has no weights: its row is zero.
    """
    scores = F.relu(query).transpose(-1, -2).double() @ F.relu(key).double()
    total = scores.sum(-1, keepdim=True)
    return torch.where(total > 0, scores / total.clamp(min=torch.finfo(scores.dtype).tiny), 0.0)


def softmax_weights(query: Tensor, key: Tensor) -> Tensor:
    """softmax(10 cos(q, k)), shapes as `linear_weights`."""
    scores = unit(query.double()).transpose(-1, -2) @ unit(key.double())
    return (SHARPNESS * scores).softmax(-1)


WEIGHTS = {"linear": linear_weights, "softmax": softmax_weights}


def flatness(weights: Tensor) -> tuple[float, float]:
    """Mean entropy as a share of the largest possible (1: flat), and mean of the largest weight.

    Args:
        weights: `[heads, Q, N]`; rows without weights are left out. NaN where no row has any.
    """
    rows = weights[weights.sum(-1) > 0]
    entropy = torch.special.entr(rows).sum(-1) / math.log(max(weights.shape[-1], 2))
    return float(entropy.mean()), float(rows.max(-1).values.mean() if len(rows) else math.nan)


def spread(count: int, most: int = STATISTICS_QUERIES) -> Tensor:
    """At most `most` evenly spaced indices below `count`."""
    return torch.linspace(0, count - 1, min(count, most)).round().long()


@contextmanager
def capture(model: nn.Module) -> Iterator[list[Layer]]:
    """Collect the queries and keys of every attention layer while the model runs on one image."""
    layers: list[Layer] = []

    def watch(name: str, module: MultiScaleAttention) -> torch.utils.hooks.RemovableHandle:
        def hook(_: nn.Module, inputs: tuple[Tensor]) -> None:
            query, key, _value = module.queries_keys_values(inputs[0][:1])
            layers.append(Layer(name, query[0], key[0], *inputs[0].shape[-2:]))

        return module.register_forward_pre_hook(hook)

    named = model.named_modules()
    handles = [watch(name, part) for name, part in named if isinstance(part, MultiScaleAttention)]
    try:
        yield layers
    finally:
        for handle in handles:
            handle.remove()
