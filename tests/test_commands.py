"""All four command lines alike: listing, help and errors, in processes without any installed package."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("calibration", "deploy", "export", "pipeline")


def _bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -S -m ...`: the standard library and this tree, no site-packages."""
    command = [sys.executable, "-S", "-m", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_lists_every_command(program: str) -> None:
    commands = importlib.import_module(f"{program}.__main__").COMMANDS
    for words in ([], ["--help"]):
        done = _bare(program, *words)
        assert done.returncode == 0 and done.stderr == ""
        for name, (_, text) in commands.items():
            assert f"  {name} " in done.stdout and text in done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_unknown_command_is_one_line(program: str) -> None:
    commands = importlib.import_module(f"{program}.__main__").COMMANDS
    done = _bare(program, "frobnicate", "--help")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert f"unknown command 'frobnicate', expected one of {', '.join(commands)}" in done.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_of_every_command_needs_no_package(program: str) -> None:
    for command in importlib.import_module(f"{program}.__main__").COMMANDS:
        done = _bare(program, command, "--help")
        assert done.returncode == 0 and f"{program} {command}" in done.stdout and done.stderr == "", (
            done.stderr
        )


def test_a_package_that_is_not_installed_is_one_line() -> None:
    done = _bare("deploy", "info", "anywhere")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: package numpy is not installed | make setup")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["deploy", "info", ""], "an empty argument"),
        (["deploy", "verify", "b", "--threads", "5000"], "from 1 to 1024"),
        (["deploy", "bench", "b", "--json", "/dev/null/r.json"], "cannot write /dev/null/r.json"),
        (["deploy", "report", "r.json", "--html", "/"], "'/' is a folder"),
        (["deploy", "info", "x" * 5000], "File name too long"),
        (["calibration", "collect", "--data", "d", "--out", "/dev/null/c"], "cannot write /dev/null/c"),
    ],
)
def test_what_cannot_work_is_said_before_any_work(words: list[str], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
    )
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert message in done.stderr and len(done.stderr) < 1500
