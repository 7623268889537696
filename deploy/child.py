"""The project's own commands in processes of their own, so that a runtime's state and memory end with them.

Refuses to know what they do and print.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import deploy


class ChildFailed(Exception):
    """A command that failed; the message is one line, its own error's."""


def call(*words: str, timeout_s: float | None = None, threads: int | None = None) -> str:
    """Run `python -m WORDS` and return what it prints on stdout.

    Args:
        threads: of the child's libraries that compute by OpenMP, where OMP_NUM_THREADS says nothing.

    Raises:
        ChildFailed: it failed, or took longer than `timeout_s` seconds.
    """
    command = [sys.executable, "-m", *words]
    try:
        done = subprocess.run(
            command, env=_environment(threads), capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"it took longer than {timeout_s} s") from None
    if done.returncode:
        raise ChildFailed(_error(done.stderr) or f"exit status {done.returncode}")
    return done.stdout


def _environment(threads: int | None) -> dict[str, str]:
    """The child finds this very package, in a folder or in one file."""
    package = str(Path(str(deploy.__file__)).parent.parent)
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    limit = {"OMP_NUM_THREADS": str(threads)} if threads else {}
    return {**limit, **os.environ, "PYTHONPATH": path}


def _error(stderr: str) -> str:
    """The last line that begins with `error: `, or the last one."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return (errors or lines or [""])[-1]
