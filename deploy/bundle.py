"""A bundle on disk: `bundle.json`, the model's files, `golden.npz`; read with suspicion, written atomically.

A bundle comes from outside: a changed byte, a path or link that leaves the folder, an unknown schema version,
an unknown key and an oversize file are refused. Refuses to know how a runtime uses the files.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.externaldata import check_external_data
from deploy.files import atomic_folder, atomic_write_bytes, require_writable, sha256_file, write_json
from deploy.manifest import (
    SCHEMA_VERSION,
    Accuracy,
    ClassInfo,
    FileEntry,
    Golden,
    Manifest,
    Parity,
    Preprocess,
    Provenance,
    Target,
    TensorSpec,
    check_manifest,
    check_relative_path,
    manifest_from_json,
    manifest_to_json,
    of_domain,
)
from deploy.schema import read_json

__all__ = [
    "SCHEMA_VERSION",
    "Accuracy",
    "Bundle",
    "ClassInfo",
    "FileEntry",
    "Golden",
    "Manifest",
    "Parity",
    "Preprocess",
    "Provenance",
    "Target",
    "TensorSpec",
    "load_bundle",
    "load_with_domains",
    "require_replaceable",
    "write_bundle",
]

MANIFEST_FILE = "bundle.json"
GOLDEN_LIMIT = 1 << 30  # bytes of arrays in golden.npz
_DAMAGED = "copy or export the bundle again"


@dataclass(frozen=True)
class Bundle:
    """A checked bundle: its folder and what it says; with `domain`, what it says of that domain."""

    root: Path
    manifest: Manifest
    domain: str | None = None

    @property
    def sha256(self) -> str:
        """Hex SHA-256 of bundle.json, which lists every file's hash: it names the whole bundle."""
        return sha256_file(self.root / MANIFEST_FILE)

    def path(self, entry: FileEntry | str) -> Path:
        """Absolute path of a listed file.

        Raises:
            InputError: not listed.
        """
        name = entry.path if isinstance(entry, FileEntry) else entry
        if name not in {listed.path for listed in self.manifest.files}:
            raise InputError(f"{self.root}: no file {name!r}", expected="one that bundle.json lists")
        return self.root.resolve() / name

    def model_file(self, suffix: str) -> Path:
        """The one listed file that ends in `suffix` (".onnx"), those of domains left out.

        Raises:
            InputError: none, or several; an .onnx whose tensors lie outside the bundle's files.
        """
        packs = {path for domain in self.manifest.domains.values() for path in domain.files}
        paths = [entry.path for entry in self.manifest.files if entry.path not in packs]
        found = [path for path in paths if path.endswith(suffix)]
        if len(found) != 1:
            raise InputError(
                f"{self.root}: model", got=found or "no file", expected=f"one {suffix} file", fix=_DAMAGED
            )
        if suffix == ".onnx":
            check_external_data(self.path(found[0]), self._beside(found[0], paths))
        return self.path(found[0])

    def _beside(self, file: str, paths: Collection[str]) -> dict[str, int]:
        """Name -> bytes of those of the listed files that lie in the folder of `file`."""
        folder = file.rpartition("/")[0]
        near = [entry for entry in self.manifest.files if entry.path in paths]
        split = [(*entry.path.rpartition("/"), entry.bytes) for entry in near]
        return {name: size for where, _, name, size in split if where == folder}

    def golden(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """(inputs `[N, ...]` without the batch axis, the fp32 reference's outputs `[N, ...]`).

        Raises:
            InputError: there is no golden, or its arrays do not fit the manifest.
        """
        if self.manifest.golden is None:
            raise InputError(f"{self.root} has no golden", fix="export it again with images")
        path = self.path(self.manifest.golden.file)
        inputs, outputs = _read_golden(path)
        _check_golden(inputs, self.manifest.inputs[0], path)
        _check_golden(outputs, self.manifest.outputs[0], path)
        if len(inputs) != len(outputs) or not len(inputs):
            raise InputError(
                f"{path}",
                got=f"{len(inputs)} inputs, {len(outputs)} outputs",
                expected="as many of both, at least 1",
            )
        return inputs, outputs


def load_bundle(path: Path | str, check_files: bool = True, domain: str | None = None) -> Bundle:
    """Read and check the bundle in folder `path`; `check_files` hashes every file.

    Args:
        domain: the one that is wanted in the base's place.

    Raises:
        InputError: no bundle, another schema version, unknown or missing keys, a path that leaves the folder,
            a missing file, a changed size or byte, no such domain.
    """
    root = Path(path)
    source = root / MANIFEST_FILE
    if not source.is_file():
        raise InputError(
            f"no bundle at {root}", expected=f"a folder with {MANIFEST_FILE}", fix="export one first"
        )
    _inside(root, MANIFEST_FILE)
    manifest = manifest_from_json(read_json(source), str(source))
    if not manifest.files:
        raise InputError(f"{source}: files", got="none", expected="the model's files", fix=_DAMAGED)
    for entry in manifest.files:
        _check_file(root, entry, check_files)
    return Bundle(root, of_domain(manifest, domain) if domain else manifest, domain)


def load_with_domains(path: Path | str) -> list[Bundle]:
    """The bundle in folder `path`, checked, and after it each of its domains.

    Raises:
        InputError: as `load_bundle`.
    """
    base = load_bundle(path)
    names = base.manifest.domains
    return [base, *(Bundle(base.root, of_domain(base.manifest, name), name) for name in names)]


def write_bundle(final: Path | str, manifest: Manifest, files: Mapping[str, Path | bytes]) -> Bundle:
    """Write a bundle to the folder `final` (replaced if it exists) and load it back.

    Args:
        final: the bundle's folder.
        manifest: everything but `files`, which is filled in here.
        files: path in the bundle -> its bytes, or a file or folder to copy.

    Raises:
        InputError: the manifest contradicts itself, a path leaves the bundle, or the place cannot be written.
    """
    final = Path(final)
    require_replaceable(final)
    with atomic_folder(final) as folder:
        for name, source in files.items():
            check_relative_path(name, f"{final}")
            _place(folder / name, source)
        entries = tuple(_entry(folder, found) for found in sorted(folder.rglob("*")) if found.is_file())
        complete = dataclasses.replace(manifest, files=entries)
        check_manifest(complete, f"{final / MANIFEST_FILE}")
        write_json(folder / MANIFEST_FILE, manifest_to_json(complete))
    return load_bundle(final)


def require_replaceable(final: Path | str) -> None:
    """A folder that is no bundle (a mistyped --out) is never replaced.

    Raises:
        InputError: it is none, or nothing can be written there.
    """
    final = Path(final)
    require_writable(final)
    if (
        final.exists()
        and not (final / MANIFEST_FILE).is_file()
        and (not final.is_dir() or any(final.iterdir()))
    ):
        raise InputError(f"{final} exists and is not a bundle", fix="choose another --out, or remove it")


def _place(target: Path, source: Path | bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, bytes):
        atomic_write_bytes(target, source)
    elif source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _entry(folder: Path, path: Path) -> FileEntry:
    return FileEntry(path.relative_to(folder).as_posix(), path.stat().st_size, sha256_file(path))


def _inside(root: Path, name: str) -> Path:
    """The real path of root/name, which links must not lead out of the bundle."""
    real = Path(os.path.realpath(root / name))
    if not real.is_relative_to(os.path.realpath(root)):
        raise InputError(f"{root}: {name} is a link that leaves the bundle", fix=_DAMAGED)
    return real


def _check_file(root: Path, entry: FileEntry, check_hash: bool) -> None:
    path = _inside(root, entry.path)
    if not path.is_file():
        raise InputError(f"{root}: file {entry.path} is missing", fix=_DAMAGED)
    size = path.stat().st_size
    if size != entry.bytes:
        raise InputError(
            f"{root}: {entry.path} has changed", got=f"{size} bytes", expected=entry.bytes, fix=_DAMAGED
        )
    if check_hash and (found := sha256_file(path)) != entry.sha256:
        raise InputError(f"{root}: {entry.path} has changed", got=found, expected=entry.sha256, fix=_DAMAGED)


def _read_golden(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(member.file_size for member in archive.infolist())
        if total > GOLDEN_LIMIT:
            raise InputError(f"{path} is too large", got=f"{total} bytes", expected=f"at most {GOLDEN_LIMIT}")
        with np.load(path, allow_pickle=False) as arrays:
            inputs, outputs = arrays["inputs"], arrays["outputs"]
        if not isinstance(inputs, np.ndarray) or not isinstance(outputs, np.ndarray):
            raise ValueError("a member that is no array")
        return inputs, outputs
    except (OSError, ValueError, KeyError, EOFError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a golden", got=error, expected="arrays inputs and outputs"
        ) from error


def _check_golden(array: npt.NDArray[Any], spec: TensorSpec, path: Path) -> None:
    if array.shape[1:] != spec.shape[1:] or array.dtype != spec.dtype:
        got = f"{array.dtype} {array.shape}"
        raise InputError(f"{path}: {spec.name}", got=got, expected=f"{spec.dtype} (N, *{spec.shape[1:]})")
