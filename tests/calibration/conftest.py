"""What the calibration tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from deploy.labels import DatasetInfo
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import create_model

SaveStreet = Callable[[Path, DatasetInfo, tuple[int, int]], None]


@pytest.fixture(scope="session")
def save_street() -> SaveStreet:
    """save_street(home, info, size): the run `street` of an untrained network in `home`."""

    def save(home: Path, info: DatasetInfo, size: tuple[int, int]) -> None:
        torch.manual_seed(0)
        spec = {"variant": "b0", "attention": "linear", "classes": len(info.classes), "head": "cityscapes"}
        dataset = {"name": info.name, "classes": list(info.classes), "ignore_index": info.ignore_index}
        meta = CheckpointMeta(spec, dataset, {"size": list(size), "resize": "stretch"})
        weights = create_model("b0", len(info.classes)).state_dict()
        save_checkpoint(home / "runs/street/train/best.safetensors", weights, meta)

    return save
