"""Writing files so that nothing is ever half-written, and hashing them.

Every writer goes to a temporary name beside the final one and is renamed when complete (POSIX rename is
atomic within a file system). Knows nothing of what the files hold.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import InputError


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file and a rename.

    Raises:
        InputError: the folder cannot be written or the disk is full; the old file, if any, is untouched.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(
            f"cannot write {path}", got=error.strerror, fix="free space or choose another place"
        ) from error


def atomic_write_text(path: Path, text: str) -> None:
    """`atomic_write_bytes` for UTF-8 text."""
    atomic_write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, value: object) -> None:
    """Write `value` as indented JSON to a file, or to stdout for "-". NaN is refused (ValueError)."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        atomic_write_text(Path(path), text)


@contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `final` when the block ends, and is removed if it raises.

    An existing `final` is replaced only then, so a failed build leaves the old result in place.
    """
    final = Path(final)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name}."))
    except OSError as error:
        raise InputError(f"cannot write {final}", got=error.strerror, fix="choose another place") from error
    try:
        os.chmod(temporary, 0o777 & ~_umask())
        yield temporary
        _swap(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(new: Path, final: Path) -> None:
    """Move the folder `new` to `final`; an old `final` is kept aside until the move has succeeded."""
    old = Path(f"{new}.old")
    if final.exists():
        os.replace(final, old)
    try:
        os.replace(new, final)
    except OSError:
        if old.exists():
            os.replace(old, final)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """The process's umask (it can only be read by setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
