"""Runtimes that can execute a bundle: this folder is the registry, a file's name is the runtime's name.

A runtime module has `requires() -> str | None` (why it cannot be used here, or None), `version() -> str` and
`Session(bundle, threads)` as in `RuntimeSession`. Its package is imported only when a session is made; one
runtime a process. A runtime older than the bundle asks for is refused before it sees the files.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy.typing as npt

from deploy.bundle import Bundle
from deploy.errors import InputError


class RuntimeSession(Protocol):
    """A loaded network; its arrays are those of the manifest's first input and first output."""

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None: ...

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """One inference."""

    def close(self) -> None:
        """Free the network; the session cannot be used afterwards."""

    def versions(self) -> dict[str, str]:
        """Package name -> version, of all that executes."""


Opener = Callable[[Bundle, int | None], RuntimeSession]  # (bundle, threads) -> its session


class RuntimeModule(Protocol):
    """What a file in this folder offers."""

    Session: type[RuntimeSession]

    def version(self) -> str:
        """The installed runtime's version, such as "1.32.0"."""

    def requires(self) -> str | None:
        """Why this runtime cannot be used here; None if it can."""


def available() -> dict[str, str | None]:
    """Every known runtime, with the reason why it cannot be used here, or None."""
    return {name: _module(name).requires() for name in _names()}


def load(name: str) -> RuntimeModule:
    """The runtime module `name`, ready to make sessions.

    Raises:
        InputError: unknown to this version, or its package is missing.
    """
    if name not in _names():
        fix = "update deploy on this device, or export for another runtime"
        raise InputError(f"unknown runtime {name!r}", expected=", ".join(_names()), fix=fix)
    module = _module(name)
    if (reason := module.requires()) is not None:
        raise InputError(f"runtime {name} cannot be used here", got=reason)
    return module


def open_session(bundle: Bundle, threads: int | None = None) -> RuntimeSession:
    """A session of the bundle's own runtime; `threads` None takes every core of this process.

    Raises:
        InputError: the runtime is missing, older than the bundle asks for, or refuses the bundle; a path that
            is not UTF-8, which no runtime opens.
    """
    try:
        os.fsencode(bundle.root.resolve()).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{bundle.root}: its path is not UTF-8", fix="rename the folder") from error
    target = bundle.manifest.target
    module = load(target.runtime)
    if target.min_version and _numbers(found := module.version()) < _numbers(target.min_version):
        expected = f">= {target.min_version}"
        raise InputError(
            f"{bundle.manifest.name}: {target.runtime} is too old here", found, expected, "update the runtime"
        )
    return module.Session(bundle, threads)


def _numbers(version: str) -> tuple[int, ...]:
    """ "1.27.0.dev3" -> (1, 27, 0): what two versions are compared by."""
    leading = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def default_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _names() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def _module(name: str) -> RuntimeModule:
    return cast(RuntimeModule, importlib.import_module(f"{__name__}.{name}"))
