"""Images/s in training: one small round end to end, and the README's table from stored files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import training
from docs import training_table

RECIPE = "[data]\nsize = '64x96'\n[augment]\ncrop = '32x48'\n[train]\nsteps = 9\nbatch = 2\nwarmup = 1\n"


def test_one_small_round(tmp_path: Path, labelled_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    words = ["--recipe", tmp_path / "r.toml", "--data", labelled_folder, "--rounds", 1, "--seconds", 0.01]
    out = tmp_path / "out.json"
    monkeypatch.setattr(sys, "argv", ["training", *map(str, words), "--threads", "1", "--json", str(out)])
    training.main()
    record = json.loads(out.read_text())
    assert {"command", "machine", "versions", "threads", "rounds"} <= set(record) and record["recipe"] == "r"
    linear, softmax = record["linear"], record["softmax"]
    assert min(linear.values()) > 0 and min(softmax.values()) > 0
    ratio = linear["step_images_per_s"] / softmax["step_images_per_s"]
    assert record["linear_over_softmax"]["median"] == pytest.approx(ratio)


def card(kind: str) -> dict[str, object]:
    recipe = {"name": "street_b0"}
    return {
        "name": f"street_{kind}",
        "model": {"attention": kind, "parameters": 700_000},
        "dataset": {"name": "camvid"},
        "metrics": {"miou": 0.7 if kind == "linear" else 0.71},
        "training": {"recipe": recipe, "steps": 100, "hours": 2.0 if kind == "linear" else None},
    }


def test_the_table_is_made_of_the_stored_files_and_nothing_else(tmp_path: Path) -> None:
    assert training_table.weights(tmp_path) == "No weights in zoo/ yet."
    for kind in training.KINDS:
        entry = tmp_path / f"zoo/street_{kind}"
        entry.mkdir(parents=True)
        (entry / "card.json").write_text(json.dumps(card(kind)))
    bare = training_table.weights(tmp_path)
    assert "| 0.700 | 100 | 2.00 | - | - |" in bare and "| 0.710 | 100 | - | - | - |" in bare
    speeds = {"step_images_per_s": 60.0, "loader_images_per_s": 780.0}
    made = {"recipe": "street_b0", "machine": {"cpu_model": "X"}, "threads": 2, "rounds": 3, "command": "c"}
    bench = {"name": "street_linear-onnxruntime-fp32", "precision": "fp32", "target": "onnxruntime"}
    bench |= {"size": [360, 480], "dataset": {"name": "camvid"}, "latency_ms": {"p50": 9.06}, "threads": 2}
    (tmp_path / "reports").mkdir()
    reports = {"benchmark_training": made | dict.fromkeys(training.KINDS, speeds), "bench_street": bench}
    for name, value in reports.items():
        (tmp_path / f"reports/{name}.json").write_text(json.dumps({"command": "d", **value}))
    table = training_table.weights(tmp_path)
    assert "| 0.700 | 100 | 2.00 | 60.0 | 9.1 (onnxruntime, 360x480) |" in table
    assert "| 0.710 | 100 | - | 60.0 | - |" in table, "another model's latency is not shown"
    assert "The loader alone delivers 780 images/s." in table
