"""Labelled CT volumes as cases, what the CT kinds can be asked, and the split of cases by patient.

Refuses to know file formats: a case has a scan (deploy/volumes) and its label files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from pipeline.datasets import SOURCE, Option

if TYPE_CHECKING:
    from deploy.manifest import SliceRule
    from deploy.volumes import Scan

OWN, NONE = "own", "none"


@dataclass(frozen=True)
class Case:
    """A volume with its label files; `name` begins its slices' file names, `patient` decides its split."""

    name: str
    patient: str
    scan: Scan
    labels: tuple[Path, ...]


def _number(what: str, low: float, high: float, word: str) -> Callable[[str], float | str]:
    """Parser of a number, or of the word that stands for none."""

    def parse(text: str) -> float | str:
        try:
            value = float(text)
        except ValueError:
            value = low - 1
        if text != word and not low <= value <= high:
            raise InputError(f"--{what}", got=repr(text), expected=f"{low:g} to {high:g}")
        return word if text == word else value

    return parse


def _size(text: str) -> tuple[int, int] | str:
    from deploy.options import parse_size

    return text if text == OWN else parse_size(text)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) != len(names) or "background" in names:
        raise InputError("--classes", got=repr(text), expected="names without the background: liver,lesion")
    return names


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise InputError("--patient", got=f"{text!r}: {error}", expected="a regular expression") from error
    return text


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise InputError("--seed", got=repr(text), expected="a whole number of 0 or more")
    return int(text)


CLASSES = Option("classes", "names after the background; a later one covers an earlier", "all", _names)
PATIENT = Option("patient", "regular expression: what of a file's path names the patient", "(.*)", _pattern)
SPLIT = (
    Option("holdout", "share of the patients that go to val", 0.2, _number("holdout", 0, 0.9, "0")),
    Option("seed", "which patients they are", 0, _seed),
)
SLICES = (
    Option(
        "spacing", "pixel spacing in mm to resample to, with --canvas", OWN, _number("spacing", 0.1, 20, OWN)
    ),
    Option("canvas", "size to cut or pad to, with --spacing", OWN, _size),
    Option(
        "neighbours", "slices this many mm away are channels", NONE, _number("neighbours", 0.1, 100, NONE)
    ),
)
LICENCE = Option("licence", "of the data; it goes into checkpoints and bundles", "")
COMMON = (SOURCE, CLASSES, *SPLIT, *SLICES, LICENCE)


def slice_rule(request: Mapping[str, Any]) -> SliceRule:
    """How slices are cut, by the options in `SLICES`.

    Raises:
        InputError: a spacing without a canvas, or the other way round.
    """
    from deploy.manifest import SliceRule, check_ct

    given = {name: None if value in (OWN, NONE) else value for name, value in request.items()}
    canvas = tuple(given["canvas"]) if given["canvas"] else None
    rule = SliceRule(given["spacing"], canvas, given["neighbours"])
    if (rule.spacing_mm is None) != (rule.canvas is None):
        expected = "both, such as --spacing 1.5 --canvas 256x256, or neither"
        raise InputError("--spacing and --canvas", got="one of them", expected=expected)
    check_ct((0.0, 1.0), rule, "options")
    return rule


def class_names(request: Mapping[str, Any], found: Sequence[str]) -> tuple[str, ...]:
    """The background and the classes: those asked for, else all that were found.

    Raises:
        InputError: more than a label map can hold.
    """
    names = sorted(set(found)) if request["classes"] == "all" else request["classes"]
    if not 1 <= len(names) <= 254:
        raise InputError("classes", got=f"{len(names)} names", expected="1 to 254, see --classes")
    return ("background", *names)


def split_by_patient(cases: Sequence[Case], share: float, seed: int) -> dict[str, str]:
    """Patient -> "train" or "val": never both, and each at least one if there are two patients."""
    patients = {case.patient for case in cases}
    order = sorted(patients, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    held_out = min(len(order) - 1, max(1, round(share * len(order)))) if share else 0
    return {name: "val" if index < held_out else "train" for index, name in enumerate(order)}


def pseudonym(kind: str, identity: str) -> str:
    """A short name that stands for an identifier and does not show it: equal ones get equal names."""
    return kind + hashlib.sha256(identity.encode()).hexdigest()[:10]
