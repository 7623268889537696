"""The official models' function, from their own keys: goldens of the reference implementation."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch

from pipeline.import_official import run
from pipeline.models.checkpoints import load_checkpoint
from pipeline.models.efficientvit import create_model
from pipeline.models.labelmap import LabelMapper

GOLDENS = ["b0_cityscapes", "b1_cityscapes", "b1_ade20k", "b2_cityscapes", "l1_cityscapes"]
TOLERANCE = 1e-4  # of the golden's spatial standard deviation; asked: 1e-3


def _error(logits, golden) -> float:
    return abs(logits.numpy() - golden).max() / golden.std((2, 3)).mean()


@pytest.mark.parametrize("name", GOLDENS)
def test_official_state_dict_gives_the_reference_logits(name, golden_state, golden_logits, golden_input):
    variant, head = name.split("_")
    golden, state = golden_logits(name), golden_state(name)
    model = create_model(variant, golden.shape[1], head=head).eval()
    assert list(model.state_dict()) == list(state), "names and order"
    model.load_state_dict(state)
    static = LabelMapper(model, (128, 256), (0, 0, 0), (1, 1, 1), input="float", output="logits")
    with torch.no_grad():
        assert _error(model(golden_input), golden) < TOLERANCE
        assert _error(static(golden_input), golden) < TOLERANCE


@pytest.mark.parametrize("name", ["b0_cityscapes", "b1_ade20k"])
def test_import_finds_variant_and_head_by_itself(
    name, golden_state, golden_logits, golden_input, tmp_path: Path, capsys
):
    source, out = tmp_path / "anything.pt", tmp_path / "imported"
    torch.save({"state_dict": golden_state(name)}, source)
    assert run(argparse.Namespace(checkpoint=source, run=None, out=out)) == 0
    variant, head = name.split("_")
    assert f"{variant}, {head} head" in capsys.readouterr().out
    model, meta = load_checkpoint(out / "best.safetensors")
    golden = golden_logits(name)
    assert len(meta.dataset["classes"]) == golden.shape[1]
    with torch.no_grad():
        assert _error(model(golden_input), golden) < TOLERANCE
