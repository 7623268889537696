"""What every tensor of an ONNX graph holds on real inputs, against what half precision can hold.

A node leaves half precision where a value comes close to overflow, or where it divides by something so
small that its digits are gone. Everything else may become small: a sum does not miss what vanishes beside
it. Refuses to know which inputs, and what is done about it (`export/half.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto

from export.nodewise import Nodewise

LARGEST = 65504.0
SMALLEST_NORMAL = 2.0**-14
VANISHES = 2.0**-25  # half of the smallest number: rounds to 0
HEADROOM = 4.0  # other images, and sums inside a product, may go further than these outputs did
_DIVISORS = {"Div": 1, "Reciprocal": 0}


@dataclass(frozen=True)
class Range:
    """Of one tensor, over all inputs.

    Args:
        largest: absolute value. smallest: absolute value of what is not 0, or 0.
        overflows, vanishes: share of the values that half precision makes infinite, or 0 though they are not.
    """

    largest: float
    smallest: float
    overflows: float
    vanishes: float


def measure(model: ModelProto, inputs: Iterable[npt.NDArray[Any]]) -> dict[str, Range]:
    """Ranges of all float32 tensors that are computed, by name, in the graph's order."""
    graph, name = Nodewise(model), model.graph.input[0].name
    found: dict[str, Range] = {}
    for count, array in enumerate(inputs, 1):

        def note(_: NodeProto, tensor: str, value: npt.NDArray[Any], count: int = count) -> None:
            if value.dtype == np.float32:
                found[tensor] = _merge(found.get(tensor), _range(value), count)

        graph.run({name: array}, note)
    return found


def leave_half(model: ModelProto, ranges: Mapping[str, Range]) -> dict[str, str]:
    """Nodes that half precision would break, with the reason: they make or take what it cannot hold."""
    large = {name for name, found in ranges.items() if found.largest > LARGEST / HEADROOM}
    reasons: dict[str, str] = {}
    for node in model.graph.node:
        for name in (*node.output, *node.input):
            if name in large:
                reasons[node.name] = f"{node.op_type}: {name} reaches {ranges[name].largest:.3g}"
        divisor = ranges.get(node.input[_DIVISORS[node.op_type]]) if node.op_type in _DIVISORS else None
        if divisor and divisor.smallest < SMALLEST_NORMAL:
            reasons[node.name] = f"{node.op_type}: divides by {divisor.smallest:.3g}"
    return reasons


def _range(value: npt.NDArray[np.float32]) -> Range:
    size = np.abs(value)
    some = size[size > 0]
    smallest = float(some.min()) if some.size else 0.0
    vanishing = float(np.count_nonzero(some <= VANISHES)) / size.size
    return Range(float(size.max()), smallest, float(np.mean(size >= LARGEST + 16)), vanishing)


def _merge(old: Range | None, new: Range, count: int) -> Range:
    """Over `count` inputs, the last of which is `new`."""
    if old is None:
        return new
    smallest = (
        min(old.smallest, new.smallest) if old.smallest and new.smallest else old.smallest + new.smallest
    )
    return Range(
        max(old.largest, new.largest),
        smallest,
        old.overflows + (new.overflows - old.overflows) / count,
        old.vanishes + (new.vanishes - old.vanishes) / count,
    )
