"""Cross-entropy on logits enlarged to the masks' size: class weights, hard-pixel mining, label smoothing.

Every label of `classes` or above is ignored. On a CPU the plain form is computed image by image together with
its gradient, so that the full-size logits of a batch never exist: 21 instead of 68 ms for 16 crops of
192x256. Refuses to know where weights come from (balance.py). Source of OHEM: Shrivastava et al., CVPR 2016,
per pixel.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.config import LossConfig
from pipeline.models.upsample import matrix_tensor, resize

IGNORED = 255
FAR_APART = -80.0  # exp of it is still a normal float32


class SegmentationLoss:
    """The loss of a batch, a scalar.

    Args:
        config: hard-pixel mining and smoothing.
        classes: number of classes C.
        weights: `[C]` float32 class weights, or None for equal ones.
    """

    def __init__(self, config: LossConfig, classes: int, weights: Tensor | None = None) -> None:
        self.config = config
        self.classes = classes
        self.weights = torch.ones(classes) if weights is None else weights.to(torch.float32)

    def __call__(self, logits: Tensor, masks: Tensor) -> Tensor:
        """`[B, C, h, w]` logits, `[B, H, W]` uint8 masks -> weighted mean over pixels that count, or 0."""
        return self.weighted(logits, masks)[0]

    def weighted(self, logits: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, and the total weight it is the mean over: with it, means of parts make up one mean."""
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # of float16 and bfloat16
        weights = self.weights.to(logits)
        if self.config.ohem or self.config.label_smoothing or logits.device.type != "cpu":
            return self.reference(logits, masks)
        loss, weight = _UpsampledCrossEntropy.apply(logits, masks, weights)
        return loss, weight

    def reference(self, logits: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """The same by torch's own operators; all options, any device."""
        weights = self.weights.to(logits)
        target = masks.long().masked_fill(masks >= self.classes, IGNORED)
        full = resize(logits, (masks.shape[1], masks.shape[2]), "bilinear")
        pixel = F.cross_entropy(
            full,
            target,
            weight=weights,
            ignore_index=IGNORED,
            reduction="none",
            label_smoothing=self.config.label_smoothing,
        )
        counted = torch.cat([weights, weights.new_zeros(256 - self.classes)])[masks.long()]
        if self.config.ohem:
            counted = counted * self._hard(full.detach(), target)
            pixel = pixel * (counted > 0)
        weight = counted.sum().clamp(min=torch.finfo(torch.float32).tiny)
        return pixel.sum() / weight, weight

    def _hard(self, full: Tensor, target: Tensor) -> Tensor:
        """`[B, H, W]` bool: the true class is less probable than `ohem`, or in the lowest `ohem_keep`."""
        loss = F.cross_entropy(full, target, ignore_index=IGNORED, reduction="none").flatten()
        valid = int((target != IGNORED).sum())
        keep = max(1, int(valid * self.config.ohem_keep))
        least_kept = loss.topk(keep).values[-1]
        threshold = -torch.log(torch.tensor(self.config.ohem, device=loss.device))
        return (loss >= torch.minimum(threshold, least_kept)).view_as(target) & (target != IGNORED)


class _UpsampledCrossEntropy(torch.autograd.Function):
    """Bilinear enlargement + weighted cross-entropy, one image at a time; the gradient is made on the way.

    The largest logit of each small pixel is taken off first. Bilinear weights are positive and sum to 1, so
    every enlarged logit is then <= 0 and the softmax is unchanged: no second pass for the maximum, unless the
    logits lie so far apart that all exponentials could vanish between two pixels.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, masks: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        classes, (height, width) = logits.shape[1], masks.shape[1:]
        rows = matrix_tensor(logits.shape[2], height, "bilinear").to(logits)
        columns = matrix_tensor(logits.shape[3], width, "bilinear").to(logits).T.contiguous()
        weight_of = torch.cat([weights, weights.new_zeros(256 - classes)])
        low = logits.detach() - logits.detach().amax(dim=1, keepdim=True)
        far_apart = bool(low.amin() < FAR_APART)
        gradient = torch.empty(logits.shape, dtype=logits.dtype)
        total, count = logits.new_zeros(()), logits.new_zeros(())
        for index in range(len(logits)):
            target = masks[index].reshape(1, -1).long()
            weight = weight_of[target]
            full = (rows @ (low[index] @ columns)).view(classes, -1)
            if far_apart:
                full.sub_(full.amax(dim=0, keepdim=True))
            loss = _softmax_gradient(full, target.clamp_(max=classes - 1), weight)
            gradient[index] = (rows.T @ full.view(classes, height, width)) @ columns.T
            total, count = total + loss, count + weight.sum()
        count = count.clamp(min=torch.finfo(torch.float32).tiny)
        ctx.save_for_backward(gradient.div_(count))
        ctx.mark_non_differentiable(count)
        return total / count, count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None, None


def _softmax_gradient(full: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """Turn `[C, N]` logits (<= 0) into their gradient in place; returns the summed weighted loss."""
    true = full.gather(0, target)
    full.exp_()
    total = full.sum(dim=0, keepdim=True)
    loss = ((total.log() - true) * weight).sum()
    full.mul_(weight / total)
    full.scatter_add_(0, target, -weight)
    return loss
