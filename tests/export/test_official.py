"""An official checkpoint, imported and exported, computes what the reference implementation computed."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from deploy.bundle import load_bundle
from deploy.runtimes import open_session
from pipeline.models.checkpoints import save_checkpoint
from pipeline.models.official import import_official

TOLERANCE = 1e-3  # of the golden's spatial standard deviation


@pytest.mark.parametrize(
    "name",
    [
        "b0_cityscapes",
        pytest.param("b1_ade20k", marks=pytest.mark.slow),
        pytest.param("b2_cityscapes", marks=pytest.mark.slow),
        pytest.param("l1_cityscapes", marks=pytest.mark.slow),
    ],
)
def test_float_in_logits_out(name: str, shared_data: Path, tmp_path: Path, export_cli, capsys) -> None:
    parity = shared_data / "parity"
    weights = tmp_path / f"efficientvit_seg_{name}.pt"
    torch.save({"state_dict": _rule(parity / f"efficientvit_seg_{name}.keys.txt")}, weights)
    state, meta = import_official(weights)
    save_checkpoint(tmp_path / f"{name}.safetensors", state, meta)
    out = tmp_path / "bundle"
    words = f"build --target onnxruntime --size 128x256 --input float --output logits --out {out}"
    assert export_cli(*words.split(), "--checkpoint", tmp_path / f"{name}.safetensors") == 0
    assert "drawn scenes" in capsys.readouterr().out  # imported weights bring no images

    frame = np.random.default_rng(0).normal(size=(1, 3, 128, 256)).astype(np.float32)
    golden = np.load(parity / f"efficientvit_seg_{name}.npz")["logits"]
    session = open_session(load_bundle(out), threads=1)
    found = session.run(frame)
    session.close()
    assert found.shape == golden.shape and found.dtype == np.float32
    assert np.abs(found - golden).max() <= TOLERANCE * golden.std((2, 3)).mean()


def _rule(keys: Path) -> dict[str, torch.Tensor]:
    """Weights by the rule in the data's README, from the keys and shapes alone."""
    state = {}
    for line in keys.read_text().splitlines():
        key, _, text = line.partition(" ")
        shape = tuple(json.loads(text))
        rng = np.random.default_rng(zlib.crc32(key.encode()))
        if key.endswith("num_batches_tracked"):
            state[key] = torch.zeros(shape, dtype=torch.int64)
            continue
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
        state[key] = torch.from_numpy(np.asarray(value, np.float32))
    return state
