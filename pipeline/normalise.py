"""Colour normalisation of a training batch on its device; the same numbers as in exported graphs.

Source: ImageNet's channel means and deviations as published with torchvision (BSD-3-Clause).
"""

from __future__ import annotations

import torch
from torch import Tensor

MEAN = (0.485, 0.456, 0.406)  # RGB, 0..1 units
STD = (0.229, 0.224, 0.225)


class Normalise:
    """`[B, H, W, 3]` uint8 RGB -> `[B, 3, H, W]` float32, (x / 255 - mean) / std, on `device`."""

    def __init__(self, device: torch.device) -> None:
        self.shift = 255 * torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
        self.scale = 1 / (255 * torch.tensor(STD, device=device).view(1, 3, 1, 1))

    def __call__(self, images: Tensor) -> Tensor:
        """Channels last in memory, as it comes: convolutions then take half the time on a CPU."""
        x = images.to(self.shift.device, non_blocking=True).permute(0, 3, 1, 2).float()
        return x.sub_(self.shift).mul_(self.scale)
