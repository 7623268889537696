"""`run BUNDLE INPUT --out DIR`: an image, a folder of images or a video -> DIR/masks and DIR/overlays.

A bundle for CT takes volumes instead (run_volume.py). Masks are grey PNGs of class indices at the image's own
size, overlays are PNGs for the eye. Each file appears only when it is complete. A damaged image does not stop
the others; at the end each is named.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError, raise_all
from deploy.files import atomic_write_bytes
from deploy.options import add_bundle, share
from deploy.progress import track

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deploy.preprocess import Image
    from deploy.segmenter import Segmenter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `run`."""
    add_bundle(parser)
    parser.add_argument(
        "input",
        type=Path,
        metavar="INPUT",
        help="image, folder of images or video; CT: DICOM folder, .nii, .nii.gz",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    parser.add_argument(
        "--truth", type=Path, metavar="FILE", help="CT: true labels (NIfTI, SEG, RTSTRUCT), for Dice and IoU"
    )
    parser.add_argument(
        "--opacity", type=share, default=0.5, metavar="X", help="of the overlay (default: 0.5)"
    )


def run(args: argparse.Namespace) -> int:
    """Segment every image; exit status 2 at the end if some could not be read."""
    from deploy import video
    from deploy.bundle import load_bundle
    from deploy.preprocess import read_image
    from deploy.segmenter import Segmenter
    from deploy.video import is_video

    _require_no_labels(args.out)
    bundle = load_bundle(args.bundle, domain=args.domain)
    if bundle.manifest.preprocess.hu_window:
        from deploy.run_volume import run_volumes

        return run_volumes(args, bundle)
    if args.truth:
        raise InputError("--truth is for CT", got=f"{bundle.manifest.name}, a bundle for images")
    if is_video(args.input):
        return video.run(bundle, args)
    images = list_images(args.input)
    failures: list[InputError] = []
    with Segmenter(bundle, args.threads) as segmenter:
        for name, path in track(list(images.items()), "run"):
            try:
                image = read_image(path)
            except InputError as error:
                failures.append(error)
                continue
            write_result(segmenter, image, args.out, name, args.opacity)
    done = len(images) - len(failures)
    print(f"{done} of {len(images)} images -> {args.out / 'masks'}, {args.out / 'overlays'}")
    raise_all(failures)
    return 0


def _require_no_labels(out: Path) -> None:
    """A split of a labelled folder has `masks/` of its own: the truth is never overwritten."""
    if (out / "images").is_dir() and (out / "masks").is_dir():
        raise InputError(f"--out {out}", got="a split with labels of its own", fix="choose another folder")


def list_images(source: Path) -> dict[str, Path]:
    """Output name -> image file, sorted; the name is the stem, or the full name where stems collide.

    Raises:
        InputError: no such file or folder, or a folder without images.
    """
    from deploy.labels import IMAGE_SUFFIXES

    if source.is_file():
        return {source.stem: source}
    if not source.is_dir():
        raise InputError(f"no image or folder {source}")
    paths = sorted(
        p for p in source.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith(".")
    )
    if not paths:
        raise InputError(f"no images in {source}", expected=" ".join(IMAGE_SUFFIXES))
    stems = Counter(path.stem for path in paths)
    return {path.stem if stems[path.stem] == 1 else path.name: path for path in paths}


def write_result(segmenter: Segmenter, image: Image, out: Path, name: str, opacity: float) -> None:
    """Segment `[H, W, 3]` uint8 RGB and write `<out>/masks/<name>.png` and `<out>/overlays/<name>.png`."""
    from deploy.postprocess import overlay

    labels = segmenter.segment(image)
    picture = overlay(image, labels, segmenter.bundle.manifest.classes, opacity)
    atomic_write_bytes(out / "masks" / f"{name}.png", encode_png(labels))
    atomic_write_bytes(out / "overlays" / f"{name}.png", encode_png(picture))


def encode_png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """PNG bytes of `[H, W]` grey or `[H, W, 3]` RGB; written by Python afterwards, so any file name works."""
    import cv2

    done, data = cv2.imencode(".png", pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
    assert done
    return data.tobytes()
