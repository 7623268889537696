"""The model card of a training: facts read from the run's own files, and the text made of them.

Nothing is measured here and nothing is known beyond the files: what a run did not record is "not recorded".
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deploy.errors import InputError
from pipeline import artifact
from pipeline.accuracy import shown
from pipeline.config import build_recipe, recorded_table
from pipeline.loader import images_after
from pipeline.logbook import read_log
from pipeline.machines import read_machines
from pipeline.models.accounting import account
from pipeline.models.adaptation import WITH_BOTTLENECK, Adaptation
from pipeline.models.checkpoints import CheckpointMeta, load_checkpoint
from pipeline.models.efficientvit import EfficientViTSeg

Facts = dict[str, Any]


def read_facts(folder: Path, name: str) -> Facts:
    """All that a card says, as JSON values, from a training's folder.

    Raises:
        InputError: not a finished training, or its files were changed since.
    """
    record = artifact.read_record(folder / artifact.DONE)
    if record is None:
        raise InputError(
            f"{folder} holds no finished training", fix="finish it: the same `train` command again"
        )
    if changed := artifact.changed_outputs(folder, record):
        raise InputError(f"{folder} was changed since it was finished", got=", ".join(changed))
    weights = folder / "best.safetensors"
    model, meta = load_checkpoint(weights)
    return {
        "name": name,
        **_domain(model, meta),
        "model": {**meta.model, "parameters": sum(p.numel() for p in model.parameters())},
        "dataset": meta.dataset,
        "input": meta.preprocess,
        "metrics": meta.metrics,
        "training": _training(record, meta.provenance["recipe"], folder),
        "file": {"bytes": weights.stat().st_size, "sha256": record["outputs"][weights.name]},
    }


def _domain(model: EfficientViTSeg, meta: CheckpointMeta) -> Facts:
    """Of a domain: its base, and how many parameters of which kind it adds; of a whole model nothing."""
    if not meta.base:
        return {}
    counts = account(model, Adaptation(**meta.model["adaptation"]))
    return {"base": meta.base, "trained": counts.trained, "trained_share": counts.share}


def _training(record: dict[str, Any], name: str, folder: Path) -> Facts:
    """How it was trained; times are None where the log has none."""
    rows, steps = read_log(folder / "log.csv"), record["results"]["steps"]
    table = {"name": name, **recorded_table(record["settings"])}
    timed = bool(rows) and all("seconds" in row for row in rows)
    seconds = sum(row["seconds"] for row in rows) if timed else None
    stepping = sum(row["seconds"] for row in rows if "loss" in row) if timed else None
    images = images_after(build_recipe(table, str(folder / artifact.DONE)), steps)
    return {
        "recipe": table,
        "commit": record["notes"].get("git_commit"),
        "inputs": record["inputs"],
        "steps": steps,
        "images": images,
        "validations": sum("val_miou" in row for row in rows),
        "hours": None if seconds is None else seconds / 3600,
        "images_per_s": images / stepping if stepping else None,
        "machines": read_machines(folder),
    }


def recipe_text(table: dict[str, Any]) -> str:
    """A recipe's table as TOML (texts, numbers and lists are written alike in JSON)."""
    lines = [f"name = {json.dumps(table['name'])}"]
    for section, values in table.items():
        if isinstance(values, dict):
            lines += ["", f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def card_text(facts: Facts) -> str:
    """The card as Markdown."""
    base = (_base(facts),) if "base" in facts else ()
    parts = (_title(facts), *base, _use(facts), _accuracy(facts), _history(facts), _licence(facts))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _title(facts: Facts) -> Iterator[str]:
    model, data = facts["model"], facts["dataset"]
    yield f"# {facts['name']}"
    yield ""
    yield f"EfficientViT-{model['variant'].upper()}, {model['attention']} attention, {model['head']} head:"
    yield f"{model['parameters'] / 1e6:.2f} M parameters, {facts['file']['bytes'] / 1e6:.1f} MB. Trained on"
    yield f"{data['name']} ({len(data['classes'])} classes) for images of {_size(facts['input']['size'])}."


def _base(facts: Facts) -> Iterator[str]:
    """What a domain is without its base: nothing."""
    base, how = facts["base"], facts["model"]["adaptation"]
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in facts["trained"].items() if number)
    r = f", r = {how['bottleneck']}" if how["method"] in WITH_BOTTLENECK else ""
    yield f"A domain of **{base['name']}** (sha256 {base['sha256'][:12]}), which it needs beside it: it"
    yield f"holds only what the domain adds, by the method {how['method']}{r}: {kinds};"
    yield f"{facts['trained_share']:.1%} of the model's parameters, the head aside. The base is not changed."
    yield "All of the network computes: a domain saves storage and training, not time on the device."


def _use(facts: Facts) -> Iterator[str]:
    name = facts["name"]
    yield "```sh"
    yield f"python -m pipeline evaluate --checkpoint {name} --data DIR"
    yield f"make export RUN={name} DATA=DIR TARGET=onnxruntime PRECISION=fp32"
    yield "```"


def _accuracy(facts: Facts) -> Iterator[str]:
    metrics, validations = facts["metrics"], facts["training"]["validations"]
    yield f"## Accuracy on {facts['dataset']['name']} {metrics['split']}"
    yield ""
    yield f"mIoU **{shown(metrics['miou'])}**, pixel accuracy {shown(metrics['pixel_accuracy'])},"
    yield f"{metrics['images']} images at the masks' own size, one confusion matrix. The weights are those of"
    yield f"step {metrics['step']}, the best of {validations} validations on this split: a little optimistic."
    yield ""
    columns = [metrics["iou"], *([metrics["dice"]] if "base" in facts else [])]
    yield "| class | IoU |" + (" Dice |" if len(columns) > 1 else "")
    yield "|---" * (1 + len(columns)) + "|"
    for name in metrics["iou"]:
        yield f"| {name} | {' | '.join(shown(column[name]) for column in columns)} |"


def _history(facts: Facts) -> Iterator[str]:
    training = facts["training"]
    yield "## Training"
    yield ""
    yield f"- recipe `{training['recipe']['name']}`, all settings in [recipe.toml](recipe.toml); again by"
    yield f"  `python -m pipeline train --recipe zoo/{facts['name']}/recipe.toml --data DIR`"
    yield f"- code: commit {training['commit'] or 'not recorded'}"
    yield f"- {training['steps']} optimizer steps, {training['images']} images drawn"
    yield f"- {_time(training['hours'], training['images_per_s'])}"
    yield from (f"- {_machine(entry)}" for entry in training["machines"])
    if not training["machines"]:
        yield "- machine: not recorded"
    yield from (f"- {what}: sha256 {digest}" for what, digest in training["inputs"].items())
    yield f"- model.safetensors: sha256 {facts['file']['sha256']}"
    yield ""
    yield "![loss, learning rate and mIoU over the steps](curves.png)"


def _time(hours: float | None, rate: float | None) -> str:
    if hours is None:
        return "time: not recorded"
    return f"{hours:.2f} hours in all, {rate or 0:.1f} images/s between validations"


def _machine(entry: dict[str, Any]) -> str:
    step, threads = entry["after_step"], entry["threads"]
    cpu = f"{entry['machine']['cpu_model']}, {threads} thread{'s' if threads > 1 else ''}"
    where = cpu if entry["device"] == "cpu" else entry["device"]
    return f"machine{f' after step {step}' if step else ''}: {where}, torch {entry['versions']['torch']}"


def _licence(facts: Facts) -> Iterator[str]:
    data = facts["dataset"]
    yield "## Licence"
    yield ""
    yield f"Data: {data['source'] or data['name']}; its licence: {data['licence'] or 'not stated'}."
    yield "Weights carry the licence of the data they were trained on: use them for what it allows, which for"
    yield "research data is research. The code is Apache-2.0."


def _size(size: list[int]) -> str:
    return "x".join(map(str, size))
