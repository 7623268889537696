"""Stages of a run as artifacts: a key of all that determines the result, and `stage.json` written last.

Key = SHA-256 of (stage, version of its code, settings, digests of its inputs). A folder with an equal key is
"cached"; otherwise the differences can be told by name. Refuses to know what a stage computes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from deploy.files import sha256_file, write_json

RUNS = Path("runs")
DONE, BEGUN = "stage.json", "recipe.json"
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+")
_JSON_LIMIT = 4 << 20


@dataclass(frozen=True)
class Stage:
    """What determines a stage's result.

    Attributes:
        name: "train"; version: raised when the same inputs give another result.
        settings: nested plain values; inputs: digest by what it is, e.g. {"data train": "3fa..."}.
        notes: kept with the rest, but not part of the key (paths, the git commit).
    """

    name: str
    version: int
    settings: dict[str, Any]
    inputs: dict[str, str]
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Hex SHA-256 over all but the notes."""
        value = [self.name, self.version, self.settings, self.inputs]
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    def record(self) -> dict[str, Any]:
        """The JSON object that a folder keeps."""
        parts = {
            "stage": self.name,
            "version": self.version,
            "settings": self.settings,
            "inputs": self.inputs,
        }
        return {"key": self.key, **parts, "notes": self.notes}


def run_folder(name: str) -> Path:
    """`runs/NAME`.

    Raises:
        InputError: a name that is not a plain file name.
    """
    if not name or name[0] in ".-" or any(c not in _NAME for c in name):
        raise InputError("run name", got=repr(name), expected="letters, digits, . _ - + (it names a folder)")
    return RUNS / name


def begin(folder: Path, stage: Stage) -> None:
    """Note in `folder` what is being computed there."""
    write_json(folder / BEGUN, stage.record())


def finish(folder: Path, stage: Stage, outputs: Iterable[str], results: dict[str, Any]) -> None:
    """Write `stage.json`: the record, the files made with their hashes, and the results."""
    hashes = {name: sha256_file(folder / name) for name in sorted(outputs)}
    write_json(folder / DONE, {**stage.record(), "outputs": hashes, "results": results})


def read_record(path: Path, fix: str | None = None) -> dict[str, Any] | None:
    """A record written by `begin` or `finish`; None if there is none. `fix`: what to do about a damaged one.

    Raises:
        InputError: not such a file.
    """
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_bytes()) if path.stat().st_size <= _JSON_LIMIT else None
    except (ValueError, RecursionError):
        value = None
    tables = ("settings", "inputs", "notes")
    if not isinstance(value, dict) or not all(isinstance(value.get(name), dict) for name in tables):
        raise InputError(f"{path} is damaged", expected="the record of a stage", fix=fix)
    return value


def changes(old: dict[str, Any], stage: Stage) -> list[str]:
    """What differs between a record and a stage, e.g. "train.lr 0.003 -> 0.001"; empty for equal keys."""
    if old.get("key") == stage.key:
        return []
    new = stage.record()
    flat_old, flat_new = _flat(old["settings"]), _flat(stage.settings)
    found = [_change(key, flat_old.get(key), flat_new.get(key)) for key in sorted(flat_old | flat_new)]
    names = sorted(old["inputs"] | stage.inputs)
    found += [_change(key, _short(old["inputs"].get(key)), _short(stage.inputs.get(key))) for key in names]
    found.append(_change("code version of the stage", old.get("version"), new["version"]))
    return [text for text in found if text] or ["the key (its record was edited)"]


def changed_outputs(folder: Path, record: dict[str, Any]) -> list[str]:
    """Files of a finished stage that are gone or have other bytes."""
    outputs = record.get("outputs")
    hashes = outputs if isinstance(outputs, dict) else {DONE: None}
    return [n for n, h in hashes.items() if not (folder / n).is_file() or sha256_file(folder / n) != h]


def set_aside(folder: Path) -> Path:
    """Rename a folder to NAME.old (replacing an older one), so that nothing is lost; returns its new path."""
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    return old


def git_commit() -> str | None:
    """Commit of the source tree that is running, "-dirty" if it has uncommitted changes; None outside git."""
    here = Path(__file__).resolve().parent
    try:
        commit = _git(here, "rev-parse", "HEAD")
        return commit + ("-dirty" if _git(here, "status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *command: str) -> str:
    result = subprocess.run(
        ["git", "-C", folder, *command], capture_output=True, text=True, check=True, timeout=20
    )
    return result.stdout.strip()


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _change(name: str, old: Any, new: Any) -> str:
    return "" if old == new else f"{name} {old} -> {new}"


def _short(digest: Any) -> Any:
    return digest[:12] if isinstance(digest, str) else digest
