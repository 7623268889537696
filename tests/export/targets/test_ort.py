"""ONNX Runtime's own format: what measurements call it."""

from __future__ import annotations

from pathlib import Path

from deploy.bundle import load_bundle
from deploy.measurement import identity


def test_measurements_tell_the_two_targets_of_one_runtime_apart(built, export_cli, tmp_path: Path) -> None:
    for name in ("onnxruntime", "ort"):
        out = tmp_path / name
        assert export_cli("build", "--checkpoint", built.checkpoint, "--target", name, "--out", out) == 0
        bundle = load_bundle(out)
        assert identity(bundle)["target"] == name
        assert bundle.manifest.target.runtime == "onnxruntime"
