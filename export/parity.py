"""Parity: the artifact, run by its real runtime on real images, against the fp32 checkpoint in PyTorch.

The reference takes nothing from the exported form of the network: eager model, torch's own interpolation,
argmax. Images go through `deploy`'s pre- and postprocessing, as on the device; mIoU is at the masks' own
size. Refuses to know how an artifact was made. What is allowed is the target's `Budget`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from deploy.batches import group_size
from deploy.bundle import Bundle
from deploy.errors import GateError
from deploy.labels import Pair, read_mask
from deploy.manifest import Manifest, Preprocess
from deploy.metrics import ConfusionMatrix
from deploy.postprocess import channels_first, output_to_labels, to_frame_size
from deploy.preprocess import Size, normalise, pad_colour, prepare_input, resize_image
from deploy.progress import track
from deploy.runtimes import Opener, default_threads, open_session
from export.pictures import Pictures
from export.targets import Budget
from pipeline.models.efficientvit import EfficientViTSeg

Labels = npt.NDArray[np.uint8]
Logits = npt.NDArray[np.float32]
WORKERS = 4  # each holds full-size logits: 160 MB for 19 classes at 1024x2048


@dataclass(frozen=True)
class Answer:
    """What the fp32 checkpoint says of a picture: logits `[1, C, ceil(h/8), ceil(w/8)]`, labels `[h, w]`."""

    logits: Logits
    labels: Labels


def ask_checkpoint(
    model: EfficientViTSeg, rule: Preprocess, final: str, pictures: Pictures
) -> dict[str, Answer]:
    """The reference's answer to every picture, by stem.

    One picture a thread: the answers do not depend on the number of cores, and busy cores do not stall them.

    Args:
        model: in eval mode. rule: how frames are prepared. final: last upsampling, bicubic or bilinear.
    """

    def ask(pair: Pair) -> Answer:
        image = pictures.read(pair)
        resized = resize_image(image, rule.size, rule.resize, rule.interpolation, pad_colour(rule))
        with torch.inference_mode():
            logits = model(torch.from_numpy(normalise(resized, rule)[None]))
            full = F.interpolate(logits, size=rule.size, mode=final, align_corners=False)
            return Answer(logits.numpy(), full.argmax(1)[0].to(torch.uint8).numpy())

    workers = min(WORKERS, default_threads())
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        asked = [(pair.stem, pool.submit(ask, pair)) for pair in pictures.pairs]
        return {stem: future.result() for stem, future in track(asked, "checkpoint")}


class Comparison:
    """An artifact against the reference, image by image.

    Args:
        classes: number of classes C.
        ignore_index: of the masks. masks: whether the images have masks of the network's classes.

    Attributes:
        agreements: share of pixels with the reference's class, by image stem.
        kept: confusion of the artifact's labels (columns) with the reference's (rows).
        fp32, here: confusion of reference and artifact with the masks; empty without masks.
    """

    def __init__(self, classes: int, ignore_index: int | None, masks: bool) -> None:
        self.masks = masks
        self.agreements: dict[str, float] = {}
        self.kept = ConfusionMatrix(classes)
        self.fp32 = ConfusionMatrix(classes, ignore_index)
        self.here = ConfusionMatrix(classes, ignore_index)
        self._errors: list[tuple[float, float]] = []  # (largest, mean) of an image's logits

    def add_labels(self, stem: str, expected: Labels, found: Labels) -> None:
        """Count one image's label maps, `[h, w]` at the network's size."""
        self.agreements[stem] = float(np.mean(expected == found))
        self.kept.update(found, expected)

    def add_logits(self, expected: Logits, found: npt.NDArray[Any]) -> None:
        """Count one image's logits."""
        error = np.abs(found.astype(np.float64) - expected)
        self._errors.append((float(error.max()), float(error.mean())))

    @property
    def agreement(self) -> float:
        """Mean share of equal pixels (all images have one size here)."""
        return float(np.mean(list(self.agreements.values())))

    @property
    def max_abs_error(self) -> float | None:
        """Largest error of a logit; None where the artifact does not show its logits."""
        return max(largest for largest, _ in self._errors) if self._errors else None

    @property
    def mean_abs_error(self) -> float | None:
        """Mean error of the logits, or None."""
        return float(np.mean([mean for _, mean in self._errors])) if self._errors else None

    @property
    def miou_difference(self) -> float | None:
        """mIoU of the artifact minus the checkpoint's, in 0..1 units; None without masks."""
        return self.here.miou() - self.fp32.miou() if self.masks else None

    def worst_image(self) -> tuple[str, float]:
        """(stem, agreement) of the image that differs most."""
        return min(self.agreements.items(), key=lambda item: item[1])

    def worst_class(self) -> tuple[int, float]:
        """(class id, share of the reference's pixels that kept it) of the class that loses most."""
        rows = self.kept.matrix.sum(1)
        share = np.divide(np.diagonal(self.kept.matrix), rows, out=np.ones(len(rows)), where=rows > 0)
        return int(share.argmin()), float(share.min())


def compare(
    artifact: Bundle,
    cut: Bundle | None,
    answers: Mapping[str, Answer],
    pictures: Pictures,
    open_with: Opener = open_session,
) -> Comparison:
    """Run the artifact on every picture.

    Args:
        artifact: the candidate. cut: the same network ending at its logits, if the candidate gives labels.
        answers: the checkpoint's, by stem.
        open_with: what runs them; default: the bundle's own runtime.

    Raises:
        GateError: logits that are not finite. InputError: an unreadable image or mask.
    """
    manifest = artifact.manifest
    rule, spec = manifest.preprocess, manifest.inputs[0]
    result = Comparison(len(manifest.classes), pictures.ignore_index, pictures.masks)
    shows_logits = artifact if manifest.outputs[0].layout != "NHW" else cut
    size = group_size(manifest)
    groups = [pictures.pairs[start : start + size] for start in range(0, len(pictures.pairs), size)]
    with closing(open_with(artifact, None)) as session, _optional(shows_logits, open_with) as show_logits:
        for group in track(groups, "artifact"):
            images = [pictures.read(pair) for pair in group]
            frames = np.concatenate([prepare_input(image, rule, spec) for image in images])
            outputs = session.run(frames)
            logits = show_logits(frames) if show_logits else None
            for index, (pair, image) in enumerate(zip(group, images, strict=True)):
                answer, found = answers[pair.stem], _labels(manifest, outputs[index : index + 1])
                result.add_labels(pair.stem, answer.labels, found)
                if logits is not None:
                    result.add_logits(answer.logits, logits[index : index + 1])
                if pictures.masks:
                    _count(result, manifest, pair, (image.shape[0], image.shape[1]), answer.labels, found)
    return result


def _count(
    result: Comparison, manifest: Manifest, pair: Pair, size: Size, expected: Labels, found: Labels
) -> None:
    """Count one image's label maps against its mask, at the mask's own size."""
    mask = read_mask(pair.mask)
    result.fp32.update(to_frame_size(expected, manifest.preprocess, size), mask)
    result.here.update(to_frame_size(found, manifest.preprocess, size), mask)


def _labels(manifest: Manifest, output: npt.NDArray[Any]) -> Labels:
    """The label map at the network's size, as the device makes it."""
    upsample = str(manifest.target.options["upsample"])
    return output_to_labels(output, manifest.outputs[0], manifest.preprocess.size, upsample)


def gate(result: Comparison, budget: Budget, what: str, classes: Sequence[str]) -> None:
    """Raise GateError where the comparison exceeds the target's budget; `what` names the artifact.

    The error names the worst class and image and what to try.
    """
    short = None
    if not result.agreement >= budget.agreement:
        short = (f"agreement {result.agreement:.5f}", f">= {budget.agreement}")
    elif budget.miou_drop is not None:
        short = _miou_shortfall(result, budget.miou_drop)
    if short is None:
        return
    (worst, kept), (stem, agreement) = result.worst_class(), result.worst_image()
    places = (
        f"worst class {classes[worst]}: {kept:.4f} of its pixels kept, worst image {stem}: {agreement:.4f}"
    )
    raise GateError(f"{what} misses its budget", f"{short[0]} ({places})", short[1], budget.advice)


def _miou_shortfall(result: Comparison, allowed: float) -> tuple[str, str] | None:
    """(got, expected) where too many points of mIoU are lost, or where that cannot be known."""
    difference = result.miou_difference
    if difference is None:
        return "no masks to judge mIoU by", "--data with masks of the checkpoint's classes"
    return (
        None if -100 * difference <= allowed else (f"mIoU {100 * difference:+.2f} points", f">= -{allowed}")
    )


@contextmanager
def _optional(bundle: Bundle | None, open_with: Opener) -> Iterator[Callable[..., Logits] | None]:
    """A function from an input to the bundle's logits `[1, C, h, w]`, or None."""
    if bundle is None:
        yield None
        return
    spec = bundle.manifest.outputs[0]
    with closing(open_with(bundle, None)) as session:
        yield lambda frame: channels_first(session.run(frame), spec)
