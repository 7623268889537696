"""Cases -> a labelled folder: 16-bit PNGs of Hounsfield units + `hu_offset`, masks, slices.csv, dataset.toml.

Nothing is windowed here: that is the network's business (deploy/preprocess.py). Slices of one patient are all
in one split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import InputError
from pipeline.datasets import Progress
from pipeline.datasets.ctslices.cases import Case, pseudonym, slice_rule, split_by_patient

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from deploy.manifest import SliceRule
    from deploy.slicetable import SliceRow

HU_OFFSET = 32768  # any int16 fits


def write_cases(
    folder: Path,
    cases: Sequence[Case],
    classes: Sequence[str],
    request: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Fill an empty folder with the slices of all cases.

    Args:
        classes: names, the background first; request: values of the options in `cases.COMMON`.

    Raises:
        InputError: two cases of one name, or a volume or label file that is refused.
    """
    from deploy.slicetable import write_slices

    if twice := {case.name for case in cases if sum(other.name == case.name for other in cases) > 1}:
        raise InputError(f"two volumes named {min(twice)}", fix="rename one")
    splits = split_by_patient(cases, float(request["holdout"]), request["seed"])
    if len(splits) == 1:
        print("one patient: no val split (slices of one patient are never split)")
    rule, rows = slice_rule(request), []
    for done, case in enumerate(sorted(cases, key=lambda case: case.name), start=1):
        ranked = request["classes"] != "all"
        rows += _write_case(folder, case, classes, splits[case.patient], rule, ranked)
        progress(done, len(cases))
    write_slices(folder, rows)
    _write_info(folder, classes, rule, request)


def _write_case(
    folder: Path, case: Case, classes: Sequence[str], split: str, rule: SliceRule, ranked: bool
) -> list[SliceRow]:
    """All slices of one volume; returns their rows of the table."""
    from deploy.slices import frame_affine, slice_frame, slice_mask
    from deploy.slicetable import SliceRow

    volume = case.scan.read()
    labels = case.scan.read_labels(case.labels, volume, classes, ranked)
    affine = frame_affine(volume, rule)
    column, row, _ = ((affine[:3, axis] ** 2).sum() ** 0.5 for axis in range(3))
    spacing = (volume.spacing_mm[0], float(row), float(column))
    patient, rows = pseudonym("p", case.patient), []
    for index in range(len(labels)):
        stem = f"{case.name}_{index:04d}"
        frame = slice_frame(volume, index, rule)
        image = _stored(frame, rule.neighbour_mm is not None)
        _write_png(folder / split / "images" / f"{stem}.png", image)
        _write_png(folder / split / "masks" / f"{stem}.png", slice_mask(labels[index], volume, rule))
        place = spacing, tuple(affine.ravel().tolist())
        rows.append(SliceRow(split, stem, patient, case.name, index, *place))
    return rows


def _stored(frame: NDArray[np.int16], coloured: bool) -> NDArray[np.uint16]:
    """Hounsfield units `[h, w, 3]` as 16-bit pixels: three channels in OpenCV's order, or one."""
    import numpy as np

    values = (frame.astype(np.int32) + HU_OFFSET).astype(np.uint16)
    return values[..., ::-1] if coloured else values[..., 0]


def _write_png(path: Path, pixels: NDArray[np.generic]) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    done, data = cv2.imencode(".png", pixels)
    assert done
    path.write_bytes(data.tobytes())


def _write_info(folder: Path, classes: Sequence[str], rule: SliceRule, request: Mapping[str, Any]) -> None:
    from deploy.labels import DatasetInfo, default_palette
    from pipeline.datasets.folder import write_info

    source = Path(request["source"])
    info = DatasetInfo(
        name=source.name,
        modality="ct",
        classes=tuple(classes),
        palette=((0, 0, 0), *default_palette(len(classes) - 1)),
        ignore_index=None,
        source=f"CT volumes of the folder {source.name}, sliced by edgeseg",
        licence=request["licence"],
        root=folder,
        hu_offset=HU_OFFSET,
        slices=rule,
    )
    write_info(folder, info)
