"""A segmenter as one function on the host: decoded frame -> label map at the frame's own size.

Exactly the deployed path: deploy's preprocessing, the LabelMapper that is exported (static size, batch 1,
fp32), deploy's postprocessing. So what is measured here is what an artifact must reproduce. Knows no files
and no truth.
"""

from __future__ import annotations

import dataclasses
from time import perf_counter_ns

import torch

from deploy.manifest import Preprocess, TensorSpec
from deploy.postprocess import Labels, to_frame_size
from deploy.preprocess import Image, prepare_input
from pipeline.device import to_channels_last
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.models.labelmap import LabelMapper


class Predictor:
    """A copy of the model at one size.

    Args:
        model: its weights are copied, so that it may be trained on; rule: size, resize rule, mean, std.
        device: where to run; None: where the model is.
    """

    def __init__(self, model: EfficientViTSeg, rule: Preprocess, device: torch.device | None = None) -> None:
        self.rule = dataclasses.replace(rule, in_graph=True)
        self.device = device or next(model.parameters()).device
        mapper = LabelMapper(model, rule.size, rule.mean, rule.std)
        self.mapper = to_channels_last(mapper.to(self.device))
        self.spec = TensorSpec("image", "uint8", (1, *rule.size, 3), "NHWC")

    def __call__(self, image: Image) -> Labels:
        """`[H, W, 3]` uint8 RGB -> `[H, W]` uint8 label map."""
        array = prepare_input(image, self.rule, self.spec)
        with torch.inference_mode():
            small = self.mapper(torch.from_numpy(array).to(self.device)).cpu().numpy()[0]
        return to_frame_size(small, self.rule, (image.shape[0], image.shape[1]))

    def timed(self, image: Image) -> tuple[Labels, float]:
        """The label map, and the milliseconds from decoded frame to it."""
        start = perf_counter_ns()
        labels = self(image)
        return labels, (perf_counter_ns() - start) / 1e6
