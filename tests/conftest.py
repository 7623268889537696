"""Fixtures shared by all tests."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real labelled data: $EDGESEG_DATA, or ../shared/data; skips where it is absent."""
    folder = Path(os.environ.get("EDGESEG_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set EDGESEG_DATA to a folder that holds it")
    return folder


@pytest.fixture(scope="session")
def labelled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small labelled folder of drawn street scenes (16 train, 8 val images of 64x96)."""
    from pipeline.datasets import synthetic

    folder = tmp_path_factory.mktemp("drawn") / "street scenes"  # a space in the path, on purpose
    synthetic.generate(folder, train=16, val=8, size=(64, 96), seed=0)
    return folder


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, as a fresh clone has them, that uses this environment's packages."""
    target = tmp_path_factory.mktemp("clone dir") / "edgeseg"  # a space in the path, on purpose
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    for name in ("pyproject.toml", "constraints.txt"):
        os.utime(target / name, (0, 0))  # or make would install this copy into the environment
    return target


def _golden_array(key: str, shape: tuple[int, ...]) -> np.ndarray:
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
def golden_state(shared_data: Path) -> Callable[[str], dict[str, torch.Tensor]]:
    """name -> the official state dict of that golden, in the official order."""
    import torch

    def build(name: str) -> dict[str, torch.Tensor]:
        lines = (shared_data / "parity" / f"efficientvit_seg_{name}.keys.txt").read_text().splitlines()
        pairs = (line.split(" ", 1) for line in lines)
        return {key: torch.from_numpy(_golden_array(key, tuple(ast.literal_eval(s)))) for key, s in pairs}

    return build


@pytest.fixture(scope="session")
def golden_logits(shared_data: Path) -> Callable[[str], np.ndarray]:
    """name -> the reference's logits `[1, classes, 16, 32]`."""
    return lambda name: np.load(shared_data / "parity" / f"efficientvit_seg_{name}.npz")["logits"]


@pytest.fixture(scope="session")
def golden_input() -> torch.Tensor:
    """`[1, 3, 128, 256]`, already normalised."""
    import torch

    return torch.from_numpy(np.random.default_rng(0).normal(size=(1, 3, 128, 256)).astype("float32"))


@pytest.fixture(scope="session")
def rule_weights() -> Callable[[torch.nn.Module], torch.nn.Module]:
    """Fill any model by the goldens' rule: weights whose activations spread as trained ones do."""
    import torch

    def fill(model: torch.nn.Module) -> torch.nn.Module:
        state = {k: torch.from_numpy(_golden_array(k, tuple(v.shape))) for k, v in model.state_dict().items()}
        model.load_state_dict(state)
        return model.eval()

    return fill
