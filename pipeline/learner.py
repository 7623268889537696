"""One optimizer step, and everything that must be stored to go on after it with the same bits.

Model, average, optimizer and random numbers: nothing of files, logs and validation is known here.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipeline.average import Average
from pipeline.config import TrainConfig
from pipeline.device import to_channels_last
from pipeline.group import Group
from pipeline.losses import SegmentationLoss
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.normalise import Normalise
from pipeline.optimizer import build_optimizer, set_rate
from pipeline.schedule import learning_rate
from pipeline.state import State


class Learner:
    """The trained model and its optimizer.

    Args:
        model: moved to `device`, channels last in memory (on two cores 49 instead of 25 crops/s).
        loss: of logits and masks; config: of `[train]`.
        group: processes that take a step together, each on its share of the batch; None: this one alone.
    """

    def __init__(
        self,
        model: EfficientViTSeg,
        loss: SegmentationLoss,
        config: TrainConfig,
        device: torch.device,
        group: Group | None = None,
    ) -> None:
        self.config, self.loss, self.device = config, loss, device
        self.group = group or Group()
        self.model = to_channels_last(model.to(device)).train()
        self.average = Average(self.model, config.ema)
        self.forward = self.model if self.group.size == 1 else share_gradients(self.model, device)
        self.optimizer = build_optimizer(self.model, config)
        self.normalise = Normalise(device)
        self.autocast = config.autocast == "bf16" or (config.autocast == "auto" and device.type == "cuda")

    def step(self, step: int, images: Tensor, masks: Tensor) -> Tensor:
        """Train on `[B, H, W, 3]` and `[B, H, W]` uint8; returns the whole batch's loss, detached."""
        set_rate(self.optimizer, learning_rate(self.config, step))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            logits = self.forward(self.normalise(images))
        loss = self._of_whole_batch(*self.loss.weighted(logits, masks.to(self.device, non_blocking=True)))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.config.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.average.update(step)
        return self.group.sum(loss.detach()) / self.group.size

    def _of_whole_batch(self, loss: Tensor, weight: Tensor) -> Tensor:
        """This process's part of the loss such that the mean over processes is the mean over all pixels."""
        if self.group.size == 1:
            return loss
        return loss * (weight * self.group.size / self.group.sum(weight.clone()))

    def state(self) -> State:
        """Tensors and plain values only; they share memory with the model."""
        state: State = {
            "model": self.model.state_dict(),
            "average": self.average.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
        }
        if self.device.type == "cuda":
            state["cuda_rng"] = torch.cuda.get_rng_state(self.device)
        return state

    def restore(self, state: State) -> None:
        """Go back to a stored state."""
        self.model.load_state_dict(state["model"])
        self.average.model.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        if "cuda_rng" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda_rng"], self.device)


def share_gradients(model: EfficientViTSeg, device: torch.device) -> nn.Module:
    """The model such that `backward` averages the gradients of all processes.

    BatchNorm's statistics are those of the whole batch on CUDA (SyncBatchNorm, which a CPU lacks); on a CPU
    each process normalises by its own share, and the first one's running statistics count.
    """
    if device.type == "cuda":
        synchronised = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # the tensors stay the same
        return nn.parallel.DistributedDataParallel(synchronised, device_ids=[device.index])
    return nn.parallel.DistributedDataParallel(model)
