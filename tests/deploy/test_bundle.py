"""Bundles are read with suspicion: every change, escape and unknown key is refused; what is written loads."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.bundle import Bundle, ClassInfo, Golden, Target, TensorSpec, load_bundle, write_bundle
from deploy.errors import InputError
from deploy.manifest import check_relative_path, is_proof

V1 = Path(__file__).resolve().parent.parent / "data" / "bundle_v1"


@pytest.fixture
def copy(tiny_bundle: Bundle, tmp_path: Path) -> Path:
    """A copy whose files may be changed."""
    shutil.copytree(tiny_bundle.root, tmp_path / "bundle")
    return tmp_path / "bundle"


def _edit(folder: Path, change: Any) -> None:
    path = folder / "bundle.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def test_round_trip_keeps_every_field(tiny_bundle: Bundle) -> None:
    loaded = load_bundle(tiny_bundle.root)
    assert loaded == tiny_bundle
    assert {entry.path for entry in loaded.manifest.files} == {"model.onnx", "golden.npz"}
    assert loaded.manifest.schema_version == 1
    assert loaded.path("model.onnx").is_file() and loaded.path(loaded.manifest.files[0]).is_file()
    assert loaded.model_file(".onnx").name == "model.onnx"
    inputs, outputs = loaded.golden()
    assert inputs.shape[1:] == loaded.manifest.inputs[0].shape[1:] and len(inputs) == len(outputs) == 2


def test_bundle_v1_loads_for_ever() -> None:
    if not V1.is_dir():
        pytest.skip(f"{V1} is not there yet")
    from deploy.segmenter import Segmenter
    from deploy.verify import replay_golden, shortfall

    bundle = load_bundle(V1)
    assert bundle.manifest.schema_version == 1
    assert bundle.manifest.golden is not None
    assert shortfall(replay_golden(bundle, 1), bundle.manifest.golden) is None
    with Segmenter(bundle, 1) as segmenter:
        labels = segmenter.segment(np.zeros((50, 70, 3), np.uint8))
    assert labels.shape == (50, 70) and labels.max() < len(bundle.manifest.classes)


def test_a_changed_byte_is_refused(copy: Path) -> None:
    model = copy / "model.onnx"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 1
    model.write_bytes(data)
    with pytest.raises(InputError, match=r"model\.onnx has changed"):
        load_bundle(copy)
    load_bundle(copy, check_files=False)  # same size: seen by the hash only
    model.write_bytes(bytes(data) + b"x")
    with pytest.raises(InputError, match=r"model\.onnx has changed \| got \d+ bytes"):
        load_bundle(copy, check_files=False)
    model.unlink()
    with pytest.raises(InputError, match=r"model\.onnx is missing"):
        load_bundle(copy)


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a\\b",
        "..",
        ".",
        "",
        "a//b",
        "./a",
        "C:/x",
        "a\0b",
        "a/",
        "a\nb",
        "~/../x",
    ],
)
def test_a_path_that_leaves_the_bundle_is_refused(copy: Path, path: str) -> None:
    _edit(copy, lambda value: value["files"][0].update(path=path))
    with pytest.raises(InputError, match="path"):
        load_bundle(copy)
    with pytest.raises(InputError):
        write_bundle(copy.parent / "new", load_bundle_manifest(copy), {path: b"x"})
    assert not (copy.parent / "x").exists() and not (copy.parent / "new").exists()


def load_bundle_manifest(folder: Path) -> Any:
    """The manifest of a tampered copy, made sound again."""
    _edit(folder, lambda value: value["files"][0].update(path="golden.npz"))
    return dataclasses.replace(load_bundle(folder).manifest, files=())


def test_even_an_existing_file_outside_is_refused(copy: Path) -> None:
    shutil.copy(copy / "model.onnx", copy.parent / "outside.onnx")
    _edit(copy, lambda value: value["files"][1].update(path="../outside.onnx"))
    with pytest.raises(InputError, match="path"):
        load_bundle(copy)


@pytest.mark.parametrize("kind", ["file", "folder", "manifest"])
def test_a_link_that_leaves_the_bundle_is_refused(copy: Path, kind: str) -> None:
    outside = copy.parent / "outside"
    outside.mkdir()
    name = {"file": "model.onnx", "folder": "model.onnx", "manifest": "bundle.json"}[kind]
    shutil.move(copy / name, outside / name)
    if kind == "folder":
        (copy / "sub").symlink_to(outside)
        _edit(copy, lambda value: value["files"][1].update(path="sub/model.onnx"))
    else:
        (copy / name).symlink_to(outside / name)
    with pytest.raises(InputError, match="leaves the bundle"):
        load_bundle(copy)


def test_a_linked_bundle_folder_is_fine(copy: Path) -> None:
    link = copy.parent / "link"
    link.symlink_to(copy)
    load_bundle(link)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.update(schema_version=2), "schema_version | got 2 | expected 1 | update deploy"),
        (lambda v: v.update(schema_version="1"), "schema_version"),
        (lambda v: v.update(schema_version=True), "schema_version"),
        (lambda v: v.pop("schema_version"), "schema_version"),
        (lambda v: v.update(extra=1), "unknown key | got 'extra'"),
        (lambda v: v["target"].update(device="x"), "target: unknown key | got 'device'"),
        (lambda v: v.pop("classes"), "missing key | got classes"),
        (lambda v: v["preprocess"].pop("mean"), "preprocess: missing key | got mean"),
        (lambda v: v.update(name=3), "name | got 3 | expected str"),
        (lambda v: v["preprocess"].update(size=[24, 32, 3]), "preprocess.size | got 3 entries"),
        (lambda v: v["preprocess"].update(size=[24, 33]), "preprocess.size"),
        (lambda v: v["preprocess"].update(resize="crop"), "stretch or letterbox"),
        (lambda v: v["preprocess"].update(in_graph=1), "in_graph | got 1 | expected bool"),
        (lambda v: v["preprocess"].update(std=[0, 1, 1]), "positive"),
        (lambda v: v["inputs"][0].update(shape=[1, 24, 32, -3]), "tensor frame"),
        (lambda v: v["inputs"][0].update(dtype="complex64"), "tensor frame"),
        (lambda v: v["outputs"][0].update(shape=[1, 12, 16]), "output labels"),
        (lambda v: v["outputs"][0].update(layout="NHWC", shape=[1, 24, 32, 4]), "output labels"),
        (lambda v: v.update(outputs=[]), "one input and one output"),
        (lambda v: v["classes"][1].update(id=2), "class ids"),
        (lambda v: v["classes"][1].update(name="red"), "class names"),
        (lambda v: v["classes"][1].update(colour=[0, 0, 256]), "colour of green"),
        (lambda v: v.update(ignore_index=2), "ignore_index"),
        (lambda v: v["classes"][1].update(name=""), "class names"),
        (lambda v: v["preprocess"].update(mean=[1e308, 0, 0]), "preprocess.mean"),
        (lambda v: v["outputs"][0].update(scale=0), "tensor labels"),
        (lambda v: v["outputs"][0].update(zero_point=1 << 40), "tensor labels"),
        (lambda v: v["golden"].update(min_agreement=-1), "min_agreement | got -1.0 | expected 0 to 1"),
        (lambda v: v["golden"].update(max_abs_error=-1), "max_abs_error"),
        (lambda v: v["parity"].update(agreement=1.5), "agreement | got 1.5"),
        (lambda v: v["parity"].update(images=-1), "images | got -1"),
        (lambda v: v["parity"].update(proof="trust me"), "parity.proof"),
        (lambda v: v["golden"].update(file="other.npz"), "golden.file"),
        (lambda v: v.update(files=[]), "files"),
        (lambda v: v.update(files=v["files"] * 2), "a path twice"),
        (lambda v: v.update(eval="../eval"), "path"),
        (lambda v: v["target"].update(options={"a": [1]}), "options"),
    ],
)
def test_a_manifest_that_is_not_sound_is_refused(copy: Path, change: Any, words: str) -> None:
    _edit(copy, change)
    with pytest.raises(InputError) as error:
        load_bundle(copy)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000, '"\ud800"', '{"schema_version": 1}'],
)
def test_rubbish_json_is_refused(copy: Path, text: str) -> None:
    (copy / "bundle.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r"bundle\.json"):
        load_bundle(copy)


def test_oversize_json_is_refused(copy: Path) -> None:
    with open(copy / "bundle.json", "a", encoding="utf-8") as stream:
        stream.write(" " * (5 << 20))
    with pytest.raises(InputError, match="too large"):
        load_bundle(copy)


def test_golden_that_does_not_fit_is_refused(make_bundle: Any, tmp_path: Path) -> None:
    bundle = make_bundle()
    np.savez(
        tmp_path / "bad.npz", inputs=np.zeros((1, 3, 3), np.uint8), outputs=np.zeros((1, 24, 32), np.uint8)
    )
    files = {"model.onnx": bundle.path("model.onnx")}
    manifest = dataclasses.replace(bundle.manifest, files=())
    with pytest.raises(InputError, match="frame"):
        write_bundle(tmp_path / "a", manifest, {**files, "golden.npz": tmp_path / "bad.npz"}).golden()
    with pytest.raises(InputError, match="not a golden"):
        write_bundle(tmp_path / "b", manifest, {**files, "golden.npz": b"rubbish"}).golden()
    np.savez(tmp_path / "object.npz", inputs=np.array([{}], object), outputs=np.zeros(1))
    with pytest.raises(InputError, match="not a golden"):  # objects would need pickle
        write_bundle(tmp_path / "c", manifest, {**files, "golden.npz": tmp_path / "object.npz"}).golden()
    with pytest.raises(InputError, match="no golden"):
        write_bundle(tmp_path / "d", dataclasses.replace(manifest, golden=None), files).golden()
    with pytest.raises(InputError, match=r"golden\.file"):
        write_bundle(tmp_path / "e", manifest, files)


def _claiming(count: int) -> bytes:
    """An array file that promises `count` bytes and holds none."""
    stream = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


@pytest.mark.parametrize(
    "member",
    [b"", b"\x93NUMPY\x09\x00from the future", _claiming(10**13)],
    ids=["none", "version 9", "9 TiB"],
)
def test_a_golden_of_rubbish_members_is_refused(make_bundle: Any, tmp_path: Path, member: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as archive:
        for name in ("inputs.npy", "outputs.npy"):
            archive.writestr(name, member)
    bundle = make_bundle()
    files = {"model.onnx": bundle.path("model.onnx"), "golden.npz": tmp_path / "bad.npz"}
    with pytest.raises(InputError, match="not a golden"):
        write_bundle(tmp_path / "b", dataclasses.replace(bundle.manifest, files=()), files).golden()


def test_write_replaces_a_bundle_but_nothing_else(tiny_bundle: Bundle, tmp_path: Path) -> None:
    manifest = dataclasses.replace(tiny_bundle.manifest, files=(), golden=None)
    first = write_bundle(tmp_path / "b", manifest, {"model.onnx": b"one", "old.bin": b"x"})
    second = write_bundle(tmp_path / "b", manifest, {"model.onnx": b"two"})
    assert first.root == second.root and not (tmp_path / "b" / "old.bin").exists()
    assert (tmp_path / "b" / "model.onnx").read_bytes() == b"two"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "p.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match="is not a bundle"):
        write_bundle(tmp_path / "photos", manifest, {"model.onnx": b"two"})
    assert (tmp_path / "photos" / "p.jpg").exists()


def test_failed_write_leaves_the_old_bundle(tiny_bundle: Bundle, tmp_path: Path) -> None:
    manifest = dataclasses.replace(tiny_bundle.manifest, files=(), golden=None)
    write_bundle(tmp_path / "b", manifest, {"model.onnx": b"one"})
    broken = dataclasses.replace(manifest, classes=(ClassInfo(5, "x", (0, 0, 0)),))
    with pytest.raises(InputError, match="class ids"):
        write_bundle(tmp_path / "b", broken, {"model.onnx": b"two"})
    assert (load_bundle(tmp_path / "b").root / "model.onnx").read_bytes() == b"one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]


def test_folders_are_packaged_file_by_file(tiny_bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    (tmp_path / "pack" / "deep" / "weights.bin").write_bytes(b"w")
    manifest = dataclasses.replace(tiny_bundle.manifest, files=(), golden=None)
    bundle = write_bundle(tmp_path / "b", manifest, {"model.mlpackage": tmp_path / "pack"})
    assert [entry.path for entry in bundle.manifest.files] == ["model.mlpackage/deep/weights.bin"]


def test_one_model_file_is_asked_for(tiny_bundle: Bundle, tmp_path: Path) -> None:
    manifest = dataclasses.replace(tiny_bundle.manifest, files=(), golden=None)
    two = write_bundle(tmp_path / "b", manifest, {"a.onnx": b"1", "b.onnx": b"2"})
    for suffix in (".onnx", ".pte"):
        with pytest.raises(InputError, match="model"):
            two.model_file(suffix)
    with pytest.raises(InputError, match="no file"):
        two.path("../a.onnx")


def test_bundle_hash_follows_every_file(copy: Path, tiny_bundle: Bundle) -> None:
    assert load_bundle(copy).sha256 == tiny_bundle.sha256
    _edit(copy, lambda value: value.update(name="other"))
    assert load_bundle(copy).sha256 != tiny_bundle.sha256


def test_options_and_optional_parts_round_trip(make_bundle: Any) -> None:
    options = {"a": 1, "b": 1.5, "c": True, "d": "x"}
    bundle = make_bundle(target=Target("onnxruntime", "int8", options), parity=None, ignore_index=None)
    again = load_bundle(bundle.root).manifest
    assert again.target.options == options and [type(v) for v in again.target.options.values()] == [
        int,
        float,
        bool,
        str,
    ]
    assert again.parity is None and again.ignore_index is None


def test_logits_need_a_plane_a_class(make_bundle: Any) -> None:
    with pytest.raises(InputError, match="logits of 3 classes"):
        make_bundle(outputs=(TensorSpec("logits", "float32", (1, 4, 3, 4), "NCHW"),))


def test_a_path_that_no_runtime_opens_is_refused(copy: Path) -> None:
    from deploy.segmenter import Segmenter

    odd = Path(os.fsdecode(os.fsencode(copy.parent) + b"/\xff"))
    copy.rename(odd)
    with pytest.raises(InputError, match="not UTF-8"):
        Segmenter(load_bundle(odd), 1)


def test_no_bundle_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="no bundle"):
            load_bundle(path)


def test_a_fifo_does_not_hang(copy: Path) -> None:
    (copy / "model.onnx").unlink()
    os.mkfifo(copy / "model.onnx")
    with pytest.raises(InputError, match="missing"):
        load_bundle(copy)


def test_proof_words() -> None:
    assert all(map(is_proof, ("executed", "evaluated", "built", "not run: no such device")))
    assert not any(map(is_proof, ("", "not run", "not run: ", "Executed", "measured")))


def test_good_paths_pass() -> None:
    for path in ("model.onnx", "a/b.c/d", "größe/模型.bin", "..a", "a..b"):
        check_relative_path(path, "here")


def test_golden_tolerances_are_numbers(copy: Path) -> None:
    _edit(copy, lambda value: value["golden"].update(max_abs_error=1))
    golden = load_bundle(copy).manifest.golden
    assert golden == Golden("golden.npz", 1.0, 0.999) and isinstance(golden.max_abs_error, float)
