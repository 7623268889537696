"""Draws docs/images/demo.png from the demo's two bundles: frame, truth, linear and softmax masks.

Run after `make demo`: `python docs/demo_picture.py`. The masks come from the exported models through the
device's own code, on validation images at fixed places of the list (not chosen for their looks).
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deploy.bundle import load_bundle  # noqa: E402
from deploy.files import atomic_write_bytes  # noqa: E402
from deploy.labels import list_pairs, read_dataset, read_mask  # noqa: E402
from deploy.postprocess import overlay  # noqa: E402
from deploy.preprocess import read_image  # noqa: E402
from deploy.segmenter import Segmenter  # noqa: E402

ROWS = 3
TITLES = ("frame", "truth", "linear attention", "softmax attention")
TITLE_HEIGHT = 22


def main() -> None:
    """Write the picture."""
    bundles = [load_bundle(ROOT / "bundles" / f"demo-{name}") for name in ("linear", "softmax")]
    classes = bundles[0].manifest.classes
    pairs = list_pairs(read_dataset(ROOT / "data" / "synthetic"), "val")
    rows = []
    with Segmenter(bundles[0]) as linear, Segmenter(bundles[1]) as softmax:
        for pair in pairs[:: len(pairs) // ROWS][:ROWS]:
            image = read_image(pair.image)
            masks = (read_mask(pair.mask), linear.segment(image), softmax.segment(image))
            rows.append(np.hstack([image, *(overlay(image, mask, classes, 0.75) for mask in masks)]))
    sheet = np.vstack([_titles(rows[0].shape[1]), *rows])
    encoded, data = cv2.imencode(
        ".png", cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, 9]
    )
    assert encoded
    atomic_write_bytes(ROOT / "docs" / "images" / "demo.png", data.tobytes())


def _titles(width: int) -> np.ndarray:
    strip = np.full((TITLE_HEIGHT, width, 3), 255, np.uint8)
    for index, title in enumerate(TITLES):
        place = (index * width // len(TITLES) + 6, TITLE_HEIGHT - 7)
        cv2.putText(strip, title, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (40, 40, 40), 1, cv2.LINE_AA)
    return strip


if __name__ == "__main__":
    main()
