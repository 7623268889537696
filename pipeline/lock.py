"""One process a folder: a lock that the operating system drops when its holder dies, however it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import InputError


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a lock file beside `folder`; child processes do not inherit it. Windows: nothing is held.

    Raises:
        InputError: another process holds it, or the folder cannot be written.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write {folder}", got=error.strerror, fix="choose another --run") from error
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        fix = "wait for it, or choose another --run"
        raise InputError(f"{folder} is in use by another process", fix=fix) from error
    try:
        yield
    finally:
        os.close(handle)
