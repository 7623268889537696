"""`demo` end to end: real videos, real processes, a real view; what is live keeps the newest frame."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest

from deploy import demo
from deploy.errors import InputError
from deploy.live.display import Nothing
from deploy.live.panel import in_view
from deploy.live.player import Player
from deploy.live.recorder import Recorder
from deploy.live.sources import LiveSource, has_gstreamer, open_source
from deploy.options import Parser

COLOURS = ((220, 30, 30), (30, 200, 40), (40, 60, 230))
FPS = 30


def _video(path: Path, frames: int, size: tuple[int, int] = (48, 64)) -> Path:
    """Frame number n is in a colour by n, with its number as a row of black and white blocks."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), FPS, size[::-1])
    for number in range(frames):
        writer.write(_frame(number, size)[:, :, ::-1].copy())
    writer.release()
    return path


def _frame(number: int, size: tuple[int, int]) -> np.ndarray:
    frame = np.full((*size, 3), COLOURS[number // 10 % 3], np.uint8)
    for bit in range(10):
        width, start = size[1] // 20, size[1] // 2  # the legend is on the left
        frame[size[0] - 8 :, start + bit * width : start + (bit + 1) * width] = (
            255 if number >> bit & 1 else 0
        )
    return frame


def _number(picture: np.ndarray) -> int:
    """The number back from a picture of `_frame`, of any size."""
    height, width = picture.shape[:2]
    row = picture[height - height // 12 - 1].mean(-1)
    return sum(1 << bit for bit in range(10) if row[width // 2 + int((bit + 0.5) * width / 64 * 3)] > 127)


def _run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy", "demo", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_video_keeps_its_order_and_records(tiny_bundle, tmp_path: Path) -> None:
    source, record = _video(tmp_path / "in ü.mp4", 60), tmp_path / "out.mp4"
    done = _run(tiny_bundle.root, "--source", source, "--view", "none", "--record", record, "--opacity", "0")
    assert done.returncode == 0 and done.stdout.startswith("60 frames, "), done.stderr
    reader = cv2.VideoCapture(str(record))
    pictures = []
    while (found := reader.read())[0]:
        pictures.append(found[1])
    assert reader.get(cv2.CAP_PROP_FPS) == FPS
    assert [_number(picture) for picture in pictures] == list(range(60))


@pytest.mark.slow
def test_half_a_minute_at_30_fps_holds_no_memory(tiny_bundle, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    seen: list[int] = []

    class Screen(Nothing):
        def show(self, picture: np.ndarray) -> None:
            seen.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())

    video = _video(tmp_path / "in.mp4", 900, (240, 320))
    with (
        open_source(str(video)) as source,
        Player([tiny_bundle], 1, 0.5) as player,
        Recorder(tmp_path / "out.mp4", source) as recorder,
    ):
        shown = player.play(source, Screen(), recorder.take)
    assert shown.frames == len(seen) == 900
    assert max(seen[450:]) - max(seen[100:450]) < 8 << 20, "memory grew"
    assert cv2.VideoCapture(str(tmp_path / "out.mp4")).get(cv2.CAP_PROP_FRAME_COUNT) == 900


def test_a_folder_of_images_of_any_size(tiny_bundle, colour_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(colour_folder / "val" / "images", tmp_path / "images")
    (folder / "._red.png").write_bytes(b"what a Mac leaves beside a file")
    record = tmp_path / "out.mp4"
    done = _run(tiny_bundle.root, "--source", folder, "--view", "none", "--record", record)
    assert done.returncode == 0 and done.stdout.startswith("3 frames, "), done.stderr
    assert cv2.VideoCapture(str(record)).get(cv2.CAP_PROP_FRAME_COUNT) == 3


def test_a_damaged_image_is_skipped_and_named(tiny_bundle, colour_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(colour_folder / "val" / "images", tmp_path / "images")
    for name in ("0 torn.png", "1 torn.png"):
        (folder / name).write_bytes((folder / "0.png").read_bytes()[:60])
    record = tmp_path / "out.mp4"
    done = _run(tiny_bundle.root, "--source", folder, "--view", "none", "--record", record)
    assert done.returncode == 2 and done.stdout.startswith("3 frames, ")
    assert done.stderr.count("\n") == 2 and "0 torn.png is trunc" in done.stderr and "1 torn" in done.stderr
    assert cv2.VideoCapture(str(record)).get(cv2.CAP_PROP_FRAME_COUNT) == 3


def test_what_was_recorded_is_kept_when_the_source_fails(
    tiny_bundle, tmp_path: Path, monkeypatch, capsys
) -> None:
    class Stalled(_Camera):
        def read(self) -> tuple[bool, np.ndarray | None]:
            if self.count == 20:
                time.sleep(5)
            return super().read()

        def release(self) -> None: ...

    monkeypatch.setattr("deploy.live.sources._capture", lambda text: Stalled())
    monkeypatch.setattr("deploy.live.sources._PATIENCE_S", 1.0)
    record, parser = tmp_path / "out.mp4", Parser()
    demo.add_arguments(parser)
    words = [str(tiny_bundle.root), "--source", "0", "--view", "none", "--record", str(record)]
    with pytest.raises(InputError, match="0: no frame for 1 s"):
        demo.run(parser.parse_args(words))
    assert " frames, " in capsys.readouterr().out
    assert cv2.VideoCapture(str(record)).get(cv2.CAP_PROP_FRAME_COUNT) >= 1


def test_the_source_is_never_written(tiny_bundle, tmp_path: Path) -> None:
    video = _video(tmp_path / "in.mp4", 3)
    before, link = video.read_bytes(), tmp_path / "link.mp4"
    link.symlink_to(video)
    done = _run(tiny_bundle.root, "--source", video, "--view", "none", "--record", link)
    assert done.returncode == 2 and "link.mp4 is read, and would be written" in done.stderr
    assert video.read_bytes() == before


class _Camera:
    """Stands for a device that does not wait: 100 numbered frames, 5 ms apart."""

    def __init__(self) -> None:
        self.count = 0

    def read(self) -> tuple[bool, np.ndarray | None]:
        if self.count == 100:
            return False, None
        time.sleep(0.005)
        self.count += 1
        return True, _frame(self.count, (48, 64))[:, :, ::-1].copy()


def test_a_live_source_gives_the_newest_and_counts_the_rest() -> None:
    source = LiveSource(_Camera(), "camera")
    numbers = []
    while (frame := source.next()) is not None:
        numbers.append(_number(frame))
        time.sleep(0.05)
    assert numbers == sorted(set(numbers)) and numbers[-1] == 100
    assert len(numbers) + source.dropped == 100 and source.dropped > 50


def test_the_reading_ends_before_the_capture_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    class Camera(_Camera):
        def release(self) -> None:
            self.released_at = self.count

    camera = Camera()
    monkeypatch.setattr("deploy.live.sources._capture", lambda text: camera)
    with pytest.raises(RuntimeError), open_source("0") as source:
        source.next()
        raise RuntimeError("what goes wrong in the demo")
    time.sleep(0.05)
    assert 0 < camera.count == camera.released_at < 100


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.mp4", "no source 'nowhere.mp4'"),
        ("99", "cannot open 99 .* hold the camera"),
        (__file__, "cannot open .* convert it to MP4"),
        ("http://127.0.0.1:1/x", "cannot open http.* another player"),
    ],
)
def test_a_source_that_is_none(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message), open_source(source):
        pass


def test_a_file_is_a_file_whatever_its_name(tmp_path: Path) -> None:
    with open_source(str(_video(tmp_path / "mind the gap!.mp4", 3))) as source:
        assert not source.live and source.next() is not None


def test_a_torn_video_is_one_line(tiny_bundle, tmp_path: Path) -> None:
    video = _video(tmp_path / "in.mp4", 30)
    video.write_bytes(video.read_bytes()[:2000])
    done = _run(tiny_bundle.root, "--source", video, "--view", "none")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cut off" in done.stderr


def test_a_panorama_is_recorded(tiny_bundle, tmp_path: Path) -> None:
    folder, record = tmp_path / "images", tmp_path / "out.mp4"
    folder.mkdir()
    cv2.imwrite(str(folder / "0.png"), np.zeros((100, 4000, 3), np.uint8))
    done = _run(tiny_bundle.root, "--source", folder, "--view", "none", "--record", record)
    assert done.returncode == 0 and not done.stderr
    assert cv2.VideoCapture(str(record)).read()[1].shape[:2] == (100, 4000)


@pytest.mark.skipif(has_gstreamer(), reason="this OpenCV has GStreamer")
def test_gstreamer_needs_another_opencv() -> None:
    with pytest.raises(InputError) as refused, open_source("videotestsrc ! appsink"):
        pass
    assert "without GStreamer" in str(refused.value) and "python3-opencv" in str(refused.value)


def test_keys_choose_model_domain_and_opacity(make_bundle) -> None:
    from deploy.bundle import Provenance

    def of(domain: str, attention: str):
        model = {"variant": "tiny", "attention": attention}
        return make_bundle(provenance=Provenance(None, "0" * 64, {}, {domain: "CC0"}, model))

    bundles = [of("street", "linear"), of("street", "softmax"), of("lane", "linear")]
    player = Player(bundles, 1, 0.5)
    player.press("m")
    assert player.bundle is bundles[1]
    player.press("d")
    assert player.bundle is bundles[2]
    player.press("m")
    assert player.bundle is bundles[2], "no other model in this domain"
    player.press("D")
    assert player.bundle is bundles[0], "the shift key changes no key's meaning"
    for _ in range(9):
        player.press("=")
    assert player.opacity == 1.0
    player.press("-")
    assert player.opacity == pytest.approx(0.9)


class _Keyboard(Nothing):
    """Presses a key now and then, and keeps what is shown."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.seen = list(keys), list[np.ndarray]()

    def show(self, picture: np.ndarray) -> None:
        self.seen.append(picture)

    def key(self) -> str:
        return self.keys.pop(0)


def test_what_a_key_changes_is_seen_while_paused(tiny_bundle, tmp_path: Path) -> None:
    screen, recorded = _Keyboard("", " ", "", "-", "q"), list[np.ndarray]()
    with (
        open_source(str(_video(tmp_path / "in.mp4", 30))) as source,
        Player([tiny_bundle], 1, 0.5) as player,
    ):
        shown = player.play(source, screen, recorded.append)
    assert shown.frames == len(recorded) == 1
    assert len(screen.seen) >= 2 and (screen.seen[0] != screen.seen[1]).any()


def test_the_largest_classes_come_first(tiny_bundle) -> None:
    labels = np.array([[0, 2, 2], [2, 2, 255]], np.uint8)
    found = [(entry.name, round(share, 3)) for entry, share in in_view(labels, tiny_bundle.manifest.classes)]
    assert found == [("blue", 0.667), ("red", 0.167)]


def test_the_browser_view_streams_and_takes_keys(tiny_bundle, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")
    video = _video(tmp_path / "in.mp4", 600)
    command = [sys.executable, "-m", "deploy", "demo", str(tiny_bundle.root), "--source", str(video)]
    process = subprocess.Popen(
        [*command, "--view", "browser", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        port = int(re.search(r"localhost:(\d+)", process.stdout.readline())[1])
        own = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/stream", headers=own)
        stream = connection.getresponse()
        assert stream.readline() == b"--picture\r\n"
        for _ in range(3):
            assert stream.readline() == b"Content-Type: image/jpeg\r\n"
            size = int(stream.readline().removeprefix(b"Content-Length: "))
            assert stream.readline() == b"\r\n"
            picture = stream.read(size)
            assert picture.startswith(b"\xff\xd8\xff") and picture.endswith(b"\xff\xd9")
            assert stream.readline() + stream.readline() == b"\r\n--picture\r\n"
        waiting = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        waiting.request("GET", "/end", headers=own)
        other = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        other.request("POST", "/key", b"q", {**own, "Origin": "http://evil.example"})
        assert other.getresponse().status == 403
        other = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        other.request("POST", "/key", b"q", own)
        assert other.getresponse().status == 204
        assert waiting.getresponse().status == 204
        connection.close()
        assert process.wait(20) == 0
        frames = int(process.stdout.read().split(" frames")[0])
        assert 0 < frames < 600
    finally:
        process.kill()


def test_the_view_in_a_browser(tiny_bundle, chromium, tmp_path: Path) -> None:
    pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")
    words = [str(tiny_bundle.root), "--source", str(_video(tmp_path / "in.mp4", 900)), "--view", "browser"]
    command = [sys.executable, "-m", "deploy", "demo", *words, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    page, errors = chromium.new_page(), list[object]()
    page.on("pageerror", lambda error: errors.append(error))
    try:
        assert process.stdout
        page.goto(re.search(r"http://\S+", process.stdout.readline())[0], wait_until="commit")
        picture = page.locator("img")
        picture.wait_for()
        page.keyboard.press("Space")
        page.wait_for_timeout(1000)
        before = picture.screenshot()
        page.keyboard.press("=")
        page.wait_for_timeout(1000)
        assert picture.screenshot() != before, "the new opacity is seen while paused"
        page.keyboard.press("Q")
        page.get_by_text("The demo has ended.").wait_for(timeout=10_000)
        page.keyboard.press("d")
        page.wait_for_timeout(300)
        assert not errors and process.wait(20) == 0
    finally:
        page.close()
        process.kill()


def test_a_ct_bundle_is_refused(make_bundle) -> None:
    from deploy.bundle import Preprocess
    from deploy.demo import load

    rule = Preprocess((24, 32), (0.5, 0.5, 0.5), (1.0, 1.0, 1.0), in_graph=True, hu_window=(-100.0, 200.0))
    with pytest.raises(InputError, match="is for CT"):
        load([make_bundle(preprocess=rule).root])


def test_a_bundle_s_domains_follow_it(packed: Path) -> None:
    from deploy.demo import load

    base, swap = load([packed])
    assert swap.domain == "swap" and swap.manifest.name == f"{base.manifest.name}+swap"
    with Player([base, swap], 1, 0.5) as player:
        player.press("m")
        assert player.bundle is swap


def test_a_domain_of_ct_is_left_out_and_told(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from deploy.demo import load

    manifest = json.loads((packed / "bundle.json").read_text())
    manifest["domains"]["swap"]["preprocess"]["hu_window"] = [-100.0, 200.0]
    (packed / "bundle.json").write_text(json.dumps(manifest))
    assert [bundle.domain for bundle in load([packed])] == [None]
    assert "domain swap is for CT, and left out" in capsys.readouterr().out


@pytest.mark.slow
def test_a_stream_over_the_network_is_live(tiny_bundle, tmp_path: Path) -> None:
    """One demo's view is another one's source."""
    pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")
    words = [str(tiny_bundle.root), "--source", str(_video(tmp_path / "in.mp4", 900))]
    command = [sys.executable, "-m", "deploy", "demo", *words, "--view", "browser", "--port", "0"]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout
        port = int(re.search(r"localhost:(\d+)", first.stdout.readline())[1])
        record, stream = tmp_path / "out.mp4", f"http://localhost:{port}/stream"
        words = [str(tiny_bundle.root), "--source", stream, "--view", "none", "--record", str(record)]
        second = subprocess.Popen(
            [sys.executable, "-m", "deploy", "demo", *words], stdout=subprocess.PIPE, text=True
        )
        time.sleep(12)
        second.send_signal(signal.SIGINT)
        told, _ = second.communicate(timeout=30)
        assert re.match(r"\d+ frames, \d+ dropped, ", told)
        assert cv2.VideoCapture(str(record)).get(cv2.CAP_PROP_FRAME_COUNT) > 15
    finally:
        first.kill()
