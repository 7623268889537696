"""Weights by the rule of the parity goldens, and the goldens themselves."""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

torch.set_num_threads(2)


def golden_array(key: str, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter's value, from its name alone (rule in the goldens' README)."""
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    if key.endswith("num_batches_tracked"):
        return np.zeros(shape, np.int64)
    if key.endswith("running_var"):
        value = rng.uniform(0.5, 1.5, shape)
    elif key.endswith("running_mean"):
        value = rng.normal(0, 0.05, shape)
    elif key.endswith("bias"):
        value = rng.normal(0, 0.02, shape)
    elif len(shape) == 1:
        value = rng.uniform(0.8, 1.2, shape)
    else:
        value = rng.normal(0, 1.0 / np.sqrt(np.prod(shape[1:])), shape)
    return np.asarray(value, np.float32)


@pytest.fixture(scope="session")
def golden_state(shared_data: Path) -> Callable[[str], dict[str, Tensor]]:
    """name -> the official state dict of that golden, in the official order."""

    def build(name: str) -> dict[str, Tensor]:
        lines = (shared_data / "parity" / f"efficientvit_seg_{name}.keys.txt").read_text().splitlines()
        pairs = (line.split(" ", 1) for line in lines)
        return {key: torch.from_numpy(golden_array(key, tuple(ast.literal_eval(s)))) for key, s in pairs}

    return build


@pytest.fixture(scope="session")
def golden_logits(shared_data: Path) -> Callable[[str], np.ndarray]:
    """name -> the reference's logits `[1, classes, 16, 32]`."""
    return lambda name: np.load(shared_data / "parity" / f"efficientvit_seg_{name}.npz")["logits"]


@pytest.fixture(scope="session")
def golden_input() -> Tensor:
    """`[1, 3, 128, 256]`, already normalised."""
    return torch.from_numpy(np.random.default_rng(0).normal(size=(1, 3, 128, 256)).astype("float32"))


@pytest.fixture(scope="session")
def rule_weights() -> Callable[[torch.nn.Module], torch.nn.Module]:
    """Fill any model by the goldens' rule: weights whose activations spread as trained ones do."""

    def fill(model: torch.nn.Module) -> torch.nn.Module:
        state = {k: torch.from_numpy(golden_array(k, tuple(v.shape))) for k, v in model.state_dict().items()}
        model.load_state_dict(state)
        return model.eval()

    return fill
