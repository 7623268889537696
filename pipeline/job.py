"""A training as data: recipe, labelled folder, the stage they determine, what its checkpoints tell.

Nothing is computed here but digests. Knows no folder of results.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from deploy.files import sha256_file
from deploy.labels import DatasetInfo, dataset_digest, read_dataset
from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD, Preprocess, check_ct
from deploy.schema import encode
from pipeline.artifact import Stage, git_commit
from pipeline.config import Recipe, settings
from pipeline.datasets.folder import LabelledFolder

if TYPE_CHECKING:
    from pipeline.models.checkpoints import CheckpointMeta

VERSION = 1  # raise it when the same recipe and data give other weights


def model_spec(recipe: Recipe, classes: int) -> dict[str, Any]:
    """The model as a checkpoint describes it (`CheckpointMeta.model`)."""
    wanted = asdict(recipe.model) | {"classes": classes}
    del wanted["init"]
    if recipe.model.activation == "published":
        del wanted["activation"]
    how = asdict(recipe.adapt)
    return wanted | ({"adaptation": how} if how.pop("base") else {})


class Job:
    """A recipe on a labelled folder.

    Attributes:
        recipe, info, train_set, val_set: the parts; stage: what determines the result; rule: from frame to
        input.

    Raises:
        InputError: no such folder, split, or checkpoint to start from; a base of another [model]; an empty
        split; pairs that lack a partner.
    """

    def __init__(self, recipe: Recipe, data: Path) -> None:
        self.recipe = recipe
        self.info = read_dataset(data)
        self.train_set = LabelledFolder(self.info, recipe.data.train_split, self.rule)
        self.val_set = LabelledFolder(self.info, recipe.data.val_split, self.rule)
        self.stage = Stage("train", VERSION, settings(recipe), self._inputs(), {"git_commit": git_commit()})
        self._require_base()

    @property
    def classes(self) -> int:
        """How many."""
        return len(self.info.classes)

    @property
    def pad_label(self) -> int:
        """A mask value that counts nowhere."""
        return 255 if self.info.ignore_index is None else self.info.ignore_index

    @property
    def rule(self) -> Preprocess:
        """From frame to network input, in validation and in every export."""
        data = self.recipe.data
        resize, interpolation = data.resize, data.interpolation
        rule = Preprocess(data.size, IMAGENET_MEAN, IMAGENET_STD, False, resize, interpolation)  # type: ignore[arg-type]
        if data.hu_window and self.info.hu_offset is None:
            fix = "prepare CT volumes with `python -m pipeline prepare`, or leave data.hu_window out"
            raise InputError("data.hu_window", f"pictures in {self.info.root}", "Hounsfield units", fix)
        check_ct(data.hu_window or None, None, f"recipe {self.recipe.name}")
        return replace(rule, hu_window=data.hu_window or None, slices=self.info.slices)

    @property
    def init(self) -> Path | None:
        """The checkpoint to start from."""
        from pipeline.models.checkpoints import resolve_checkpoint

        name = self.recipe.model.init
        return resolve_checkpoint(name) if name else None

    @property
    def base(self) -> Path | None:
        """The checkpoint that a domain is added to."""
        from pipeline.models.checkpoints import resolve_checkpoint

        name = self.recipe.adapt.base
        return resolve_checkpoint(name) if name else None

    def _require_base(self) -> None:
        """The recipe's [model] describes the result, so it must be the base's."""
        from pipeline.models.checkpoints import read_meta

        if not self.base:
            return
        model = {"activation": "published", **read_meta(self.base).model}
        for key in ("variant", "attention", "head", "activation"):
            if (wanted := getattr(self.recipe.model, key)) != model[key]:
                fix = "use `pipeline adapt`, which takes [model] from the base"
                raise InputError(f"model.{key} of a domain", wanted, f"its base's, {model[key]}", fix)

    def keep_notes(self, notes: dict[str, Any]) -> None:
        """Take over the notes of this stage's first start, so that nothing depends on when it resumed."""
        self.stage = replace(self.stage, notes=notes)

    def describe(self, metrics: dict[str, Any]) -> CheckpointMeta:
        """What a checkpoint of this training says about itself; no times, no paths."""
        from pipeline.models.checkpoints import CheckpointMeta

        name = self.recipe.adapt.base
        return CheckpointMeta(
            model=model_spec(self.recipe, self.classes),
            dataset=_dataset(self.info),
            preprocess=_preprocess(self.rule),
            provenance={
                "recipe": self.recipe.name,
                "settings": self.stage.settings,
                "inputs": self.stage.inputs,
                "stage_version": VERSION,
                **self.stage.notes,
            },
            metrics=metrics,
            base={"name": name, "sha256": self.stage.inputs["base checkpoint"]} if name else {},
        )

    def _inputs(self) -> dict[str, str]:
        """Digests of all that the result depends on besides the settings."""
        info = self.info
        described = [info.classes, info.palette, info.ignore_index]
        described += [] if info.hu_offset is None else [info.hu_offset, encode(info.slices)]
        inputs = {
            "dataset.toml": hashlib.sha256(json.dumps(described).encode()).hexdigest(),
            "train data": dataset_digest(self.train_set.pairs),
            "val data": dataset_digest(self.val_set.pairs),
        }
        starts = {"init checkpoint": self.init, "base checkpoint": self.base}
        return inputs | {name: sha256_file(path) for name, path in starts.items() if path}


def _dataset(info: DatasetInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "classes": list(info.classes),
        "palette": [list(colour) for colour in info.palette],
        "ignore_index": info.ignore_index,
        "modality": info.modality,
        "source": info.source,
        "licence": info.licence,
    }


def _preprocess(rule: Preprocess) -> dict[str, Any]:
    return {
        "size": list(rule.size),
        "resize": rule.resize,
        "interpolation": rule.interpolation,
        "mean": list(rule.mean),
        "std": list(rule.std),
        **({"hu_window": list(rule.hu_window), "slices": encode(rule.slices)} if rule.hu_window else {}),
    }
