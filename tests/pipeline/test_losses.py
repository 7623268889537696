"""The loss against torch's own operators, written out the long way."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from pipeline.config import LossConfig
from pipeline.losses import SegmentationLoss

SIZE, CLASSES = (48, 64), 5


def batch(seed: int = 0, spread: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits at stride 8 and masks in which a fifth is ignored (255, and 7: any id beyond the classes)."""
    generator = torch.Generator().manual_seed(seed)
    logits = (spread * torch.randn(3, CLASSES, 6, 8, generator=generator)).requires_grad_()
    masks = torch.randint(0, CLASSES, (3, *SIZE), generator=generator, dtype=torch.uint8)
    masks[:, :5], masks[:, 5:9] = 255, 7
    return logits, masks


def reference(
    logits: torch.Tensor, masks: torch.Tensor, weights: torch.Tensor | None, smoothing: float = 0.0
):
    """torch.nn.functional only."""
    full = F.interpolate(logits, SIZE, mode="bilinear", align_corners=False)
    target = torch.where(masks < CLASSES, masks.long(), -100)
    return F.cross_entropy(full, target, weight=weights, label_smoothing=smoothing)


WEIGHTS = torch.tensor([1.0, 0.2, 3.0, 0.7, 1.5])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_value_and_gradient_equal_torchs(weights: torch.Tensor | None, spread: float) -> None:
    logits, masks = batch(spread=spread)
    expected = reference(logits, masks, weights)
    (gradient,) = torch.autograd.grad(expected, logits)
    loss = SegmentationLoss(LossConfig(), CLASSES, weights)(logits, masks)
    (ours,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours, gradient, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_smoothing_equals_torchs_and_the_reference_form_the_fast_one(weights: torch.Tensor | None) -> None:
    logits, masks = batch()
    smoothed = SegmentationLoss(LossConfig(label_smoothing=0.1), CLASSES, weights)
    torch.testing.assert_close(
        smoothed(logits, masks), reference(logits, masks, weights, 0.1), rtol=1e-5, atol=1e-6
    )
    plain = SegmentationLoss(LossConfig(), CLASSES, weights)
    torch.testing.assert_close(plain(logits, masks), plain.reference(logits, masks)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("threshold", "keep"), [(0.3, 0.0), (0.0001, 0.25), (1.0, 0.0)])
def test_hard_pixels(threshold: float, keep: float) -> None:
    """Mean over pixels whose true class is less probable than `threshold`, or over `keep` of the hardest."""
    logits, masks = batch()
    loss = SegmentationLoss(LossConfig(ohem=threshold, ohem_keep=keep), CLASSES)(logits, masks)
    full = F.interpolate(logits, SIZE, mode="bilinear", align_corners=False)
    valid = masks < CLASSES
    true = full.softmax(1).gather(1, masks.long().clamp(max=CLASSES - 1)[:, None])[:, 0][valid]
    hard = sorted(true.tolist())
    count = max(sum(p <= threshold for p in hard), int(len(hard) * keep), 1)
    expected = -torch.tensor(hard[:count]).log().mean()
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    assert torch.autograd.grad(loss, logits)[0].abs().sum() > 0


@pytest.mark.parametrize("config", [LossConfig(), LossConfig(ohem=0.5), LossConfig(label_smoothing=0.1)])
def test_a_batch_without_a_label_gives_zero_and_no_gradient(config: LossConfig) -> None:
    logits, masks = batch()
    loss = SegmentationLoss(config, CLASSES)(logits, torch.full_like(masks, 255))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == 0 and torch.count_nonzero(gradient) == 0


def test_half_precision_logits_are_taken() -> None:
    logits, masks = batch()
    loss = SegmentationLoss(LossConfig(), CLASSES)(logits.bfloat16(), masks)
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(
        reference(logits, masks, None).item(), rel=0.02
    )


def test_extreme_logits_stay_finite() -> None:
    logits, masks = batch(spread=60.0)
    loss = SegmentationLoss(LossConfig(), CLASSES)(logits, masks)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert torch.isfinite(loss) and torch.isfinite(gradient).all()
