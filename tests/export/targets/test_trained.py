"""What only a trained network can show, on real images, within the budgets: int8 of every target, and all of
those whose half precision rounds every tensor.

The checkpoint is the zoo's, or $EDGESEG_CHECKPOINT: untrained weights say nothing of half precision and int8.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from export.targets import entries

HALF = ("coreml", "tensorrt")
CASES = [
    (name, precision)
    for name, entry in entries().items()
    if entry.target
    for precision in entry.target.PRECISIONS
    if name in HALF or precision in entry.target.SUPPORT.calibrated
]
pytestmark = pytest.mark.slow


def run(*words: object) -> None:
    command = [sys.executable, "-m", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.parametrize(("name", "precision"), CASES)
def test_budget_holds_on_real_images(
    trained: Path, shared_data: Path, name: str, precision: str, tmp_path: Path
) -> None:
    entry = entries()[name]
    if entry.reason or entry.target is None:
        pytest.skip(f"{name}: {entry.reason}")
    data = ("--data", shared_data / "camvid")
    options: tuple[object, ...] = ("--target", name, "--precision", precision)
    if precision in entry.target.SUPPORT.calibrated:
        chosen = tmp_path / "calibration.json"
        run("calibration", "collect", "--checkpoint", trained, *data, "--count", 64, "--out", chosen)
        options += ("--calibration", chosen)
    out = tmp_path / "bundle.json"
    run("export", "build", "--checkpoint", trained, *data, *options, "--out", tmp_path / "b", "--json", out)
    bundle = json.loads(out.read_text())
    budget, parity = entry.target.BUDGET[precision], bundle["parity"]
    assert parity["proof"] == entry.target.PROOF and parity["images"] == 32
    assert parity["agreement"] >= budget.agreement
    if budget.miou_drop is not None:
        assert 100 * parity["miou_difference"] >= -budget.miou_drop
