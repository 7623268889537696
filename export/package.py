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
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from deploy.bundle import Accuracy, Golden, Manifest, Parity, Provenance, TensorSpec
from deploy.bundle import Target as TargetEntry
from deploy.labels import dataset_digest
from deploy.preprocess import prepare_input
from export.calibration_images import CalibrationImages
from export.given import GivenNetwork
from export.parity import Answer, Comparison
from export.pictures import Pictures
from export.precision_plan import PrecisionPlan
from export.source import Source
from export.targets import Budget, Shape, Target
from export.trace import ONE_FRAME
from pipeline.artifact import git_commit
from pipeline.models.adaptation import WITH_BOTTLENECK
from pipeline.models.labelmap import LabelMapper

GOLDEN_FILE = "golden.npz"
GOLDEN_IMAGES, DOMAIN_IMAGES = 2, 1  # a domain's file is small, its pictures are not
TOOLS = ("edgeseg", "torch", "numpy", "opencv-python-headless")


def describe(
    source: Source,
    net: LabelMapper | GivenNetwork,
    target: Target,
    precision: str,
    name: str,
    shape: Shape = ONE_FRAME,
) -> Manifest:
    """The manifest of an artifact of which nothing is known yet but how it was built."""
    options: dict[str, str | int | float | bool]
    options = {"input": net.input, "output": net.output, "upsample": net.final}
    if shape.dynamic:
        options["dynamic"] = True
    manifest = Manifest(
        name=name,
        target=TargetEntry(target.RUNTIME, precision, options, target.MIN_VERSION),
        inputs=(input_spec(net, shape.batch),),
        outputs=(_output_spec(net, net.output, shape.batch),),
        preprocess=dataclasses.replace(source.preprocess, in_graph=net.input == "uint8"),
        classes=source.classes,
        ignore_index=source.dataset.ignore_index,
        provenance=_provenance(source, tool_versions(target.TOOLS)),
    )
    return _adapted(manifest, target)


def ending_at_logits(manifest: Manifest, net: LabelMapper, target: Target, shape: Shape) -> Manifest:
    """The manifest of the same network ending at its logits."""
    cut = dataclasses.replace(manifest, outputs=(_output_spec(net, "logits", shape.batch),))
    return _adapted(cut, target)


def with_calibration(
    manifest: Manifest, calibration: CalibrationImages | None, plan: PrecisionPlan | None
) -> Manifest:
    """The manifest with the key of the images that ranges were taken from, and what helps a plan asks for."""
    key = calibration.images.key if calibration else None
    provenance = dataclasses.replace(manifest.provenance, calibration_sha256=key)
    target = manifest.target
    if plan and plan.helps:
        target = dataclasses.replace(target, options={**target.options, "helps": ", ".join(plan.helps)})
    return dataclasses.replace(manifest, provenance=provenance, target=target)


def _adapted(manifest: Manifest, target: Target) -> Manifest:
    """The manifest with what the target's tensors have of their own."""
    adapt = getattr(target, "adapt_manifest", None)
    return cast(Manifest, adapt(manifest)) if adapt else manifest


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
    manifest: Manifest,
    answers: Mapping[str, Answer],
    result: Comparison,
    pictures: Pictures,
    budget: Budget,
    images: int = GOLDEN_IMAGES,
) -> tuple[Golden, bytes]:
    """The golden's tolerance and its file: `inputs` and `outputs`, `[N, ...]` without the batch axis."""
    ranked = sorted(pictures.pairs, key=lambda pair: -result.agreements[pair.stem])[:images]
    rule, spec = manifest.preprocess, manifest.inputs[0]
    inputs = np.concatenate([prepare_input(pictures.read(pair), rule, spec) for pair in ranked])
    logits = np.concatenate([answers[pair.stem].logits for pair in ranked])
    labels = np.stack([answers[pair.stem].labels for pair in ranked])
    tolerance = budget.logits_error * float(logits.std())
    outputs = _as_given(labels, logits, manifest.outputs[0])
    return Golden(GOLDEN_FILE, tolerance, budget.agreement), _npz(inputs=inputs, outputs=outputs)


def _as_given(
    labels: npt.NDArray[np.uint8], logits: npt.NDArray[np.float32], spec: TensorSpec
) -> npt.NDArray[Any]:
    """The reference's answers in the layout and dtype of the artifact's output."""
    if spec.layout == "NHW":
        return labels.astype(spec.dtype)
    return logits.transpose(0, 2, 3, 1) if spec.layout == "NHWC" else logits


def tool_versions(converters: Sequence[str]) -> dict[str, str]:
    """Versions of Python and of the packages that shape an artifact; those not installed are left out."""
    found = {"python": platform.python_version()}
    for name in (*TOOLS, *converters):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _npz(**arrays: npt.NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def input_spec(net: LabelMapper | GivenNetwork, batch: int) -> TensorSpec:
    """What the network takes, `batch` frames a call."""
    if isinstance(net, GivenNetwork):
        return net.input_spec
    height, width = net.size
    if net.input == "uint8":
        return TensorSpec("image", "uint8", (batch, height, width, 3), "NHWC")
    return TensorSpec("image", "float32", (batch, 3, height, width), "NCHW")


def _output_spec(net: LabelMapper | GivenNetwork, output: str, batch: int) -> TensorSpec:
    if isinstance(net, GivenNetwork):
        return net.output_spec
    if output == "labels":
        return TensorSpec(output, "uint8", (batch, *net.size), "NHW")
    return TensorSpec(output, "float32", (batch, *net.logits_shape), "NCHW")


def _provenance(source: Source, versions: dict[str, str]) -> Provenance:
    return Provenance(
        git_commit=git_commit(),
        checkpoint_sha256=source.sha256,
        tool_versions=versions,
        licences=_licences(source.dataset.name, source.dataset.licence),
        model=_model(source.meta.model),
    )


def _model(spec: Mapping[str, Any]) -> dict[str, str | int]:
    """The network in plain values; a domain's with its method, and r where the method has one."""
    plain = {key: value for key, value in spec.items() if key != "adaptation"}
    how = spec.get("adaptation", {})
    plain |= {"method": how["method"]} if how else {}
    return plain | ({"bottleneck": how["bottleneck"]} if how.get("method") in WITH_BOTTLENECK else {})


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
