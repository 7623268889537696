"""The attention layer: the same function as the reference, safe in float16, trainable under autocast."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipeline.models import attention
from pipeline.models.attention import CORES, EPS, MultiScaleAttention, linear_attention, split_scale
from pipeline.models.efficientvit import create_model

FLOAT16_MAX, FLOAT16_TINY = 65504.0, 2.0**-14  # largest, smallest normal
LARGEST_TOKENS = 64 * 128  # stride 16 at 1024x2048


def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The slow twin: a row of ones under v, no scale, an added epsilon, as published."""
    q, k = q.relu(), k.relu()
    out = (torch.cat([v, torch.ones_like(v[..., :1, :])], dim=-2) @ k.transpose(-1, -2)) @ q
    return out[..., :-1, :] / (out[..., -1:, :] + 1e-15)


@settings(max_examples=30, deadline=None)
@given(
    batch=st.integers(1, 3),
    heads=st.integers(1, 8),
    dim=st.sampled_from([1, 8, 16, 32]),
    tokens=st.integers(1, 700),
    spread=st.sampled_from([1e-3, 1.0, 30.0]),
    seed=st.integers(0, 2**31),
)
def test_linear_attention_equals_the_reference(batch, heads, dim, tokens, spread, seed):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (spread * torch.randn(batch, heads, dim, tokens, generator=generator).double() for _ in "qkv")
    ours, expected = linear_attention(q, k, v), reference(q, k, v)
    mean_key = k.relu().mean(-1, keepdim=True)
    exact = (q.relu() * mean_key).sum(-2, keepdim=True) > EPS * spread**2  # the smallest may be clamped
    exact = exact.expand_as(v)
    torch.testing.assert_close(ours[exact], expected[exact], rtol=1e-6, atol=1e-10)  # 1e-15 of the reference
    assert (ours[~exact].abs() <= expected[~exact].abs() + 1e-9).all(), "below EPS: only nearer to zero"


@pytest.mark.parametrize(
    ("variant", "size"),
    [
        ("b0", (64, 128)),
        ("b0", (97, 131)),
        ("b1", (97, 131)),
        pytest.param("b1", (256, 512), marks=pytest.mark.slow),
        pytest.param("b2", (128, 256), marks=pytest.mark.slow),
        pytest.param("l1", (128, 256), marks=pytest.mark.slow),
    ],
)
def test_network_equals_the_reference_in_float32(variant, size, rule_weights, monkeypatch):
    """Within 1e-5 of the logits' deviation, beyond what rounding alone does to the reference itself."""
    model = rule_weights(create_model(variant, 19))
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 3, *size)).astype("float32"))
    with torch.no_grad():
        ours = model(x)
        exact_ours = model.double()(x.double())
        monkeypatch.setitem(CORES, "linear", reference)
        exact = model(x.double())
        plain = model.float()(x)
    deviation = exact.std((2, 3)).mean()
    assert (exact_ours - exact).abs().max() / deviation < 1e-9
    rounding = (plain - exact).abs().max() / deviation
    assert (ours - exact).abs().max() / deviation < rounding + 1e-5
    assert (ours - plain).abs().mean() / deviation < 1e-5


@pytest.mark.parametrize("tokens", [1, 2, 3, 96, 2048, LARGEST_TOKENS])
def test_scales_are_powers_of_two_that_keep_k_and_v_normal(tokens):
    k_scale, v_scale = split_scale(tokens)
    assert np.frexp(k_scale)[0] == np.frexp(v_scale)[0] == 0.5
    assert 1 / 8 < tokens * k_scale * v_scale <= 1 / 4
    assert 0.05 * k_scale > FLOAT16_TINY, "a k of 0.05 stays a normal number"
    assert 0.05 * v_scale > FLOAT16_TINY


@pytest.mark.parametrize("size", [0.01, 1.0, 10.0, 60.0, 500.0])
@pytest.mark.parametrize("tokens", [48, LARGEST_TOKENS])
def test_float16_is_finite_and_right_whatever_the_activations(tokens, size):
    """From a hundredth to the hundreds that trained networks reach, whose plain sums are near 1e10."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (size * torch.rand(1, 2, 16, tokens, generator=generator) for _ in "qkv")
    half = linear_attention(q.half(), k.half(), v.half())
    assert torch.isfinite(half).all()
    torch.testing.assert_close(half.float(), reference(q, k, v), rtol=1e-2, atol=0)
    if size >= 10 and tokens == LARGEST_TOKENS:
        assert (v @ k.transpose(-1, -2) @ q).max() > 50 * FLOAT16_MAX
        assert not torch.isfinite(reference(q.half(), k.half(), v.half())).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("zero", ["q", "k", "both"])
def test_all_zero_queries_or_keys_give_zeros(dtype, zero):
    q, k, v = (torch.randn(1, 2, 16, 50, dtype=dtype) for _ in "qkv")
    q, k = (torch.zeros_like(q) if zero != "k" else q), (torch.zeros_like(k) if zero != "q" else k)
    assert torch.equal(linear_attention(q, k, v), torch.zeros_like(v))


def test_epsilon_is_a_normal_float16_number():
    assert float(np.finfo(np.float16).smallest_normal) == EPS


def test_network_in_float16_is_finite_and_agrees(rule_weights):
    model = rule_weights(create_model("b0", 19))
    x = torch.randn(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, half = model(x), model.half()(x.half())
    assert torch.isfinite(half).all()
    assert (half.argmax(1) == expected.argmax(1)).float().mean() > 0.98


def test_fresh_network_in_float16_is_finite():
    """Without trained BatchNorm statistics the last stages' queries, keys and values reach 60 units."""
    torch.manual_seed(173 * 227)
    model = create_model("b0", 105).eval()
    x = torch.randn(1, 3, 173, 227)
    with torch.no_grad():
        assert torch.isfinite(model.half()(x.half())).all()


@pytest.mark.slow  # float16 convolutions run on one core, unoptimised: the larger variants take many minutes
@pytest.mark.parametrize("variant", ["b0", "b1"])
def test_network_in_float16_is_finite_at_full_size(variant, rule_weights):
    model = rule_weights(create_model(variant, 19)).half()
    with torch.no_grad():
        logits = model(torch.randn(1, 3, 1024, 2048, generator=torch.Generator().manual_seed(0)).half())
    assert torch.isfinite(logits).all()


def test_heads_and_scales_are_those_of_the_baseline():
    linear, softmax = (MultiScaleAttention(64, 16, core) for core in ("linear", "softmax"))
    softmax.load_state_dict(linear.state_dict())
    x = torch.randn(2, 64, 5, 7)
    for left, right in zip(linear.queries_keys_values(x), softmax.queries_keys_values(x), strict=True):
        assert left.shape == (2, 8, 16, 35)
        assert torch.equal(left, right)
    assert not torch.equal(linear(x), softmax(x))


@pytest.mark.parametrize("core", sorted(CORES))
def test_training_under_autocast_uses_float32_in_the_core(core, monkeypatch):
    seen = []
    plain = CORES[core]
    monkeypatch.setitem(CORES, core, lambda q, k, v: (seen.append(q.dtype), plain(q, k, v))[1])
    model = create_model("b0", 3, attention=core)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(2, 3, 64, 64)).float().square().mean()
    loss.backward()
    assert set(seen) == {torch.float32}
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("core", sorted(CORES))
def test_cores_are_differentiable(core):
    torch.manual_seed(0)
    inputs = [torch.randn(1, 1, 3, 5, dtype=torch.float64, requires_grad=True) for _ in "qkv"]
    assert torch.autograd.gradcheck(attention.CORES[core], inputs, atol=1e-6)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_baseline_sees_no_lengths(factor):
    q, k, v = (torch.randn(1, 2, 16, 50, dtype=torch.float64) for _ in "qkv")
    found = CORES["softmax"](q * factor, k / factor, v)
    cosines = torch.nn.functional.cosine_similarity(q[..., :, None], k[..., None, :], dim=2)
    expected = v @ (10 * cosines).softmax(-1).transpose(-1, -2)
    torch.testing.assert_close(found, expected)


def test_the_baseline_is_finite_in_float16_where_squares_are_not():
    q, k, v = (torch.randn(1, 2, 16, 50) for _ in "qkv")
    half = CORES["softmax"](*(x.half() for x in (1e4 * q, 1e-3 * k, v)))
    torch.testing.assert_close(half.float(), CORES["softmax"](q, k, v), rtol=0, atol=0.02)
    assert torch.isfinite(CORES["softmax"](torch.zeros_like(q), k, v)).all()
