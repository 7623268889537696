"""README commands are run as they stand, at the tiny size; its tables and tree match their sources."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
# A block of shell commands that a user would type, apart from those that install or test the project itself.
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith(("#", "git clone", "cd ", "make test", "make setup", "pip "))
]


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
