"""What attention costs, in multiply-accumulates: the formulas behind the choice of linear attention.

n tokens of width C attend in heads of width d. Plain functions of numbers; knows no network.
Source: Vaswani et al., 2017 (softmax), Katharopoulos et al., 2020 (linear).
"""

from __future__ import annotations

import math


def projection_macs(tokens: int, channels: int) -> int:
    """Query, key, value and output projections: 4 n C^2, for either kind."""
    return 4 * tokens * channels**2


def softmax_pair_macs(tokens: int, channels: int) -> int:
    """(Q K^T) V over all heads: every pair of tokens meets twice, 2 n^2 C."""
    return 2 * tokens**2 * channels


def linear_pair_macs(tokens: int, channels: int, dim: int) -> int:
    """Q (K^T V) over all heads of width d, with the denominator's column: 2 n C (d + 1)."""
    return 2 * tokens * channels * (dim + 1)


def bracket_macs(tokens: int, dim: int) -> tuple[int, int]:
    """Multiplications of (Q K^T) V and of Q (K^T V) in one head of width d, without the denominator."""
    return 2 * tokens**2 * dim, 2 * tokens * dim**2


def bracket_numbers(tokens: int, dim: int) -> tuple[int, int]:
    """Intermediate numbers that either bracket order holds: n^2 and d^2."""
    return tokens**2, dim**2


def smallest_size(tokens: int, stride: int, aspect: float) -> tuple[int, int]:
    """Image (H, W), W / H about `aspect`, whose map at `stride` holds at least `tokens` tokens."""
    rows = max(1, round(math.sqrt(tokens / aspect)))
    return rows * stride, -(-tokens // rows) * stride


def adapter_parameters(channels: int, bottleneck: int, biases: bool = True) -> int:
    """One bottleneck adapter of width d and bottleneck r: 2 d r, and r + d biases (Houlsby et al., 2019)."""
    return 2 * channels * bottleneck + (channels + bottleneck if biases else 0)
