"""Official EfficientViT checkpoints (.pt): which model one is, and its tensors and description as ours.

Variant, head and class count follow from the tensors' names and shapes. The file is read without unpickling
objects (`weights_only=True`), whatever it claims to be. Refuses to know training.

Source of names: the reference implementation, mit-han-lab/efficientvit (Apache-2.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD
from pipeline.datasets.published import class_list
from pipeline.models.checkpoints import (
    MAX_BYTES,
    CheckpointMeta,
    misfits,
    shapes_of,
    some,
)
from pipeline.models.efficientvit import HEADS, MAX_CLASSES, VARIANTS, create_model

CLASSIFIER = re.compile(r"head\.output_ops\.0\.op_list\.\d+\.conv\.bias")
SIZES = {"cityscapes": (1024, 2048), "ade20k": (512, 512)}


@dataclass(frozen=True)
class Identity:
    """What a state dict is: the arguments of `create_model`."""

    variant: str
    head: str
    classes: int


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a torch checkpoint: `{"state_dict": {...}}` or the dict itself.

    Raises:
        InputError: missing, too large, unreadable, needs unpickling, or not a dict of finite tensors.
    """
    if not path.is_file():
        raise InputError(f"checkpoint {path} does not exist", expected="a .pt file of the official release")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"checkpoint {path} is too large", path.stat().st_size, f"at most {MAX_BYTES} bytes")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch's readers share no base class; whatever they raise, the file is bad
        reason = "objects to unpickle" if "GLOBAL" in str(error) else "no complete torch file"
        raise InputError(f"checkpoint {path} cannot be read", reason, "a file of tensors only") from None
    state = data.get("state_dict", data) if isinstance(data, dict) else data
    if (
        not isinstance(state, dict)
        or not all(isinstance(value, Tensor) for value in state.values())
        or not state
    ):
        raise InputError(f"checkpoint {path}", f"a {type(state).__name__}", "a state dict of named tensors")
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise InputError(f"checkpoint {path}: {name} holds NaN or infinity", fix="get the file again")
    return state


def identify(state: dict[str, Tensor], source: str) -> Identity:
    """Variant, head and class count of a state dict.

    Raises:
        InputError: it fits none; the message names the nearest and what does not fit.
    """
    shapes = shapes_of(state)
    classes = next((shape[0] for name, shape in shapes.items() if CLASSIFIER.fullmatch(name) and shape), 0)
    problems: dict[Identity, list[str]] = {}
    for head in HEADS:
        for variant in VARIANTS:
            identity = Identity(variant, head, min(max(classes, 1), MAX_CLASSES))
            problems[identity] = misfits(shapes, _expected(identity))
    best = min(problems, key=lambda identity: len(problems[identity]))
    if problems[best]:
        nearest = f"nearest is {best.variant} {best.head}: {some(problems[best])}"
        raise InputError(f"{source} is no EfficientViT segmenter", nearest, f"one of {', '.join(VARIANTS)}")
    return best


def import_official(path: Path | str) -> tuple[dict[str, Tensor], CheckpointMeta]:
    """Read an official checkpoint: float32 state dict and its description.

    Raises:
        InputError: as `read_state_dict` and `identify`.
    """
    path = Path(path)
    state = read_state_dict(path)
    identity = identify(state, str(path))
    state = {name: t.float() if t.is_floating_point() else t for name, t in state.items()}
    return state, describe(identity, {"imported_from": path.name, "sha256": sha256_file(path)})


def describe(identity: Identity, provenance: dict[str, Any]) -> CheckpointMeta:
    """The description of an official model; class names only where the count is the data set's own."""
    known = class_list(identity.head)
    return CheckpointMeta(
        model={
            "variant": identity.variant,
            "attention": "linear",
            "classes": identity.classes,
            "head": identity.head,
        },
        dataset=known if len(known["classes"]) == identity.classes else {},
        preprocess={
            "size": list(SIZES[identity.head]),
            "resize": "stretch",
            "interpolation": "linear",
            "mean": list(IMAGENET_MEAN),
            "std": list(IMAGENET_STD),
        },
        provenance=provenance,
    )


def _expected(identity: Identity) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        model = create_model(identity.variant, identity.classes, head=identity.head)
    return shapes_of(model.state_dict())
