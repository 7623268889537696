"""NIfTI: CT volumes and label volumes in .nii and .nii.gz files, by nibabel.

The header is read first and bounds what is read and unpacked after it. A volume without orientation (neither
sform nor qform) is refused. Source: NIfTI-1 and NIfTI-2 (NIMH DFWG).
"""

from __future__ import annotations

import gzip
import importlib.util
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError
from deploy.files import atomic_write_bytes
from deploy.foreign import reading
from deploy.orientation import Affine, Orientation, orient
from deploy.volume import NOTICE, Labels, Volume, check_shape, require_ct, to_hounsfield

SUFFIXES = (".nii.gz", ".nii")
_LABEL_WORDS = frozenset(("seg", "segmentation", "label", "labels", "mask", "masks", "gt"))
_VOLUME_WORDS = frozenset(("volume", "image", "images", "img", "ct", "scan"))
_HEADER_BYTES = 544  # of NIfTI-2 with its flag; NIfTI-1's is shorter
_MAX_OFFSET = 1 << 20  # where the voxels begin, after any extensions
_MAX_FILES = 10_000
_MILLIMETRES = (0, 2)  # codes of the unit: none given, mm


@dataclass(frozen=True)
class NiftiScan:
    """A CT volume in a NIfTI file, which knows no patient: `patient` is its name."""

    path: Path

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.path.name[: -len(_suffix(self.path))]

    @property
    def patient(self) -> str:
        """The same."""
        return self.name

    def read(self) -> Volume:
        """The volume.

        Raises:
            InputError: damaged, not three axes, orientation unknown, or no Hounsfield units.
        """
        image = _open(self.path)
        hu = to_hounsfield(_values(image), str(self.path))
        require_ct(hu, str(self.path))
        orientation, affine = _orient(image, self.path)
        return Volume(self.name, np.ascontiguousarray(orientation.canonical(hu)), affine)

    def read_labels(
        self, files: Sequence[Path], volume: Volume, names: Sequence[str], ranked: bool = True
    ) -> Labels:
        """The one label volume in `files`, `[S, H, W]`; its values are class ids (so nothing is `ranked`).

        Raises:
            InputError: not one file, another geometry than the volume's, or values that are no class ids.
        """
        if len(files) != 1:
            raise InputError(f"{self.path}: label volumes", got=len(files), expected="one")
        image = _open(files[0])
        orientation, affine = _orient(image, files[0])
        labels = np.ascontiguousarray(orientation.canonical(_class_ids(image, files[0])))
        if labels.shape != volume.hu.shape or not np.allclose(affine, volume.affine, atol=1e-2):
            got = f"{labels.shape} at {affine[:3].round(3).tolist()}"
            expected = f"{volume.hu.shape} at {volume.affine[:3].round(3).tolist()}"
            raise InputError(f"{files[0]}: labels of another volume than {self.path}", got, expected)
        if labels.max() >= len(names):
            expected = f"0 to {len(names) - 1} ({', '.join(names)})"
            raise InputError(f"{files[0]}: class ids", got=f"up to {labels.max()}", expected=expected)
        return labels

    def write_labels(self, labels: Labels, names: Sequence[str], folder: Path, model: str) -> Path:
        """Write `<folder>/<name>_labels.nii.gz`: uint8 class ids on the volume's own grid, same affine."""
        image = _open(self.path)
        orientation, _ = _orient(image, self.path)
        header = image.header.copy()
        header.extensions.clear()  # they may name the patient
        header.set_data_dtype(np.uint8)
        header.set_slope_inter(1, 0)
        header["descrip"] = f"{NOTICE}. {model}".encode("ascii", "replace")[:79]
        header["cal_min"] = header["cal_max"] = 0
        voxels = np.ascontiguousarray(orientation.stored(labels)).transpose(2, 1, 0)
        made = type(image)(voxels, image.affine, header)
        path = folder / f"{self.name}_labels.nii.gz"
        atomic_write_bytes(path, gzip.compress(made.to_bytes(), mtime=0))
        return path


def requires() -> str | None:
    """Nibabel."""
    return None if importlib.util.find_spec("nibabel") else "no nibabel: pip install 'edgeseg[ct]'"


def holds(path: Path) -> bool:
    """Whether `path` is a NIfTI file or a folder with some."""
    return bool(_suffix(path)) if path.is_file() else any(files_in(path))


def find(path: Path) -> list[NiftiScan]:
    """The CT volumes at `path` (a file, or a folder and all below it), without those named as labels."""
    if path.is_file():
        return [NiftiScan(path)]
    return [NiftiScan(file) for file in files_in(path) if not part_of_pair(file, path)[0]]


def files_in(folder: Path) -> list[Path]:
    """All NIfTI files below a folder, sorted; hidden ones are left out.

    Raises:
        InputError: too many.
    """
    found = []
    for path in sorted(folder.rglob("*.nii*")):
        if _suffix(path) and path.is_file() and not path.name.startswith("."):
            found.append(path)
        if len(found) > _MAX_FILES:
            raise InputError(f"{folder}: too many files", expected=f"at most {_MAX_FILES} volumes")
    return found


def part_of_pair(path: Path, root: Path) -> tuple[bool, tuple[str, ...]]:
    """(whether the name says labels, what is left of the name): equal remainders make a pair.

    volume-0.nii, segmentation-0.nii; imagesTr/a_0000.nii.gz, labelsTr/a.nii.gz; p1/ct.nii, p1/seg.nii.
    """
    *folders, name = path.relative_to(root).parts
    words = [word for part in folders for word in _words(re.sub("T[rs]$", "", part))]
    words += _words(name[: -len(_suffix(path))])
    if folders and folders[-1].startswith("images") and words[-1] == "0000":
        words = words[:-1]  # nnU-Net's number of the channel
    rest = tuple(word for word in words if word not in _LABEL_WORDS | _VOLUME_WORDS)
    return bool(_LABEL_WORDS & set(words)), rest


def highest_label(path: Path) -> int:
    """The largest class id in a label volume.

    Raises:
        InputError: damaged, or values that are no class ids.
    """
    return int(_class_ids(_open(path), path).max())


def _words(text: str) -> list[str]:
    return [word for word in re.split("[^a-z0-9]+", text.lower()) if word]


def _suffix(path: Path) -> str:
    return next((suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)), "")


def _open(path: Path) -> Any:
    """A nibabel image over bytes in memory, no more of them than its header accounts for.

    Raises:
        InputError: missing, damaged, or of a kind or size that is not supported.
    """
    import nibabel

    logging.getLogger("nibabel.global").disabled = True  # remarks on headers, as lines between ours
    with reading(path, "NIfTI"):
        with gzip.open(path) if path.name.lower().endswith(".gz") else open(path, "rb") as stream:
            head = stream.read(_HEADER_BYTES)
            second = head[:4] in (b"\x1c\x02\0\0", b"\0\0\x02\x1c")
            kind = nibabel.Nifti2Image if second else nibabel.Nifti1Image
            header = kind.header_class(head[: kind.header_class.sizeof_hdr], check=False)
            length = _length(header, path)
            data = head + stream.read(max(0, length - len(head)))
        if len(data) < length:
            raise InputError(f"{path} is truncated", f"{len(data)} bytes", length, "copy it again")
        image = kind.from_bytes(data)
        _check(image, path)
    return image


def _length(header: Any, path: Path) -> int:
    """Bytes of the whole file by its header."""
    shape = tuple(int(side) for side in header.get_data_shape())
    check_shape(shape[:3] if set(shape[3:]) <= {1} else shape, str(path))
    offset, bits = float(header["vox_offset"]), 8 * header.get_data_dtype().itemsize
    if not header.sizeof_hdr <= offset <= _MAX_OFFSET or not 8 <= bits <= 128:
        raise InputError(
            f"{path}: header",
            got=f"voxels of {bits} bits at byte {offset:g}",
            expected="8 to 128 bits, after the header",
        )
    return int(offset + np.prod(shape, dtype=np.int64) * bits // 8)


def _check(image: Any, path: Path) -> None:
    """Real numbers, in millimetres, with an orientation."""
    header = image.header
    if header.get_data_dtype().kind not in "iuf":
        raise InputError(f"{path}: voxels", got=header.get_data_dtype(), expected="real numbers")
    if int(header["xyzt_units"]) % 8 not in _MILLIMETRES:
        raise InputError(f"{path}: unit", got=header.get_xyzt_units()[0], expected="mm")
    if not int(header["sform_code"]) and not int(header["qform_code"]):
        fix = "save it again with its sform or qform"
        raise InputError(f"{path}: orientation unknown", "neither sform nor qform", "one of them", fix)


def _values(image: Any) -> npt.NDArray[Any]:
    """Scaled voxels as stored: axes slice, row, column."""
    voxels = np.asanyarray(image.dataobj)
    return cast(npt.NDArray[Any], voxels.reshape(voxels.shape[:3]).transpose(2, 1, 0))


def _class_ids(image: Any, path: Path) -> Labels:
    values = _values(image)
    if not (values.min() >= 0 and values.max() <= 255) or not np.array_equal(values, np.rint(values)):
        got = f"{values.min():g} to {values.max():g}"
        raise InputError(f"{path}: labels", got, "whole numbers from 0 to 255", "is it the label volume?")
    return values.astype(np.uint8)


def _orient(image: Any, path: Path) -> tuple[Orientation, Affine]:
    width, height, depth = image.shape[:3]
    return orient(np.asarray(image.affine, np.float64), (depth, height, width), str(path))
