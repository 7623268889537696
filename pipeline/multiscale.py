"""Flip and several scales at evaluation: one answer from several looks at a frame. Off unless asked for.

Each look is the network on the frame at one scale of its usual input size, plain or mirrored; class
probabilities, enlarged to that size, are averaged. No exported model does this: figures made with it say what
the weights could do, not what a device gets. Refuses to know files and truth.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from time import perf_counter_ns

import torch
from torch import Tensor

from deploy.manifest import Preprocess, TensorSpec
from deploy.postprocess import Labels, to_frame_size
from deploy.preprocess import Image, prepare_input
from pipeline.device import to_channels_last
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.models.labelmap import LabelMapper
from pipeline.models.upsample import Size, resize


class MultiScale:
    """A predictor, as `predict.Predictor` is one, of several looks.

    Args:
        model: its weights are copied; rule: from frame to input; scales: of the rule's size, e.g. (0.75, 1);
        flip: look at the mirrored frame, too; device: None: where the model is.
    """

    def __init__(
        self,
        model: EfficientViTSeg,
        rule: Preprocess,
        scales: Sequence[float],
        flip: bool,
        device: torch.device | None = None,
    ) -> None:
        self.rule = dataclasses.replace(rule, in_graph=True)
        self.device = device or next(model.parameters()).device
        self.flip = flip
        self.mappers = [self._mapper(model, _scaled(rule.size, scale)) for scale in scales]

    def _mapper(self, model: EfficientViTSeg, size: Size) -> LabelMapper:
        mapper = LabelMapper(model, size, self.rule.mean, self.rule.std, output="logits")
        return to_channels_last(mapper.to(self.device))

    def __call__(self, image: Image) -> Labels:
        """`[H, W, 3]` uint8 RGB -> `[H, W]` uint8 label map."""
        with torch.inference_mode():
            total = sum(self._looks(image))
            assert isinstance(total, Tensor)
            labels = total.argmax(dim=1).to(torch.uint8).cpu().numpy()[0]
        return to_frame_size(labels, self.rule, (image.shape[0], image.shape[1]))

    def timed(self, image: Image) -> tuple[Labels, float]:
        """The label map, and the milliseconds from decoded frame to it."""
        start = perf_counter_ns()
        labels = self(image)
        return labels, (perf_counter_ns() - start) / 1e6

    def _looks(self, image: Image) -> Iterator[Tensor]:
        """`[1, C, H, W]` class probabilities at the rule's size, one tensor a look."""
        for mapper in self.mappers:
            rule = dataclasses.replace(self.rule, size=mapper.size)
            spec = TensorSpec("image", "uint8", (1, *mapper.size, 3), "NHWC")
            frame = torch.from_numpy(prepare_input(image, rule, spec)).to(self.device)
            yield self._probabilities(mapper(frame))
            if self.flip:
                yield self._probabilities(mapper(frame.flip(2)).flip(3))

    def _probabilities(self, logits: Tensor) -> Tensor:
        return resize(logits.float(), self.rule.size).softmax(dim=1)


def _scaled(size: Size, scale: float) -> Size:
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
