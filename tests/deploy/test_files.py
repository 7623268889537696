"""Nothing is ever half-written, and a user's mistake is one line with its exit status."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from deploy.errors import GateError, InputError, run_cli
from deploy.files import (
    atomic_folder,
    atomic_write_bytes,
    atomic_write_text,
    require_writable,
    sha256_file,
    write_json,
)


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


def test_links_are_followed_and_stay(tmp_path: Path) -> None:
    for name in ("there", "dangling"):
        (tmp_path / f"{name}.link").symlink_to(tmp_path / name)
    (tmp_path / "there").write_bytes(b"old")
    for name in ("there", "dangling"):
        atomic_write_bytes(tmp_path / f"{name}.link", b"new")
        assert (tmp_path / name).read_bytes() == b"new" and (tmp_path / f"{name}.link").is_symlink()
    (tmp_path / "folder.link").symlink_to(tmp_path / "folder")
    for text in ("1", "2"):
        with atomic_folder(tmp_path / "folder.link") as folder:
            (folder / "x").write_text(text)
        assert (tmp_path / "folder" / "x").read_text() == text and (tmp_path / "folder.link").is_symlink()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_longest_name_that_a_folder_can_hold(tmp_path: Path) -> None:
    name = "ü" * 125 + ".json"  # 255 bytes
    atomic_write_bytes(tmp_path / name, b"x")
    with atomic_folder(tmp_path / "f" / name):
        pass
    assert (tmp_path / name).is_file() and (tmp_path / "f" / name).is_dir()


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """Nor is a device: `--json /dev/null` once made a file of it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic_write_bytes(pipe, b"through")
    assert os.read(reader, 100) == b"through" and pipe.is_fifo()
    os.close(reader)


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    """The later one wins, or says that it could not; never half of each, and no litter."""
    with atomic_folder(tmp_path / "f") as mine:
        (mine / "x").write_text("mine")
        with atomic_folder(tmp_path / "f") as other:
            (other / "x").write_text("other")
    assert (tmp_path / "f" / "x").read_text() == "mine"
    with pytest.raises(InputError, match="cannot write"), atomic_folder(tmp_path / "f" / "x" / "below"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_whether_a_result_could_be_written_is_known_before(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "deep" / "r.json")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="is no folder"):
        require_writable(tmp_path / "file" / "r.json")
    assert not (tmp_path / "new").exists()


def test_json_refuses_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())
    write_json("-", {"a": "ü"})
    assert capsys.readouterr().out == '{\n  "a": "ü"\n}\n'


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert sha256_file(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def _fail(error: BaseException) -> int:
    def main() -> int:
        raise error

    return run_cli(main)


def test_errors_are_one_line_with_their_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert _fail(InputError("size", got="3\n4", expected="HxW", fix="see --help")) == 2
    assert _fail(GateError("parity")) == 1
    assert _fail(KeyboardInterrupt()) == 130
    assert run_cli(lambda: None) == 0
    assert capsys.readouterr().err == (
        "error: size | got 3 4 | expected HxW | see --help\nerror: parity\ninterrupted\n"
    )
    for defect in (
        ZeroDivisionError(),
        RuntimeError("shapes differ"),
        OSError("no number, so none of the system's"),
    ):
        with pytest.raises(type(defect)):
            _fail(defect)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "a/b"), "cannot use a/b | got Permission denied"),
        (OSError(28, "No space left on device"), "the disk is full | free space, or write to another place"),
        (MemoryError(), "out of memory | take a smaller size"),
        (RuntimeError("[enforce fail at alloc] DefaultCPUAllocator: not enough memory"), "out of memory"),
        (InputError("x" * 100_000, got="y" * 100_000), "xxx... | got yyy"),
    ],
)
def test_what_the_system_refuses_is_one_short_line(
    error: Exception, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _fail(error) == 2
    shown = capsys.readouterr().err
    assert line in shown and shown.count("\n") == 1 and len(shown) < 3000


def test_termination_cleans_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        with atomic_folder(tmp_path / "f"):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    assert run_cli(main) == 130 and not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGTERM) is before
