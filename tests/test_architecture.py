"""The house rules that a machine can check: import direction, file size, docstrings, no pickle."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ORDER = ["deploy", "pipeline", "export", "calibration"]
VOLUME_IMPORTS = {"pydicom", "highdicom", "nibabel"}  # the extra for CT, in deploy/volumes only
SERVER_IMPORTS = {"starlette", "uvicorn", "cryptography"}  # the extra for the page, in deploy/server only
RUNTIMES = {"onnxruntime", "openvino", "ai_edge_litert", "ncnn", "coremltools", "PIL", "tensorrt"}
DEVICE_IMPORTS = {"numpy", "cv2", "tomli", "deploy"} | RUNTIMES
SOURCES = sorted(path for package in ORDER for path in (ROOT / package).rglob("*.py"))


def _imports(path: Path) -> set[str]:
    """Top-level names of everything a file imports, lazily or not."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_file_keeps_the_house_rules(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    imports = _imports(path)
    above = set(ORDER[ORDER.index(package) + 1 :])
    assert not imports & above, f"{package} must not import {imports & above}"
    assert "pickle" not in imports
    if package == "deploy":
        allowed = DEVICE_IMPORTS | (VOLUME_IMPORTS if "volumes" in path.parts else set())
        allowed |= SERVER_IMPORTS if {"server", "serve.py", "browser.py"} & set(path.parts) else set()
        assert imports <= allowed | set(sys.stdlib_module_names), "not available on a device"
    limit = 600 if path.parent.name == "models" else 400
    assert len(path.read_text().splitlines()) <= limit
    assert ast.get_docstring(ast.parse(path.read_text())) or path.stat().st_size == 0, "no docstring"
