"""Where engines are kept: built at the first run, found again only by network, device and software.

An engine runs code of its own, so the folder is its user's alone, and an engine whose bytes are not those
that were built is refused. An engine for another GPU or TensorRT is never loaded; it is named, so that a
copied cache explains itself. Refuses to know how engines are built.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from deploy.files import atomic_folder, atomic_write_bytes, sha256_file, write_json
from deploy.schema import decode, encode, read_json

PLAN_FILE, KEY_FILE, TIMING_FILE = "engine.plan", "engine.json", "timing.cache"
FOLDER_VARIABLE = "EDGESEG_CACHE"
_ELSEWHERE = f"set {FOLDER_VARIABLE} to a folder that can be written"


@dataclass(frozen=True)
class EngineKey:
    """All that an engine is bound to.

    Args:
        network: hex SHA-256 of the ONNX file and its recipe. tensorrt: version.
        gpu: name and compute capability, "Orin (nvgpu), 8.7". software: JetPack and L4T, or the system.
    """

    network: str
    tensorrt: str
    gpu: str
    software: str

    @property
    def name(self) -> str:
        """Folder of this engine: 16 hex digits each of the network and of what runs it."""
        return f"{self.network[:16]}-{self.place}"

    @property
    def place(self) -> str:
        """16 hex digits of TensorRT, GPU and software: what timings are kept for."""
        rest = json.dumps([self.tensorrt, self.gpu, self.software])
        return hashlib.sha256(rest.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        return f"TensorRT {self.tensorrt} on {self.gpu}, {self.software}"


@dataclass(frozen=True)
class _Record:
    """What lies beside an engine."""

    key: EngineKey
    sha256: str


def digest(*files: Path) -> str:
    """Hex SHA-256 over several files' hashes."""
    return hashlib.sha256("".join(map(sha256_file, files)).encode()).hexdigest()


def default_folder() -> Path:
    """$EDGESEG_CACHE, else the user's cache folder."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "edgeseg" / "tensorrt"


def engine_for(
    key: EngineKey, folder: Path, make: Callable[[bytes], tuple[bytes, bytes]], say: Callable[[str], Any]
) -> bytes:
    """The engine for this key: from the folder, or made and kept there.

    Args:
        make: timings learnt so far -> (engine, timings learnt now). say: shows a line to the user.

    Raises:
        InputError: the kept engine was changed or is another's, or nothing can be kept in the folder.
    """
    entry = folder / key.name
    if entry.is_dir():
        return _kept(entry, key)
    others = _others(folder, key)
    _prepare(folder, key, others)
    say(f"building an engine for {key}: minutes, once" + (f" (kept here: for {others})" if others else ""))
    timing = folder / f"{key.place}.{TIMING_FILE}"
    plan, learnt = make(timing.read_bytes() if timing.is_file() else b"")
    with atomic_folder(entry) as new:
        atomic_write_bytes(new / PLAN_FILE, plan)
        write_json(new / KEY_FILE, encode(_Record(key, hashlib.sha256(plan).hexdigest())))
    atomic_write_bytes(timing, learnt)
    return plan


def _kept(entry: Path, key: EngineKey) -> bytes:
    record = _read(entry)
    if record.key != key:
        raise InputError(f"engine {entry}", f"one for {record.key}", f"{key}", f"remove {entry}")
    plan = (entry / PLAN_FILE).read_bytes()
    if hashlib.sha256(plan).hexdigest() != record.sha256:
        raise InputError(f"engine {entry} was changed after it was built", fix=f"remove {entry}")
    return plan


def _read(entry: Path) -> _Record:
    return decode(_Record, read_json(entry / KEY_FILE), str(entry / KEY_FILE))


def _others(folder: Path, key: EngineKey) -> str:
    """What the same network's engines kept here are for."""
    found = []
    for path in sorted(folder.glob(f"{key.network[:16]}-*/{KEY_FILE}")):
        try:
            found.append(str(_read(path.parent).key))
        except InputError:
            continue
    return "; ".join(found)


def _prepare(folder: Path, key: EngineKey, others: str) -> None:
    """Make the folder, its user's alone; raise InputError, before the long build, where it is read-only."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        held = f"engines for {others}" if others else "no engine of this network"
        raise InputError(
            f"engine cache {folder} cannot be written", got=held, expected=f"one for {key}", fix=_ELSEWHERE
        ) from error
