"""The arithmetic behind linear attention, with numbers small enough to check by hand.

n tokens, width C, one head of width d. Softmax attention compares every token with every other one: n^2
pairs. Linear attention drops the softmax, so that the products may be bracketed the other way round.
"""

from __future__ import annotations

import math

import pytest
import torch

from pipeline.models import arithmetic
from pipeline.models.attention import linear_attention, softmax_attention


def column(*values: float) -> torch.Tensor:
    """Tokens of one head of width 1, as the cores take them: `[batch 1, heads 1, d 1, n]`."""
    return torch.tensor(values, dtype=torch.float64).view(1, 1, 1, -1)


def test_cost_of_four_and_eight_tokens():
    assert (arithmetic.projection_macs(4, 2), arithmetic.softmax_pair_macs(4, 2)) == (64, 64)
    assert (arithmetic.projection_macs(8, 2), arithmetic.softmax_pair_macs(8, 2)) == (128, 256)


def test_twice_the_side_is_four_times_the_tokens_and_sixteen_times_the_pairs():
    small, large = 32 * 64, 64 * 128
    assert large == 4 * small
    assert arithmetic.softmax_pair_macs(large, 64) == 16 * arithmetic.softmax_pair_macs(small, 64)
    assert arithmetic.linear_pair_macs(large, 64, 16) == 4 * arithmetic.linear_pair_macs(small, 64, 16)


def test_the_other_bracket_is_cheaper_with_many_tokens():
    assert arithmetic.bracket_macs(tokens=100, dim=4) == (80_000, 3_200)
    assert arithmetic.bracket_numbers(tokens=100, dim=4) == (10_000, 16)


@pytest.mark.parametrize(("tokens", "cheaper"), [(3, False), (4, False), (5, True)])
def test_the_other_bracket_is_cheaper_only_while_n_exceeds_d(tokens: int, cheaper: bool):
    by_pairs, by_state = arithmetic.bracket_macs(tokens, dim=4)
    assert (by_state < by_pairs) == cheaper


def test_softmax_may_not_be_reordered():
    query, keys, values = 1.0, torch.tensor([0.0, 1.0]), torch.tensor([2.0, 4.0])
    # weights 0.2689 and 0.7311: 0.2689 * 2 + 0.7311 * 4 = 3.4622 (3.46212 before rounding the weights)
    attended = ((query * keys).softmax(0) * values).sum()
    assert attended.item() == pytest.approx(3.4622, abs=1e-4)
    assert (query * (keys * values).sum()).item() == 4.0
    core = softmax_attention(column(query), column(0, 1), column(2, 4))
    assert core.item() == pytest.approx(3.4622, abs=1e-4)


def test_softmax_and_the_plain_product_differ():
    q = k = v = torch.tensor([[1.0], [0.0]])
    assert ((q @ k.T).softmax(1) @ v).flatten().tolist() == pytest.approx([0.7311, 0.5], abs=5e-5)
    assert ((q @ k.T) @ v).flatten().tolist() == [1.0, 0.0]
    core = softmax_attention(column(1, 0), column(1, 0), column(1, 0))
    assert core.flatten().tolist() == pytest.approx([0.7311, 0.5], abs=5e-5)


def test_linear_attention_is_a_weighted_mean():
    # (3 * 1 * 2 + 3 * 2 * 4) / (3 * 1 + 3 * 2) = 30 / 9
    assert linear_attention(column(3), column(1, 2), column(2, 4)).item() == pytest.approx(10 / 3)


@pytest.mark.parametrize("query, keys", [(0.0, (1.0, 2.0)), (3.0, (0.0, 0.0)), (-3.0, (1.0, 2.0))])
def test_a_zero_denominator_gives_zero(query: float, keys: tuple[float, float]):
    assert linear_attention(column(query), column(*keys), column(2, 4)).item() == 0.0


@pytest.mark.parametrize(("heads", "dim", "tokens"), [(1, 1, 1), (1, 4, 100), (3, 16, 7), (8, 32, 640)])
def test_either_bracket_order_agrees(heads: int, dim: int, tokens: int):
    generator = torch.Generator().manual_seed(heads * tokens)
    q, k, v = (torch.randn(2, heads, dim, tokens, generator=generator, dtype=torch.float64) for _ in "qkv")
    pairs = q.relu().transpose(-1, -2) @ k.relu()  # (Q K^T) first
    total = pairs.sum(-1, keepdim=True)
    weights = torch.where(total > 0, pairs / total, 0.0)
    expected = (weights @ v.transpose(-1, -2)).transpose(-1, -2)
    torch.testing.assert_close(linear_attention(q, k, v), expected, rtol=1e-10, atol=1e-12)
    assert math.isfinite(expected.abs().max())
