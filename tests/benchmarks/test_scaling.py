"""Linear against softmax: one small round end to end, the fit, and what is not run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import scaling
from docs import benchmark_pictures, benchmark_tables


def test_one_small_round(tmp_path: Path, monkeypatch):
    out = tmp_path / "benchmark_scaling.json"
    words = ["--size", "32x64", "--rounds", "1", "--seconds", "0.01", "--threads", "1"]
    monkeypatch.setattr(sys, "argv", ["scaling", *words, "--json", str(out)])
    assert scaling.main() == 0
    record = json.loads(out.read_text())
    assert {"command", "machine", "versions", "threads", "rounds", "cases", "exponents"} <= set(record)
    assert [(case["part"], case["tokens"]) for case in record["cases"]] == [("network", 8), ("core", 8)]
    for case in record["cases"]:
        assert case["softmax_over_linear"]["median"] == pytest.approx(
            case["softmax"]["ms"] / case["linear"]["ms"]
        )
        assert case["linear"]["peak_bytes"] > case["linear"]["net_bytes"] >= 0
    assert record["exponents"]["core"] == {kind: {"all": None, "larger_half": None} for kind in scaling.KINDS}
    monkeypatch.setattr(benchmark_tables, "REPORTS", tmp_path)
    assert "32x64 (8)" in benchmark_tables.scaling()
    assert len(benchmark_pictures.scaling(record).axes) == 3


def test_the_exponent_is_that_of_a_power_law():
    cases = [{"part": "core", "tokens": n, "linear": {"ms": 3 * n**1.5}} for n in (64, 128, 1024)]
    assert scaling.exponent(cases, "linear") == pytest.approx(1.5)
    assert scaling.exponent(cases[:1], "linear") is None
    assert scaling.exponent([{"tokens": 64, "linear": {"not_run": "why"}}] * 2, "linear") is None


def test_what_does_not_fit_is_not_run(tmp_path: Path, monkeypatch):
    needed = 2 * 4 * scaling.HEADS * 8192**2
    assert scaling.reason_not_to_run("softmax", 8192, needed) is None
    assert scaling.reason_not_to_run("linear", 8192, 0) is None
    reason = scaling.reason_not_to_run("softmax", 8192, needed - 1)
    assert reason is not None
    assert reason.startswith("not run: ")
    monkeypatch.setattr(scaling, "available_bytes", lambda: 0)
    monkeypatch.setattr(scaling, "PARTS", ("core",))
    (case,) = scaling.measure([(32, 32)], tmp_path, scaling.Effort(1, 0.01, 1))
    assert case["softmax"]["not_run"].startswith("not run: ")
    assert case["softmax_over_linear"] is None
    assert case["linear"]["ms"] > 0
