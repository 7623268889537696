"""deploy in an environment that holds only numpy, OpenCV and onnxruntime, installed from the built wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = ROOT / "tests" / "data" / "bundle_v1"
ALLOWED = {"edgeseg", "numpy", "opencv-python-headless", "onnxruntime", "pip", "setuptools", "tomli"}


@pytest.fixture(scope="module")
def device_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a fresh virtual environment with edgeseg[onnxruntime] and nothing else."""
    folder = tmp_path_factory.mktemp("device")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.split("==")[0] in {"numpy", "opencv-python-headless", "onnxruntime"}
    ]
    quiet = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*quiet, *pins], check=True)
    wheel_command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
    subprocess.run(wheel_command, check=True)
    subprocess.run([*quiet, "--no-deps", *folder.glob("edgeseg-*.whl")], check=True)
    return python


def _deploy(python: Path, cwd: Path, *arguments: object) -> str:
    command = [str(python), "-m", "deploy", *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_deploy_needs_only_three_packages(device_python: Path, tmp_path: Path, labelled_folder: Path) -> None:
    listing = subprocess.run(
        [device_python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True
    ).stdout
    names = {package["name"].lower() for package in json.loads(listing)}
    assert {"edgeseg", "numpy", "opencv-python-headless", "onnxruntime"} <= names
    assert "torch" not in names and "onnx" not in names and "matplotlib" not in names
    _deploy(device_python, tmp_path, "info", BUNDLE)
    _deploy(device_python, tmp_path, "verify", BUNDLE, "--threads", 1)
    _deploy(device_python, tmp_path, "run", BUNDLE, labelled_folder / "val" / "images", "--out", "masks")
    assert list((tmp_path / "masks").rglob("*.png"))
    _deploy(device_python, tmp_path, "bench", BUNDLE, "--data", labelled_folder, "--json", "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["proof"] == "executed" and report["images"] > 0 and report["latency_ms"]["p50"] > 0
    _deploy(device_python, tmp_path, "report", "report.json", "--html", "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
