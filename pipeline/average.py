"""Exponential moving average of a model: the weights that are validated and shipped.

BatchNorm's running statistics are averaged too, so that they belong to the averaged weights. The decay starts
low and rises to its limit, or the first random weights would linger (Tarvainen and Valpola, NeurIPS 2017, and
the warm-up of timm and TensorFlow). Refuses to know the optimizer.
"""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

Model = TypeVar("Model", bound=nn.Module)


class Average(Generic[Model]):
    """A shadow copy of a model, in eval mode.

    Args:
        model: the trained model; decay: limit of the share that the old average keeps at each step, 0 follows
        it.
    """

    def __init__(self, model: Model, decay: float) -> None:
        self.decay = decay
        self.model: Model = copy.deepcopy(model).eval().requires_grad_(False)
        self._values = _pairs(self.model, model, floating=True)
        self._counts = _pairs(self.model, model, floating=False)

    def decay_at(self, step: int) -> float:
        """Decay of step 0, 1, ...: (1 + step) / (10 + step), at most the limit."""
        return min(self.decay, (1 + step) / (10 + step))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move every weight and statistic towards the model's; counters are copied."""
        torch._foreach_lerp_(*self._values, 1 - self.decay_at(step))
        for shadow, value in zip(*self._counts, strict=True):
            shadow.copy_(value)


def _pairs(shadow: nn.Module, model: nn.Module, floating: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The two models' tensors side by side; they share storage with the models."""
    names = [name for name, value in model.state_dict().items() if value.is_floating_point() == floating]
    first, second = shadow.state_dict(), model.state_dict()
    return [first[name] for name in names], [second[name] for name in names]
