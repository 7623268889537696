"""Programs on an emulated arm64 processor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.export.arm64 import environment

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".arm64"  # as the Makefile says
RASPBERRY_PI_4, HALF_ARITHMETIC = "cortex-a72", "max"  # qemu's names
Arm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def on_arm() -> Arm:
    """on_arm(cpu, *arguments of Python, path=(folders to import from)) -> the finished process."""
    if reason := environment.missing(FOLDER):
        pytest.skip(reason)

    def call(cpu: str, *arguments: object, path: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
        folders = os.pathsep.join(map(str, (FOLDER / "site", *path)))
        variables = {"PYTHONPATH": folders, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        command = [*environment.python(FOLDER, cpu), *map(str, arguments)]
        return subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900
        )

    return call
