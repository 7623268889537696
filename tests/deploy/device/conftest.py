"""A made-up device: files below a folder, and commands that print what their documentation shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from deploy.device._host import Host

MakeHost = Callable[..., Host]


@pytest.fixture
def make_host(tmp_path: Path) -> MakeHost:
    """make_host(files, commands, system): `commands` maps "name arguments" to what it prints."""

    def make(
        files: Mapping[str, str], commands: Mapping[str, str] | None = None, system: str = "Linux"
    ) -> Host:
        root, programs = tmp_path / "root", tmp_path / "bin"
        for name, text in {"proc/stat": "cpu 0", **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        programs.mkdir(exist_ok=True)
        by_program: dict[str, dict[str, str]] = {}
        for command, printed in (commands or {}).items():
            program, _, arguments = command.partition(" ")
            by_program.setdefault(program, {})[arguments] = printed
        for program, cases in by_program.items():
            _write_program(programs / program, cases)
        return Host(root, f"{programs}:/bin:/usr/bin", system)

    return make


def _write_program(path: Path, cases: Mapping[str, str]) -> None:
    """A shell script that prints the text of its arguments; "!" at the start of a text makes it fail."""
    lines = ["#!/bin/sh", 'case "$*" in']
    for number, (arguments, text) in enumerate(cases.items()):
        (path.parent / f".{path.name}.{number}").write_text(text.lstrip("!"))
        show = f"cat '{path.parent}/.{path.name}.{number}'"
        lines.append(f"'{arguments}') {show}{' >&2; exit 3' if text.startswith('!') else ''} ;;")
    path.write_text("\n".join([*lines, "*) exit 9 ;;", "esac", ""]))
    path.chmod(0o755)
