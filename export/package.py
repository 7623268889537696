"""From a built artifact and its evidence to a bundle: manifest, golden, provenance.

The golden holds the pictures that agree best, so that a device's own rounding has room within the tolerance;
the evidence for the artifact is the parity, over all pictures. Refuses to know targets: it gets files and
figures.
"""

from __future__ import annotations

import dataclasses
import io
import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import numpy.typing as npt

from deploy.bundle import Accuracy, Golden, Manifest, Parity, Provenance, TensorSpec
from deploy.bundle import Target as TargetEntry
from deploy.labels import dataset_digest
from deploy.preprocess import prepare_input, read_image
from export.parity import Answer, Comparison
from export.pictures import Pictures
from export.source import Source
from export.targets import Budget, Target
from pipeline.artifact import git_commit
from pipeline.models.labelmap import LabelMapper
from pipeline.models.upsample import stage_size

GOLDEN_FILE = "golden.npz"
GOLDEN_IMAGES = 2
TOOLS = ("edgeseg", "torch", "onnx", "onnxscript", "onnxruntime", "numpy", "opencv-python-headless")


def describe(source: Source, net: LabelMapper, target: Target, precision: str, name: str) -> Manifest:
    """The manifest of an artifact of which nothing is known yet but how it was built."""
    options = {"input": net.input, "output": net.output, "upsample": net.final}
    return Manifest(
        name=name,
        target=TargetEntry(target.RUNTIME, precision, {**options}),
        inputs=(_input_spec(net),),
        outputs=(_output_spec(net, net.output),),
        preprocess=dataclasses.replace(source.preprocess, in_graph=net.input == "uint8"),
        classes=source.classes,
        ignore_index=source.dataset.ignore_index,
        provenance=_provenance(source),
    )


def ending_at_logits(manifest: Manifest, net: LabelMapper) -> Manifest:
    """The manifest of the same network ending at its logits."""
    return dataclasses.replace(manifest, outputs=(_output_spec(net, "logits"),))


def with_evidence(
    manifest: Manifest, result: Comparison, pictures: Pictures, proof: str, golden: Golden
) -> Manifest:
    """The manifest with what parity found out."""
    parity = Parity(
        proof=proof,
        images=len(pictures.pairs),
        max_abs_error=result.max_abs_error,
        mean_abs_error=result.mean_abs_error,
        agreement=result.agreement,
        miou_difference=result.miou_difference,
    )
    licences = manifest.provenance.licences | _licences(pictures.dataset, pictures.licence)
    return dataclasses.replace(
        manifest,
        parity=parity,
        accuracy=_accuracy(manifest, result, pictures),
        golden=golden,
        provenance=dataclasses.replace(manifest.provenance, licences=licences),
    )


def make_golden(
    manifest: Manifest, answers: Mapping[str, Answer], result: Comparison, pictures: Pictures, budget: Budget
) -> tuple[Golden, bytes]:
    """The golden's tolerance and its file: `inputs` and `outputs`, `[N, ...]` without the batch axis."""
    ranked = sorted(pictures.pairs, key=lambda pair: -result.agreements[pair.stem])[:GOLDEN_IMAGES]
    rule, spec = manifest.preprocess, manifest.inputs[0]
    inputs = np.concatenate([prepare_input(read_image(pair.image), rule, spec) for pair in ranked])
    logits = np.concatenate([answers[pair.stem].logits for pair in ranked])
    labels = np.stack([answers[pair.stem].labels for pair in ranked])
    tolerance = budget.logits_error * float(logits.std())
    outputs = labels if manifest.outputs[0].layout == "NHW" else logits
    return Golden(GOLDEN_FILE, tolerance, budget.agreement), _npz(inputs=inputs, outputs=outputs)


def tool_versions(names: Sequence[str] = TOOLS) -> dict[str, str]:
    """Versions of Python and of the packages that shape an artifact; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _npz(**arrays: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _input_spec(net: LabelMapper) -> TensorSpec:
    height, width = net.size
    if net.input == "uint8":
        return TensorSpec("image", "uint8", (1, height, width, 3), "NHWC")
    return TensorSpec("image", "float32", (1, 3, height, width), "NCHW")


def _output_spec(net: LabelMapper, output: str) -> TensorSpec:
    if output == "labels":
        return TensorSpec(output, "uint8", (1, *net.size), "NHW")
    return TensorSpec(output, "float32", (1, net.model.classes, *stage_size(net.size, 8)), "NCHW")


def _provenance(source: Source) -> Provenance:
    return Provenance(
        git_commit=git_commit(),
        checkpoint_sha256=source.sha256,
        tool_versions=tool_versions(),
        licences=_licences(source.dataset.name, source.dataset.licence),
        model=dict(source.meta.model),
    )


def _licences(dataset: str, licence: str) -> dict[str, str]:
    """Of the data: the weights learned from it, the golden shows it."""
    return {dataset: licence} if licence else {}


def _accuracy(manifest: Manifest, result: Comparison, pictures: Pictures) -> Accuracy | None:
    if not pictures.masks:
        return None
    names = [info.name for info in manifest.classes]
    iou = {name: _number(value) for name, value in zip(names, result.here.iou().tolist(), strict=True)}
    return Accuracy(
        miou_fp32=_number(result.fp32.miou()),
        miou_here=_number(result.here.miou()),
        images=len(pictures.pairs),
        dataset_sha256=dataset_digest(pictures.pairs),
        iou=iou,
    )


def _number(value: float) -> float | None:
    """None for nan (JSON has none)."""
    return None if math.isnan(value) else value
