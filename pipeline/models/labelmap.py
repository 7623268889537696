"""From a frame to its label map in one graph of fixed size: normalise, network, full-size upsampling, argmax.

Full-size logits never exist: the columns are upsampled at once, the rows in bands, each multiplying only the
logit rows it depends on and reduced by its own argmax. Classes are usually the last axis there: each band is
then one large product, and an argmax reads neighbouring numbers (19 classes: 1.8 times, 150: 4.6 times faster
in ONNX Runtime than classes first; OpenVINO's kernel is slower that way and gets them first, see its target's
`CLASS_AXIS`). Everything is constant for one size: ready for export.

Refuses to know: runtimes, files, how a frame of another size gets to this one (deploy/preprocess.py).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from deploy.errors import InputError
from pipeline.models.efficientvit import EfficientViTSeg
from pipeline.models.upsample import Size, freeze_size, interpolation_matrix, matrix_tensor, stage_size

BAND_ROWS = 32


class BandedLabels(nn.Module):
    """Logits at stride 8 -> label map at full size.

    Args:
        size: (H, W) of the label map; mode: "bicubic" or "bilinear"; band_rows: output rows per argmax.
        dtype: of the label map and its bands; some targets cannot join bands of uint8.
        class_axis: of the bands, "last" or "first" (but for the batch); the labels are the same.
    """

    columns: Tensor

    def __init__(
        self,
        size: Size,
        mode: str,
        band_rows: int = BAND_ROWS,
        dtype: torch.dtype = torch.uint8,
        class_axis: str = "last",
    ) -> None:
        super().__init__()
        height, width = stage_size(size, 8)
        self.size, self.dtype, self.class_axis = size, dtype, class_axis
        columns = matrix_tensor(width, size[1], mode)
        columns = columns if class_axis == "last" else columns.T.contiguous()
        self.register_buffer("columns", columns, persistent=False)
        rows = interpolation_matrix(height, size[0], mode)
        self.spans: list[tuple[int, int]] = []
        for index, top in enumerate(range(0, size[0], band_rows)):
            band = rows[top : top + band_rows]
            used = np.flatnonzero(band.any(axis=0))
            first, last = int(used[0]), int(used[-1]) + 1
            self.spans.append((first, last))
            self.register_buffer(
                f"rows_{index}", torch.from_numpy(band[:, first:last].copy()), persistent=False
            )

    def forward(self, logits: Tensor) -> Tensor:
        """`[B, C, ceil(H/8), ceil(W/8)]` -> `[B, H, W]` of `dtype`."""
        wide = self._widened(logits)
        bands = []
        for index, (top, end) in enumerate(self.spans):
            band = self.get_buffer(f"rows_{index}") @ wide[..., top:end, :]
            bands.append(self._argmax(band, logits.shape[1]).to(self.dtype))
        return torch.cat(bands, dim=1)

    def _widened(self, logits: Tensor) -> Tensor:
        """All columns: `[B, h, W * C]`, or `[B, C, h, W]` with the classes first."""
        if self.class_axis == "first":
            return logits @ self.columns
        batch, classes, height, _ = logits.shape
        return (self.columns @ logits.permute(0, 2, 3, 1)).reshape(batch, height, self.size[1] * classes)

    def _argmax(self, band: Tensor, classes: int) -> Tensor:
        """`[B, rows, W]` of a band that came of `_widened`."""
        if self.class_axis == "first":
            return band.argmax(dim=1)
        return band.reshape(band.shape[0], -1, self.size[1], classes).argmax(dim=-1)


class LabelMapper(nn.Module):
    """A segmenter at one size, from frame to label map. Holds its own copy of the model, in eval mode.

    Args:
        model: the segmenter; size: (H, W) of its input; mean, std: RGB, in 0..1 units.
        input: "uint8" (`[B, H, W, 3]` RGB) or "float" (`[B, 3, H, W]`, normalised by the caller).
        output: "labels" (`[B, H, W]` uint8) or "logits" (`[B, C, ceil(H/8), ceil(W/8)]`).
        final: interpolation of the last upsampling, "bicubic" or "bilinear".
        class_axis: as in `BandedLabels`.

    Raises:
        InputError: an unknown value of input, output or final, or a size smaller than one pixel.
    """

    shift: Tensor
    scale: Tensor

    def __init__(
        self,
        model: EfficientViTSeg,
        size: Size,
        mean: tuple[float, float, float],
        std: tuple[float, float, float],
        input: str = "uint8",
        output: str = "labels",
        final: str = "bicubic",
        class_axis: str = "last",
    ) -> None:
        super().__init__()
        for what, value, known in (
            ("input", input, ("uint8", "float")),
            ("output", output, ("labels", "logits")),
            ("final interpolation", final, ("bicubic", "bilinear")),
            ("class axis", class_axis, ("last", "first")),
        ):
            if value not in known:
                raise InputError(f"unknown {what}", repr(value), " or ".join(known))
        if min(size) < 1:
            raise InputError("size out of range", f"{size[0]}x{size[1]}", "at least 1x1")
        self.size, self.input, self.output, self.final = size, input, output, final
        self.model = freeze_size(model, size).eval()
        self.labels = BandedLabels(size, final, class_axis=class_axis) if output == "labels" else None
        # per channel of a 0..255 frame: (x - shift) * scale
        per_channel = lambda values: torch.tensor(values, dtype=torch.float32).view(1, 3, 1, 1)  # noqa: E731
        self.register_buffer("shift", 255 * per_channel(mean), persistent=False)
        self.register_buffer("scale", 1 / (255 * per_channel(std)), persistent=False)
        self.to(next(model.parameters()))  # dtype and device of the model, buffers too
        self.train(False)

    @property
    def logits_shape(self) -> tuple[int, int, int]:
        """(C, ceil(H/8), ceil(W/8)): one frame's logits, whatever the output is."""
        return (self.model.classes, *stage_size(self.size, 8))

    def normalise(self, frame: Tensor) -> Tensor:
        """`[B, H, W, 3]` uint8 -> `[B, 3, H, W]`. The cast comes first: TensorRT transposes no uint8."""
        x = frame.to(self.shift.dtype).permute(0, 3, 1, 2)
        return (x - self.shift) * self.scale

    def forward(self, frame: Tensor) -> Tensor:
        """Shapes and dtypes by `input` and `output`, at the size given."""
        x = self.normalise(frame) if self.input == "uint8" else frame
        logits: Tensor = self.model(x)
        return self.labels(logits) if self.labels is not None else logits
