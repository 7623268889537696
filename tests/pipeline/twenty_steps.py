"""Twenty steps with BatchNorm in eval mode, alone or under torchrun: argv = data, file for the results.

BatchNorm normalises by its running statistics here, so a step depends on the whole batch through the loss
alone, and any number of processes must take the same step. In float32 at a low rate, and in float64 at the
usual one: AdamW turns rounding errors of vanishing gradients into whole steps, which float64 is too fine for.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from pipeline.config import AugmentConfig, LossConfig, Recipe, TrainConfig
from pipeline.datasets import open_dataset
from pipeline.group import Group, processes
from pipeline.learner import Learner
from pipeline.loader import TrainLoader
from pipeline.losses import SegmentationLoss
from pipeline.models.efficientvit import create_model
from pipeline.normalise import Normalise

CASES = {"float64": (torch.float64, 3e-3), "float32": (torch.float32, 1e-4)}
AUGMENT = AugmentConfig(crop=(48, 64), scale=(0.2, 0.5))  # padding: processes count unequal pixels


class NormaliseAs(Normalise):
    """Another dtype than the usual one."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(torch.device("cpu"))
        self.dtype = dtype

    def __call__(self, images: Tensor) -> Tensor:
        return super().__call__(images).to(self.dtype)


def twenty_steps(data: str, group: Group, dtype: torch.dtype, rate: float) -> dict[str, object]:
    train = TrainConfig(steps=20, batch=4, warmup=2, lr=rate)
    torch.manual_seed(0)
    loss = SegmentationLoss(LossConfig(), 9, torch.linspace(0.3, 2.0, 9))
    learner = Learner(create_model("b0", 9).to(dtype), loss, train, torch.device("cpu"), group)
    learner.model.eval()
    learner.normalise = NormaliseAs(dtype)
    recipe, shard = Recipe("r", augment=AUGMENT, train=train), (group.rank, group.size)
    loader = TrainLoader(recipe, open_dataset(data, "train"), 255, shard=shard)
    losses = [float(learner.step(step, *batch)) for step, batch in enumerate(loader.batches(0))]
    return {"losses": losses, "model": learner.model.state_dict()}


def main(data: str, target: str) -> None:
    torch.set_num_threads(1)
    with processes() as group:
        results = {name: twenty_steps(data, group, *case) for name, case in CASES.items()}
        if group.main:
            torch.save(results, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
