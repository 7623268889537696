"""`run` on CT: a DICOM series or NIfTI volume -> labels in its own geometry, millilitres, a sheet to look at.

    DIR/<volume>_labels.nii.gz | <volume>_seg.dcm    labels; NIfTI for NIfTI, DICOM SEG for DICOM
    DIR/<volume>.json                                 ml and voxels by class; with --truth also Dice and IoU
    DIR/<volume>.png                                  slices with the classes' colours

"Not for clinical use" is in all of them. Refuses to know file formats (deploy/volumes).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.files import atomic_write_bytes, write_json
from deploy.manifest import Preprocess, SliceRule
from deploy.metrics import ConfusionMatrix, Scores, overlap_scores
from deploy.preprocess import window_hu
from deploy.progress import track
from deploy.segmenter import Segmenter
from deploy.slices import labels_of_slice, slice_frame
from deploy.volume import NOTICE, Labels, Volume
from deploy.volumes import Scan, find_scans

if TYPE_CHECKING:
    from deploy.preprocess import Window


def run_volumes(args: argparse.Namespace, bundle: Bundle) -> int:
    """Segment every volume at `args.input`.

    Raises:
        InputError: no CT there, a damaged or incomplete volume, or labels of --truth that are not its own.
    """
    scans = find_scans(args.input)
    if args.truth and len(scans) != 1:
        raise InputError("--truth labels one volume", got=f"{len(scans)} volumes", expected="one")
    with Segmenter(bundle, args.threads) as segmenter:
        for scan in scans:
            report = write_volume(segmenter, scan, args.out, args.truth, args.opacity)
            _print(report)
    return 0


def write_volume(
    segmenter: Segmenter, scan: Scan, out: Path, truth: Path | None, opacity: float
) -> dict[str, Any]:
    """Segment one volume, write its three files, and return what the JSON file says."""
    from deploy.volume_picture import contact_sheet

    manifest = segmenter.bundle.manifest
    names = [info.name for info in manifest.classes]
    volume = scan.read()
    known = scan.read_labels([truth], volume, names) if truth else None
    labels = segment_volume(segmenter, volume)
    file = scan.write_labels(labels, names, out, f"edgeseg {manifest.name}")
    report = {
        "notice": NOTICE,
        "volume": volume.name,
        "labels": file.name,
        "shape": list(volume.hu.shape),
        "spacing_mm": list(volume.spacing_mm),
        "affine": volume.affine.tolist(),
        "voxels": dict(zip(names, np.bincount(labels.ravel(), minlength=len(names)).tolist(), strict=True)),
        "ml": millilitres(labels, volume, names),
        **({} if known is None else compare(labels, known, names, manifest.ignore_index)),
        "bundle": manifest.name,
        "bundle_sha256": segmenter.bundle.sha256,
    }
    sheet = contact_sheet(volume, labels, manifest.classes, _window(manifest.preprocess), opacity)
    atomic_write_bytes(out / f"{volume.name}.png", sheet)
    write_json(out / f"{volume.name}.json", report)
    return report


def segment_volume(segmenter: Segmenter, volume: Volume) -> Labels:
    """`[S, H, W]` class ids, slice by slice."""
    rule = segmenter.bundle.manifest.preprocess
    slices, window = rule.slices or SliceRule(), _window(rule)
    labels = np.empty(volume.hu.shape, np.uint8)
    for index in track(range(len(labels)), volume.name):
        found = segmenter.segment(window_hu(slice_frame(volume, index, slices), window))
        labels[index] = labels_of_slice(found, volume, slices)
    return labels


def millilitres(labels: Labels, volume: Volume, names: Sequence[str]) -> dict[str, float]:
    """Volume of every class but the background."""
    counts = np.bincount(labels.ravel(), minlength=len(names)) * volume.voxel_ml
    return {name: round(float(counts[index]), 3) for index, name in enumerate(names) if index}


def compare(labels: Labels, truth: Labels, names: Sequence[str], ignore_index: int | None) -> Scores:
    """IoU and Dice by class over the volume's voxels."""
    matrix = ConfusionMatrix(len(names), ignore_index)
    for found, known in zip(labels, truth, strict=True):
        matrix.update(found, known)
    return overlap_scores(*matrix.overlap(), names)


def _window(rule: Preprocess) -> Window:
    assert rule.hu_window is not None, "only a bundle for CT comes here"
    return rule.hu_window


def _print(report: dict[str, Any]) -> None:
    shape = "x".join(map(str, report["shape"]))
    print(f"{report['volume']}: {shape} -> {report['labels']}")
    for name, ml in report["ml"].items():
        scores = [
            f"{what} {report[what][name]:.4f}" for what in ("dice", "iou") if report.get(what, {}).get(name)
        ]
        print(f"  {name:<20} {ml:>10.1f} ml  {'  '.join(scores)}".rstrip())
    print(f"  {NOTICE}.")
