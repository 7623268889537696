"""README commands are run as they stand, at the tiny size; its tables and tree match their sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
# A block of shell commands that a user would type, apart from those that install or test the project itself.
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith(("#", "git clone", "cd ", "make test", "make setup", "pip "))
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tracked files, as a fresh clone has them, that uses this environment's packages."""
    target = tmp_path_factory.mktemp("clone dir") / "edgeseg"  # a space in the path, on purpose
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def test_every_readme_command_runs(checkout: Path) -> None:
    assert len(COMMANDS) >= 5, "README lost its commands"
    venv = Path(sys.prefix)
    environment = os.environ | {
        "DEMO": "tiny",
        "VENV": str(venv),
        "PYTHONPATH": str(checkout),
        "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    for command in COMMANDS:
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"


def test_generated_parts_match_their_sources() -> None:
    result = subprocess.run(
        [sys.executable, "docs/readme.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_every_linked_file_exists() -> None:
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", README):
        assert (ROOT / link).exists(), f"README links to {link}"
