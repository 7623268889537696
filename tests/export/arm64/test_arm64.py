"""On an emulated 64-bit Arm processor: bundles, half precision in true half arithmetic, the one-file program.

`make test-arm64` prepares and runs it. A trained checkpoint, because untrained sums stay small.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deploy.bundle import load_bundle
from deploy.preprocess import prepare_input, read_image
from pipeline.models import attention
from tests.export.arm64.conftest import HALF_ARITHMETIC, RASPBERRY_PI_4, ROOT, Arm
from tests.export.naive import naive_attention

pytestmark = pytest.mark.slow
FRAMES = 4


@pytest.fixture
def build(trained: Path, shared_data: Path, export_cli, tmp_path: Path):
    """build(target, precision, *options) -> the trained network's bundle, proven here on real images."""

    def call(target: str, precision: str, *options: str) -> Path:
        out = tmp_path / f"{target}-{precision}"
        words = ("--target", target, "--precision", precision, "--data", shared_data / "camvid", "--out", out)
        assert export_cli("build", "--checkpoint", trained, *words, *options) == 0
        return out

    return call


@pytest.mark.parametrize(
    ("target", "precision", "cpu"),
    [
        ("onnxruntime", "fp32", RASPBERRY_PI_4),
        ("ncnn", "fp32", RASPBERRY_PI_4),
        ("ncnn", "fp16", HALF_ARITHMETIC),
    ],
)
def test_golden_is_met(build, on_arm: Arm, target: str, precision: str, cpu: str) -> None:
    done = on_arm(cpu, "-m", "deploy", "verify", build(target, precision), "--threads", 1, path=(ROOT,))
    assert done.returncode == 0, done.stderr
    assert "2 golden samples executed" in done.stdout


def not_finite(bundle: Path, on_arm: Arm, images: list[Path]) -> list[int]:
    """Outputs that are not finite, for each image, in half arithmetic."""
    manifest = load_bundle(bundle).manifest
    frames = [prepare_input(read_image(path), manifest.preprocess, manifest.inputs[0]) for path in images]
    np.savez(stored := bundle.parent / "frames.npz", *frames)
    script = Path(__file__).with_name("finite.py")
    done = on_arm(HALF_ARITHMETIC, script, bundle, stored, path=(ROOT,))
    assert done.returncode == 0, done.stderr
    return [int(line) for line in done.stdout.split()]


def test_half_arithmetic_gives_not_one_nan_but_for_the_naive_form(
    build, on_arm: Arm, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = sorted((shared_data / "camvid" / "val" / "images").iterdir())[:: 101 // FRAMES][:FRAMES]
    assert not_finite(build("ncnn", "fp16"), on_arm, images) == [0] * FRAMES
    monkeypatch.setitem(attention.CORES, "linear", naive_attention)
    built = build("ncnn", "fp16", "--force")  # proven like the other: float32 sums hide it here
    assert all(not_finite(built, on_arm, images))
    failed = on_arm(HALF_ARITHMETIC, "-m", "deploy", "verify", built, "--threads", 1, path=(ROOT,))
    assert failed.returncode == 1 and "golden not met" in failed.stderr


def test_the_one_file_program_runs(on_arm: Arm, labelled_folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "edgeseg-device.pyz"
    subprocess.run([sys.executable, "-m", "deploy", "_onefile", program], cwd=ROOT, check=True)
    bundle, images = ROOT / "tests" / "data" / "bundle_v1", labelled_folder / "val" / "images"
    for command in (("info", bundle), ("verify", bundle, "--threads", 1), ("run", bundle, images)):
        options = ("--out", tmp_path / "masks") if command[0] == "run" else ()
        done = on_arm(RASPBERRY_PI_4, program, *command, *options)
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "masks").rglob("*.png"))) >= 8
