"""File formats of CT volumes: this folder is the registry, a module's name is the format's name.

A format has `requires() -> str | None` (why it cannot be used here, or None), `holds(path) -> bool` and
`find(path) -> list[Scan]`. Its package is an extra (`edgeseg[ct]`), imported only when a file is read.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from deploy.errors import InputError
from deploy.volume import Labels, Volume


class Scan(Protocol):
    """One CT volume that was found and can be read."""

    @property
    def name(self) -> str:
        """A file name for what is made of it."""

    @property
    def patient(self) -> str:
        """Whose it is, as the source says; for splits only."""

    def read(self) -> Volume:
        """The volume."""

    def read_labels(
        self, files: Sequence[Path], volume: Volume, names: Sequence[str], ranked: bool = True
    ) -> Labels:
        """Labels `[S, H, W]` of the volume from label files, as ids of the class `names` (`volume.paint`)."""

    def write_labels(self, labels: Labels, names: Sequence[str], folder: Path, model: str) -> Path:
        """Write labels `[S, H, W]` in the scan's own geometry; `model` made them. Returns the file."""


class VolumeFormat(Protocol):
    """What a module in this folder offers."""

    def requires(self) -> str | None:
        """Why this format cannot be used here; None if it can."""

    def holds(self, path: Path) -> bool:
        """Whether there is something of this format at `path`; nothing is imported for it."""

    def find(self, path: Path) -> Sequence[Scan]:
        """The volumes at `path`, a file or a folder."""


def available() -> dict[str, str | None]:
    """Every format with the reason why it cannot be used here, or None."""
    return {name: load(name).requires() for name in names()}


def names() -> list[str]:
    """Names of all formats."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> VolumeFormat:
    """A format's module."""
    return cast(VolumeFormat, importlib.import_module(f"{__name__}.{name}"))


def find_scans(path: Path) -> list[Scan]:
    """All CT volumes at `path`, a file or a folder, of whatever format.

    Raises:
        InputError: nothing there, its format's package is missing, or no CT among what is there.
    """
    if not path.exists():
        raise InputError(f"no file or folder {path}")
    formats = {name: load(name) for name in names()}
    present = {name: module for name, module in formats.items() if module.holds(path)}
    if not present:
        raise InputError(f"{path} holds no CT volume", expected="a DICOM series, or .nii or .nii.gz files")
    for name, module in present.items():
        if (reason := module.requires()) is not None:
            raise InputError(f"{path} is {name}, which cannot be read here", got=reason)
    return [scan for module in present.values() for scan in module.find(path)]
