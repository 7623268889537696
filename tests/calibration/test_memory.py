"""Memory of calibration does not grow with the number of images: peaks of processes at 32 and at 512."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.labels import read_dataset
from pipeline.datasets.synthetic import generate

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
SIZE = (192, 256)
FEW, MANY = 32, 512
DECODED = (MANY - FEW) * SIZE[0] * SIZE[1] * 3  # bytes of the images more, as uint8
CHECKPOINT = ("--checkpoint", "street", "--data", "scenes")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, save_street) -> Path:
    """A folder with `scenes`, the run `street` and two calibration sets."""
    home = tmp_path_factory.mktemp("home")
    info = read_dataset(generate(home / "scenes", train=MANY + 40, val=4, size=SIZE, seed=3))
    save_street(home, info, SIZE)
    for count in (FEW, MANY):
        words = ["collect", *CHECKPOINT, "--count", str(count), "--out", f"{count}.json"]
        assert peak_bytes(home, "calibration", *words) > 0
    return home


def peak_bytes(home: Path, package: str, *words: str) -> int:
    """The largest resident set of `python -m package words` in `home`, as the process itself sees it."""
    code = (
        "import atexit, runpy; from deploy.memory import own_peak_bytes; "
        "atexit.register(lambda: print(own_peak_bytes())); "
        f"runpy.run_module({package!r}, run_name='__main__', alter_sys=True)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr  # 1: an untrained network may miss its budget at the end
    return int(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("what", ["inspect", "openvino", "executorch", "litert"])
def test_many_images_need_no_more_memory_than_few(home: Path, what: str) -> None:
    peaks = []
    for count in (FEW, MANY):
        images = ("--calibration", f"{count}.json")
        if what == "inspect":
            peaks.append(peak_bytes(home, "calibration", "inspect", *CHECKPOINT, *images))
        else:
            words = ("--target", what, "--precision", "int8", "--size", "192x256", "--out", f"{what}-{count}")
            peaks.append(peak_bytes(home, "export", "build", *CHECKPOINT, *images, *words))
    print(f"{what}: {peaks[0] / 1e6:.0f} MB at {FEW} images, {peaks[1] / 1e6:.0f} MB at {MANY}")
    assert peaks[1] - peaks[0] < DECODED / 2
