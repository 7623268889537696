"""Multi-scale attention with a linear core that survives float16, and the softmax core it replaces.

Linear attention swaps softmax(q k^T) for relu(q) relu(k)^T; without the softmax the products may be
bracketed as q (k^T v), whose cost grows with the number of tokens and not with its square. Tensors are
channel-major, `[B, heads, d, N]`, as a convolution leaves them, so nothing is transposed: out = (v k^T) q.

In float16 two things break; factors that cancel in the quotient handle both, the function stays the same:
- sums over tokens pass 65504, by five orders of magnitude once trained. k and v are multiplied by constant
  powers of two (together 1/4N, k's no smaller than 2^-9) before the sum over tokens, so that both stay normal
  numbers up to 1024x2048. The summed matrix then is divided by its own largest entry, a head at a time, and
  every query by its own: the second product is bounded by 1024 d, whatever the activations;
- an added epsilon of 1e-15 is 0, and exporters drop it. `max(denominator, EPS)` stays in the graph. EPS is
  float16's smallest normal number, so hardware that flushes smaller ones to zero keeps the guard; since each
  query's largest entry is 1, only keys that are next to nothing beside the values get below it.

The baseline is softmax attention of normalised queries and keys. Linear attention does not see a query's
length; a plain softmax does, and at the learning rates that suit these networks the lengths grow until scores
pass 1e4 and every query looks at one token.

Refuses to know: stages, sizes, checkpoints. Source: EfficientViT (Cai et al., ICCV 2023; reference
Apache-2.0); linear attention: Katharopoulos et al., ICML 2020; normalised queries and keys: Henry et
al., Findings of EMNLP 2020, and Liu et al. (Swin V2), CVPR 2022.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.models.layers import ConvLayer

EPS = 2.0**-14  # float16's smallest normal number; its reciprocal is finite
PEAK = 2.0**10  # the second product's terms stay below this; times d = 32 it is half of float16's largest
SHARPNESS = 10.0  # the softmax scores' largest value; Swin V2's learned one starts here
KERNEL = 5  # the one extra scale of every published variant: 5x5 tokens aggregated


def split_scale(tokens: int) -> tuple[float, float]:
    """Powers of two for k and for v: their product is in (1/8, 1/4] / tokens, k's is at least 2^-9."""
    exponent = (max(tokens, 1) - 1).bit_length() + 2
    for_k = min(exponent, 9)
    return 2.0**-for_k, 2.0 ** (for_k - exponent)


def inverse(x: Tensor) -> Tensor:
    """1 / max(x, EPS), without a gradient: for factors that cancel."""
    return x.detach().clamp(min=EPS).reciprocal()


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """relu(q) (relu(k)^T v) / relu(q) (relu(k)^T 1), with a denominator of at least EPS after scaling.

    Args:
        q, k, v: `[B, heads, d, N]`, any float dtype.

    Returns:
        `[B, heads, d, N]`; zeros where the denominator is zero.
    """
    k_scale, v_scale = split_scale(k.shape[-1])
    q, k, v = F.relu(q), F.relu(k) * k_scale, v * v_scale
    # v's row of ones gives the denominator; it is appended after the sum over tokens, where it is d numbers.
    state = torch.cat([v @ k.transpose(-1, -2), k.sum(-1).unsqueeze(-2) * v_scale], dim=-2)
    state = state * inverse(state.abs().amax(dim=(-2, -1), keepdim=True)) * PEAK
    out = state @ (q * inverse(q.amax(dim=-2, keepdim=True)))
    return out[..., :-1, :] / out[..., -1:, :].clamp(min=EPS)


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """softmax(scale q k^T) v, scale 1 / sqrt(d) if not given; same shapes as `linear_attention`."""
    q, k, v = (x.transpose(-1, -2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, scale=scale).transpose(-1, -2)


def unit(x: Tensor) -> Tensor:
    """x / |x| over d, for `[B, heads, d, N]`; zero stays zero.

    The largest entry is divided out first, so that the squares are finite in float16.
    """
    x = x * inverse(x.abs().amax(dim=-2, keepdim=True))
    return x * (x * x).sum(dim=-2, keepdim=True).clamp(min=EPS).rsqrt()


def normalised_softmax_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(10 cos(q, k)) v, the baseline; same shapes as `linear_attention`."""
    return softmax_attention(unit(q), unit(k), v, SHARPNESS)


CORES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": linear_attention,
    "softmax": normalised_softmax_attention,
}


class MultiScaleAttention(nn.Module):
    """qkv from tokens and from 5x5-aggregated tokens, the core per head, one projection back.

    Args:
        channels: C; `dim`: d, width of one head (C / d heads per scale).
        core: a key of `CORES`.
    """

    def __init__(self, channels: int, dim: int, core: str) -> None:
        super().__init__()
        self.dim, self.core = dim, core
        width = 3 * channels
        self.qkv = ConvLayer(channels, width, norm=False)
        depthwise = nn.Conv2d(width, width, KERNEL, padding=KERNEL // 2, groups=width, bias=False)
        pointwise = nn.Conv2d(width, width, 1, groups=width // dim, bias=False)
        self.aggreg = nn.ModuleList([nn.Sequential(depthwise, pointwise)])
        self.proj = ConvLayer(2 * channels, channels)

    def queries_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`[B, C, H, W]` -> three `[B, 2 C / d, d, H W]`, before the core's own mapping."""
        qkv = self.qkv(x)
        qkv = torch.cat([qkv, self.aggreg[0](qkv)], dim=1)
        batch, channels, height, width = qkv.shape
        q, k, v = qkv.reshape(batch, channels // (3 * self.dim), 3 * self.dim, height * width).chunk(3, dim=2)
        return q, k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The core; float32 under autocast, as the gradients of sums over all tokens need it."""
        core, device = CORES[self.core], q.device.type
        if not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)):
            return core(q, k, v)
        with torch.autocast(device, enabled=False):
            return core(q.float(), k.float(), v.float())

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C, H, W]` -> the same shape."""
        batch, channels, height, width = x.shape
        out = self.attend(*self.queries_keys_values(x))
        return self.proj(out.reshape(batch, 2 * channels, height, width))
