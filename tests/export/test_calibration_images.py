"""Calibration images as network inputs, and what makes a set stale."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from deploy.errors import InputError
from deploy.preprocess import prepare_input, read_image
from export.calibration_images import find_calibration
from export.plan import load_calibration_set
from export.source import Source, read_source

COUNT = 33


@pytest.fixture(scope="module")
def source(built) -> Source:
    return read_source(str(built.checkpoint), None)


@pytest.fixture(scope="module")
def collected(built, scenes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set for the untrained run."""
    from calibration.__main__ import main

    out = tmp_path_factory.mktemp("calibration") / "set.json"
    words = ["collect", "--checkpoint", built.checkpoint, "--data", scenes.root, "--split", "val"]
    with pytest.MonkeyPatch.context() as patch:
        command = [*words, "--count", COUNT, "--out", out]
        patch.setattr("sys.argv", ["calibration", *map(str, command)])
        assert main() == 0
    return out


def test_inputs_are_the_devices_own_in_full_groups(collected: Path, source: Source, built, scenes) -> None:
    found = find_calibration(collected, scenes.root, source, "int8")
    rule, spec = built.bundle.manifest.preprocess, built.bundle.manifest.inputs[0]
    groups = list(found.inputs(rule, spec, batch=2))
    assert len(groups) == COUNT // 2 and all(group.shape == (2, 75, 93, 3) for group in groups)
    first = scenes.root / load_calibration_set(collected).images[0].path
    np.testing.assert_array_equal(groups[0][:1], prepare_input(read_image(first), rule, spec))


def test_a_changed_image_is_stale(collected: Path, source: Source, built, scenes, tmp_path: Path) -> None:
    root = shutil.copytree(scenes.root, tmp_path / "scenes")
    found = find_calibration(collected, root, source, "int8")
    victim = root / found.images.images[5].path
    victim.write_bytes(victim.read_bytes() + b"\0")
    manifest = built.bundle.manifest
    with pytest.raises(InputError, match=f"{victim.name} is not the image that was collected"):
        list(found.inputs(manifest.preprocess, manifest.inputs[0]))


def test_a_set_for_something_else_is_refused(collected: Path, source: Source, built, scenes) -> None:
    other_size = read_source(str(built.checkpoint), (64, 64))
    with pytest.raises(InputError, match=r"preprocessing is another's .*\[--size HxW\]"):
        find_calibration(collected, scenes.root, other_size, "int8")
    import dataclasses

    with pytest.raises(InputError, match="checkpoint is another's"):
        find_calibration(collected, scenes.root, dataclasses.replace(source, sha256="0" * 64), "int8")


def test_without_a_set_or_its_images_the_error_says_how(
    source: Source, collected: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"int8 needs calibration images \| .*calibration collect"):
        find_calibration(None, tmp_path, source, "int8")
    with pytest.raises(InputError, match=r"needs the images of .* --data DIR"):
        find_calibration(collected, None, source, "int8")


def test_the_set_beside_the_run_is_found(
    source: Source, collected: Path, scenes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / source.name).mkdir(parents=True)
    shutil.copy(collected, tmp_path / "runs" / source.name / "calibration.json")
    found = find_calibration(None, scenes.root, source, "int8")
    assert found.images.key == json.loads(collected.read_text())["key"]
