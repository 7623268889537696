"""The whole demo at its full size, as a new user runs it (minutes long)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LUNG = 0.75  # Dice of the simplest structure


@pytest.mark.slow
def test_full_demo_reaches_its_figures(checkout: Path) -> None:
    environment = os.environ | {"VENV": sys.prefix, "PYTHONPATH": str(checkout), "DEMO": "full"}
    command = ["make", "demo"]
    result = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    folder = checkout / "runs" / "demo"
    linear, softmax = (json.loads((folder / f"{name}.json").read_text()) for name in ("linear", "softmax"))
    assert linear["images"] == softmax["images"] == 160
    assert linear["miou"] >= 0.70
    assert linear["dataset"]["sha256"] == softmax["dataset"]["sha256"]
    ct = json.loads((folder / "ct.json").read_text())
    assert ct["name"].endswith("+ct") and ct["model"]["method"] == "adapter" and len(ct["volume_dice"]) == 2
    assert ct["dice"]["lung"] >= LUNG
    assert json.loads(next((folder / "ct").glob("*.json")).read_text())["dice"]["lung"] >= LUNG
    assert "<svg" in (folder / "index.html").read_text()
    assert "index.html" in result.stdout.splitlines()[-2], "it says at the end which file to open"
