"""Colour normalisation of a training batch on its device; the same numbers as in exported graphs."""

from __future__ import annotations

import torch
from torch import Tensor

from deploy.manifest import IMAGENET_MEAN, IMAGENET_STD


class Normalise:
    """`[B, H, W, 3]` uint8 RGB -> `[B, 3, H, W]` float32, (x / 255 - mean) / std, on `device`."""

    def __init__(self, device: torch.device) -> None:
        self.shift = 255 * torch.tensor(IMAGENET_MEAN, device=device).view(1, 3, 1, 1)
        self.scale = 1 / (255 * torch.tensor(IMAGENET_STD, device=device).view(1, 3, 1, 1))

    def __call__(self, images: Tensor) -> Tensor:
        """Channels last in memory, as it comes: convolutions then take half the time on a CPU."""
        x = images.to(self.shift.device, non_blocking=True).permute(0, 3, 1, 2).float()
        return x.sub_(self.shift).mul_(self.scale)
