"""The calibration table of a checkpoint: found where it was kept, or made by running it on images.

Refuses to know what ranges are made of it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from deploy.errors import InputError
from deploy.manifest import TensorSpec
from export.calibration_images import CalibrationImages
from export.calibration_table import CalibrationTable, load_table, save_table
from export.observe import Observed, observe
from export.package import input_spec
from export.source import Source
from export.trace import infer, to_onnx
from pipeline.artifact import run_folder
from pipeline.models.checkpoints import load_checkpoint
from pipeline.models.labelmap import LabelMapper


def find_table(
    file: Path | None, images: CalibrationImages, source: Source, force: bool = False
) -> tuple[CalibrationTable, Path, str]:
    """The calibration table of these images and this checkpoint: read, or observed now and kept.

    Args:
        file: default `runs/RUN/ranges.json`. force: observe again.

    Returns:
        The table, its file, and in words whether it was there.
    """
    path = file or run_folder(source.name) / "ranges.json"
    how = "made"
    if path.is_file() and not force:
        try:
            return load_table(path, images.images.key, source.sha256), path, "cached: nothing changed"
        except InputError as error:
            how = f"made again: {error}"
    table = CalibrationTable.of(images.images.key, source.sha256, _observe(images, source))
    save_table(path, table)
    return table, path, how


def checkpoint_graph(source: Source, folder: Path) -> tuple[onnx.ModelProto, TensorSpec]:
    """The checkpoint's network from frame to logits, with all shapes, and what it takes."""
    rule = source.preprocess
    model, _ = load_checkpoint(source.path)
    net = LabelMapper(model, rule.size, rule.mean, rule.std, output="logits")
    return infer(onnx.load(to_onnx(net, folder / "graph.onnx"))), input_spec(net, 1)


def _observe(images: CalibrationImages, source: Source) -> dict[str, Observed]:
    """The checkpoint's convolutions on the images."""
    with TemporaryDirectory(prefix="edgeseg-") as folder:
        graph, spec = checkpoint_graph(source, Path(folder))
    return observe(graph, images.inputs(replace(source.preprocess, in_graph=True), spec))
