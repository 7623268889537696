"""A domain's parameters by formula, part by part, against what the model holds; and in `summary`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.errors import run_cli
from pipeline.__main__ import main
from pipeline.models.accounting import account
from pipeline.models.adaptation import Adaptation, adapt
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import create_model


@pytest.mark.parametrize(
    ("method", "r", "each"),
    [
        ("adapter", 2, {64: (256, 66), 128: (512, 130)}),
        ("lora", 4, None),
        ("adapter-all", 2, None),
        ("norm", 8, {}),
        ("full", 8, {}),
    ],
)
def test_parts_add_up_to_what_the_model_holds(method: str, r: int, each: dict | None) -> None:
    model, how = create_model("b0", 5), Adaptation(method, r)
    before = sum(p.numel() for p in model.parameters())
    adapt(model, 5, how)
    found = account(model, how)
    added = sum(part.count * (part.weights + part.biases) for part in found.added)
    assert found.parameters == before + added
    assert added == found.trained["adapters"] + found.trained["low rank"]
    assert sum(found.trained.values()) == sum(p.numel() for p in model.parameters() if p.requires_grad)
    if each is not None:
        assert {part.channels[0]: (part.weights, part.biases) for part in found.added} == each
    for part in found.added:
        assert part.weights == r * sum(part.channels), "2 d r for an adapter"
        assert part.biases == (r + part.channels[1] if part.kind == "adapter" else 0)


def test_summary_of_a_domain_lists_what_it_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    how = Adaptation("adapter", 2)
    model = create_model("b0", 3)
    adapt(model, 3, how)
    spec = {
        "variant": "b0",
        "attention": "linear",
        "classes": 3,
        "head": "cityscapes",
        "adaptation": vars(how),
    }
    path = tmp_path / "runs" / "street+ct" / "train" / "best.safetensors"
    meta = CheckpointMeta(spec, preprocess={"size": [64, 96]}, base={"name": "street", "sha256": "0" * 64})
    save_checkpoint(path, model.state_dict(), meta)
    monkeypatch.chdir(tmp_path)

    def summary(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["pipeline", "summary", *words])
        return run_cli(main)

    assert summary("street+ct") == 0
    shown = capsys.readouterr().out
    assert "64x96" in shown and "3 classes" in shown and "still cost their MACs" in shown
    (line,) = (line.split() for line in shown.splitlines() if line.split()[:2] == ["adapter", "64,"])
    assert line == ["adapter", "64,", "64", "2", "256", "66", "322", "4", "1,288"]
    assert max(map(len, shown.splitlines())) <= 80 and "…" not in shown
    assert summary("street+ct", "--attention", "softmax") == 2
    assert summary("nowhere") == 2
