"""Pictures of what a model gets wrong: its confusion matrix, and the images it does worst on.

Refuses to know models; what is drawn is handed over. Matplotlib is imported only here and in picture.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deploy.labels import DatasetInfo
from pipeline.accuracy import Evaluation, Timed
from pipeline.datasets.folder import LabelledFolder
from pipeline.picture import draw_sheet, save_figure

CONFUSION, WORST = "confusion.png", "worst.png"
_MOST_NUMBERS = 24  # more classes than this: colours only


def draw_mistakes(
    folder: Path, done: Evaluation, worst: Sequence[int], predict: Timed, data: LabelledFolder
) -> None:
    """Write confusion.png, and worst.png with the images of the indices `worst`, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_confusion(done.matrix.matrix, data.info, folder / CONFUSION)
    rows = [(image, mask, predict.timed(image)[0]) for image, mask in (data[index] for index in worst)]
    if rows:
        draw_sheet(rows, data.info, folder / WORST)


def draw_confusion(matrix: npt.NDArray[np.int64], info: DatasetInfo, path: Path) -> None:
    """`[C, C]` counts, rows = truth -> a PNG of each row's shares in %; an absent class's row is blank."""
    from matplotlib.figure import Figure

    total = matrix.sum(axis=1, keepdims=True)
    share = np.divide(100 * matrix, total, out=np.full(matrix.shape, np.nan), where=total > 0)
    count = len(matrix)
    side = max(4.0, min(20.0, 0.45 * count + 2.5))
    figure = Figure(figsize=(side, side), layout="constrained")
    axes = figure.subplots()
    axes.imshow(share, cmap="Blues", vmin=0, vmax=100)
    axes.set_xticks(range(count), info.classes, rotation=90)
    axes.set_yticks(range(count), info.classes)
    axes.set(xlabel="predicted", ylabel="true", title="% of a true class's pixels")
    if count <= _MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(share):
            if value >= 0.5:
                colour = "white" if value > 55 else "black"
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=7)
    save_figure(figure, path)
