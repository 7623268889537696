"""bench: every figure of the measurement against what it must mean. No test compares times."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from deploy import bench, harness, memory
from deploy.bundle import Bundle, ClassInfo, load_bundle
from deploy.errors import InputError
from deploy.frames import GoldenFrames
from deploy.labels import dataset_digest, list_pairs, read_dataset, read_mask
from deploy.measurement import read_measurement
from deploy.options import Parser
from deploy.preprocess import read_image
from deploy.segmenter import Segmenter
from deploy.slicetable import SliceRow, write_slices


def _bench(*arguments: object) -> int:
    parser = Parser()
    bench.add_arguments(parser)
    return bench.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.fixture(scope="module")
def report(make_bundle: Any, colour_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A measurement of the logits bundle (whose masks are not perfect) on the labelled folder."""
    bundle = make_bundle("logits")
    path = tmp_path_factory.mktemp("bench") / "r.json"
    options = ["--data", colour_folder, "--threads", 1, "--frames", 10, "--warmup", 2, "--json", path]
    assert _bench(bundle.root, *options) == 0
    assert "NaN" not in path.read_text()
    read_measurement(path)
    return {**json.loads(path.read_text()), "bundle": bundle, "folder": colour_folder}


def test_keys_are_the_published_ones(report: dict[str, Any]) -> None:
    assert list(report)[:-2] == [
        "schema_version", "name", "proof", "target", "precision", "options", "size", "model", "dataset",
        "images", "miou", "iou", "pixel_accuracy", "accuracy_reason", "frames", "warmup", "latency_ms",
        "stages_ms", "throughput_fps", "peak_memory_bytes", "peak_memory_reason", "threads", "bundle_bytes",
        "bundle_sha256", "machine", "versions", "command", "timestamp", "startup", "jitter_ms", "overhead",
        "noise", "offline", "sustained", "interrupted", "brought", "dice",
        "volume_dice",
    ]  # fmt: skip
    assert set(report["latency_ms"]) == {"p50", "p90", "p99", "mean"}
    assert set(report["stages_ms"]) == {"preprocess", "inference", "postprocess"}
    assert report["schema_version"] == 2 and report["proof"] == "executed"
    assert report["target"] == "onnxruntime" and report["precision"] == "fp32" and report["size"] == [24, 32]
    assert set(report["versions"]) == {"numpy", "opencv", "onnxruntime"}
    assert report["command"].startswith("python -m deploy") and report["timestamp"].endswith("+00:00")
    assert report["bundle_sha256"] == report["bundle"].sha256
    assert report["bundle_bytes"] == sum(entry.bytes for entry in report["bundle"].manifest.files)


def test_ct_is_also_judged_by_dice_and_volume_by_volume(report, tmp_path: Path) -> None:
    assert report["dice"] is None and report["volume_dice"] is None, "of pictures nobody asks for it"
    folder = tmp_path / "ct"
    shutil.copytree(report["folder"], folder)
    text = (folder / "dataset.toml").read_text()
    (folder / "dataset.toml").write_text(text + 'modality = "ct_slice"\n')
    bench_it = ("--data", folder, "--threads", 1, "--frames", 1, "--warmup", 1, "--json", tmp_path / "r.json")
    assert _bench(report["bundle"].root, *bench_it) == 0
    found = json.loads((tmp_path / "r.json").read_text())
    for name, iou in found["iou"].items():
        assert found["dice"][name] == pytest.approx(2 * iou / (1 + iou))
    assert found["volume_dice"] is None
    stems = [pair.stem for pair in list_pairs(read_dataset(folder), "val")]
    affine = tuple(np.eye(4).ravel().tolist())
    rows = [SliceRow("val", s, "p", f"v{s == stems[0]}", i, (1, 1, 1), affine) for i, s in enumerate(stems)]
    write_slices(folder, rows)
    assert _bench(report["bundle"].root, *bench_it) == 0
    by_volume = read_measurement(tmp_path / "r.json")
    assert set(by_volume.volume_dice) == {"vTrue", "vFalse"} and by_volume.dice == found["dice"]
    assert by_volume.volume_dice["vTrue"] != by_volume.volume_dice["vFalse"]


def test_accuracy_equals_a_slow_computation(report: dict[str, Any]) -> None:
    """IoU by sets of pixel positions over all images, at the masks' own size."""
    info = read_dataset(report["folder"])
    pairs = list_pairs(info, "val")
    sets: dict[tuple[str, int], set[tuple[int, int, int]]] = {}
    with Segmenter(report["bundle"], 1) as segmenter:
        for number, pair in enumerate(pairs):
            truth, labels = read_mask(pair.mask), segmenter.segment(read_image(pair.image))
            for row, column in np.argwhere(truth != 255).tolist():
                place = (number, row, column)
                sets.setdefault(("truth", int(truth[row, column])), set()).add(place)
                sets.setdefault(("guess", int(labels[row, column])), set()).add(place)
    iou = []
    for index, name in enumerate(info.classes):
        truth, guess = sets.get(("truth", index), set()), sets.get(("guess", index), set())
        iou.append(len(truth & guess) / len(truth | guess))
        assert report["iou"][name] == pytest.approx(iou[-1])
    assert report["miou"] == pytest.approx(np.mean(iou)) and 0.5 < report["miou"] < 1
    assert report["images"] == 3 and report["accuracy_reason"] is None
    assert report["dataset"] == {"name": "colours", "split": "val", "sha256": dataset_digest(pairs)}


def test_times_are_consistent(report: dict[str, Any]) -> None:
    latency, stages = report["latency_ms"], report["stages_ms"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"]
    assert all(value > 0 for value in stages.values())
    assert report["throughput_fps"] == pytest.approx(1000 / latency["mean"])
    assert report["frames"] == 10 and report["warmup"] == 2 and report["threads"] == 1


def test_peak_memory_is_that_of_a_fresh_process(report: dict[str, Any]) -> None:
    """This process holds 300 MB more than the child, which must not be counted."""
    ballast = np.ones(300 << 20, np.uint8)
    peak, reason = memory.peak_memory(report["bundle"], 1, None, "val")
    assert ballast.nbytes and reason is None and peak is not None
    assert memory.own_peak_bytes() > 300 << 20
    assert 20 << 20 < peak < memory.own_peak_bytes() - (100 << 20)
    assert report["peak_memory_bytes"] > 20 << 20


def test_a_child_that_fails_leaves_null_and_the_reason(tiny_bundle: Bundle, tmp_path: Path) -> None:
    gone = Bundle(tmp_path / "none", tiny_bundle.manifest)
    peak, reason = memory.peak_memory(gone, 1, None, "val")
    assert peak is None and reason is not None and "no bundle" in reason


def test_without_data_speed_only_and_why(tiny_bundle: Bundle, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "r.json"
    assert _bench(tiny_bundle.root, "--frames", 3, "--warmup", 1, "--json", path) == 0
    value = json.loads(path.read_text())
    assert (
        value["miou"] is None and value["iou"] is None and value["images"] == 0 and value["dataset"] is None
    )
    assert "no --data" in value["accuracy_reason"] and value["frames"] == 3
    assert "speed only" in capsys.readouterr().out
    _bench(tiny_bundle.root, "--frames", 1, "--warmup", 1, "--json", "-")
    assert json.loads(capsys.readouterr().out)["frames"] == 2  # each golden frame once, at least


@pytest.mark.parametrize("output", ["labels", "logits"])
def test_golden_frames_prepare_to_the_golden_inputs(make_bundle: Any, output: str) -> None:
    bundle = make_bundle(output)
    frames = GoldenFrames(bundle)
    assert len(frames) == 2 and frames.image(1).shape == (24, 32, 3) and frames.mask(0) is None
    if output == "labels":
        assert np.array_equal(frames.image(1), bundle.golden()[0][1])
    assert GoldenFrames(make_bundle(golden=None)).image(0).shape == (24, 32, 3)


def test_an_absent_class_is_null_and_left_out(
    tiny_bundle: Bundle, colour_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "two"
    shutil.copytree(colour_folder, folder)
    for name in ("0", "1", "2"):
        shape = cv2.imread(str(folder / "val" / "masks" / f"{name}.png"), cv2.IMREAD_UNCHANGED).shape
        mask = np.zeros(shape, np.uint8)
        mask[:, shape[1] // 2 :] = 1
        image = np.where(mask[..., None] == 0, (220, 30, 30), (30, 200, 40)).astype(np.uint8)
        cv2.imwrite(str(folder / "val" / "images" / f"{name}.png"), image[:, :, ::-1])
        cv2.imwrite(str(folder / "val" / "masks" / f"{name}.png"), mask)
    measurement = harness.measure(tiny_bundle, 1, folder, frames=3, warmup=1)
    assert measurement.iou == {"red": 1.0, "green": 1.0, "blue": None} and measurement.miou == 1.0


def test_data_that_does_not_fit_is_refused(make_bundle: Any, colour_folder: Path, tmp_path: Path) -> None:
    classes = tuple(ClassInfo(i, name, (0, 0, 0)) for i, name in enumerate(("red", "blue", "green")))
    with pytest.raises(InputError, match=r"classes \| got red, green, blue \| expected red, blue, green"):
        harness.measure(make_bundle(classes=classes), 1, colour_folder)
    folder = tmp_path / "bad"
    shutil.copytree(colour_folder, folder)
    path = folder / "val" / "masks" / "1.png"
    mask = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    mask[3, 3] = 7
    cv2.imwrite(str(path), mask)
    with pytest.raises(InputError, match=r"1\.png: mask holds undeclared class ids .*\[7\]"):
        harness.measure(load_bundle(make_bundle().root), 1, folder, warmup=1)
    cv2.imwrite(str(path), mask[:-1])
    with pytest.raises(InputError, match=r"1\.png: prediction and mask differ in size"):
        harness.measure(make_bundle(), 1, folder, warmup=1)
    with pytest.raises(InputError, match="no split 'test'"):
        harness.measure(make_bundle(), 1, folder, "test")
