"""The labelled subset in a bundle: what it holds, and that measuring on it is measuring on the data."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

from deploy.errors import InputError
from deploy.labels import list_pairs, read_dataset
from deploy.preprocess import read_image
from export.evaluation import write_evaluation


def test_a_bundle_carries_labelled_images(export_bundle, scenes) -> None:
    words = ("--data", str(scenes.root), "--split", "train", "--eval", "2")
    bundle = export_bundle("onnxruntime", "fp32", *words)
    assert bundle.manifest.eval == "eval"
    info = read_dataset(bundle.root / "eval")
    assert info.classes == scenes.classes and info.ignore_index == scenes.ignore_index
    pairs = list_pairs(info, "val")
    originals = {pair.stem: pair for pair in list_pairs(scenes, "train")}
    assert len(pairs) == 2
    for pair in pairs:
        original = originals[pair.stem]
        assert np.array_equal(read_image(pair.image), read_image(original.image))
        assert pair.mask.read_bytes() == original.mask.read_bytes()
        assert cv2.imread(str(pair.image)) is not None
        for path in (pair.image, pair.mask):
            bundle.path(path.relative_to(bundle.root).as_posix())


def test_more_than_there_are_is_refused(tmp_path, built, scenes) -> None:
    from export.pictures import from_run

    samples = built.checkpoint.parent / "samples"
    pictures = from_run(samples, replace(scenes, root=samples.parent))
    with pytest.raises(InputError, match="--eval"):
        write_evaluation(tmp_path, pictures, 99, built.bundle.manifest)
