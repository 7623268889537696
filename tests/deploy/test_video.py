"""A real video in, a real video out: every frame, in order, in the classes' colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from deploy import run
from deploy.bundle import Bundle
from deploy.errors import InputError
from deploy.options import Parser
from deploy.segmenter import Segmenter
from deploy.video import STAGES, is_video, run_video, streams

from .conftest import COLOURS, SIZE

FRAMES = 24


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frame n is all of class n // 8, at twice the network's size."""
    path = tmp_path_factory.mktemp("video") / "a clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 25, (2 * SIZE[1], 2 * SIZE[0]))
    for number in range(FRAMES):
        frame = np.empty((2 * SIZE[0], 2 * SIZE[1], 3), np.uint8)
        frame[:] = COLOURS[number // 8][::-1]
        writer.write(frame)
    writer.release()
    return path


def _read(path: Path) -> list[np.ndarray]:
    video, frames = cv2.VideoCapture(str(path)), []
    while (found := video.read())[0]:
        frames.append(found[1][:, :, ::-1])
    assert video.get(cv2.CAP_PROP_FPS) == pytest.approx(25)
    return frames


def _run(*arguments: object) -> int:
    parser = Parser()
    run.add_arguments(parser)
    return run.run(parser.parse_args([str(argument) for argument in arguments]))


def test_every_frame_in_order(tiny_bundle: Bundle, clip: Path, tmp_path: Path, capsys: Any) -> None:
    assert _run(tiny_bundle.root, clip, "--out", tmp_path, "--opacity", 1, "--threads", 3) == 0
    frames = _read(tmp_path / "overlays" / "a clip.mp4")
    assert len(frames) == FRAMES and frames[0].shape == (2 * SIZE[0], 2 * SIZE[1], 3)
    for number, frame in enumerate(frames):
        middle = frame[10:-10, 10:-10].reshape(-1, 3).mean(0)
        assert np.abs(middle - COLOURS[number // 8]).max() < 25, "lossy, but the class's colour"
    assert "24 frames, " in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "overlays").iterdir()] == ["a clip.mp4"]


def test_stage_times_add_up_to_more_than_nothing(tiny_bundle: Bundle, clip: Path, tmp_path: Path) -> None:
    with Segmenter(tiny_bundle, 1) as one, Segmenter(tiny_bundle, 1) as other:
        result = run_video([one, other], clip, tmp_path / "o.mp4", 0.5)
    assert tuple(result.stages_ms) == STAGES and all(value > 0 for value in result.stages_ms.values())
    assert result.frames == FRAMES and result.fps > 0


@pytest.mark.parametrize(
    ("threads", "expected"), [(1, [1]), (2, [1, 1]), (8, [2] * 4), (6, [2] * 3), (7, [7])]
)
def test_threads_are_shared_by_networks_side_by_side(threads: int, expected: list[int]) -> None:
    assert streams(threads) == expected


def test_damaged_videos_are_said_and_leave_nothing(tiny_bundle: Bundle, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "rubbish.mp4").write_bytes(b"rubbish" * 100)
    (tmp_path / "head.avi").write_bytes(clip.read_bytes()[:300])
    for name in ("rubbish.mp4", "head.avi"):
        with pytest.raises(InputError, match=name):
            _run(tiny_bundle.root, tmp_path / name, "--out", tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.mp4"))
    assert is_video(clip) and not is_video(tmp_path / "none.mp4") and not is_video(tmp_path)


def test_the_input_is_never_written(tiny_bundle: Bundle, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    own = tmp_path / "overlays" / "own.mp4"
    own.write_bytes(clip.read_bytes())
    with pytest.raises(InputError, match=r"own\.mp4 is read, and would be written"):
        _run(tiny_bundle.root, own, "--out", tmp_path)
    assert own.read_bytes() == clip.read_bytes()


def test_a_place_that_cannot_be_written(tiny_bundle: Bundle, clip: Path, tmp_path: Path) -> None:
    (tmp_path / "overlays").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="cannot write"):
        _run(tiny_bundle.root, clip, "--out", tmp_path)
