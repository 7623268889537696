"""`adapt --sweep`: what is trained and stored, cached and gone on; the table's arithmetic; wrong use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from deploy.errors import InputError
from pipeline import sweep_table
from pipeline.models.checkpoints import CheckpointMeta, read_meta, save_checkpoint
from pipeline.models.efficientvit import create_model
from pipeline.sweep import Candidate, candidates

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """zoo/street: a base of four classes."""
    torch.manual_seed(0)
    path = tmp_path / "zoo" / "street" / "model.safetensors"
    spec = {"variant": "b0", "attention": "linear", "classes": 4, "head": "cityscapes"}
    save_checkpoint(
        path, create_model("b0", 4).state_dict(), CheckpointMeta(spec, preprocess={"size": [48, 64]})
    )
    return path


def test_candidates_are_methods_with_r_and_rate() -> None:
    found = candidates("adapter:4, full@1e-3,norm,top-1,lora:8@0.01")
    assert found == [
        Candidate("adapter", 4),
        Candidate("full", lr=1e-3),
        Candidate("norm"),
        Candidate("top-1"),
        Candidate("lora", 8, 0.01),
    ]
    assert [str(each) for each in found] == ["adapter-4", "full@0.001", "norm", "top-1", "lora-8@0.01"]


@pytest.mark.parametrize(
    "wrong", ["", "adapter:", "adapter,,norm", "a b", "norm,norm", "full@x", "full@1-e", "../x"]
)
def test_other_lists_are_one_line(wrong: str) -> None:
    with pytest.raises(InputError):
        candidates(wrong)


def record(**row: object) -> dict:
    """A sweep of one row with two seeds."""
    seeds = [
        {"miou": miou, "dice": {"air": 0.9, "lung": dice}, "train_s": 10.0}
        for miou, dice in ((0.5, 0.6), (0.7, None))
    ]
    trained = {"adapters": 30, "low rank": 0, "norms": 20, "blocks": 0, "head": 50}
    one = {"method": "adapter", "bottleneck": 4, "parameters": 1000, "trained": trained, "stored_bytes": 400}
    return {
        "base": {"name": "street", "bytes": 4000, "latency_ms": 5.0},
        "data": {"name": "ct", "classes": ["air", "lung"], "images": {"train": 40, "val": 10}},
        "rows": [{**one, "seeds": seeds, "latency_ms": 5.5, **row}],
    }


def test_the_table_says_what_a_domain_costs() -> None:
    (cells,) = sweep_table.rows(record())
    shown = dict(zip(sweep_table.head(record()), cells, strict=True))
    assert shown["method"] == "adapter r=4" and shown["ms"] == "5.5" and shown["head"] == "50"
    assert shown["mIoU"] == "0.600 ±0.141" and shown["Dice lung"] == "0.600"
    assert shown["trained"] == "50" and shown["share"] == "5.0%", "the head is counted apart"
    assert shown["base + 3"] == "1.30x"
    twice = record()
    twice["rows"] = [{**twice["rows"][0], "lr": lr} for lr in (0.02, 0.002)]
    assert [cells[0] for cells in sweep_table.rows(twice)] == ["adapter r=4 lr=0.02", "adapter r=4 lr=0.002"]


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    sweep_table.draw(record(), tmp_path / "deep" / "p.png")
    assert (tmp_path / "deep" / "p.png").read_bytes().startswith(b"\x89PNG")


def test_options_of_a_sweep_need_one(pipeline, make_data, recipe, base, capsys) -> None:
    command = ("adapt", "--checkpoint", "street", "--data", make_data("ct"), "--recipe", recipe)
    assert pipeline(*command, "--seeds", 2) == 2
    assert "add --sweep" in capsys.readouterr().err
    assert pipeline(*command, "--sweep", "--run", "mine") == 2
    assert "names its runs" in capsys.readouterr().err
    assert pipeline(*command, "--sweep", "--methods", "prompt") == 2
    assert "unknown method" in capsys.readouterr().err
    assert pipeline(*command, "--sweep", "--domain", "a b") == 2
    assert "a b" in capsys.readouterr().err and not Path("runs").exists()


@pytest.mark.slow
def test_a_sweep_trains_exports_times_and_is_cached(
    pipeline, make_data, recipe, base, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = ["adapt", "--checkpoint", "street", "--data", make_data("ct"), "--recipe", recipe, "--sweep"]
    command += ["--methods", "adapter:4,scratch", "--seeds", 2, "--threads", 1, "--json", tmp_path / "s.json"]
    assert pipeline(*command) == 0
    first = json.loads((tmp_path / "s.json").read_text())
    adapter, scratch = first["rows"]
    assert [seed["seed"] for seed in adapter["seeds"]] == [0, 1]
    assert adapter["stored_bytes"] < base.stat().st_size / 10 < scratch["stored_bytes"]
    assert sum(scratch["trained"].values()) == scratch["parameters"]
    assert all(row["latency_ms"] > 0 for row in (first["base"], adapter, scratch))
    meta = read_meta(tmp_path / "runs/street+ct-scratch-s1/train/best.safetensors")
    assert not meta.base and meta.provenance["settings"]["train"]["seed"] == 1
    assert (tmp_path / "runs/street+ct.sweep/sweep.png").is_file()
    capsys.readouterr()
    assert pipeline(*command) == 0
    assert capsys.readouterr().out.count("cached: ") == 4
    second = json.loads((tmp_path / "s.json").read_text())
    assert [row["seeds"] for row in second["rows"]] == [row["seeds"] for row in first["rows"]]
