"""`python -m export all`: rows for all there is, in child processes, cached, with a stored report."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from deploy.bundle import load_bundle
from deploy.child import ChildFailed
from deploy.manifest import is_proof
from deploy.measurement import read_measurement
from export import children, table, timing
from export.table import Row
from export.targets import entries


def test_rows_are_built_timed_stored_and_cached(
    built, export_cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("all", "--checkpoint", built.checkpoint, "--only", "onnxruntime", "--threads", 1)
    assert export_cli(*command, "--json", "first.json") == 0
    printed = capsys.readouterr().out
    assert "onnxruntime" in printed and "executed" in printed and "needs" in printed
    first = json.loads((tmp_path / "first.json").read_text())
    fp32, int8 = first["rows"]
    assert (fp32["precision"], fp32["proof"], fp32["how"]) == ("fp32", "executed", "built")
    assert fp32["agreement"] >= 0.999 and abs(fp32["miou_drop_points"]) < 0.1 and fp32["latency_ms"] > 0
    model = Path(fp32["bundle"]) / "model.onnx"
    assert fp32["size_bytes"] == model.stat().st_size
    assert int8["proof"].startswith("not run: int8 needs calibration images") and not int8["refused"]
    assert first["size"] == [75, 93] and first["machine"] and first["threads"] == 1
    assert all(is_proof(row["proof"]) for row in first["rows"])

    monkeypatch.setattr(children, "build", _refuse)
    monkeypatch.setattr(timing, "measured", _refuse)
    assert export_cli(*command, "--json", "second.json") == 0
    second = json.loads((tmp_path / "second.json").read_text())
    assert second["rows"][0] == {**fp32, "how": "cached: nothing changed"}


def test_a_refused_artifact_is_a_row_and_status_1(
    built, export_cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(children, "build", lambda args, out: "x misses its budget | got agreement 0.5")
    command = ("all", "--checkpoint", built.checkpoint, "--only", "onnxruntime", "--json", "r.json")
    assert export_cli(*command) == 1
    refused = json.loads((tmp_path / "r.json").read_text())["rows"][0]
    assert refused["refused"] and refused["proof"] == "not run: x misses its budget | got agreement 0.5"


def test_a_missing_package_costs_that_row_only(
    built, export_cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "ncnn" else find_spec(name, *a)
    )
    monkeypatch.setattr(children, "build", lambda args, out: "not built here")
    assert export_cli("all", "--checkpoint", built.checkpoint, "--json", "r.json") == 1
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    assert {row["target"] for row in rows} == set(entries())
    for row in rows:
        if row["target"] == "ncnn":
            assert "ncnn: not installed" in row["proof"]
        elif row["target"] == "onnxruntime" and row["precision"] == "fp32":
            assert row["proof"] == "not run: not built here"


def test_a_row_is_built_with_the_options_of_the_whole(
    built, export_cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    commands: list[tuple[str, ...]] = []

    def fail(*words: str, threads: int) -> str:
        commands.append(words)
        raise ChildFailed("seen")

    monkeypatch.setattr(children, "call", fail)
    command = ("all", "--checkpoint", built.checkpoint, "--only", "onnxruntime", "--json", "r.json")
    assert export_cli(*command, "--eval", 3, "--mean=-0.5,0,0.5") == 1
    asked = next(words for words in commands if "fp32" in words)
    assert asked[asked.index("--eval") + 1] == "3" and "--mean=-0.5,0.0,0.5" in asked


def test_a_row_that_cannot_be_timed_says_why_and_the_others_are_timed(
    built, export_cli, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    assert (
        export_cli("build", "--checkpoint", built.checkpoint, "--target", "onnxruntime", "--out", whole) == 0
    )
    missing = Row("onnxruntime", "fp32", "executed", "built", bundle=str(tmp_path / "nothing"))
    rows = [missing, table.row("onnxruntime", load_bundle(whole), "built")]
    found = timing.timings(rows, 1)
    gone, timed = (table.with_latency(row, found[row.bundle]) for row in rows)
    assert gone.latency_ms is None and "no bundle at " in gone.latency_reason
    assert "\n" not in gone.latency_reason
    assert timed.latency_ms > 0 and timed.latency_reason is None
    kept = read_measurement(Path(f"{whole}.bench.json"))
    assert kept.latency_ms.p50 == timed.latency_ms and kept.threads == 1


def test_only_names_targets(built, export_cli, capsys) -> None:
    assert export_cli("all", "--checkpoint", built.checkpoint, "--only", "toaster") == 2
    assert "--only: unknown target | got toaster" in capsys.readouterr().err


def _refuse(*arguments: object) -> str:
    raise AssertionError("a child process for an unchanged row")
