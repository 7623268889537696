"""An official checkpoint, imported and exported, computes what the reference implementation computed."""

from __future__ import annotations

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
def test_float_in_logits_out(
    name: str, golden_state, golden_logits, golden_input, tmp_path: Path, export_cli, capsys
) -> None:
    weights = tmp_path / f"efficientvit_seg_{name}.pt"
    torch.save({"state_dict": golden_state(name)}, weights)
    state, meta = import_official(weights)
    save_checkpoint(tmp_path / f"{name}.safetensors", state, meta)
    out = tmp_path / "bundle"
    words = f"build --target onnxruntime --size 128x256 --input float --output logits --out {out}"
    assert export_cli(*words.split(), "--checkpoint", tmp_path / f"{name}.safetensors") == 0
    assert "drawn scenes" in capsys.readouterr().out  # imported weights bring no images

    golden = golden_logits(name)
    session = open_session(load_bundle(out), threads=1)
    found = session.run(golden_input.numpy())
    session.close()
    assert found.shape == golden.shape and found.dtype == np.float32
    assert np.abs(found - golden).max() <= TOLERANCE * golden.std((2, 3)).mean()
