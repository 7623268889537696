"""inspect and search as a user has them: drawn scenes, a small untrained network, the real runtime."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import pytest

from benchmarks.precision import main as precision
from calibration.__main__ import main as calibration
from deploy.bundle import load_bundle
from deploy.errors import run_cli
from deploy.labels import DatasetInfo, list_pairs, read_dataset
from deploy.schema import decode, read_json
from export.__main__ import main as export
from export.precision_plan import HELPS, PrecisionPlan, save_plan
from pipeline.datasets.synthetic import generate

Call = Callable[..., int]
SIZE = (64, 80)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    """call(main, "build", ...) -> exit status."""

    def run(main: Callable[[], int], *words: object) -> int:
        monkeypatch.setattr(sys, "argv", [main.__module__, *map(str, words)])
        return run_cli(main)

    return run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, save_street) -> tuple[Path, DatasetInfo]:
    """A folder with data (44 images to train on) and `runs/street`."""
    home = tmp_path_factory.mktemp("home")
    info = read_dataset(generate(home / "scenes", train=44, val=4, size=SIZE, seed=3))
    save_street(home, info, SIZE)
    return home, info


@pytest.fixture
def collected(home, call: Call, monkeypatch: pytest.MonkeyPatch) -> DatasetInfo:
    """Inside the folder, with a calibration set."""
    monkeypatch.chdir(home[0])
    words = ("--checkpoint", "street", "--data", home[1].root, "--count", 32)
    assert call(calibration, "collect", *words, "--out", "runs/street/calibration.json") == 0
    return home[1]


def test_inspect_makes_the_table_once_and_draws_it(collected, call: Call, capsys) -> None:
    words = ("inspect", "--checkpoint", "street", "--data", collected.root, "--top", 4)
    assert call(calibration, *words, "--picture", "risk.png", "--json", "risk.json") == 0
    first = capsys.readouterr().out
    assert "S/N dB" in first and "32 images -> runs/street/ranges.json" in first
    found = json.loads(Path("risk.json").read_text())["tensors"]
    assert found == sorted(found, key=lambda row: row["signal_to_noise_db"]) and len(found) > 100
    assert cv2.imread("risk.png").shape[1] > 1000
    before = Path("runs/street/ranges.json").stat().st_mtime_ns
    assert call(calibration, *words) == 0 and "cached" in capsys.readouterr().out
    assert Path("runs/street/ranges.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "litert"], "litert takes no plans"),
        (["--target", "nothing"], "unknown target"),
        (["--budget", "-1"], "--budget"),
        (["--calibration", "none.json"], "no file none.json"),
    ],
)
def test_wrong_use_of_search(collected, call: Call, capsys, words: list[str], message: str) -> None:
    given = {"--target": "onnxruntime", **dict(zip(words[::2], words[1::2], strict=True))}
    options = [word for pair in given.items() for word in pair]
    assert call(calibration, "search", "--checkpoint", "street", "--data", collected.root, *options) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1 and message in error


@pytest.mark.slow
def test_a_search_writes_a_plan_that_builds_and_does_nothing_twice(collected, call: Call, capsys) -> None:
    words = ("search", "--checkpoint", "street", "--target", "onnxruntime", "--data", collected.root)
    words += ("--rounds", 1, "--frames", 2, "--threads", 1, "--budget", 100)
    assert call(calibration, *words, "--json", "search.json", "--picture", "search.png") == 0
    result = json.loads(Path("search.json").read_text())
    rows = {row["name"]: row for row in result["rows"]}
    assert rows["fp32"]["drop"] == pytest.approx(0) and rows["fp32"]["agreement"] > 0.999
    everything = [row for name, row in rows.items() if name.startswith("all int8, ")]
    assert len(everything) == 5 + 2 and [row["helps"] for row in everything[5:]] == [[name] for name in HELPS]
    assert all(row["size_bytes"] < 0.6 * rows["fp32"]["size_bytes"] for row in everything)
    assert 0.5 < everything[0]["int8_share"] < 1 and result["chosen"] in rows
    used = {pair.image for pair in list_pairs(collected, "train")}
    assert result["judged_on"].startswith(f"{len(used) - 32} of ")
    built = _bundles()
    assert len(built) > 20
    assert call(calibration, *words) == 0
    assert _bundles() == built, "what was tried is not built again"
    plan = Path("closest.json")  # an untrained network's whole plan may miss the target's own budget
    closest = max((row for row in rows.values() if row["blocks"]), key=lambda row: row["agreement"])
    found = decode(PrecisionPlan, read_json(Path("runs/street/plan-onnxruntime.json")), "plan")
    assert found.helps == tuple(rows[result["chosen"]]["helps"])
    closest = {key: closest[key] for key in ("method", "blocks")} | {"helps": tuple(closest["helps"])}
    save_plan(plan, replace(found, **closest).sealed())
    out = ("--plan", plan, "--data", collected.root, "--out", "planned")
    assert call(export, "build", "--checkpoint", "street", "--target", "onnxruntime", *out) == 0
    assert load_bundle(Path("planned")).manifest.target.precision == "int8"
    words = ("--search", "search.json", "--data", collected.root, "--rounds", 1, "--threads", 1)
    assert call(precision, *words, "--json", "result.json") == 0
    result = json.loads(Path("result.json").read_text())
    assert result["compared_on"].startswith("all 4 of ") and len(result["rows"]) == 5
    first, naive, default, *_ = result["rows"]
    assert first["name"] == "fp32" and first["drop"] == pytest.approx(0) and first["ratio"] == [1, 1, 1]
    assert naive["agreement"] < default["agreement"] < first["agreement"]
    assert all(row["ratio"][0] > 0 for row in result["rows"])


def _bundles() -> dict[str, int]:
    """Bundle -> when it was written."""
    found = Path("runs/street/search-onnxruntime").glob("*/bundle.json")
    return {path.parent.name: path.stat().st_mtime_ns for path in found}


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--method", "guess"], "--method"), (["--checkpoint", "nowhere"], "no checkpoint 'nowhere'")],
)
def test_wrong_use_of_helps(collected, call: Call, capsys, words: list[str], message: str) -> None:
    command = ("helps", "--checkpoint", "street", "--data", collected.root, "--target", "onnxruntime")
    assert call(calibration, *command, *words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


@pytest.mark.slow
def test_helps_of_two_checkpoints_on_the_same_images(collected, call: Call, capsys) -> None:
    folder = Path("runs/twin/train")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile("runs/street/train/best.safetensors", folder / "best.safetensors")
    shutil.copyfile("runs/street/calibration.json", "runs/twin/calibration.json")
    words = ("helps", "--checkpoint", "street", "--checkpoint", "twin", "--data", collected.root)
    assert call(calibration, *words, "--target", "onnxruntime", "--json", "helps.json") == 0
    record = json.loads(Path("helps.json").read_text())
    rows = {(row["checkpoint"], row["plan"], *row["helps"]): row for row in record["rows"]}
    assert len(rows) == 2 * (1 + 2 * 4) and set(record["checkpoints"]) == {"street", "twin"}
    for key, row in rows.items():
        assert row == {**rows[("street", *key[1:])], "checkpoint": key[0]}, (
            "the same network, the same figures"
        )
    assert rows["street", "fp32"]["drop"] == pytest.approx(0) and rows["street", "fp32"]["agreement"] > 0.999
    plain, helped = rows["street", "all int8"], rows["street", "all int8", "bias correction"]
    assert helped["agreement"] != plain["agreement"] and helped["miou"] == pytest.approx(
        rows["street", "fp32"]["miou"] - helped["drop"] / 100, abs=1e-6
    )
    assert "bias correction" in capsys.readouterr().out


def test_checkpoints_are_judged_on_the_same_images(collected, call: Call, capsys) -> None:
    folder = Path("runs/other/train")
    folder.mkdir(parents=True)
    shutil.copyfile("runs/street/train/best.safetensors", folder / "best.safetensors")
    words = ("--checkpoint", "other", "--data", collected.root)
    assert call(calibration, "collect", *words, "--count", 33, "--out", "runs/other/calibration.json") == 0
    assert call(calibration, "helps", "--checkpoint", "street", *words, "--target", "onnxruntime") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "the same images" in error
