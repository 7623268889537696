"""What a domain's parameters are: every adapter and low-rank addition by its formula, norms and head apart.

An adapter of width d and bottleneck r has 2 d r weights and r + d biases; a low-rank addition from C to C'
channels has r (C + C'). Refuses to know training and files. Sources: Houlsby et al., ICML 2019, section 2.1;
Hu et al., ICLR 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.models.adaptation import Adaptation, count_parameters
from pipeline.models.adapters import Adapter, LowRankConv
from pipeline.models.efficientvit import EfficientViTSeg


@dataclass(frozen=True)
class Added:
    """Equal parts that a method added: `count` of them, each `channels` (in, out), r, weights and biases."""

    kind: str
    count: int
    channels: tuple[int, int]
    bottleneck: int
    weights: int
    biases: int


@dataclass(frozen=True)
class Accounting:
    """Trained parameters by kind (`count_parameters`), the model's in all, and added parts by their shape."""

    method: str
    trained: dict[str, int]
    parameters: int
    added: tuple[Added, ...]

    @property
    def share(self) -> float:
        """Trained parameters without the head, as a share of all."""
        return (sum(self.trained.values()) - self.trained["head"]) / self.parameters


def account(model: EfficientViTSeg, how: Adaptation) -> Accounting:
    """Count an adapted model's parameters."""
    counts = count_parameters(model, how)
    shapes: dict[tuple[str, int, int, int], int] = {}
    for module in model.modules():
        if (shape := _shape(module)) is not None:
            shapes[shape] = shapes.get(shape, 0) + 1
    everything = counts.pop("all")
    return Accounting(how.method, counts, everything, tuple(_added(*shape, n) for shape, n in shapes.items()))


def _shape(module: object) -> tuple[str, int, int, int] | None:
    """(kind, channels in, channels out, r) of a part that a method added."""
    if isinstance(module, Adapter):
        return "adapter", module.down.in_channels, module.up.out_channels, module.down.out_channels
    if isinstance(module, LowRankConv):
        return "low rank", module.in_channels, module.out_channels, module.low.shape[0]
    return None


def _added(kind: str, c_in: int, c_out: int, r: int, count: int) -> Added:
    biases = r + c_out if kind == "adapter" else 0
    return Added(kind, count, (c_in, c_out), r, r * (c_in + c_out), biases)
