"""How a float operation computes: what its sums accumulate in, and what its result is rounded to.

Core ML does not say which hardware runs a program, nor in what precision that one accumulates. So the
choice is explicit, and there are three:

- `SAVED`: every result is rounded to the type that the program declares; a sum inside one operation
  accumulates in float32. That is what GPUs do, and the reading by which artifacts are judged.
- `FLOAT32`: nothing is rounded, whatever is declared: what remains are the stored weights' own errors.
- `STRICT`: as `SAVED`, sums accumulate in the declared type too, term after term, and results too small to
  be normal numbers become 0. That is the plainest half-precision unit: the pessimist's reading, for
  forensics.

Arrays are float32 that hold numbers of the declared type. Rounding uses torch, ten times faster there than
NumPy; products do too, since two pools of threads that take turns cost three times the time. Refuses to know
operations and programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]
_NORMAL = 2.0**-14  # float16's smallest normal number


@dataclass(frozen=True)
class Arithmetic:
    """One of the three readings; `half` is set for one operation, by its declared result.

    Args:
        rounds: results are rounded to float16 where that is declared. strict: sums accumulate in it as well,
            and its subnormal numbers become 0.
        half: whether the operation at hand declares float16.
    """

    rounds: bool = True
    strict: bool = False
    half: bool = False

    def finish(self, x: Array) -> Array:
        """An operation's float result as it is stored: rounded to nearest even, beyond 65504 infinite."""
        if not (self.half and self.rounds):
            return x
        rounded = _to_half(x)
        return np.where(np.abs(rounded) < _NORMAL, np.float32(0), rounded) if self.strict else rounded

    def matmul(self, a: Array, b: Array) -> Array:
        """`[..., M, K]` x `[..., K, N]` -> `[..., M, N]`, not finished."""
        left, right = (torch.from_numpy(np.require(x, requirements=["C", "W"])) for x in (a, b))
        if not (self.half and self.strict):
            return np.asarray(torch.matmul(left, right).numpy())
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        left, right = left.half(), right.half()
        total = torch.zeros(*shape, a.shape[-2], b.shape[-1], dtype=torch.float16)
        for k in range(a.shape[-1]):  # one rounding a term: a fused multiply-add in half precision
            torch.addcmul(total, left[..., k : k + 1], right[..., k : k + 1, :], out=total)
        return np.asarray(total.float().numpy())

    def sum(self, x: Array, axes: tuple[int, ...], keep_dims: bool) -> Array:
        """Sum over some axes, not finished."""
        if not (self.half and self.strict):
            return np.asarray(x.sum(axes, keepdims=keep_dims))
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        terms = x.transpose(*axes, *kept).reshape(-1, *(x.shape[axis] for axis in kept))
        total = np.zeros(terms.shape[1:], np.float32)
        for term in terms:
            total = _to_half(total + term)
        return np.expand_dims(total, axes) if keep_dims else total


SAVED = Arithmetic()
FLOAT32 = Arithmetic(rounds=False)
STRICT = Arithmetic(strict=True)


def _to_half(x: Array) -> Array:
    """Rounded to float16, kept as float32."""
    return np.asarray(torch.from_numpy(np.asarray(x, order="C")).half().float().numpy())
