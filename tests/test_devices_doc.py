"""docs/devices.md: five commands a device, each marked, and every command of ours known to its parser."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from deploy.__main__ import COMMANDS
from deploy.options import Parser

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "devices.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
DEVICES = ("Industrial PC", "Jetson", "Raspberry Pi", "Android", "Mac", "iPhone", "Browser")


def _commands(section: str) -> list[str]:
    return [
        line for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL) for line in block.splitlines()
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_each_device_is_marked_and_takes_five_commands(device: str) -> None:
    section = next(text for title, text in SECTIONS.items() if title.startswith(device))
    assert ("**Run here**" in section) != ("**Not yet run on the hardware" in section)
    assert len(_commands(section)) in (0, 5)


def test_every_command_of_ours_is_understood() -> None:
    found = [
        words[1:]
        for line in _commands(TEXT)
        if (words := re.split(r"-m deploy |edgeseg-device\.pyz ", line))
        and len(words) > 1
        and "cp " not in line
    ]
    assert len(found) >= 12
    for (rest,) in found:
        command, *arguments = shlex.split(rest)
        parser = Parser()
        importlib.import_module(COMMANDS[command][0]).add_arguments(parser)
        parser.parse_args(arguments)
