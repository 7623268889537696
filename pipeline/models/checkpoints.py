"""Checkpoints: one safetensors file with what is needed to rebuild and use the model, and where to find one.

The header's metadata holds one key, "edgeseg": JSON of `CheckpointMeta`. Nothing is ever unpickled here.
A domain's checkpoint holds only what it adds; it names its base, whose tensors are read from there.
Refuses to know: training, official checkpoints (official.py).

Source of the format: safetensors (Apache-2.0).
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from deploy.errors import InputError
from deploy.files import atomic_write_bytes, sha256_file
from deploy.labels import MAX_CLASSES, DatasetInfo, parse_dataset
from pipeline.models.adaptation import Adaptation, adapt, domain_tensors
from pipeline.models.efficientvit import EfficientViTSeg, create_model

KEY = "edgeseg"
MODEL_KEYS = {"variant": str, "attention": str, "classes": int, "head": str}
LATER_KEYS = {"activation": str}  # left out where it is the published one
RUNS, ZOO = Path("runs"), Path("zoo")
FILE_NAMES = ("best.safetensors", "model.safetensors", "train/best.safetensors")
MAX_BYTES = 4 << 30


@dataclass(frozen=True)
class CheckpointMeta:
    """What a checkpoint says about itself; every value is JSON.

    Attributes:
        model: {"variant", "attention", "classes", "head"}, the arguments of `create_model`; a domain's has
        "adaptation", those of `Adaptation`, too. "activation" is there where it is not the published one.
        dataset: {"name", "classes" (names), "palette" ([r, g, b] each), "ignore_index", "modality",
        "licence"}.
        preprocess: {"size" [H, W], "resize", "interpolation", "mean", "std"} (mean and std in 0..1 units).
        provenance, metrics: free.
        base: {"name", "sha256"} of the checkpoint that a domain's adds to; empty for a whole model.
    """

    model: dict[str, Any]
    dataset: dict[str, Any] = field(default_factory=dict)
    preprocess: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] = field(default_factory=dict)


def build_model(spec: dict[str, Any]) -> EfficientViTSeg:
    """A fresh model by a checkpoint's description (`CheckpointMeta.model`).

    Raises:
        InputError: a value that is none of the known ones.
    """
    model = create_model(**{key: spec[key] for key in (MODEL_KEYS | LATER_KEYS) if key in spec})
    if "adaptation" in spec:
        adapt(model, spec["classes"], Adaptation(**spec["adaptation"]))
    return model


def save_checkpoint(path: Path | str, state_dict: dict[str, Tensor], meta: CheckpointMeta) -> None:
    """Write a checkpoint, atomically; equal input gives equal bytes. Of a domain's, only what it adds.

    Raises:
        InputError: the file cannot be written.
    """
    names = _own_tensors(meta.model) if meta.base else list(state_dict)
    tensors = {name: state_dict[name].detach().cpu().contiguous() for name in names}
    described = {key: value for key, value in dataclasses.asdict(meta).items() if value or key != "base"}
    header = {KEY: json.dumps(described, sort_keys=True)}
    atomic_write_bytes(Path(path), save(tensors, metadata=header))


def read_meta(path: Path | str) -> CheckpointMeta:
    """The description in a checkpoint's header, checked; no weights are read.

    Raises:
        InputError: not a checkpoint of ours, truncated, or a description that does not fit.
    """
    path = Path(path)
    _require_safetensors(path)
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"checkpoint {path} cannot be read", error, "a complete safetensors file") from None
    if KEY not in header:
        raise InputError(
            f"checkpoint {path} does not say what model it is",
            f"metadata {sorted(header)}",
            f"a key {KEY!r}",
            "official weights: `python -m pipeline import`",
        )
    return _parse_meta(path, header[KEY])


def load_checkpoint(path: Path | str) -> tuple[EfficientViTSeg, CheckpointMeta]:
    """The model, with its weights and in eval mode, and its description.

    Raises:
        InputError: as `read_meta`, weights that do not fit the model described, or a base that is not there.
    """
    path = Path(path)
    meta = read_meta(path)
    model = build_model(meta.model)
    state = _read_tensors(path)
    if meta.base:
        _require_exactly(state, domain_tensors(model, Adaptation(**meta.model["adaptation"])), path)
        state = _base_tensors(path, meta.base, model) | state
    load_weights(model, state, str(path))
    return model.eval(), meta


def dataset_of(meta: CheckpointMeta, path: Path) -> DatasetInfo:
    """The data a checkpoint was trained on; imported weights may know no classes: numbers, distinct colours.

    Raises:
        InputError: a description that cannot be used, or not of the model's classes.
    """
    count, where = meta.model["classes"], f"checkpoint {path}: dataset"
    names = [f"class_{index}" for index in range(count)]
    info = parse_dataset({"classes": names, **meta.dataset}, where, path.parent)
    if len(info.classes) != count:
        raise InputError(f"{where}.classes", f"{len(info.classes)} names", f"{count}, as the model has")
    return info


def _own_tensors(spec: dict[str, Any]) -> list[str]:
    """Names of the tensors that a domain of this description adds to its base."""
    with torch.device("meta"):
        return domain_tensors(build_model(spec), Adaptation(**spec["adaptation"]))


def _require_exactly(state: dict[str, Tensor], names: list[str], path: Path) -> None:
    odd = sorted(set(state) ^ set(names))
    if odd:
        raise InputError(f"checkpoint {path}: not what its method adds to a base", some(odd))


def _base_tensors(path: Path, base: dict[str, Any], model: EfficientViTSeg) -> dict[str, Tensor]:
    """What a domain's model has from its base: found by name, and of the very bytes it was adapted from."""
    found = find_base(base["name"], base["sha256"], f"checkpoint {path}")
    wanted = model.state_dict()
    return {name: tensor for name, tensor in _read_tensors(found).items() if name in wanted}


def find_base(name: str, sha256: str, needed_by: str) -> Path:
    """The base checkpoint of that run or zoo name; where both are there, the one that is meant.

    Raises:
        InputError: not there, or other bytes than those the domain was adapted from.
    """
    files = [file for place in (RUNS, ZOO) if (file := _in_folder(place / name))]
    if not files:
        fix = f"put it back as {RUNS / name} or {ZOO / name}"
        raise InputError(f"{needed_by} needs its base {name}, which is not there", fix=fix)
    for file in files:
        if sha256_file(file) == sha256:
            return file
    fix = f"restore the {name} it was adapted from, or adapt again"
    raise InputError(f"{needed_by} needs another {name}", sha256_file(files[0])[:12], sha256[:12], fix)


def load_weights(model: nn.Module, state: dict[str, Tensor], source: str) -> None:
    """Load a complete state dict, or say what does not fit.

    Raises:
        InputError: missing, unknown or wrongly shaped tensors, with their names; a weight that is no finite
            number.
    """
    wanted = shapes_of(model.state_dict())
    if problems := misfits(shapes_of(state), wanted):
        raise InputError(
            f"weights of {source} do not fit the model", some(problems), f"{len(wanted)} tensors"
        )
    kinds = {name: tensor.is_floating_point() for name, tensor in model.state_dict().items()}
    for name, tensor in state.items():
        if tensor.is_floating_point() != kinds[name] or not torch.isfinite(tensor).all():
            got = f"{name} of {tensor.dtype}, or not finite"
            raise InputError(f"weights of {source}", got, "finite numbers", "get or train it again")
    model.load_state_dict(state)


def shapes_of(state: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Name -> shape."""
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def misfits(found: dict[str, tuple[int, ...]], wanted: dict[str, tuple[int, ...]]) -> list[str]:
    """Every tensor of another shape, missing or unknown, in words."""
    both = [name for name in wanted if name in found]
    shapes = [
        f"{name} {list(found[name])} for {list(wanted[name])}" for name in both if found[name] != wanted[name]
    ]
    missing = [f"{name} missing" for name in wanted if name not in found]
    return shapes + missing + [f"{name} unknown" for name in found if name not in wanted]


def some(problems: list[str], limit: int = 4) -> str:
    """The first few of a list, and how many more."""
    more = f" and {len(problems) - limit} more" if len(problems) > limit else ""
    return ", ".join(problems[:limit]) + more


def init_from(model: EfficientViTSeg, path: Path | str) -> list[str]:
    """Start `model` from another checkpoint of its variant; the head stays fresh where it differs.

    The head is replaced as a whole when its kind or class count differs, so the backbone's features are
    kept and nothing of the old classes survives.

    Returns:
        Names of the tensors that keep their fresh values (empty: everything was loaded).

    Raises:
        InputError: another variant, a domain's checkpoint, or as `load_checkpoint`.
    """
    path = Path(path)
    meta = read_meta(path)
    if meta.base:
        fix = f"start from {meta.base['name']}, or adapt it: python -m pipeline adapt"
        raise InputError(f"checkpoint {path} is a domain's", "only what it adds to its base", "a model", fix)
    if meta.model["variant"] != model.variant:
        raise InputError(f"checkpoint {path} is another model", meta.model["variant"], model.variant)
    state = _read_tensors(path)
    same_head = (meta.model["head"], meta.model["classes"]) == (model.head_name, model.classes)
    fresh = {} if same_head else {k: v for k, v in model.state_dict().items() if k.startswith("head.")}
    kept = state if same_head else {k: v for k, v in state.items() if k.startswith("backbone.")}
    load_weights(model, kept | fresh, str(path))
    return list(fresh)


def resolve_checkpoint(name_or_path: Path | str) -> Path:
    """The checkpoint file meant by a path, a folder, a run's name or a zoo name, looked for in this order.

    Raises:
        InputError: nothing there (the message lists the runs and zoo entries that exist), or a run and a zoo
        entry of that name that differ.
    """
    given = Path(name_or_path)
    if given.is_file():
        return given
    if found := _in_folder(given):
        return found
    if not given.is_absolute() and ".." not in given.parts:
        run, zoo = _in_folder(RUNS / given), _in_folder(ZOO / given)
        if run and zoo and sha256_file(run) != sha256_file(zoo):
            fix = f"write {RUNS / given} or {ZOO / given}"
            raise InputError(f"checkpoint {str(name_or_path)!r} is ambiguous", f"{run} and {zoo}", fix=fix)
        if run or zoo:
            return run or zoo
    existing = ", ".join(list_checkpoints()) or "none yet"
    raise InputError(
        f"no checkpoint {str(name_or_path)!r}", None, f"a file, a run or a zoo name; existing: {existing}"
    )


def _in_folder(folder: Path) -> Path | None:
    files = (folder / name for name in FILE_NAMES)
    return next((file for file in files if file.is_file()), None)


def list_checkpoints() -> list[str]:
    """Names under runs/ and zoo/ that hold a checkpoint."""
    files = [f for name in FILE_NAMES for base in (RUNS, ZOO) for f in base.glob(f"*/{name}")]
    return sorted({file.parts[1] for file in files})


def checkpoint_samples(path: Path | str) -> Path | None:
    """Folder `samples` (with images/ and masks/) beside a checkpoint file, or None."""
    folder = Path(path).parent / "samples"
    return folder if (folder / "images").is_dir() else None


def _require_safetensors(path: Path) -> None:
    """Refuse pickles and oversized files before anything parses them."""
    if not path.is_file():
        raise InputError(f"checkpoint {path} does not exist", expected="a .safetensors file")
    if not os.access(path, os.R_OK):
        raise InputError(f"checkpoint {path} cannot be read", "no permission")
    if path.suffix in (".pt", ".pth", ".ckpt", ".bin"):
        fix = "read official weights with `python -m pipeline import --checkpoint`"
        raise InputError(f"checkpoint {path} may be a pickle", path.suffix, ".safetensors", fix)
    if path.stat().st_size > MAX_BYTES:
        raise InputError(f"checkpoint {path} is too large", path.stat().st_size, f"at most {MAX_BYTES} bytes")


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"checkpoint {path} cannot be read", error, "a complete safetensors file") from None


def _parse_meta(path: Path, text: str) -> CheckpointMeta:
    """Check the description's structure: known sections, each a table, and a complete `model`."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"checkpoint {path}: its description is not JSON", error) from None
    sections = [item.name for item in dataclasses.fields(CheckpointMeta)]
    if not isinstance(data, dict) or not set(data) <= set(sections) or "model" not in data:
        got = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise InputError(f"checkpoint {path}: unknown description", got, sections)
    for name, section in data.items():
        if not isinstance(section, dict):
            raise InputError(f"checkpoint {path}: {name} is not a table", type(section).__name__, "a table")
    _check_model(path, data["model"])
    _check_base(path, data["model"], data.get("base", {}))
    meta = CheckpointMeta(**data)
    dataset_of(meta, path)
    return meta


def _check_model(path: Path, spec: dict[str, Any]) -> None:
    plain = {key: value for key, value in spec.items() if key != "adaptation"}
    known = MODEL_KEYS | LATER_KEYS
    fits = set(MODEL_KEYS) <= set(plain) <= set(known)
    if not fits or any(type(value) is not known[key] for key, value in plain.items()):
        raise InputError(f"checkpoint {path}: model description does not fit", spec, sorted(MODEL_KEYS))
    if not 2 <= spec["classes"] <= MAX_CLASSES:
        expected = f"2 to {MAX_CLASSES}"
        raise InputError(f"checkpoint {path}: number of classes out of range", spec["classes"], expected)
    how = spec.get("adaptation", {"method": ""})
    settings = {item.name for item in dataclasses.fields(Adaptation)}
    if not isinstance(how, dict) or not {"method"} <= set(how) <= settings:
        raise InputError(f"checkpoint {path}: unknown adaptation", how, sorted(settings))


def _check_base(path: Path, spec: dict[str, Any], base: dict[str, Any]) -> None:
    """A base goes with an adaptation, and is a name: nothing that could point out of runs/ and zoo/."""
    good = not base or (
        set(base) == {"name", "sha256"}
        and all(isinstance(value, str) for value in base.values())
        and Path(base["name"]).name == base["name"] not in ("", "..")
    )
    if not good or bool(base) != ("adaptation" in spec):
        raise InputError(f"checkpoint {path}: base does not fit", base, "the name and sha256 of a checkpoint")


def clone_state(model: nn.Module) -> dict[str, Tensor]:
    """A detached copy of a model's state dict on the CPU (for saving while training goes on)."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
