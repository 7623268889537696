"""On what a training ran: `machines.json`, one entry each time it was started or went on.

Kept beside the results and not within them, because the weights must not depend on it. Holds no times
(log.csv has them), no paths and no host names.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from deploy.device import this_machine
from deploy.errors import InputError
from deploy.files import write_json
from pipeline.device import versions

FILE = "machines.json"
_LIMIT = 1 << 20


def note_machine(folder: Path, after_step: int, device: torch.device, processes: int = 1) -> None:
    """Add an entry for this machine, which goes on after so many steps; the entries of lost steps go.

    Of several processes on several machines it is the main one's machine.
    """
    entry = {
        "after_step": after_step,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "processes": processes,
        "threads": torch.get_num_threads(),
        "machine": dataclasses.asdict(this_machine()),
        "versions": versions(),
    }
    before = [old for old in read_machines(folder) if old["after_step"] < after_step]
    write_json(folder / FILE, [*before, entry])


def read_machines(folder: Path) -> list[dict[str, Any]]:
    """The entries in a training's folder; empty where there is no such file.

    Raises:
        InputError: not such a file.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    try:
        value = json.loads(path.read_bytes()) if path.stat().st_size <= _LIMIT else None
    except (ValueError, RecursionError):
        value = None
    good = isinstance(value, list) and all(
        isinstance(entry, dict) and type(entry.get("after_step")) is int for entry in value
    )
    if not good:
        raise InputError(f"{path} is damaged", expected="a list of machines", fix="delete it")
    return list(value)
