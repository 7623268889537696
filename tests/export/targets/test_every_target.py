"""Every target that the registry finds, built by the command line in a process of its own and verified there.

Untrained weights: what is proven is that each converter and runtime computes the checkpoint's function. INT8
needs a trained network to be judged by its budget; here its structure is looked at (the targets' own tests).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import runtimes
from export.targets import entries

QUICK = ("onnxruntime", "openvino", "ncnn", "ort")
EXACT = ("fp32", "fp16")
ROUNDED = [("coreml", "fp16"), ("tensorrt", "fp16")]  # every tensor is half: untrained classes are near ties
CASES = [
    pytest.param(name, precision, marks=[] if name in QUICK and precision == "fp32" else pytest.mark.slow)
    for name, entry in entries().items()
    if entry.target
    for precision in entry.target.PRECISIONS
    if precision in EXACT and (name, precision) not in ROUNDED
]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=900)


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_artifact_is_proven_and_its_golden_replays(built, name: str, precision: str, tmp_path: Path) -> None:
    entry = entries()[name]
    if entry.reason:
        pytest.skip(f"{name}: {entry.reason}")
    options = ("--checkpoint", built.checkpoint, "--target", name, "--precision", precision)
    result = run("export", "build", *options, "--out", tmp_path / "b", "--json", tmp_path / "b.json")
    assert result.returncode == 0, result.stderr[-3000:]
    bundle = json.loads((tmp_path / "b.json").read_text())
    parity, budget = bundle["parity"], entry.target.BUDGET[precision]
    assert parity["proof"] == entry.target.PROOF
    assert parity["agreement"] >= budget.agreement
    assert parity["max_abs_error"] is not None, "every artifact shows its logits' errors"
    if runtimes.available()[entry.target.RUNTIME] is None:
        verified = run("deploy", "verify", tmp_path / "b", "--json", "-")
        assert verified.returncode == 0, verified.stderr
        assert json.loads(verified.stdout)["passed"]


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if entry.target])
def test_int8_without_calibration_images_is_one_clear_error(
    built, name: str, export_cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys
) -> None:
    entry = entries()[name]
    if entry.reason or not entry.target.SUPPORT.calibrated:
        pytest.skip(entry.reason or f"{name} calibrates nothing")
    monkeypatch.chdir(tmp_path)
    for precision in entry.target.SUPPORT.calibrated:
        options = ("--checkpoint", built.checkpoint, "--target", name, "--precision", precision)
        assert export_cli("build", *options) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"{precision} needs calibration images" in error
        assert "calibration collect" in error and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name, entry in entries().items() if entry.target])
def test_what_a_target_does_not_support_is_refused(built, name: str, export_cli, capsys) -> None:
    entry = entries()[name]
    if entry.reason:
        pytest.skip(entry.reason)
    support = entry.target.SUPPORT
    refused = [("--batch", "2")] * (not support.batch) + [("--dynamic",)] * (not support.dynamic)
    refused += [("--input", kind) for kind in ("uint8", "float") if kind not in support.inputs]
    refused += [("--output", kind) for kind in ("labels", "logits") if kind not in support.outputs]
    for option in refused:
        assert export_cli("build", "--checkpoint", built.checkpoint, "--target", name, *option) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"{name} cannot build {option[0]}" in error
