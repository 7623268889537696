"""The precision plan: which blocks of a network a target computes in which precision, as a JSON file.

Written by `python -m calibration search`, read by `export build --plan`. It belongs to one checkpoint, one
target and one calibration set. Refuses to know how it was found and what a target makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.files import write_json
from deploy.schema import digest, encode, read_versioned
from export.clipping import METHODS
from export.layers import block_of

if TYPE_CHECKING:
    from export.targets import Target

SCHEMA_VERSION = 2
BASELINES = ("fp16", "fp32")
EQUALISATION = "equalisation"  # pipeline/models/equalise.py; any target's
BIAS_CORRECTION = "bias correction"  # export/bias_correction.py; of targets that take ranges from us
HELPS = (EQUALISATION, BIAS_CORRECTION)
Helps = tuple[str, ...]


@dataclass(frozen=True)
class PrecisionPlan:
    """Which block in which precision.

    Args:
        target: as in `export list`. checkpoint_sha256, calibration_key: what it was found for.
        size: (height, width) of the network.
        method: how ranges are cut off (`export/clipping.py`), where the target takes them from us.
        baseline: precision of every block that is not named. blocks: block (`export/layers.py`) -> "int8".
        budget: points of mIoU that it may lose.
        helps: of `HELPS`, what is done to the network so that int8 loses less.
        key: hex SHA-256 over all of it.
    """

    target: str
    checkpoint_sha256: str
    calibration_key: str
    size: tuple[int, int]
    method: str
    baseline: str
    blocks: dict[str, str]
    budget: float
    helps: Helps = ()
    key: str = ""
    schema_version: int = SCHEMA_VERSION

    def sealed(self) -> PrecisionPlan:
        """The same plan with its key."""
        return replace(self, key=digest(self))

    @property
    def precision(self) -> str:
        """The target's precision that the plan refines; "int8" as soon as one block is."""
        return "int8" if self.blocks else self.baseline

    def in_int8(self, layer: str) -> bool:
        """Whether a convolution, by its layer's name, is to be computed in int8."""
        return block_of(layer) in self.blocks


def save_plan(path: Path | str, plan: PrecisionPlan) -> None:
    """Write a sealed plan as JSON; "-" is stdout."""
    assert plan.key == digest(plan), "seal the plan first"
    write_json(path, encode(plan))


def load_plan(path: Path, target: str, checkpoint_sha256: str, size: tuple[int, int]) -> PrecisionPlan:
    """Read a plan for this target and network.

    Raises:
        InputError: unreadable, changed since it was written, of another target, checkpoint or size, or with a
            method or precision that does not exist.
    """
    fix = "run: python -m calibration search"
    plan = read_versioned(PrecisionPlan, path, SCHEMA_VERSION, fix)
    if plan.key != digest(plan):
        raise InputError(f"{path} was changed after it was written", fix=fix)
    for what, found, expected in (
        ("target", plan.target, target),
        ("checkpoint", plan.checkpoint_sha256, checkpoint_sha256),
        ("size", plan.size, tuple(size)),
    ):
        if found != expected:
            raise InputError(f"{path} is for another {what}", found, expected, fix)
    for word, used, known in (
        ("method", {plan.method}, set(METHODS)),
        ("precision", {plan.baseline}, set(BASELINES)),
        ("help", set(plan.helps), set(HELPS)),
        ("precision of a block", set(plan.blocks.values()), {"int8"}),
    ):
        if odd := sorted(used - known):
            raise InputError(f"{path}: unknown {word}", ", ".join(odd), ", ".join(sorted(known)))
    return plan


def can_help(target: Target, name: str) -> bool:
    """Whether a help is for this target; some converters find biases themselves, as they do ranges."""
    return name != BIAS_CORRECTION or target.SUPPORT.ranges


def require_helps(target: Target, helps: Helps) -> None:
    """Raise InputError for a help that is not for this target."""
    if odd := [name for name in helps if not can_help(target, name)]:
        raise InputError(f"{odd[0]} for {target.NAME}", expected="a target that takes its ranges from us")
