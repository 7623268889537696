"""The export targets: every module of this folder is one, and its file name is its name on the command line.

Looking at the folder imports no converter: a target imports its packages inside `build` and says in
`requires` what is missing here, so that a missing package costs that one row and nothing else. This file
knows what a target must offer and nothing about any of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from deploy.errors import InputError

if TYPE_CHECKING:
    from pipeline.models.labelmap import LabelMapper


@dataclass(frozen=True)
class Budget:
    """How far an artifact of one precision may be from the fp32 checkpoint.

    Args:
        agreement: least share of pixels with the checkpoint's class.
        miou_drop: most mIoU lost, in points (0.01 of mIoU), or None where only agreement counts.
        logits_error: largest error of a logit when the golden is replayed, in standard deviations of the
            reference's logits.
        advice: what to try when the budget is exceeded.
    """

    agreement: float
    miou_drop: float | None
    logits_error: float
    advice: str


@dataclass(frozen=True)
class BuildContext:
    """What a target needs beside the network: the precision asked for, and an empty folder for its files."""

    precision: str
    folder: Path


class Target(Protocol):
    """What a module of this folder offers.

    Attributes:
        NAME: the module's own name. PRECISIONS: those that `build` makes. BUDGET: one for each of them.
        EXTENSION: suffix of its main file. RUNTIME: the `deploy.runtimes` entry that executes its artifacts.
        PROOF: the word that a passed parity earns: executed, evaluated or built.
    """

    NAME: str
    PRECISIONS: tuple[str, ...]
    BUDGET: Mapping[str, Budget]
    EXTENSION: str
    RUNTIME: str
    PROOF: str

    def requires(self) -> str | None:
        """Why this target cannot build here, or None."""

    def build(self, net: LabelMapper, context: BuildContext) -> dict[str, Path]:
        """Write the artifact into `context.folder`; returns its files by their path in the bundle."""

    def expose_logits(self, files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
        """The same artifact cut at the head's logits, for error figures. Optional: only where it is cheap."""


@dataclass(frozen=True)
class Entry:
    """A row of the registry: a target, or the reason why it cannot be used here."""

    name: str
    target: Target | None
    reason: str | None


def entries() -> dict[str, Entry]:
    """Every target by name, whether or not it can be used here."""
    return {name: _entry(name) for name in sorted(module.name for module in pkgutil.iter_modules(__path__))}


def find(name: str, precision: str) -> Target:
    """The target of that name, ready to build in that precision.

    Raises:
        InputError: no such target, it cannot be used here, or it has no such precision.
    """
    known = entries()
    if name not in known:
        raise InputError("unknown target", got=name, expected=f"one of {', '.join(known)}")
    entry = known[name]
    if entry.target is None or entry.reason:
        raise InputError(
            f"target {name} cannot be built here", got=entry.reason, fix="install what is missing"
        )
    if precision not in entry.target.PRECISIONS:
        expected = f"one of {', '.join(entry.target.PRECISIONS)}"
        raise InputError(f"unknown precision for {name}", got=precision, expected=expected)
    return entry.target


def missing_packages(*modules: str) -> str | None:
    """The reason for `requires`: which of these top-level modules are not installed; None if all are."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"needs {', '.join(missing)}: not installed" if missing else None


def _entry(name: str) -> Entry:
    try:
        target = cast(Target, importlib.import_module(f"{__name__}.{name}"))
    except ImportError as error:
        return Entry(name, None, f"cannot be loaded: {error}")
    return Entry(name, target, target.requires())
