"""Where labelled folders come from: this directory is the registry of data set kinds.

Every module here except `folder`, `gate` and `published` is a kind; its file name is the name after
`prepare --kind`.
A kind turns something (nothing but a seed, or a download in its published layout) into a labelled folder:

    VERSION: int                      raise it when the same request gives other bytes
    OPTIONS: tuple[Option, ...]       what it can be asked; `prepare` makes command-line options of them
    requires() -> str | None          why it cannot work here (a missing package), or None
    write(folder, request, progress)  fill an empty folder; `request` maps option names to values

A kind's module imports nothing heavy at its top, so that help stays quick.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError

if TYPE_CHECKING:
    from deploy.manifest import Preprocess
    from pipeline.datasets.folder import LabelledFolder

_NOT_A_KIND = ("folder", "gate", "published")

Progress = Callable[[int, int], None]  # (done, total)


@dataclass(frozen=True)
class Option:
    """One thing a kind can be asked: `--name`, a line of help, default (None: required), the parser."""

    name: str
    help: str
    default: Any
    parse: Callable[[str], Any] = str


def _absolute(text: str) -> str:
    return str(Path(text).resolve())


SOURCE = Option("source", "the data set as published, unpacked", None, _absolute)


def kinds() -> tuple[str, ...]:
    """Names of all kinds, by the files in this directory; nothing is imported."""
    found = (module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    return tuple(sorted(name for name in found if name not in _NOT_A_KIND))


def available() -> dict[str, str | None]:
    """Every kind with the reason why it cannot be used here, or None."""
    return {name: _reason(name) for name in kinds()}


def options() -> dict[str, tuple[Option, ...]]:
    """Options of every kind that can be imported, usable here or not."""
    return {name: _module(name).OPTIONS for name in kinds() if _import_error(name) is None}


def load_kind(name: str) -> ModuleType:
    """The module of a kind.

    Raises:
        InputError: no such kind, or something it needs is missing.
    """
    if name not in kinds():
        raise InputError(f"unknown data set kind {name!r}", expected=f"one of {', '.join(kinds())}")
    reason = _reason(name)
    if reason:
        raise InputError(f"data set kind {name!r} cannot be used here", got=reason)
    return _module(name)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def _import_error(name: str) -> str | None:
    try:
        _module(name)
    except ImportError as error:
        return f"cannot be imported: {error}"
    return None


def _reason(name: str) -> str | None:
    """Why a kind cannot be used: an import that fails, or what it says itself."""
    return _import_error(name) or _module(name).requires()


def open_dataset(directory: Path | str, split: str, rule: Preprocess | None = None) -> LabelledFolder:
    """One split of a labelled folder, as pairs of image and mask; `rule`: the network's, for CT.

    Raises:
        InputError: no such folder or split, an empty split, an image or mask without its partner.
    """
    from deploy.labels import read_dataset
    from pipeline.datasets.folder import LabelledFolder

    return LabelledFolder(read_dataset(directory), split, rule)
