"""deploy in an environment of only numpy, OpenCV and onnxruntime: as one file, then from the built wheel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUNDLE = ROOT / "tests" / "data" / "bundle_v1"
ALLOWED = {"edgeseg", "numpy", "opencv-python-headless", "onnxruntime", "pip", "setuptools", "tomli"}


OLDEST = ["numpy==1.26.4", "opencv-python-headless==4.8.1.78", "onnxruntime==1.20.1"]  # for Python 3.10
INSTALL = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a fresh virtual environment with the three packages that a device has, and nothing else."""
    folder = tmp_path_factory.mktemp("device")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    pins = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.split("==")[0] in {"numpy", "opencv-python-headless", "onnxruntime"}
    ]
    subprocess.run([python, *INSTALL, *pins], check=True)
    return python


@pytest.fixture(scope="module")
def one_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make device` makes."""
    path = tmp_path_factory.mktemp("one file") / "edgeseg-device.pyz"
    subprocess.run([sys.executable, "-m", "deploy", "_onefile", path], cwd=ROOT, check=True)
    return path


def _one_file(python: Path | str, cwd: Path, file: Path, *arguments: object) -> str:
    command = [str(python), str(file), *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout


def _all_of_it(python: Path | str, cwd: Path, file: Path, data: list[object]) -> None:
    """Every command that a device runs, from the one file."""
    _one_file(python, cwd, file, "info", BUNDLE)
    _one_file(python, cwd, file, "verify", BUNDLE, "--threads", 1)
    _one_file(
        python,
        cwd,
        file,
        "bench",
        BUNDLE,
        "--frames",
        30,
        "--offline",
        "--sustained",
        "1s",
        "--json",
        "r.json",
        *data,
    )
    report = json.loads((cwd / "r.json").read_text())
    assert report["proof"] == "executed" and report["peak_memory_bytes"] > 0 and report["offline"]
    _one_file(python, cwd, file, "report", "r.json", "--html", "page.html", "--csv", "table.csv")
    _one_file(python, cwd, file, "compare", "r.json", "r.json")


def test_the_one_file_needs_only_three_packages(
    bare_python: Path, one_file: Path, tmp_path: Path, labelled_folder: Path
) -> None:
    absent = subprocess.run([bare_python, "-I", "-c", "import deploy"], cwd=tmp_path, capture_output=True)
    assert absent.returncode == 1, "this environment must not have the package itself"
    _all_of_it(bare_python, tmp_path, one_file, ["--data", labelled_folder])
    images = labelled_folder / "val" / "images"
    _one_file(bare_python, tmp_path, one_file, "run", BUNDLE, images, "--out", "masks")
    assert list((tmp_path / "masks").rglob("*.png"))


@pytest.mark.slow
def test_the_one_file_runs_on_the_oldest_python_and_packages(one_file: Path, tmp_path: Path) -> None:
    known = (
        subprocess.run(["python3.10", "-c", ""], capture_output=True) if shutil.which("python3.10") else None
    )
    if known is None or known.returncode:
        pytest.skip("no python3.10 here")
    subprocess.run(["python3.10", "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, *INSTALL, *OLDEST], check=True)
    _all_of_it(python, tmp_path, one_file, [])


@pytest.fixture(scope="module")
def device_python(bare_python: Path, one_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same environment with edgeseg[onnxruntime] in it."""
    folder, python = tmp_path_factory.mktemp("wheel"), bare_python
    quiet = [python, *INSTALL]
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
