"""The label gate: every image and mask of a labelled folder is opened before anything is trained on it.

Refuses, naming the file: a mask with an id that dataset.toml does not declare, a mask with colours or alpha,
a size that differs from the image's, an unreadable or truncated file, a missing partner, an empty split, the
same image in two splits, a split without one labelled pixel. Equal means equal decoded pixels; a copy saved
again as JPEG is not recognised. It judges files, not whether an annotation is right.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deploy.errors import GateError, InputError
from deploy.labels import DatasetInfo, Pair, list_pairs, read_dataset, read_mask
from deploy.preprocess import read_hu, read_image
from pipeline.datasets import Progress
from pipeline.datasets.folder import require_same_size


@dataclass(frozen=True)
class SplitCount:
    """One split: images, and per class id the labelled pixels and the images that hold it."""

    split: str
    images: int
    pixels: tuple[int, ...]
    images_with: tuple[int, ...]
    ignored: int

    @property
    def labelled(self) -> int:
        """Pixels that belong to a class."""
        return sum(self.pixels)


@dataclass(frozen=True)
class LabelReport:
    """What the gate counted, and remarks that are no reason to refuse."""

    info: DatasetInfo
    splits: tuple[SplitCount, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Scan:
    """One pair: pixels per mask value `[256]`, a digest of the image's pixels, what is wrong with it."""

    pair: Pair
    counts: NDArray[np.int64]
    digest: bytes
    problem: InputError | None


def check_labels(
    directory: Path | str, splits: Sequence[str] = ("train", "val"), progress: Progress | None = None
) -> LabelReport:
    """Open every pair of the given splits and count its labels.

    Args:
        directory: a labelled folder.
        splits: names of splits; give all that are used together, so that leaks between them are found.
        progress: called with (done, total) pairs.

    Raises:
        InputError: no such folder or split, an empty split, an image or mask without its partner.
        GateError: a file that must not be trained on; the first is named, with the number of others.
    """
    info = read_dataset(directory)
    pairs = {split: list_pairs(info, split) for split in splits}
    scans = _scan_all(pairs, info, progress or (lambda done, total: None))
    _refuse([scan.problem for found in scans.values() for scan in found if scan.problem])
    repeats = _repeats(scans)
    counts = tuple(_count(split, scans[split], len(info.classes), info.ignore_index) for split in splits)
    _require_labels(info, counts)
    return LabelReport(info, counts, (*repeats, *_absent(info, counts)))


def _scan_all(pairs: dict[str, list[Pair]], info: DatasetInfo, progress: Progress) -> dict[str, list[_Scan]]:
    """Read all pairs; decoders and hashes release the interpreter's lock, so a thread a core is right."""
    scans: dict[str, list[_Scan]] = {split: [] for split in pairs}
    jobs = [(split, pair) for split, found in pairs.items() for pair in found]
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        results = pool.map(lambda job: _scan(job[1], info), jobs)
        for done, ((split, _), scan) in enumerate(zip(jobs, results, strict=True), start=1):
            scans[split].append(scan)
            progress(done, len(jobs))
    return scans


def _scan(pair: Pair, info: DatasetInfo) -> _Scan:
    """Read one pair; an error becomes part of the result, so that all can be counted."""
    counts, digest = np.zeros(256, np.int64), b""
    try:
        mask = read_mask(pair.mask)
        offset = info.hu_offset
        image = read_image(pair.image) if offset is None else read_hu(pair.image, offset)
        require_same_size(pair.mask, mask, image)
        digest = hashlib.sha256(repr(image.shape).encode() + image.tobytes()).digest()
        counts = np.bincount(mask.ravel(), minlength=256)
        _require_declared(pair.mask, counts, info)
    except InputError as error:
        return _Scan(pair, counts, digest, error)
    return _Scan(pair, counts, digest, None)


def _require_declared(path: Path, counts: NDArray[np.int64], info: DatasetInfo) -> None:
    """Refuse mask values that are neither a class id nor the ignore value."""
    strange = [int(i) for i in np.flatnonzero(counts) if i >= len(info.classes) and i != info.ignore_index]
    if not strange:
        return
    shown = ", ".join(map(str, strange[:8])) + (", ..." if len(strange) > 8 else "")
    ignored = "no ignore_index" if info.ignore_index is None else f"ignore_index {info.ignore_index}"
    raise GateError(
        f"mask {path} holds undeclared ids",
        got=f"{shown} ({counts[strange].sum()} pixels)",
        expected=f"0..{len(info.classes) - 1} ({ignored})",
        fix="declare the class or ignore_index in dataset.toml, or relabel the mask",
    )


def _refuse(problems: Sequence[InputError]) -> None:
    """Raise the first problem, saying how many more there are."""
    if problems:
        more = f"{len(problems) - 1} more files are refused too" if len(problems) > 1 else None
        raise GateError(str(problems[0]), fix=more)


def _repeats(scans: dict[str, list[_Scan]]) -> list[str]:
    """Refuse an image that two splits share; repeats within a split are only remarked."""
    first: dict[bytes, tuple[str, Path]] = {}
    shared: list[InputError] = []
    within: list[str] = []
    for split, scan in ((split, scan) for split, found in scans.items() for scan in found):
        home, twin = first.setdefault(scan.digest, (split, scan.pair.image))
        if home != split:
            problem = f"{scan.pair.image} is also in split {home!r}"
            shared.append(
                GateError(problem, got=twin, expected="no image in two splits", fix="remove one of them")
            )
        elif twin != scan.pair.image:
            within.append(f"{scan.pair.image} repeats {twin.name} within {split}")
    _refuse(shared)
    return within[:3] + ([f"{len(within) - 3} more repeats"] if len(within) > 3 else [])


def _count(split: str, scans: list[_Scan], classes: int, ignore_index: int | None) -> SplitCount:
    table = np.stack([scan.counts for scan in scans])
    return SplitCount(
        split=split,
        images=len(scans),
        pixels=tuple(table[:, :classes].sum(axis=0).tolist()),
        images_with=tuple((table[:, :classes] > 0).sum(axis=0).tolist()),
        ignored=0 if ignore_index is None else int(table[:, ignore_index].sum()),
    )


def _require_labels(info: DatasetInfo, counts: Sequence[SplitCount]) -> None:
    """Refuse a split with nothing to learn or to measure."""
    for count in counts:
        if not count.labelled:
            got = f"only {info.ignore_index}, which is ignored"
            raise GateError(f"{info.root}: no labelled pixel in split {count.split}", got, "some class")


def _absent(info: DatasetInfo, counts: Sequence[SplitCount]) -> list[str]:
    """Remarks on classes that a split does not show."""
    notes = []
    for count in counts:
        names = [name for name, images in zip(info.classes, count.images_with, strict=True) if not images]
        if names:
            notes.append(f"no pixel of {', '.join(names)} in {count.split}")
    return notes


def print_report(report: LabelReport) -> None:
    """Print one table: per class and split, its pixels, their share, and the images that hold it."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    info = report.info
    images = ", ".join(f"{count.split} {count.images} images" for count in report.splits)
    table = Table(title=escape(f"{info.name} ({info.modality}): {images}"), title_justify="left", box=SIMPLE)
    table.add_column("id", justify="right")
    table.add_column("class", no_wrap=True)
    for count in report.splits:
        for column in ("pixels", "share", "images"):
            table.add_column(f"{escape(count.split)}\n{column}", justify="right", no_wrap=True)
    for index, name in enumerate(info.classes):
        red, green, blue = info.palette[index]
        table.add_row(str(index), f"[rgb({red},{green},{blue})]■[/] {escape(name)}", *_cells(report, index))
    if info.ignore_index is not None:
        ignored = [cell for count in report.splits for cell in (_short(count.ignored), "", "")]
        table.add_row(str(info.ignore_index), "[dim]ignored[/]", *ignored)
    console = Console()
    console.print(table)
    for note in report.notes:
        console.print(f"note: {note}", style="yellow", markup=False, highlight=False)


def _cells(report: LabelReport, index: int) -> list[str]:
    """The three cells a split has in the row of a class."""
    cells: list[str] = []
    for count in report.splits:
        share = count.pixels[index] / max(count.labelled, 1)
        cells += [_short(count.pixels[index]), f"{share:.2%}", f"{count.images_with[index]:,}"]
    return cells


def _short(pixels: int) -> str:
    """A pixel count of at most eight characters: 950, 12.3k, 4.56M."""
    if pixels < 10_000:
        return str(pixels)
    return f"{pixels / 1e3:.1f}k" if pixels < 1_000_000 else f"{pixels / 1e6:.2f}M"
