"""Nothing is ever half-written, and a user's mistake is one line with its exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.errors import GateError, InputError, run_cli
from deploy.files import atomic_folder, atomic_write_bytes, atomic_write_text, sha256_file, write_json


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "ü.bin"
    atomic_write_bytes(path, b"old")
    assert path.read_bytes() == b"old" and path.stat().st_mode & 0o444
    with pytest.raises(TypeError):
        atomic_write_bytes(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot write"):
        atomic_write_text(tmp_path / "file" / "below", "x")


def test_an_interrupted_folder_leaves_nothing(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "f") as folder:
        (folder / "x").write_text("1")
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "f") as folder:
        (folder / "x").write_text("2")
        raise KeyboardInterrupt
    assert (tmp_path / "f" / "x").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_json_refuses_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())
    write_json("-", {"a": "ü"})
    assert capsys.readouterr().out == '{\n  "a": "ü"\n}\n'


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_file(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_errors_are_one_line_with_their_status(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(error: BaseException) -> int:
        def main() -> int:
            raise error

        return run_cli(main)

    assert fail(InputError("size", got="3\n4", expected="HxW", fix="see --help")) == 2
    assert fail(GateError("parity")) == 1
    assert fail(KeyboardInterrupt()) == 130
    assert run_cli(lambda: None) == 0
    assert capsys.readouterr().err == (
        "error: size | got 3 4 | expected HxW | see --help\nerror: parity\ninterrupted\n"
    )
    with pytest.raises(ZeroDivisionError):
        fail(ZeroDivisionError())
