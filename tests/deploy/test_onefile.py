"""The one file for devices: complete, equal for equal sources, nothing compiled, and giving itself again."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from deploy.onefile import device_file

ROOT = Path(__file__).resolve().parents[2]


def test_it_holds_all_of_deploy_and_nothing_compiled() -> None:
    with zipfile.ZipFile(io.BytesIO(device_file())) as archive:
        names = set(archive.namelist())
        for path in (ROOT / "deploy").rglob("*.py"):
            assert archive.read(path.relative_to(ROOT).as_posix()) == path.read_bytes()
    assert "__main__.py" in names and not [n for n in names if n.endswith((".pyc", ".so"))]
    assert ("tomli/__init__.py" in names) == (importlib.util.find_spec("tomli") is not None)


def test_equal_sources_give_equal_bytes_and_it_gives_itself(tmp_path: Path) -> None:
    path, copy = tmp_path / "d.pyz", tmp_path / "copy.pyz"
    path.write_bytes(device_file())
    assert path.read_bytes() == device_file()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [sys.executable, str(path), "_onefile", str(copy)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert copy.read_bytes() == path.read_bytes() and os.access(copy, os.X_OK)


def test_the_type_checker_holds_the_floor(tmp_path: Path) -> None:
    """Syntax and standard library newer than Python 3.10 are refused by `make lint`."""
    newer = (
        "import datetime\nimport tomllib\n\nNOW = datetime.UTC\ntry:\n    pass\nexcept* OSError:\n    pass\n"
    )
    (tmp_path / "newer.py").write_text(newer)
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(tmp_path / "newer.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    for words in ('"tomllib"', '"UTC"', "requires Python 3.11"):
        assert words in done.stdout, done.stdout
