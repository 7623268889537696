"""What a bundle was made from, kept in it as `stage.json`, so that the same build is not done twice.

Refuses to know how a bundle is made.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from deploy.bundle import MANIFEST_FILE, Bundle, load_bundle
from deploy.errors import InputError
from deploy.labels import dataset_digest
from export.order import Order
from export.package import tool_versions
from pipeline.artifact import DONE, Stage, changes, read_record

STAGE_VERSION = 5  # raise it when the same inputs give another bundle


def stage_of(order: Order, domains: Mapping[str, Order] | None = None) -> Stage:
    """All that decides what the bundle will be, of its domains by name, too."""
    settings = {
        "target": order.target.NAME,
        "precision": order.precision,
        **dataclasses.asdict(order.shape),
        "final": order.final,
        "size": list(order.source.preprocess.size),
        "tools": tool_versions(order.target.TOOLS),
    }
    if order.class_axis != "last":
        settings["class axis"] = order.class_axis
    if order.labelled:
        settings["labelled"] = order.labelled
    inputs = {"checkpoint": order.source.sha256, "pictures": dataset_digest(order.pictures.pairs)}
    if order.given:  # what is said beside the file, and data that it refers to
        network = hashlib.sha256(order.given.model.SerializeToString(deterministic=True))
        network.update(repr((order.source.preprocess, order.source.classes)).encode())
        inputs["network"] = network.hexdigest()
    if order.calibration:
        inputs["calibration"] = order.calibration.images.key
    if order.plan:
        inputs["plan"] = order.plan.key
    for name, domain in (domains or {}).items():
        settings[f"size of {name}"] = list(domain.source.preprocess.size)
        inputs[f"domain {name}"] = domain.source.sha256
        inputs[f"pictures of {name}"] = dataset_digest(domain.pictures.pairs)
    return Stage("export", STAGE_VERSION, settings, inputs)


def to_bytes(stage: Stage) -> bytes:
    """The record as a file."""
    return (json.dumps(stage.record(), indent=2) + "\n").encode()


def look_up(folder: Path, stage: Stage) -> tuple[Bundle | None, str]:
    """The bundle in `folder` if it is whole and of this stage, and in words why it is taken or not."""
    if not (folder / MANIFEST_FILE).is_file():
        return None, "built"
    try:
        bundle = load_bundle(folder)
        before = read_record(bundle.path(DONE))
        reasons = ["no record"] if before is None else changes(before, stage)
    except InputError as error:
        reasons = [str(error)]
    return (None, f"built again: {'; '.join(reasons)}") if reasons else (bundle, "cached: nothing changed")
