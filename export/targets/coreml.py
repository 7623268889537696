"""Core ML: an .mlpackage (ML Program) for iPhones, iPads and Macs, iOS 17 and macOS 14 or later.

An image goes in as it is (normalisation is part of the program), an int32 label map comes out. On a Mac the
artifact is executed; elsewhere the saved program is evaluated operation by operation (`export/mil`), so
that none leaves without having been run. Refuses to know which processor will run it: Core ML decides.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from export.graphrules import GraphRules, Most
from export.targets import Budget, BuildContext, Support, missing_packages

if TYPE_CHECKING:
    from deploy.bundle import Bundle
    from deploy.manifest import Manifest
    from deploy.runtimes import RuntimeSession
    from pipeline.models.labelmap import LabelMapper

NAME = "coreml"
_SMALL = "the network does not bear such small weights: use fp16, or fine-tune it"
BUDGET = {
    "fp32": Budget(0.999, None, 1e-3, "the program is not the checkpoint's: try another coremltools"),
    "fp16": Budget(0.995, None, 0.1, "build fp32, and see docs/targets.md for how to find the operation"),
    "weight-int8": Budget(0.97, 1.0, 0.5, _SMALL),
    "palette6": Budget(0.95, 1.0, 1.0, _SMALL),
}
PRECISIONS = tuple(BUDGET)
EXTENSION = ".mlpackage"
RUNTIME = "coreml"
MIN_VERSION = "9.0"  # of coremltools, the version it is built with; no older one was tried
TOOLS = ("coremltools",)
PROOF = "executed" if sys.platform == "darwin" else "evaluated"
SUPPORT = Support()
RULES = GraphRules(
    allowed="abs add cast clip concat constexpr_affine_dequantize constexpr_lut_to_dense conv expand_dims "
    "gelu inverse matmul mul real_div reduce_argmax reduce_max reduce_sum relu reshape rsqrt sigmoid_hard "
    "slice_by_index softmax split sub thresholded_relu transpose",
    most={"transpose": Most(1, softmax=1)},
)


def requires() -> str | None:
    """Why this target cannot build here, or None."""
    return missing_packages("torch", "coremltools")


def build(net: LabelMapper, context: BuildContext) -> dict[str, Path]:
    """Write model.mlpackage; weights are made smaller from the float16 program."""
    from export.mil import convert, package

    model = convert.convert(net, half=context.precision != "fp32")
    if context.precision == "weight-int8":
        model = convert.quantise_weights(model)
    if context.precision == "palette6":
        model = convert.palettise_weights(model, 6)
    return package.save(model, net, context.classes, context.folder)


def expose_logits(files: Mapping[str, Path], net: LabelMapper, folder: Path) -> dict[str, Path]:
    """The same program ending at the head's logits."""
    from export.mil.package import cut_at_logits

    return cut_at_logits(_package(files), net, folder)


def count_ops(files: Mapping[str, Path]) -> Counter[str]:
    """Operations of the saved program by kind, without constants."""
    from export.mil.evaluate import count_kinds
    from export.mil.program import read_program

    return count_kinds(read_program(_package(files)))


def adapt_manifest(manifest: Manifest) -> Manifest:
    """A label map is int32: Core ML returns no smaller integers."""
    output = manifest.outputs[0]
    if output.layout != "NHW":
        return manifest
    return dataclasses.replace(manifest, outputs=(dataclasses.replace(output, dtype="int32"),))


def open_proof(bundle: Bundle, threads: int | None) -> RuntimeSession:
    """Core ML itself on a Mac, else the evaluator."""
    if PROOF == "executed":
        from deploy.runtimes.coreml import Session

        return Session(bundle, threads)
    from export.mil.session import EvaluatorSession

    return EvaluatorSession(bundle, threads)


def _package(files: Mapping[str, Path]) -> Path:
    return next(path.parent for name, path in files.items() if name.endswith("/Manifest.json"))
