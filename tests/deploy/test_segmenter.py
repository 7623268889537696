"""Runtimes as a registry, sessions of the real runtime, and the whole path from frame to label map."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy import runtimes
from deploy.bundle import Bundle, Preprocess, Target, TensorSpec
from deploy.errors import GateError, InputError
from deploy.segmenter import Segmenter

NAMES = sorted(path.stem for path in Path(str(runtimes.__file__)).parent.glob("[!_]*.py"))


@pytest.mark.parametrize("name", NAMES)
def test_every_file_in_the_folder_is_a_runtime(name: str) -> None:
    assert name in runtimes.available()
    reason = runtimes.available()[name]
    assert reason is None or reason
    if reason is None:
        module = runtimes.load(name)
        assert all(callable(getattr(module.Session, method)) for method in ("run", "close", "versions"))
        assert module.version()[0].isdigit()


def test_unknown_and_missing_runtimes_are_refused(make_bundle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"unknown runtime 'abacus' \| expected .*onnxruntime"):
        Segmenter(make_bundle(target=Target("abacus", "fp32")))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install onnxruntime"):
        runtimes.load("onnxruntime")


def test_a_runtime_too_old_for_the_bundle_is_refused(
    make_bundle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = make_bundle(target=Target("onnxruntime", "fp32", min_version="1.20"))
    installed = runtimes.load("onnxruntime")
    for version in ("1.20", "1.20.0rc1", "2.0"):
        monkeypatch.setattr(installed, "version", lambda version=version: version)
        Segmenter(bundle).close()
    monkeypatch.setattr(installed, "version", lambda: "1.9.1")
    with pytest.raises(InputError, match=r"onnxruntime is too old here \| got 1.9.1 \| expected >= 1.20 \|"):
        Segmenter(bundle)


def test_label_network_answers_as_numpy_does(tiny_bundle: Bundle) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)
    with Segmenter(tiny_bundle, 1) as segmenter:
        labels, times = segmenter.timed(frame)
        assert segmenter.session.versions()["onnxruntime"]
    assert labels.dtype == np.uint8 and np.array_equal(labels, frame.argmax(-1))
    assert min(times.preprocess_ns, times.inference_ns, times.postprocess_ns) > 0
    assert times.total_ns == times.preprocess_ns + times.inference_ns + times.postprocess_ns


@pytest.mark.parametrize("resize", ["stretch", "letterbox"])
@pytest.mark.parametrize("output", ["labels", "logits"])
def test_label_map_has_the_frame_size(make_bundle: Any, output: str, resize: str) -> None:
    rule = Preprocess((24, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), output == "labels", resize=resize)  # type: ignore[arg-type]
    colours = np.eye(3, dtype=np.uint8)[[0, 2]] * 255
    frame = np.repeat(np.repeat(colours[None], 90, 0), 40, 1)  # [90, 80, 3]: left red, right blue
    with Segmenter(make_bundle(output, preprocess=rule), 1) as segmenter:
        labels = segmenter.segment(frame)
    assert labels.shape == (90, 80)
    assert (labels[:, :30] == 0).all() and (labels[:, 50:] == 2).all()


def test_a_network_that_is_not_the_manifests_is_refused(make_bundle: Any) -> None:
    other = TensorSpec("picture", "uint8", (1, 24, 32, 3), "NHWC")
    with pytest.raises(InputError, match=r"model\.onnx is not what bundle\.json says"):
        Segmenter(make_bundle(inputs=(other,)))
    wide = TensorSpec("labels", "int64", (1, 24, 32), "NHW")
    with pytest.raises(InputError, match="int64"):
        Segmenter(make_bundle(outputs=(wide,)))


def test_a_model_the_runtime_cannot_load_is_one_line(make_bundle: Any) -> None:
    bundle = make_bundle()
    bundle.path("model.onnx").write_bytes(b"rubbish")
    with pytest.raises(InputError, match="is not a usable ONNX file") as error:
        Segmenter(bundle)
    assert "\n" not in str(error.value)


def test_a_network_that_fails_is_one_line(tiny_bundle: Bundle, capfd: Any) -> None:
    session = runtimes.open_session(tiny_bundle, 1)
    with pytest.raises(GateError, match=r"ONNX Runtime failed in .*model\.onnx"):
        session.run(np.zeros((1, 7, 7, 3), np.uint8))
    assert capfd.readouterr().err == ""


def test_unknown_provider_is_refused(make_bundle: Any) -> None:
    with pytest.raises(InputError, match="NoSuchExecutionProvider"):
        Segmenter(make_bundle(target=Target("onnxruntime", "fp32", {"providers": "NoSuchExecutionProvider"})))


def test_the_bundle_may_lie_anywhere(
    tiny_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deploy.bundle import load_bundle

    shutil.copytree(tiny_bundle.root, tmp_path / "mit Leerzeichen 図")
    monkeypatch.chdir(tmp_path)
    with Segmenter(load_bundle("mit Leerzeichen 図")) as segmenter:
        assert segmenter.segment(np.zeros((24, 32, 3), np.uint8)).shape == (24, 32)
    assert segmenter.threads == runtimes.default_threads()
