"""The state of an unfinished training on disk: written so that at every moment one complete copy exists.

state.pt is the newest, state.previous.pt the one before. A new one is written beside them, then both are
renamed. Read with `weights_only=True` (no code can run), after its checksums have been compared. A damaged
file is an error that names it; deleting it goes on from the previous one. Knows nothing of what the state
means.
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from deploy.errors import InputError
from deploy.files import atomic_write_bytes

STATE, PREVIOUS, NEXT = "state.pt", "state.previous.pt", "state.next.pt"
State = dict[str, Any]


def save_state(folder: Path, state: State) -> None:
    """Write state.pt; the one before becomes state.previous.pt.

    Raises:
        InputError: the disk is full or cannot be written (the file is named); the old files are untouched.
    """
    buffer = io.BytesIO()
    torch.save(state, buffer)
    try:
        atomic_write_bytes(folder / NEXT, buffer.getvalue())
    except InputError as error:
        raise InputError(
            f"checkpoint {folder / STATE} was not written, the one before is intact: {error}"
        ) from error
    if (folder / STATE).exists():
        os.replace(folder / STATE, folder / PREVIOUS)
    os.replace(folder / NEXT, folder / STATE)


def has_state(folder: Path) -> bool:
    """Whether there is something to go on from."""
    return (folder / STATE).exists() or (folder / PREVIOUS).exists()


def load_state(folder: Path, key: str) -> State:
    """The newest state, tensors on the CPU; the previous one if there is no state.pt.

    Args:
        key: what the state must have been made for (its "key").

    Raises:
        InputError: damaged or of another stage (the file is named, with how to go on).
    """
    newest = folder / STATE if (folder / STATE).exists() else folder / PREVIOUS
    try:
        return _read(newest, key)
    except InputError as error:
        raise InputError(str(error), fix=_way_out(folder, newest, key)) from error


def _read(path: Path, key: str) -> State:
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise InputError(f"checkpoint {path} is damaged", got=f"wrong checksum of {damaged}")
        state = torch.load(path, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # whatever the readers meet, the file is not what was written
        raise InputError(f"checkpoint {path} is damaged", got=f"{type(error).__name__}: {error}") from error
    if not isinstance(state, dict) or state.get("key") != key:
        raise InputError(f"checkpoint {path} belongs to another training")
    return state


def _way_out(folder: Path, newest: Path, key: str) -> str:
    """What the user can do about a damaged state."""
    if newest.name == STATE and (folder / PREVIOUS).exists():
        try:
            step = _read(folder / PREVIOUS, key)["step"]
        except InputError:
            return "start over with --fresh"
        return f"delete it to go on from {folder / PREVIOUS} (step {step}), or start over with --fresh"
    return "start over with --fresh"
