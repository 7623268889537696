"""The export targets: every module of this folder is one, and its file name is its name on the command line.

Looking at the folder imports no converter: a target imports its packages inside `build` and says in
`requires` what is missing here, so that a missing package costs that one row and nothing else. This file
knows what a target must offer and nothing about any of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from deploy.errors import InputError
from export.graphrules import GraphRules

if TYPE_CHECKING:
    import numpy.typing as npt

    from deploy.bundle import Bundle
    from deploy.manifest import ClassInfo, Manifest
    from deploy.runtimes import RuntimeSession
    from export.calibration_table import CalibrationTable
    from export.precision_plan import PrecisionPlan
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
class Support:
    """The network's ends and shapes that a target can build; the first input and output are its defaults.

    Args:
        inputs, outputs: values of `LabelMapper`. batch: several frames a call. dynamic: any number of them.
        calibrated: precisions that take their ranges from calibration images.
        packs: several domains in one bundle that share their base's tensors, in fp32.
        plans: whether int8 can be had block by block. ranges: whether it takes them from a calibration table;
            else its own tools see the images. grouped: whether int8 takes convolutions in groups, too.
    """

    inputs: tuple[str, ...] = ("uint8", "float")
    outputs: tuple[str, ...] = ("labels", "logits")
    batch: bool = False
    dynamic: bool = False
    calibrated: tuple[str, ...] = ()
    packs: bool = False
    plans: bool = False
    ranges: bool = False
    grouped: bool = False


@dataclass(frozen=True)
class Pack:
    """A part of a bundle with domains.

    Args:
        name: of its files, `base` or the domain's.
        base: the base's files by path in the bundle, whose tensors are shared; empty for the base itself.
    """

    name: str
    base: Mapping[str, Path]


@dataclass(frozen=True)
class Shape:
    """What is asked for: ends as in `LabelMapper`, frames a call, or any number of them."""

    input: str
    output: str
    batch: int = 1
    dynamic: bool = False


class Frames(Protocol):
    """Arrays that can be read in several passes, and need not be in memory."""

    def __len__(self) -> int:
        """How many a pass gives."""

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """One pass."""


@dataclass(frozen=True)
class BuildContext:
    """What a target needs beside the network.

    Args:
        precision: the one asked for. folder: empty, for its files.
        shape: of the batch; its ends are the network's.
        calibration: network inputs `[batch, ...]`, as the device would make them; None without.
        classes: for formats that can name them.
        examples: yields pictures as network inputs, where values are to be looked at.
        pack: what it is a part of, where the target supports packs; None: a bundle by itself.
        plan: which blocks are in int8. table: what the calibration images showed, if that is known already.
    """

    precision: str
    folder: Path
    shape: Shape = Shape("uint8", "labels")
    calibration: Frames | None = None
    classes: tuple[ClassInfo, ...] = ()
    examples: Callable[[], Iterator[npt.NDArray[Any]]] = lambda: iter(())
    pack: Pack | None = None
    plan: PrecisionPlan | None = None
    table: CalibrationTable | None = None


class Target(Protocol):
    """What a module of this folder offers; the functions marked optional only where they make sense.

    Attributes:
        NAME: the module's own name. BUDGET: one for each of its PRECISIONS.
        EXTENSION: suffix of its main file. RUNTIME: the `deploy.runtimes` entry that executes its artifacts.
        MIN_VERSION: the oldest version of that runtime that can, or None.
        TOOLS: distributions whose versions shape its artifacts.
        PROOF: the word that a passed parity earns: executed, evaluated or built.
        SUPPORT: what it can be asked for. RULES: what its artifacts may be made of.
        PACK_RULES: what parts of bundles with domains may be made of; only where SUPPORT has `packs`.
        CLASS_AXIS: optional, "first" where the label map's argmax is faster so (`BandedLabels`).
    """

    NAME: str
    PRECISIONS: tuple[str, ...]
    BUDGET: Mapping[str, Budget]
    EXTENSION: str
    RUNTIME: str
    MIN_VERSION: str | None
    TOOLS: tuple[str, ...]
    PROOF: str
    SUPPORT: Support
    RULES: GraphRules
    PACK_RULES: GraphRules

    def requires(self) -> str | None:
        """Why this target cannot build here, or None."""

    def build(self, net: LabelMapper, context: BuildContext) -> dict[str, Path]:
        """Write the artifact into `context.folder`; returns its files by their path in the bundle."""

    def from_onnx(self, graph: Path, context: BuildContext) -> dict[str, Path]:
        """Optional: the same from any ONNX graph of one frame a call, for networks that were given so."""

    def count_ops(self, files: Mapping[str, Path]) -> Counter[str]:
        """Operators of a built artifact by type, as `RULES` names them."""

    def expose_logits(self, files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
        """The same artifact cut at the head's logits, for error figures. Optional: only where it is cheap.

        `files`: as `build` wrote them, in its folder, with whatever it left beside them there.
        """

    def adapt_manifest(self, manifest: Manifest) -> Manifest:
        """Optional: tensors that differ from the network's (layout, dtype), options of the runtime."""

    def open_proof(self, bundle: Bundle, threads: int | None) -> RuntimeSession:
        """Optional: what runs the artifact here, where that is not `RUNTIME` itself (evaluated, built)."""


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


def ask(target: Target, input: str | None, output: str | None, batch: int, dynamic: bool) -> Shape:
    """What to build, the target's defaults filled in.

    Raises:
        InputError: the target does not support it.
    """
    support = target.SUPPORT
    shape = Shape(input or support.inputs[0], output or support.outputs[0], batch, dynamic)
    for option, value, known in (
        ("input", shape.input, support.inputs),
        ("output", shape.output, support.outputs),
    ):
        if value not in known:
            raise InputError(f"{target.NAME} cannot build --{option}", got=value, expected=" or ".join(known))
    if batch > 1 and not support.batch:
        raise InputError(f"{target.NAME} cannot build --batch", got=batch, expected="1")
    if dynamic and not support.dynamic:
        raise InputError(
            f"{target.NAME} cannot build --dynamic", expected="a fixed number of frames: --batch N"
        )
    if dynamic and batch > 1:
        raise InputError("--dynamic and --batch", expected="one of them")
    return shape


def require_plans(target: Target) -> None:
    """Raise InputError, naming the targets that do, where a target cannot be built block by block."""
    if not target.SUPPORT.plans:
        able = [name for name, entry in entries().items() if entry.target and entry.target.SUPPORT.plans]
        raise InputError(f"{target.NAME} takes no plans", expected=f"one of {', '.join(able)}")


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
