"""The manifest, `bundle.json`: what host and device agree on about one exported network.

Only data and the rules that make it consistent; files, hashes and folders are `deploy/bundle.py`'s. A bundle
of schema version 1 must load for ever: a new field needs a default, anything else a new version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from deploy.errors import InputError
from deploy.schema import decode, encode

SCHEMA_VERSION = 1
BASE_DATA = "base.bin"
TAKEN_NAMES = ("base", "bundle", "golden", "model", "stage")
MAX_SIDE = 16384
MAX_HU = 32768
IMAGENET_MEAN = (0.485, 0.456, 0.406)  # RGB, 0..1 units, as published with torchvision (BSD-3-Clause)
IMAGENET_STD = (0.229, 0.224, 0.225)
PROOFS = ("executed", "evaluated", "built", "not run: why")
_EVIDENCE = {  # largest value of what golden, parity and accuracy say; the least is 0
    **dict.fromkeys(("min_agreement", "agreement", "miou_fp32", "miou_here"), 1),
    **dict.fromkeys(("max_abs_error", "mean_abs_error", "images"), 1 << 40),
}
_LAYOUT_RANK = {"NHWC": 4, "NCHW": 4, "NHW": 3}
_DTYPES = ("uint8", "int8", "int32", "int64", "float16", "float32")


@dataclass(frozen=True)
class Target:
    """Which runtime executes the files, in which precision, with which options of its own.

    `min_version`: the oldest version of the runtime that understands the files, such as "1.20", or None.
    """

    runtime: str
    precision: str
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    min_version: str | None = None


@dataclass(frozen=True)
class FileEntry:
    """One file: POSIX path relative to the bundle, size in bytes, hex SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: NHWC uint8 RGB frame, NCHW or NHWC normalised floats or logits, NHW label map.

    `scale` and `zero_point` are set where the runtime takes or gives integers that stand for floats.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: Literal["NHWC", "NCHW", "NHW"]
    scale: float | None = None
    zero_point: int | None = None


@dataclass(frozen=True)
class SliceRule:
    """How a slice of a CT volume becomes a frame, before `Preprocess` applies. All None: the slice as it is.

    `spacing_mm`: pixel spacing in plane that it is resampled to; `canvas`: (height, width) it is then cut or
    padded to, centred; both or neither. `neighbour_mm`: the first and last channel are the slices this far
    towards feet and head.
    """

    spacing_mm: float | None = None
    canvas: tuple[int, int] | None = None
    neighbour_mm: float | None = None


@dataclass(frozen=True)
class Preprocess:
    """How a decoded frame becomes the network's input: `size` (height, width), `mean`, `std` in 0..1 units.

    `in_graph`: normalisation and layout are part of the network. `interpolation`: linear, or area (area where
    both sides shrink, else linear). For CT: `hu_window` (low, high) in Hounsfield units, and `slices`.
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    in_graph: bool
    resize: Literal["stretch", "letterbox"] = "stretch"
    interpolation: Literal["linear", "area"] = "linear"
    colour_order: Literal["rgb"] = "rgb"
    hu_window: tuple[float, float] | None = None
    slices: SliceRule | None = None


@dataclass(frozen=True)
class ClassInfo:
    """A class: its id in label maps, its name, its RGB colour."""

    id: int
    name: str
    colour: tuple[int, int, int]


@dataclass(frozen=True)
class Golden:
    """Raw network inputs with the fp32 reference's outputs, and the tolerance asked.

    `max_abs_error` bounds float outputs (logits); `min_agreement` is the least share of equal labels.
    """

    file: str
    max_abs_error: float
    min_agreement: float


@dataclass(frozen=True)
class Accuracy:
    """mIoU (0..1) of the fp32 checkpoint and of this artifact on the same images; `iou` by class name."""

    miou_fp32: float | None
    miou_here: float | None
    images: int
    dataset_sha256: str
    iou: dict[str, float | None]


@dataclass(frozen=True)
class Parity:
    """How this artifact compared with the fp32 checkpoint, and how that was found out (one of `PROOFS`)."""

    proof: str
    images: int
    max_abs_error: float | None = None
    mean_abs_error: float | None = None
    agreement: float | None = None
    miou_difference: float | None = None


@dataclass(frozen=True)
class Provenance:
    """Where it comes from; `model` is {variant, attention, classes, head}."""

    git_commit: str | None
    checkpoint_sha256: str
    tool_versions: dict[str, str]
    licences: dict[str, str]
    model: dict[str, str | int]
    calibration_sha256: str | None = None


@dataclass(frozen=True)
class Domain:
    """A domain pack: what the base becomes with one domain's files; the other fields are as in `Manifest`.

    `base_sha256`: of the base's tensors (`BASE_DATA`), into which the domain's graph points. `files`: the
    domain's own, by path in the bundle. `provenance.model` has the method.
    """

    base_sha256: str
    files: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    preprocess: Preprocess
    classes: tuple[ClassInfo, ...]
    provenance: Provenance
    ignore_index: int | None = None
    golden: Golden | None = None
    accuracy: Accuracy | None = None
    parity: Parity | None = None


@dataclass(frozen=True)
class Manifest:
    """All of bundle.json; `domains` by name: only a base that others were added to has some."""

    name: str
    target: Target
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    preprocess: Preprocess
    classes: tuple[ClassInfo, ...]
    provenance: Provenance
    files: tuple[FileEntry, ...] = ()
    ignore_index: int | None = None
    golden: Golden | None = None
    accuracy: Accuracy | None = None
    parity: Parity | None = None
    eval: str | None = None
    domains: dict[str, Domain] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


def manifest_from_json(value: Any, where: str) -> Manifest:
    """Parsed JSON -> Manifest.

    Raises:
        InputError: another schema version, an unknown or missing key, or values that contradict each other.
    """
    version = value.get("schema_version") if isinstance(value, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        fix = "update deploy on this device" if type(version) is int and version > SCHEMA_VERSION else None
        raise InputError(f"{where}: schema_version", got=repr(version), expected=SCHEMA_VERSION, fix=fix)
    manifest = decode(Manifest, value, where)
    check_manifest(manifest, where)
    return manifest


def manifest_to_json(manifest: Manifest) -> dict[str, Any]:
    """The JSON object of a manifest, `schema_version` first."""
    value: dict[str, Any] = encode(manifest)
    if not manifest.domains:  # so that a plain bundle is still read by a device that knows no domains
        del value["domains"]
    return {"schema_version": value.pop("schema_version"), **value}


def check_manifest(manifest: Manifest, where: str) -> None:
    """Raise InputError where the manifest contradicts itself or leaves its bounds."""
    if len(manifest.inputs) != 1 or len(manifest.outputs) != 1:
        got = f"{len(manifest.inputs)} inputs, {len(manifest.outputs)} outputs"
        raise InputError(f"{where}: a segmenter", got=got, expected="one input and one output")
    for spec in (*manifest.inputs, *manifest.outputs):
        _check_tensor(spec, where)
    _check_preprocess(manifest, where)
    _check_output(manifest, where)
    _check_classes(manifest, where)
    _check_evidence(manifest, where)
    paths = [entry.path for entry in manifest.files]
    for path in [*paths, *([manifest.eval] if manifest.eval else [])]:
        check_relative_path(path, where)
    if len(set(paths)) != len(paths):
        raise InputError(f"{where}: files", got="a path twice", expected="each path once")
    if manifest.golden and manifest.files and manifest.golden.file not in paths:
        raise InputError(
            f"{where}: golden.file", got=manifest.golden.file, expected="one of the listed files"
        )
    for name in manifest.domains:
        _check_domain(manifest, name, f"{where}: domain {name[:80]!r}")


def of_domain(manifest: Manifest, name: str) -> Manifest:
    """The manifest of a bundle with this domain in the base's place: its own files and the shared tensors.

    Raises:
        InputError: no such domain.
    """
    if name not in manifest.domains:
        expected = f"one of {', '.join(manifest.domains)}" if manifest.domains else "none: it has no domains"
        raise InputError(f"{manifest.name}: domain", got=repr(name), expected=expected)
    domain = manifest.domains[name]
    own = {item.name: getattr(domain, item.name) for item in fields(domain)}
    del own["base_sha256"]
    own["files"] = tuple(e for e in manifest.files if e.path in (*domain.files, BASE_DATA))
    return replace(manifest, **own, name=f"{manifest.name}+{name}", domains={}, eval=None)


def require_domain_name(name: str, where: str) -> None:
    """Raise InputError for a name that files of a bundle cannot bear."""
    if name in TAKEN_NAMES or not re.fullmatch(r"[A-Za-z0-9][\w-]{0,63}", name, re.ASCII):
        expected = f"letters, digits, _ and -, and none of {', '.join(TAKEN_NAMES)}"
        raise InputError(where, got=f"a name that no file can have: {name[:80]!r}", expected=expected)


def _check_domain(manifest: Manifest, name: str, where: str) -> None:
    """A pack is for this very base, has files of its own that are listed, and is a bundle by itself."""
    domain = manifest.domains[name]
    require_domain_name(name, where)
    listed = {entry.path: entry.sha256 for entry in manifest.files}
    if listed.get(BASE_DATA) != domain.base_sha256:
        got, fix = f"for the base {domain.base_sha256[:12]}", "export it again with this base"
        raise InputError(where, got, f"for this {BASE_DATA}, {listed.get(BASE_DATA, 'missing')[:12]}", fix)
    others = [path for other, each in manifest.domains.items() if other != name for path in each.files]
    if not set(domain.files) <= set(listed) - {BASE_DATA, *others}:
        raise InputError(
            f"{where}: files", got=domain.files, expected="listed files that no other domain has"
        )
    check_manifest(of_domain(manifest, name), where)


def is_proof(text: str) -> bool:
    """Whether `text` is one of the four words; a "not run" must say why."""
    return text in PROOFS[:3] or (text.startswith("not run: ") and len(text) > len("not run: "))


def check_relative_path(text: str, where: str) -> None:
    """Raise InputError unless `text` is a plain relative POSIX path that stays below its folder."""
    parts = text.split("/")
    plain = all(part not in ("", ".", "..") for part in parts) and not PurePosixPath(text).is_absolute()
    if not plain or len(text) > 1024 or any(c in text for c in '\\:*?"<>|') or not text.isprintable():
        fix = "the bundle is damaged or hostile: do not use it"
        raise InputError(
            f"{where}: path", got=repr(text)[:120], expected="a relative path inside the bundle", fix=fix
        )


def _check_tensor(spec: TensorSpec, where: str) -> None:
    good = len(spec.shape) == _LAYOUT_RANK[spec.layout] and all(1 <= side <= MAX_SIDE for side in spec.shape)
    scaled = (spec.scale is None or 0 < spec.scale <= 1e6) and abs(spec.zero_point or 0) < 1 << 31
    if not good or not scaled or spec.dtype not in _DTYPES:
        expected = (
            f"a {spec.layout} shape of 1..{MAX_SIDE}, a positive scale, a dtype of {', '.join(_DTYPES)}"
        )
        got = f"{spec.dtype} {spec.shape}, scale {spec.scale}, zero point {spec.zero_point}"
        raise InputError(f"{where}: tensor {spec.name}", got=got, expected=expected)


def _check_output(manifest: Manifest, where: str) -> None:
    spec, count = manifest.outputs[0], len(manifest.classes)
    if spec.layout != "NHW" and spec.shape[spec.layout.index("C")] != count:
        expected = f"an NHW label map, or logits of {count} classes"
        raise InputError(f"{where}: output {spec.name}", got=f"{spec.layout} {spec.shape}", expected=expected)
    if spec.layout == "NHW" and spec.shape[1:] != manifest.preprocess.size:
        raise InputError(
            f"{where}: output {spec.name}", got=spec.shape, expected=f"{manifest.preprocess.size}"
        )


def check_preprocess(rule: Preprocess, where: str) -> None:
    """Raise InputError where a figure of the rule is out of its range."""
    if not all(1 <= side <= MAX_SIDE for side in rule.size):
        raise InputError(f"{where}: preprocess.size", got=rule.size, expected=f"each side 1..{MAX_SIDE}")
    if not all(1e-6 <= value <= 1e6 for value in rule.std):
        raise InputError(f"{where}: preprocess.std", got=rule.std, expected="positive numbers, in 0..1 units")
    if not all(abs(value) <= 1e6 for value in rule.mean):
        raise InputError(f"{where}: preprocess.mean", got=rule.mean, expected="numbers in 0..1 units")
    check_ct(rule.hu_window, rule.slices, where)


def _check_preprocess(manifest: Manifest, where: str) -> None:
    rule, spec = manifest.preprocess, manifest.inputs[0]
    sides = spec.shape[1:3] if spec.layout == "NHWC" else spec.shape[2:4]
    channels = spec.shape[3] if spec.layout == "NHWC" else spec.shape[1]
    if spec.layout == "NHW" or channels != 3 or spec.shape[0] != manifest.outputs[0].shape[0]:
        expected = "RGB frames, (B, H, W, 3) or (B, 3, H, W), as many as the output has"
        raise InputError(f"{where}: input {spec.name}", got=f"{spec.layout} {spec.shape}", expected=expected)
    if rule.size != sides:
        raise InputError(f"{where}: preprocess.size", got=rule.size, expected=f"the input's {sides}")
    check_preprocess(rule, where)


def check_ct(hu_window: tuple[float, float] | None, slices: SliceRule | None, where: str) -> None:
    """Raise InputError for a window or a rule for slices that cannot be applied."""
    if hu_window and not -MAX_HU <= hu_window[0] < hu_window[1] <= MAX_HU:
        raise InputError(f"{where}: hu_window", got=hu_window, expected=f"low < high within +-{MAX_HU} HU")
    if slices is None:
        return
    if hu_window is None:
        raise InputError(f"{where}: slices", got="no hu_window", expected="a window, as slices are of CT")
    if (slices.spacing_mm is None) != (slices.canvas is None):
        raise InputError(f"{where}: slices", got=slices, expected="spacing_mm and canvas, or neither")
    for name, value in (("spacing_mm", slices.spacing_mm), ("neighbour_mm", slices.neighbour_mm)):
        if value is not None and not 0.01 <= value <= 100:
            raise InputError(f"{where}: {name}", got=value, expected="0.01 to 100 mm")
    if slices.canvas and not all(1 <= side <= MAX_SIDE for side in slices.canvas):
        raise InputError(f"{where}: canvas", got=slices.canvas, expected=f"sides of 1..{MAX_SIDE}")


def _check_evidence(manifest: Manifest, where: str) -> None:
    """Shares are 0..1, errors and counts not negative: a tolerance below 0 would pass anything."""
    golden, parity, accuracy = manifest.golden, manifest.parity, manifest.accuracy
    if parity and not is_proof(parity.proof):
        raise InputError(f"{where}: parity.proof", got=parity.proof, expected=" | ".join(PROOFS))
    for part in (golden, parity, accuracy):
        for name, most in _EVIDENCE.items():
            value = getattr(part, name, None)
            if value is not None and not 0 <= value <= most:
                raise InputError(f"{where}: {name}", got=value, expected=f"0 to {most}")
    for name, value in (accuracy.iou if accuracy else {}).items():
        if value is not None and not 0 <= value <= 1:
            raise InputError(f"{where}: accuracy.iou of {name}", got=value, expected="0 to 1")


def _check_classes(manifest: Manifest, where: str) -> None:
    ids = [info.id for info in manifest.classes]
    if ids != list(range(len(ids))) or not 2 <= len(ids) <= 255:
        raise InputError(f"{where}: class ids", got=ids[:20], expected="0, 1, 2, ... (2 to 255 of them)")
    names = [info.name for info in manifest.classes]
    if len(set(names)) != len(names) or not all(names):
        raise InputError(f"{where}: class names", got=names[:20], expected="distinct names")
    for info in manifest.classes:
        if not all(0 <= part <= 255 for part in info.colour):
            raise InputError(
                f"{where}: colour of {info.name}", got=info.colour, expected="three values 0..255"
            )
    ignored = manifest.ignore_index
    if ignored is not None and not len(ids) <= ignored <= 255:
        raise InputError(f"{where}: ignore_index", got=ignored, expected=f"{len(ids)}..255")
