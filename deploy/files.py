"""Writing files so that nothing is ever half-written, and hashing them.

Every writer goes to a temporary name beside the final one and is renamed when complete (POSIX rename is
atomic within a file system). A link is followed to what it means; a device or a pipe (/dev/stdout) is written
to as it is. Knows nothing of what the files hold.
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
from errno import ENOSPC
from pathlib import Path

from deploy.errors import InputError


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def require_writable(path: Path | str) -> None:
    """Find out before long work that its result could not be written to `path` (a file or a folder).

    Raises:
        InputError: the nearest folder that exists is none, or cannot be written.
    """
    real = Path(os.path.realpath(path))
    folder = next((parent for parent in real.parents if parent.exists()), real)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        got = f"{folder} is {'read-only' if folder.is_dir() else 'no folder'}"
        raise InputError(f"cannot write {path}", got=got, fix="choose another place")


def require_another_file(output: Path | str, *sources: Path | str) -> None:
    """A result must not take the place of what it is made from.

    Raises:
        InputError: it is one of the sources.
    """
    if os.path.realpath(output) in map(os.path.realpath, sources):
        raise InputError(f"{output} is read, and would be written", fix="choose another name for the result")


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` by way of a temporary file and a rename.

    Raises:
        InputError: the folder cannot be written or the disk is full; the old file, if any, is untouched.
    """
    path = Path(os.path.realpath(path))
    temporary = None
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        fix = "free space or choose another place" if error.errno == ENOSPC else "choose another place"
        raise InputError(f"cannot write {path}", got=error.strerror, fix=fix) from error


def atomic_write_text(path: Path, text: str) -> None:
    """`atomic_write_bytes` for UTF-8 text; bytes of a file name that are no UTF-8 appear as `\\udcXX`."""
    atomic_write_bytes(path, text.encode("utf-8", "backslashreplace"))


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
    final = Path(os.path.realpath(final))
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=final.parent, prefix=f".{final.name[:40]}."))
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
    try:
        if final.exists():
            os.replace(final, old)
        os.replace(new, final)
    except OSError as error:
        if old.exists() and not final.exists():
            os.replace(old, final)
        fix = "choose another place, or wait for the process that writes there"
        raise InputError(f"cannot write {final}", got=error.strerror, fix=fix) from error
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    """The process's umask (it can only be read by setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
