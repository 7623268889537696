"""The learning rate over a training: linear warm-up, then cosine or polynomial decay.

A pure function of the step, so that a resumed training needs nothing stored. Sources: SGDR (Loshchilov and
Hutter, ICLR 2017) for the cosine, DeepLab (Chen et al., TPAMI 2018) for the polynomial. Knows no optimizer.
"""

from __future__ import annotations

import math

from pipeline.config import TrainConfig


def learning_rate(config: TrainConfig, step: int) -> float:
    """Rate of step 0, 1, ...: `lr` right after warm-up, `lr * lr_end` at `steps`, which is never reached."""
    if step < config.warmup:
        return config.lr * (step + 1) / (config.warmup + 1)
    progress = min(1.0, (step - config.warmup) / max(1, config.steps - config.warmup))
    if config.schedule == "poly":
        left = math.pow(1 - progress, config.poly_power)
    else:
        left = 0.5 * (1 + math.cos(math.pi * progress))
    return config.lr * (config.lr_end + (1 - config.lr_end) * left)
