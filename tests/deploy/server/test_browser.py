"""The page in a real, headless Chromium: what a visitor does, on a desk and on a phone.

Screenshots stay in the test's temporary folder, or in $EDGESEG_SCREENSHOTS.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from deploy.bundle import Bundle, load_bundle
from deploy.frames import SplitFrames
from deploy.measurement import read_measurement
from deploy.metrics import ConfusionMatrix
from deploy.preprocess import HuScale, read_image
from deploy.segmenter import Segmenter
from tests.deploy.server.visit import READY, SIZES, Visit

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(params=["desk", pytest.param("phone", marks=pytest.mark.slow)])
def camera_visit(request: pytest.FixtureRequest, browser: Any, tmp_path: Path) -> Iterator[Visit]:
    yield from _visit(request, browser, tmp_path)


@pytest.fixture(params=list(SIZES))
def visit(request: pytest.FixtureRequest, browser: Any, tmp_path: Path) -> Iterator[Visit]:
    yield from _visit(request, browser, tmp_path)


def _visit(request: pytest.FixtureRequest, browser: Any, tmp_path: Path) -> Iterator[Visit]:
    folder = Path(os.environ.get("EDGESEG_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    opened = Visit(browser, request.param, folder)
    yield opened
    opened.context.close()


def test_a_visit(visit: Visit, serve: Any, bundles: list[Bundle], tmp_path: Path) -> None:
    with serve([bundle.root for bundle in bundles], tmp_path / "reports") as server:
        visit.page.goto(f"http://localhost:{server.port}/")
        visit.until(READY)
        assert visit.page.evaluate("crossOriginIsolated")
        visit.shot("start")
        _a_picture_is_segmented_as_in_python(visit, bundles[0], tmp_path)
        _a_picture_of_one_line(visit, tmp_path / "line.png")
        _the_view_obeys(visit)
        _the_divider_follows_the_pointer(visit)
        _two_models_side_by_side(visit)
        _a_model_that_does_not_load_stops_no_other(visit)
        _this_device_is_measured(visit, bundles[0], tmp_path / "reports")
        _the_domain_switches_to_ct(visit, bundles[2])
        _a_window_wider_than_the_sliders(visit)
        _a_slice_larger_than_the_page_takes(visit, tmp_path / "slice.png")
        _a_picture_stays_where_the_domain_changes(visit, tmp_path / "larger.png")
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= SIZES[visit.name][0], "the page is wider than the screen"
        visit.until("document.getElementById('offline').textContent")
        assert "Works offline" in visit.page.inner_text("#offline")
    visit.page.evaluate("globalThis.before = true")
    visit.page.reload()
    visit.until(READY)
    assert not visit.page.evaluate("globalThis.before ?? false")
    visit.until("document.getElementById('offline').textContent")
    assert "as this browser has kept it" in visit.page.inner_text("#offline")
    visit.shot("offline")
    visit.page.click("#measure")
    visit.until("document.getElementById('measure-result').textContent")
    assert "golden.npz: the server does not answer" in visit.page.inner_text("#measure-result")
    expected = [line for line in visit.said if "net::ERR_" not in line]  # of the stopped server
    assert expected == []


def _a_picture_is_segmented_as_in_python(visit: Visit, bundle: Bundle, folder: Path) -> None:
    height, width = bundle.manifest.preprocess.size
    rng = np.random.default_rng(0)
    own, larger = (height, width), (2 * height + 3, 3 * width)
    cases = (
        ("clear.webp", own, 4),
        ("clear.png", own, 4),
        ("own size.png", own, 3),
        ("larger.png", larger, 3),
    )
    for name, size, channels in cases:  # the colours of a clear pixel count, as in Python
        coarse = rng.integers(0, 256, (6, 8, channels), np.uint8)
        coarse[:3, :, 3:] = 0
        path = folder / name
        exact = [cv2.IMWRITE_WEBP_QUALITY, 101] if name.endswith("webp") else []
        cv2.imwrite(str(path), cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC), exact)
        visit.fresh(lambda path=path: visit.page.set_input_files("#file", str(path)))
        image = read_image(path)
        with Segmenter(bundle, 1) as segmenter:
            expected = segmenter.segment(image)
        assert np.mean(visit.labels() == expected) >= 0.999, name
        visit.slide("opacity", 0)
        assert _pixel(visit) == [*image[3, -3], 255], name
        visit.slide("opacity", 60)
    assert visit.page.inner_text("#status") == "larger.png"


def _a_picture_of_one_line(visit: Visit, path: Path) -> None:
    cv2.imwrite(str(path), np.full((1, 5000, 3), 90, np.uint8))
    visit.fresh(lambda: visit.page.set_input_files("#file", str(path)))
    assert visit.labels().shape == (1, 2048)
    visit.fresh(lambda: visit.page.locator("#samples button").first.click())


def _pixel(visit: Visit) -> list[int]:
    """The colour near the upper right corner."""
    return visit.page.evaluate("""(() => { const { canvas } = edgeseg.stage.panes[0];
        const copy = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, canvas.width - 3, 3, 1, 1, 0, 0, 1, 1);
        return [...copy.getImageData(0, 0, 1, 1).data]; })()""")


def _the_view_obeys(visit: Visit) -> None:
    found = int(visit.labels()[3, -3])
    visit.slide("opacity", 100)
    colour = visit.page.evaluate(f"edgeseg.models.current.manifest.classes[{found}].colour")
    assert _pixel(visit)[:3] == colour
    visit.page.locator("#legend input").nth(found).uncheck()
    assert _pixel(visit)[:3] != colour
    visit.page.locator("#legend input").nth(found).check()
    visit.page.keyboard.press("s")
    visit.slide("divider", 100)
    assert _pixel(visit)[:3] != colour, "right of the divider only"
    visit.page.keyboard.press("s")
    assert _pixel(visit)[:3] == colour
    visit.page.keyboard.press("-")
    assert visit.page.input_value("#opacity") == "90"
    shares = [float(text.rstrip(" %")) for text in visit.page.locator("#legend output").all_inner_texts()]
    assert sum(shares) == pytest.approx(100, abs=0.5)


def _the_divider_follows_the_pointer(visit: Visit) -> None:
    """Also where it has left the picture."""
    visit.page.keyboard.press("s")
    visit.page.evaluate("scrollTo(0, 0)")
    box = visit.page.locator("#panes canvas").bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + box["width"] / 4, box["y"] - 40)
    visit.page.mouse.up()
    assert int(visit.page.input_value("#divider")) == pytest.approx(25, abs=1)
    visit.page.keyboard.press("s")


BLANK = """(() => {
    globalThis.blank = 0;
    const canvases = () => [...document.querySelectorAll("#panes canvas")];
    const look = () => { blank += canvases().some((canvas) => canvas.width === 300); };
    new MutationObserver(look).observe(document.getElementById("panes"), { childList: true });
})()"""


def _two_models_side_by_side(visit: Visit) -> None:
    visit.page.evaluate(BLANK)
    visit.page.keyboard.press("b")
    visit.until("edgeseg.stage.panes.length === 2")
    visit.until("edgeseg.stage.panes.every((pane) => pane.labels && /fps/.test(pane.element.textContent))")
    captions = visit.page.locator("figcaption").all_inner_texts()
    assert "linear" in captions[0] and "softmax" in captions[1]
    assert all(re.search(r"[\d.]+ ms, [\d.]+ fps", caption) for caption in captions)
    assert visit.page.evaluate("blank") == 0, "a pane without a picture was in view"
    visit.shot("side-by-side")
    _both_see_the_same_frames(visit)
    visit.page.keyboard.press("b")
    visit.until("edgeseg.stage.panes.length === 1")


def _both_see_the_same_frames(visit: Visit) -> None:
    """Of a live source whose every frame has another width."""
    visit.page.evaluate("""(() => {
        const { stage } = edgeseg;
        let width = 8;
        for (const pane of stage.panes) {
            const show = pane.show.bind(pane);
            pane.seen = [];
            pane.show = (frame, ...rest) => { pane.seen.push(frame.width); show(frame, ...rest); };
        }
        const frame = () => new ImageData(width++, 8);
        stage.set({ title: "", live: true, frame, close() {} });
    })()""")
    visit.until("edgeseg.stage.panes.every((pane) => pane.seen.length >= 3)")
    first, second = visit.page.evaluate("edgeseg.stage.panes.map((pane) => pane.seen.slice(0, 3))")
    assert first == second == sorted(set(first))
    visit.fresh(lambda: visit.page.locator("#samples button").first.click())


def _a_model_that_does_not_load_stops_no_other(visit: Visit) -> None:
    """Beside the first one, or in its place: what was chosen before is back, in the choices too."""
    kept = visit.page.evaluate("edgeseg.catalog.bundles[1].model")
    visit.page.evaluate("edgeseg.catalog.bundles[1].model = '/icon.svg'")
    for select in ("#beside", "#model"):
        visit.page.select_option(select, "1")
        visit.until("document.getElementById('status').classList.contains('error')")
        assert re.search("softmax, .* does not load: ", visit.page.inner_text("#status"))
        assert visit.page.input_value("#model") == "0" and visit.page.input_value("#beside") == ""
        visit.fresh(lambda: visit.page.locator("#samples button").nth(1).click())
        assert visit.page.inner_text("#status") == "Street 2"
    assert visit.page.locator("figcaption").count() == 1
    visit.page.evaluate("(model) => { edgeseg.catalog.bundles[1].model = model; }", kept)
    visit.fresh(lambda: visit.page.locator("#samples button").first.click())


def _this_device_is_measured(visit: Visit, bundle: Bundle, reports: Path) -> None:
    visit.page.click("#measure")
    for key in ("m", "b", "d", "n"):
        visit.page.keyboard.press(key)
    held = visit.page.evaluate("[...document.querySelectorAll('.bar, #choices')].map((part) => part.inert)")
    assert held == [True, True], "what would change the figures can be chosen while they are taken"
    visit.until("document.getElementById('measure-result').textContent", 240)
    visit.shot("measured")
    assert visit.page.evaluate("edgeseg.models.current.id") == "0"
    assert visit.page.locator("[inert]").count() == 0
    assert "linear" in visit.page.inner_text("#measure-result dl")
    assert "Sent." in visit.page.inner_text("#measure-result"), visit.page.inner_text("#measure-result")
    (path,) = reports.glob("*.json")
    measured = read_measurement(path)
    assert measured.target == "onnxruntime-web" and measured.machine.platform == "browser"
    assert measured.frames == 100 and measured.startup and measured.noise
    assert measured.miou == pytest.approx(_miou(bundle), abs=0.002)
    page = visit.context.new_page()
    page.goto(visit.page.url + "reports")
    assert "onnxruntime-web" in page.inner_text("main")
    page.close()


def _miou(bundle: Bundle) -> float:
    """On the bundle's own labelled images, by Python."""
    assert bundle.manifest.eval
    frames = SplitFrames(bundle, bundle.root / bundle.manifest.eval, "val")
    matrix = ConfusionMatrix(len(frames.info.classes), frames.info.ignore_index)
    with Segmenter(bundle, 1) as segmenter:
        for index in range(len(frames)):
            matrix.update(segmenter.segment(frames.image(index)), frames.mask(index))
    return matrix.miou()


def _the_domain_switches_to_ct(visit: Visit, bundle: Bundle) -> None:
    visit.fresh(lambda: visit.page.keyboard.press("d"))
    visit.until("edgeseg.stage.source.isCt === true")
    assert visit.page.is_visible("#level") and visit.page.input_value("#window") == "500"
    sample = ROOT / "deploy" / "web" / "samples" / "ct-1.png"
    with Segmenter(bundle, 1) as segmenter:
        expected = segmenter.segment(read_image(sample, HuScale(32768, (-200.0, 300.0))))
    visit.fresh(lambda: visit.page.evaluate("edgeseg.stage.touch()"))
    assert np.mean(visit.labels() == expected) >= 0.999
    visit.fresh(lambda: visit.slide("level", 400))
    assert visit.page.evaluate("edgeseg.stage.source.window.join()") == "150,650"
    visit.shot("ct")


def _a_window_wider_than_the_sliders(visit: Visit) -> None:
    """The sliders reach the model's window, and each of them changes its own figure only."""
    sample = visit.page.locator("#samples button").last
    window = "edgeseg.models.current.manifest.preprocess.hu_window"
    visit.page.evaluate(f"{window} = [-1024, 3071]")
    visit.fresh(sample.click)
    assert visit.page.locator("#ct output").all_inner_texts() == ["1023.5 HU", "4095 HU"]
    visit.fresh(lambda: visit.slide("level", 1001))
    assert visit.page.locator("#ct output").all_inner_texts() == ["1001 HU", "4095 HU"]
    assert visit.page.evaluate("edgeseg.stage.source.window") == [1001 - 2047.5, 1001 + 2047.5]
    visit.fresh(lambda: visit.page.click("#window-reset"))
    assert visit.page.evaluate("edgeseg.stage.source.window.join()") == "-1024,3071"
    visit.page.evaluate(f"{window} = [-200, 300]")
    visit.fresh(sample.click)


def _a_slice_larger_than_the_page_takes(visit: Visit, path: Path) -> None:
    cv2.imwrite(str(path), np.full((30, 4096), 32768, np.uint16))
    visit.fresh(lambda: visit.page.set_input_files("#file", str(path)))
    assert visit.labels().shape == (15, 2048)


def _a_picture_stays_where_the_domain_changes(visit: Visit, picture: Path) -> None:
    visit.fresh(lambda: visit.page.set_input_files("#file", str(picture)))
    assert "not a CT slice" in visit.page.inner_text("#status")
    assert not visit.page.is_visible("#level"), "a window for a picture that has none"
    other = "1" if visit.page.input_value("#threads") != "1" else "2"
    visit.page.select_option("#threads", other)
    visit.until("document.getElementById('status').textContent !== 'Loading the model'")
    assert "not a CT slice" in visit.page.inner_text("#status")
    visit.fresh(lambda: visit.page.keyboard.press("d"))
    visit.until(
        "edgeseg.models.current.id === '0' && document.getElementById('status').textContent === 'larger.png'"
    )
    assert visit.page.evaluate("edgeseg.stage.source.title") == picture.name


def test_the_camera_runs(camera_visit: Visit, serve: Any, bundles: list[Bundle], tmp_path: Path) -> None:
    with serve([bundles[0].root], tmp_path) as server:
        camera_visit.page.goto(f"http://localhost:{server.port}/")
        camera_visit.until(READY)
        camera_visit.page.click("#camera")
        camera_visit.until("edgeseg.stage.source.title === 'Camera'")
        camera_visit.fresh(lambda: None)
        camera_visit.fresh(lambda: None)
        camera_visit.shot("camera")
        camera_visit.page.set_input_files("#file", str(_webm(tmp_path / "clip.webm")))
        camera_visit.until("edgeseg.stage.source.title === 'clip.webm'")
        for _ in range(3):
            camera_visit.fresh(lambda: None)
        assert camera_visit.labels().shape == (48, 64)
        assert camera_visit.said == []


def _webm(path: Path) -> Path:
    """A second of noise, in a codec that every Chromium has."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"VP80"), 30, (64, 48))
    for number in range(30):
        writer.write(np.random.default_rng(number).integers(0, 256, (48, 64, 3), np.uint8))
    writer.release()
    return path


def test_behind_a_certificate_of_its_own(
    browser: Any, serve: Any, bundles: list[Bundle], tmp_path: Path
) -> None:
    """As a phone sees it: the link's token, HTTPS, threads, no offline use, and that is said."""
    options = ("--host", "0.0.0.0", "--tls")
    with serve([bundles[0].root], tmp_path / "reports", *options, home=tmp_path) as server:
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        assert page.goto(server.origin + "/").status == 401
        page.goto(f"{server.origin}/?token={server.token}")
        assert page.url == server.origin + "/"
        end = time.monotonic() + 60
        while not page.evaluate(f"{READY} && document.getElementById('offline').textContent !== ''"):
            assert time.monotonic() < end, page.inner_text("body")
            time.sleep(0.1)
        assert page.evaluate("crossOriginIsolated")
        context.close()


def test_a_domain_of_a_bundle_is_a_model_of_its_own(
    browser: Any, serve: Any, packed: Path, tmp_path: Path
) -> None:
    opened = Visit(browser, "desk", tmp_path)
    with serve([packed], tmp_path / "reports") as server:
        opened.page.goto(f"http://localhost:{server.port}/")
        opened.until(READY)
        opened.page.keyboard.press("m")
        opened.until("edgeseg.models.current.id === '0+swap' && edgeseg.stage.panes.length === 1")
        opened.until(f"{READY} && edgeseg.stage.panes[0].element.textContent.startsWith('tiny, fp32')")
        opened.fresh(lambda: opened.page.evaluate("edgeseg.stage.touch()"))
        with Segmenter(load_bundle(packed, domain="swap"), 1) as segmenter:
            expected = segmenter.segment(read_image(ROOT / "deploy" / "web" / "samples" / "street-1.png"))
        assert np.array_equal(opened.labels(), expected)
        assert opened.page.locator("#legend .name").all_inner_texts() == ["blue", "green", "red"]
        assert opened.said == []
    opened.context.close()


def test_a_full_disk_is_said(browser: Any, serve: Any, packed: Path, tmp_path: Path) -> None:
    opened = Visit(browser, "desk", tmp_path)
    with serve([packed], tmp_path / "reports") as server:
        least = {"origin": f"http://localhost:{server.port}", "quotaSize": 1}
        opened.context.new_cdp_session(opened.page).send("Storage.overrideQuotaForOrigin", least)
        opened.page.goto(f"http://localhost:{server.port}/")
        opened.until("document.getElementById('offline').textContent")
        assert "not kept for offline use: Quota" in opened.page.inner_text("#offline")
    opened.context.close()


def test_logits_from_normalised_floats(browser: Any, serve: Any, make_bundle: Any, tmp_path: Path) -> None:
    """A bundle that leaves normalisation, upsampling and argmax to the device."""
    bundle = make_bundle("logits", (48, 64))
    opened = Visit(browser, "desk", tmp_path)
    with serve([bundle.root], tmp_path / "reports") as server:
        opened.page.goto(f"http://localhost:{server.port}/")
        opened.until(READY)
        with Segmenter(bundle, 1) as segmenter:
            expected = segmenter.segment(read_image(ROOT / "deploy" / "web" / "samples" / "street-1.png"))
        assert np.mean(opened.labels() == expected) >= 0.999
        opened.page.click("#measure")
        opened.until("document.getElementById('measure-result').textContent", 120)
        assert "Sent." in opened.page.inner_text("#measure-result")
        assert opened.said == []
    opened.context.close()
