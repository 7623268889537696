"""What may be compared: groups, differing fields, Pareto front, speed-ups, noise; and `compare` as a gate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy import compare
from deploy.comparison import differing, groups, noise_of, pareto, processor, repeats, speedups
from deploy.errors import GateError, InputError
from deploy.measurement import Measurement, read_measurement
from deploy.options import Parser

MakeRow = Callable[..., Measurement]
BASE = {
    "schema_version": 2, "name": "b0", "proof": "executed", "target": "onnxruntime", "precision": "fp32",
    "options": {}, "size": [360, 480], "model": {"variant": "b0", "attention": "linear"},
    "dataset": {"name": "camvid", "split": "val", "sha256": "ab" * 32}, "images": 101, "miou": 0.6,
    "iou": {"sky": 0.9}, "pixel_accuracy": 0.9, "accuracy_reason": None, "frames": 101, "warmup": 10,
    "latency_ms": {"p50": 20.0, "p90": 21.0, "p99": 22.0, "mean": 20.0},
    "stages_ms": {"preprocess": 1.0, "inference": 18.0, "postprocess": 1.0}, "throughput_fps": 50.0,
    "peak_memory_bytes": 1, "peak_memory_reason": None, "threads": 2, "bundle_bytes": 1,
    "bundle_sha256": "cd" * 32, "versions": {}, "command": "", "timestamp": "2026-01-02T03:04:05+00:00",
    "machine": {"cpu_model": "CPU", "architecture": "x86_64", "cores": 2, "memory_bytes": 1, "os": "Linux",
                "python": "3.11", "power_mode": "MAXN"},
    "noise": {"noisy": False, "why": [], "spread": 0.01, "others_cpu": 0.0, "clock_jump_s": 0.0},
}  # fmt: skip
NO_DATA = {"dataset": None, "images": 0, "miou": None, "iou": None, "pixel_accuracy": None}
BROUGHT = {**NO_DATA, "brought": True, "name": "theirs"}


@pytest.fixture
def row(tmp_path: Path) -> MakeRow:
    """row(p50=..., machine={...}, **changes) -> a measurement, by way of its file."""

    def make(p50: float = 20.0, folder: str = ".", **changes: Any) -> Measurement:
        value = json.loads(json.dumps(BASE))
        value["latency_ms"] = {"p50": p50, "p90": 1.05 * p50, "p99": 1.1 * p50, "mean": p50}
        for key, change in changes.items():
            value[key] = {**value[key], **change} if key in ("machine", "noise") else change
        number = len(list(tmp_path.rglob("*.json")))
        path = tmp_path / folder / f"{number}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(value))
        return read_measurement(path)

    return make


UNLIKE: list[tuple[str, dict[str, Any]]] = [
    ("size", {"size": [512, 1024]}),
    ("power mode", {"machine": {"power_mode": "15W"}}),
    ("device", {"machine": {"board": "Jetson"}}),
    ("limits", {"machine": {"cpu_limit": 1.5}}),
    ("threads", {"threads": 4}),
    ("data", {"dataset": {"name": "camvid", "split": "val", "sha256": "ef" * 32}}),
]


@pytest.mark.parametrize(("field", "change"), UNLIKE)
def test_unlike_rows_are_kept_apart_and_the_field_is_named(
    row: MakeRow, field: str, change: dict[str, Any]
) -> None:
    rows = [row(), row(**change), row(precision="int8")]
    assert [len(group) for group in groups(rows)] == [2, 1]
    assert list(differing(rows)) == [field] and len(differing(rows)[field]) == 2


def test_a_brought_model_joins_every_group_that_is_otherwise_alike(row: MakeRow) -> None:
    theirs = row(**BROUGHT)
    other_data = {"dataset": {"name": "rural", "split": "val", "sha256": "0" * 64}}
    found = groups([row(), theirs, row(**other_data), row(size=[64, 64])])
    assert [[m.brought for m in group] for group in found] == [[False, True], [False, True], [False]]
    assert [len(group) for group in groups([theirs, row(**BROUGHT)])] == [2]
    assert differing([row(), theirs]) == {}


def test_pareto_front(row: MakeRow) -> None:
    rows = [row(20, miou=0.6), row(10, miou=0.5), row(30, miou=0.58), row(40, miou=0.7), row(20, miou=0.55)]
    assert [(m.latency_ms.p50, m.miou) for m in pareto([*rows, row(1, **BROUGHT)])] == [
        (10, 0.5), (20, 0.6), (40, 0.7),
    ]  # fmt: skip


def test_linear_against_softmax_needs_a_twin(row: MakeRow) -> None:
    softmax = {"variant": "b0", "attention": "softmax"}
    rows = [row(20), row(50, model=softmax), row(70, model=softmax, precision="int8")]
    rows.append(row(99, model={"variant": "b1", "attention": "softmax"}))
    found = list(speedups(rows))
    assert len(found) == 1 and found[0].ratio == 2.5


def test_repeated_runs_that_disagree_are_marked(row: MakeRow) -> None:
    first, second, third = row(20), row(21.4), row(30, precision="int8")
    assert repeats([first, second, third]) == pytest.approx({id(first): 0.07, id(second): 0.07})
    assert repeats([first, row(20.9)]) == {}


def test_noise_is_the_runs_own_word(row: MakeRow) -> None:
    assert noise_of([row(noise={"spread": 0.03})]) == 0.03
    assert noise_of([row(noise={"others_cpu": 0.4})]) == 0.4
    assert noise_of([row(20), row(22)]) == pytest.approx(0.1)
    assert noise_of([row(schema_version=1, noise={"spread": None})]) == 0.05


def _compare(tmp_path: Path, old: str, new: str, *options: str) -> int:
    parser = Parser()
    compare.add_arguments(parser)
    return compare.run(parser.parse_args([str(tmp_path / old), str(tmp_path / new), *options]))


def test_the_gate(row: MakeRow, tmp_path: Path, capsys: Any) -> None:
    row(20.0, "old"), row(20.5, "near"), row(23.0, "slow"), row(22.0, "shaky", noise={"spread": 0.2})
    assert _compare(tmp_path, "old", "near") == 0
    assert "ok        b0: 20.00 -> 20.50 ms (+2.5 %, noise 1.4 %), mIoU 0.6000" in capsys.readouterr().out
    with pytest.raises(GateError, match=r"1 of 1 slower, worst b0 \| got \+15.0 %, noise 1.4 % \| .* 5 %"):
        _compare(tmp_path, "old", "slow", "--max-slowdown", "5%")
    assert _compare(tmp_path, "old", "slow", "--max-slowdown", "20%") == 0
    capsys.readouterr()
    assert _compare(tmp_path, "old", "shaky", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["verdict"] == "unproven"


def test_the_gate_takes_the_median_of_several_runs(row: MakeRow, tmp_path: Path) -> None:
    for p50 in (20.0, 20.1, 30.0):
        row(p50, "old")
    row(20.2, "new")
    assert _compare(tmp_path, "old", "new") == 0


@pytest.mark.parametrize(("field", "change"), [*UNLIKE, ("model", {"model": {"variant": "b1"}})])
def test_the_gate_refuses_unlike_rows(
    row: MakeRow, tmp_path: Path, field: str, change: dict[str, Any]
) -> None:
    row(20.0, "old"), row(20.0, "new", **change)
    with pytest.raises(InputError, match=f"OLD and NEW differ in {field}"):
        _compare(tmp_path, "old", "new")


def test_a_browser_is_named_by_itself(row: MakeRow) -> None:
    machine = {"platform": "browser", "software": "Chromium 156", "cpu_model": None, "board": None}
    assert processor(row(machine=machine)) == "Chromium 156 on x86_64"
    assert processor(row(machine={**machine, "board": "Pixel 9"})) == "Chromium 156 on Pixel 9"
    assert len(groups([row(machine=machine), row()])) == 2
