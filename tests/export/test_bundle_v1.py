"""The bundle of schema version 1 that is kept with the tests must load, verify and run for ever."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from deploy.bundle import Bundle, load_bundle
from deploy.segmenter import Segmenter
from deploy.verify import replay_golden, shortfall

FOLDER = Path(__file__).resolve().parents[1] / "data" / "bundle_v1"
SHA256 = "71ccb8e192c717174debe797a26e5d35b19755f850b51742c1223d512ca0504c"


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return load_bundle(FOLDER)


def test_it_is_still_the_same_file() -> None:
    """Whoever changes it changes the promise: devices hold bundles like this one."""
    assert hashlib.sha256((FOLDER / "bundle.json").read_bytes()).hexdigest() == SHA256


def test_it_loads(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (
        manifest.schema_version == 1 and manifest.preprocess.size == (64, 96) and len(manifest.classes) == 9
    )
    assert manifest.parity.proof == "executed" and manifest.accuracy.images == 16


def test_it_verifies(bundle: Bundle) -> None:
    assert shortfall(replay_golden(bundle, threads=1), bundle.manifest.golden) is None


def test_it_runs(bundle: Bundle) -> None:
    frames, expected = bundle.golden()
    with Segmenter(bundle, threads=1) as segmenter:
        large = np.repeat(np.repeat(frames[0], 2, 0), 2, 1)
        assert segmenter.segment(large).shape == (128, 192)
        assert np.mean(segmenter.segment(frames[0]) == expected[0]) >= 0.999
    assert len(np.unique(expected)) >= 4
