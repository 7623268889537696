"""Writing a Core ML package: always the same bytes for the same network, nothing of this machine, described.

coremltools draws random identifiers and notes the day; both are replaced. Class names and colours go into
the metadata that Xcode shows and applications read. Refuses to know how the model came about.

Source: the package format of coremltools; preview keys as in Apple's guide "Xcode Model Preview Types".
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deploy.errors import GateError
from deploy.files import atomic_write_bytes, write_json
from deploy.manifest import ClassInfo
from deploy.runtimes.coreml import PACKAGE
from export.mil.program import read_spec
from export.mil.quiet import coremltools, quiet
from pipeline.models.labelmap import LabelMapper

_AUTHOR = "com.apple.CoreML"
_ITEMS = {
    "model.mlmodel": "CoreML Model Specification",
    "weights": "CoreML Model Weights",
}
_DATE = "com.github.apple.coremltools.conversion_date"
_PREVIEW = "com.apple.coreml.model.preview"


def save(model: Any, net: LabelMapper, classes: Sequence[ClassInfo], folder: Path) -> dict[str, Path]:
    """Write coremltools' model into `folder`; returns the package's files by their path in the bundle."""
    with TemporaryDirectory(prefix="edgeseg-") as scratch:
        with quiet():
            model.save(f"{scratch}/{PACKAGE}")
        spec, content = read_spec(Path(scratch, PACKAGE))
        _describe(spec, net, classes)
        return write(spec, content / "weights" / "weight.bin", folder)


def write(spec: Any, weights: Path, folder: Path) -> dict[str, Path]:
    """Write a package from its model (protobuf message) and weight file, in a fixed form."""
    root = folder / PACKAGE
    data = root / "Data" / _AUTHOR
    atomic_write_bytes(data / "model.mlmodel", spec.SerializeToString(deterministic=True))
    atomic_write_bytes(data / "weights" / "weight.bin", weights.read_bytes())
    identifiers = {name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in _ITEMS}
    entries = {
        identifiers[name]: {
            "author": _AUTHOR,
            "description": text,
            "name": name,
            "path": f"{_AUTHOR}/{name}",
        }
        for name, text in _ITEMS.items()
    }
    manifest = {
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": entries,
        "rootModelIdentifier": identifiers["model.mlmodel"],
    }
    write_json(root / "Manifest.json", manifest)
    return {path.relative_to(folder).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}


def cut_at_logits(package: Path, net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The same program ending at the head's logits: its last float value of their shape."""
    spec, content = read_spec(package)
    function = spec.mlProgram.functions["main"]
    block = function.block_specializations[function.opset]
    shape = [1, *net.logits_shape]
    ends = [
        index for index, operation in enumerate(block.operations) if _shape(operation.outputs[0]) == shape
    ]
    if not ends:
        raise GateError("Core ML program", got="no value of the logits' shape", expected=shape)
    del block.operations[ends[-1] + 1 :]
    last = block.operations[-1].outputs[0]
    last.name = "logits"
    block.outputs[:] = ["logits"]
    described = spec.description.output[0]
    described.name = "logits"
    described.type.multiArrayType.shape[:] = shape
    kinds = type(described.type.multiArrayType)
    half = last.type.tensorType.dataType == coremltools("proto.MIL_pb2").FLOAT16
    described.type.multiArrayType.dataType = kinds.FLOAT16 if half else kinds.FLOAT32
    return write(spec, content / "weights" / "weight.bin", folder)


def _shape(value: Any) -> list[int]:
    return [side.constant.size for side in value.type.tensorType.dimensions]


def _describe(spec: Any, net: LabelMapper, classes: Sequence[ClassInfo]) -> None:
    """What a person reads in Xcode, and an application in `MLModelDescription.metadata`."""
    metadata = spec.description.metadata
    metadata.userDefined.pop(_DATE, None)
    height, width = net.size
    metadata.shortDescription = f"Semantic segmentation into {len(classes)} classes, {height}x{width}"
    colours = ["#{:02X}{:02X}{:02X}".format(*info.colour) for info in classes]
    shown = {"labels": [info.name for info in classes], "colors": colours}
    metadata.userDefined[f"{_PREVIEW}.type"] = "imageSegmenter"
    metadata.userDefined[f"{_PREVIEW}.params"] = json.dumps(shown, ensure_ascii=False)
    spec.description.input[0].shortDescription = (
        f"RGB picture of {height}x{width}" if net.input == "uint8" else "Normalised RGB, planes first"
    )
    spec.description.output[0].shortDescription = (
        "Class of each pixel" if net.output == "labels" else "Scores of each class, an eighth of the size"
    )
