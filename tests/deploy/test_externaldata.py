"""External data of an ONNX file: found wherever a graph can name it, refused where it leaves its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from deploy.bundle import write_bundle
from deploy.errors import InputError
from deploy.externaldata import check_external_data, references
from deploy.runtimes import open_session

SIZES = {"base.bin": 100}


def tensor(location: str, offset: object = 0, length: object = 36) -> TensorProto:
    """A 3x3 weight that lies elsewhere."""
    weight = numpy_helper.from_array(np.eye(3, dtype=np.float32)[:, :, None, None], "weight")
    set_external_data(weight, location)
    weight.ClearField("raw_data")
    for key, value in (("offset", offset), ("length", length)):
        weight.external_data.append(onnx.StringStringEntryProto(key=key, value=str(value)))
    return weight


def model(path: Path, *initializers: TensorProto, nodes: tuple = ()) -> Path:
    """An ONNX file with these in its graph."""
    graph = helper.make_graph(list(nodes), "g", [], [], list(initializers))
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def test_what_lies_within_a_listed_file_passes(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", tensor("base.bin", 64, 36), numpy_helper.from_array(np.zeros(2), "own"))
    check_external_data(path, SIZES)
    (found,) = references(path)
    assert (found.location, found.offset, found.length) == ("base.bin", 64, 36)


@pytest.mark.parametrize(
    "wrong",
    [
        ("../base.bin",), ("/etc/passwd",), ("sub/base.bin",), ("other.bin",), ("",), ("./base.bin",),
        ("base.bin", 65, 36), ("base.bin", 101, 0), ("base.bin", -1, 4), ("base.bin", 0, 10**17),
        ("base.bin", "0x10", 4), ("base.bin", 10**20, 4), ("base.bin", "1e1", 4), ("base.bin", " 1", 4),
    ],
)  # fmt: skip
def test_what_leaves_its_file_is_one_line(tmp_path: Path, wrong: tuple) -> None:
    path = model(tmp_path / "m.onnx", tensor(*wrong))
    with pytest.raises(InputError) as error:
        check_external_data(path, SIZES)
    assert "\n" not in str(error.value) and "m.onnx" in str(error.value)


def test_an_unknown_or_doubled_key_is_refused(tmp_path: Path) -> None:
    for key in ("basepath", "offset"):
        odd = tensor("base.bin", 0, 4)
        odd.external_data.append(onnx.StringStringEntryProto(key=key, value="0"))
        with pytest.raises(InputError, match=key):
            check_external_data(model(tmp_path / "m.onnx", odd), SIZES)


def test_every_place_of_a_tensor_is_looked_at(tmp_path: Path) -> None:
    outside = tensor("outside.bin")
    inner = helper.make_graph([], "inner", [], [], [outside])
    sparse = helper.make_sparse_tensor(outside, numpy_helper.from_array(np.arange(3), "i"), [9])
    holders = [
        helper.make_node("Constant", [], ["c"], value=outside),
        helper.make_node("If", ["c"], ["d"], then_branch=inner, else_branch=inner),
        helper.make_node("X", [], [], many=[outside]),
        helper.make_node("X", [], [], graphs=[inner]),
        helper.make_node("Constant", [], ["s"], sparse_value=sparse),
    ]
    for node in holders:
        path = model(tmp_path / "m.onnx", nodes=(node,))
        assert "outside.bin" in {found.location for found in references(path)}, node.op_type
    whole = onnx.load(model(tmp_path / "m.onnx"), load_external_data=False)
    whole.functions.append(helper.make_function("d", "f", [], [], holders[:1], []))
    whole.graph.sparse_initializer.append(sparse)
    (tmp_path / "m.onnx").write_bytes(whole.SerializeToString())
    assert len(list(references(tmp_path / "m.onnx"))) == 2


@pytest.mark.parametrize("damage", [b"", b"\x00", b"\x3a\xff\xff\xff\xff\x0f", b"\xff" * 40, b"\x3b"])
def test_rubbish_is_one_line(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(damage)
    with pytest.raises(InputError):
        check_external_data(tmp_path / "m.onnx", {})


def test_endless_nesting_is_refused(tmp_path: Path) -> None:
    data = b""
    for _ in range(200):  # graph > node > attribute > graph ...
        for key in (0x32, 0x2A, 0x0A):
            data = bytes([key]) + _varint(len(data)) + data
    (tmp_path / "m.onnx").write_bytes(b"\x3a" + _varint(len(data)) + data)
    with pytest.raises(InputError, match="deeply"):
        check_external_data(tmp_path / "m.onnx", {})


def test_a_bundle_whose_graph_looks_outside_gets_no_session(tiny_bundle, tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(36))
    graph = onnx.load(tiny_bundle.model_file(".onnx"))
    del graph.graph.initializer[:]
    graph.graph.initializer.append(tensor("../secret.bin"))
    (tmp_path / "model.onnx").write_bytes(graph.SerializeToString())
    files = {"model.onnx": tmp_path / "model.onnx", "golden.npz": tiny_bundle.path("golden.npz")}
    bundle = write_bundle(tmp_path / "bundle", replace(tiny_bundle.manifest, files=()), files)
    with pytest.raises(InputError, match="external data in a file of its own"):
        open_session(bundle)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
