"""Draws the page's samples, deploy/web/samples/: street scenes and one CT slice of a made-up patient.

`python docs/app_samples.py`. Everything is drawn by the project's own data kinds from fixed seeds; the slice
holds 16-bit Hounsfield units, so that the page can window it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deploy.files import atomic_write_bytes, write_json  # noqa: E402
from deploy.preprocess import window_hu  # noqa: E402
from pipeline.datasets.ctslices.writing import HU_OFFSET  # noqa: E402
from pipeline.datasets.synthetic import draw_sample  # noqa: E402

OUT = ROOT / "deploy" / "web" / "samples"
STREETS = {"street-1": (0, (360, 480)), "street-2": (5, (360, 480)), "drive": (3, (192, 1152))}
TITLES = {"street-1": "Street 1", "street-2": "Street 2", "drive": "Moving street"}


def main() -> None:
    """Write the samples and their list."""
    entries = []
    for name, (index, size) in STREETS.items():
        image = draw_sample(7, "app", index, size)[0]
        data = cv2.imencode(".png", image[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])[1]
        atomic_write_bytes(OUT / f"{name}.png", data.tobytes())
        kind = "pan" if name == "drive" else "image"
        entries.append({"file": f"/samples/{name}.png", "title": TITLES[name], "kind": kind})
    data = ct_slice()
    atomic_write_bytes(OUT / "ct-1.png", data)
    atomic_write_bytes(OUT / "ct-1-small.png", small_picture(data))
    entry = {"file": "/samples/ct-1.png", "title": "CT slice", "kind": "ct", "hu_offset": HU_OFFSET}
    entries.append({**entry, "small": "/samples/ct-1-small.png"})
    write_json(OUT / "samples.json", entries)


def ct_slice() -> bytes:
    """A slice of a validation patient, a quarter of the way through the list (not chosen for its looks)."""
    with TemporaryDirectory() as scratch:
        words = f"-m pipeline prepare --kind ct_phantom --patients 6 --pixels 256 --out {scratch}/ct"
        subprocess.run([sys.executable, *words.split()], check=True, cwd=ROOT)
        slices = sorted(Path(scratch, "ct", "val", "images").glob("*.png"))
        return slices[len(slices) // 4].read_bytes()


def small_picture(data: bytes) -> bytes:
    """The slice in a soft-tissue window, 8 bits, for the button."""
    stored = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    shown = window_hu(stored.astype(np.int32) - HU_OFFSET, (-200.0, 300.0))
    small = cv2.resize(shown, (96, 96), interpolation=cv2.INTER_AREA)
    return cv2.imencode(".png", small)[1].tobytes()


if __name__ == "__main__":
    main()
