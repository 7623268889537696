"""DICOM SEG: reading one onto its series' slices, and writing label maps as one, by highdicom.

A frame goes to the slice whose first pixel lies where the frame says its own does, whatever else the file
says of its source. Written files carry "Not for clinical use". Source: DICOM PS3.3, A.51 and C.8.20.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deploy.errors import InputError
from deploy.files import atomic_write_bytes
from deploy.volume import NOTICE, Labels, Mask
from deploy.volumes.dicom.header import numbers, read_header, reading, text

if TYPE_CHECKING:
    from deploy.volumes.dicom.series import Series

_CODES = "99EDGESEG"  # private: class names are the user's own
_LONGEST = 64  # characters of a DICOM label


def series_of(header: Any) -> set[str]:
    """Identifiers of the series that the segments are of."""
    return {text(item, "SeriesInstanceUID") for item in header.get("ReferencedSeriesSequence", [])}


def names(header: Any) -> list[str]:
    """Labels of the segments."""
    return [text(segment, "SegmentLabel") for segment in header.SegmentSequence]


def masks(path: Path, header: Any, series: Series) -> Iterator[tuple[str, Mask]]:
    """(label, mask) of every segment.

    Raises:
        InputError: another grid than the series', or a frame where no slice lies.
    """
    import highdicom

    with reading(path):
        size = (int(header.Rows), int(header.Columns))
        file = highdicom.seg.segread(path)
        segments = [(int(s.SegmentNumber), text(s, "SegmentLabel")) for s in file.SegmentSequence]
        if size != series.shape[1:]:
            raise InputError(f"{path}: another grid than its series", size, series.shape[1:])
        places = [_slice_of(file, frame, series, path) for frame in range(int(file.NumberOfFrames))]
    for number, label in segments:
        mask = np.zeros(series.shape, np.bool_)
        with reading(path):
            for frame, index in enumerate(places):
                if _segment_of(file, frame) in (number, None):
                    pixels = file.get_stored_frame(frame + 1)
                    mask[index] |= pixels == number if _numbered(file) else pixels > _full(file) / 2
        yield label, mask


def write(series: Series, labels: Labels, names: Sequence[str], folder: Path, model: str) -> Path:
    """Write `<folder>/<series>_seg.dcm`: a segment for every class but the background.

    Args:
        labels: `[slices, rows, columns]` class ids in the series' stored order; model: what made them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of patients' names, which are taken as they are
        made = _segmentation(series, np.ascontiguousarray(labels), names, model)
        stream = io.BytesIO()
        made.save_as(stream)
    path = folder / f"{series.name}_seg.dcm"
    atomic_write_bytes(path, stream.getvalue())
    return path


def _segmentation(series: Series, labels: Labels, names: Sequence[str], model: str) -> Any:
    """The same as highdicom's object; equal arguments give equal identifiers."""
    import highdicom
    from pydicom.uid import generate_uid

    identity = [series.name, model, hashlib.sha256(labels.tobytes()).hexdigest()]
    return highdicom.seg.Segmentation(
        source_images=[_source(one.path) for one in series.slices],
        pixel_array=labels,
        segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
        segment_descriptions=[_describe(i, name, model) for i, name in enumerate(names) if i],
        series_instance_uid=generate_uid(entropy_srcs=["series", *identity]),
        series_number=900,
        sop_instance_uid=generate_uid(entropy_srcs=["instance", *identity]),
        instance_number=1,
        manufacturer="edgeseg",
        manufacturer_model_name=model[:_LONGEST],
        software_versions=_version(),
        device_serial_number="none",
        content_description=NOTICE,
        content_label="EDGESEG",
        series_description=NOTICE,
    )


def _slice_of(file: Any, frame: int, series: Series, path: Path) -> int:
    """The slice that a frame lies on, in the same orientation and pixel spacing.

    Raises:
        InputError: there is none.
    """
    orientation = _group(file, frame, "PlaneOrientationSequence", "ImageOrientationPatient", 6)
    spacing = _group(file, frame, "PixelMeasuresSequence", "PixelSpacing", 2)
    position = _group(file, frame, "PlanePositionSequence", "ImagePositionPatient", 3)
    grid = series.slices[0]
    for what, found, wanted in (
        ("orientation", orientation, grid.orientation),
        ("pixel spacing", spacing, grid.spacing),
    ):
        if not np.allclose(found, wanted, atol=1e-3):
            raise InputError(f"{path}: another {what} than its series", found, wanted)
    index = series.index_of(np.array(position))
    if index is None:
        fix = "is the series complete, and the SEG made from it?"
        raise InputError(f"{path}: frame {frame + 1} lies on no slice", position, f"of {series.name}", fix)
    return index


def _group(file: Any, frame: int, group: str, name: str, count: int) -> tuple[float, ...]:
    """Numbers of a functional group: the frame's own, else the one that all frames share."""
    for item in (file.PerFrameFunctionalGroupsSequence[frame], file.SharedFunctionalGroupsSequence[0]):
        if group in item and (values := numbers(item[group].value[0], name, count)):
            return values
    raise ValueError(f"frame {frame + 1} has no {name}")


def _segment_of(file: Any, frame: int) -> int | None:
    """Number of the one segment that a frame shows; None where pixels are segment numbers."""
    if _numbered(file):
        return None
    for item in (file.PerFrameFunctionalGroupsSequence[frame], file.SharedFunctionalGroupsSequence[0]):
        if "SegmentIdentificationSequence" in item:
            return int(item.SegmentIdentificationSequence[0].ReferencedSegmentNumber)
    raise ValueError(f"frame {frame + 1} names no segment")


def _numbered(file: Any) -> bool:
    return text(file, "SegmentationType") == "LABELMAP"


def _full(file: Any) -> int:
    """The pixel value that stands for the whole pixel."""
    return int(file.MaximumFractionalValue) if text(file, "SegmentationType") == "FRACTIONAL" else 1


def _source(path: Path) -> Any:
    """A slice's header as highdicom takes it: an empty SpecificCharacterSet makes its writer fail."""
    header = read_header(path)
    if not text(header, "SpecificCharacterSet"):
        header.pop("SpecificCharacterSet", None)
    return header


def _describe(number: int, name: str, model: str) -> Any:
    import highdicom
    from pydicom.sr.codedict import codes

    algorithm = highdicom.AlgorithmIdentificationSequence(
        name=model[:_LONGEST],
        version=_version(),
        family=codes.cid7162.ArtificialIntelligence,
    )
    return highdicom.seg.SegmentDescription(
        segment_number=number,
        segment_label=name[:_LONGEST],
        segmented_property_category=codes.SCT.AnatomicalStructure,
        segmented_property_type=highdicom.sr.CodedConcept(f"CLASS{number}", _CODES, name[:_LONGEST]),
        algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
        algorithm_identification=algorithm,
    )


def _version() -> str:
    try:
        return version("edgeseg")
    except PackageNotFoundError:
        return "unknown"
