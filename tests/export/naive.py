"""Linear attention as the paper writes it: the twin that must fail in half precision."""

import torch
from torch import Tensor


def naive_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Sums over all tokens, past 65504 once trained, and an epsilon that is 0 in half precision."""
    q, k = q.relu(), k.relu()
    state = torch.cat([v @ k.transpose(-1, -2), k.sum(-1).unsqueeze(-2)], dim=-2)
    out = state @ q
    return out[..., :-1, :] / (out[..., -1:, :] + 1e-15)
