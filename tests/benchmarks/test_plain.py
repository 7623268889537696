"""The plain twin is the same function; the comparison is complete, and refuses sides that are not equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import network, plain
from benchmarks.plain_network import PlainB0
from benchmarks.rounds import Effort
from deploy.errors import GateError
from docs import benchmark_pictures, benchmark_tables

SIZE = (64, 96)
EFFORT = Effort(rounds=1, seconds=0.01, threads=1)


def test_the_twin_takes_the_weights_and_gives_the_logits():
    model, twin = network.seeded_model((128, 192)), PlainB0(network.CLASSES).eval()
    assert list(twin.state_dict()) == list(model.state_dict())
    twin.load_state_dict(model.state_dict())
    image = network.normalised(network.scene((128, 192)))
    with torch.no_grad():
        expected, found = model(image), twin(image)
    assert (expected - found).abs().max() <= 1e-4 * expected.std()
    assert len(expected.argmax(1).unique()) > 10, "label maps of few classes prove little"


def test_measured_from_both_sides_then_refused_for_other_weights(tmp_path: Path):
    model = network.seeded_model(SIZE)
    tasks = plain.prepare(tmp_path, SIZE, model, model, EFFORT)
    cases = [
        {"size": list(SIZE), **plain.measure(task, *how, tmp_path, EFFORT)} for task, how in tasks.items()
    ]
    for case in cases:
        assert set(case) == {
            *("size", "task", "equality", "plain", "ours", "speedup", "peak_share", "net_share"),
        }
        for side in plain.SIDES:
            assert set(case[side]) == {
                *("ms", "rounds_ms", "calls_per_round", "loaded_bytes", "peak_bytes", "net_bytes"),
            }
            assert case[side]["ms"] > 0
            assert case[side]["peak_bytes"] > case[side]["net_bytes"] >= 0
        assert case["speedup"]["median"] == pytest.approx(case["plain"]["ms"] / case["ours"]["ms"])
    assert cases[0]["equality"]["share_of_deviation"] <= plain.MOST_LOGIT_ERROR
    assert cases[1]["equality"]["agreement"] >= plain.LEAST_AGREEMENT
    assert len(benchmark_pictures.plain({"cases": cases}).axes) == 2

    other = network.seeded_model(SIZE, seed=1)
    plain.export_twin(other, network.normalised(network.scene(SIZE)), tmp_path / "plain.onnx")
    with pytest.raises(GateError, match="not the same function"):
        plain.answer_once(*tasks["network"], tmp_path)


def test_small_differences_pass_and_larger_ones_do_not():
    logits = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    assert plain.compare_logits(logits, logits + 5e-4)["share_of_deviation"] > 0
    for wrong in (logits + 2e-3, logits * np.nan):
        with pytest.raises(GateError, match="not the same function"):
            plain.compare_logits(logits, wrong)
    labels = np.zeros((100, 100), np.uint8)
    other = labels.copy()
    other[0, :10] = 1
    assert plain.compare_labels(labels, other)["agreement"] == 0.999
    other[0, 10] = 1
    with pytest.raises(GateError, match="label maps differ"):
        plain.compare_labels(labels, other)


def test_a_missing_record_is_said(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(benchmark_tables, "REPORTS", tmp_path)
    for table in ("plain", "scaling", "operators", "attention"):
        assert getattr(benchmark_tables, table)() == benchmark_tables.MISSING
