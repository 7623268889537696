"""Where the time goes: one small round end to end, and the arithmetic of single nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import operators
from benchmarks.profiled import summed
from docs import benchmark_pictures, benchmark_tables
from pipeline.models.summary import summarise

SIZE = (64, 96)


def test_one_small_round(tmp_path: Path, monkeypatch):
    out = tmp_path / "benchmark_operators.json"
    monkeypatch.setattr(operators, "GEMM_SIDE", 128)
    words = ["--size", "64x96", "--rounds", "1", "--seconds", "0.01", "--threads", "1", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["operators", *words])
    assert operators.main() == 0
    record = json.loads(out.read_text())
    assert {"command", "machine", "versions", "threads", "rounds", "cases"} <= set(record)
    case = record["cases"][0]
    summed_ms = sum(row["ms"] for row in case["operators"]) + case["outside_nodes_ms"]
    assert summed_ms == pytest.approx(case["ms"])
    counted = sum(row["macs"] or 0 for row in case["operators"])
    network_alone = summarise("b0", SIZE).macs
    assert network_alone < counted < 2 * network_alone, "the network, and the upsampling"
    assert [node["ms"] for node in case["nodes"]] == sorted((n["ms"] for n in case["nodes"]), reverse=True)
    monkeypatch.setattr(benchmark_tables, "REPORTS", tmp_path)
    assert "Conv" in benchmark_tables.operators()
    assert len(benchmark_pictures.operators(record).axes) == 2


def test_macs_of_products_follow_from_their_shapes():
    plain = {"op": "MatMul", "inputs": [[1, 8, 17, 16], [1, 8, 16, 20]], "outputs": [[1, 8, 17, 20]]}
    assert operators.described("n", plain, {})["macs"] == 8 * 17 * 20 * 16
    transposed = {"op": "FusedMatMul", "inputs": [[2, 20, 17], [2, 20, 16]], "outputs": [[2, 17, 16]]}
    assert operators.described("n", transposed, {})["macs"] == 2 * 17 * 16 * 20
    assert operators.described("n", {"op": "Add", "inputs": [[4]], "outputs": [[4]]}, {})["macs"] is None
    assert operators.speed(2.0, 10**9, 2000.0) == {"gflops": 1000.0, "share_of_peak": 0.5}


def test_calls_of_the_warm_up_do_not_count():
    def node(ts: int, dur: int) -> dict:
        args = {"op_name": "Conv", "output_type_shape": [{"float": [1, 2]}]}
        return {"name": "a_kernel_time", "ts": ts, "dur": dur, "args": args}

    runs = [{"name": "model_run", "ts": ts, "dur": 10} for ts in (0, 100, 200)]
    times, nodes = summed([node(1, 900), node(101, 3), node(201, 5), *runs], warm=1)
    assert times == pytest.approx({"a": 0.004, "model_run": 0.010})
    assert nodes == {"a": {"op": "Conv", "inputs": [], "outputs": [[1, 2]]}}
