"""The page in a real, headless Chromium: what a visitor does, on a desk and on a phone.

Screenshots stay in the test's temporary folder, or in $EDGESEG_SCREENSHOTS.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from deploy.bundle import Bundle, Preprocess, Provenance, load_bundle
from deploy.frames import SplitFrames
from deploy.measurement import read_measurement
from deploy.metrics import ConfusionMatrix
from deploy.preprocess import HuScale, read_image
from deploy.segmenter import Segmenter

ROOT = Path(__file__).resolve().parents[3]
SIZES = {"desk": (1280, 800), "phone": (390, 844)}
READY = "Boolean(globalThis.edgeseg?.stage.panes[0]?.labels)"
B0_CODE = """
import sys, torch
from pipeline.models.checkpoints import CheckpointMeta, save_checkpoint
from pipeline.models.efficientvit import create_model
from pipeline.datasets.streetscene import labels
for attention in ("linear", "softmax"):
    torch.manual_seed(0)
    model = create_model("b0", 9, attention)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.05)
            module.running_var.uniform_(0.5, 1.5)
    data = {"name": "synthetic", "classes": list(labels.NAMES), "palette": [list(c) for c in labels.DISPLAY],
            "ignore_index": labels.IGNORE, "licence": "CC0-1.0"}
    meta = CheckpointMeta({"variant": "b0", "attention": attention, "classes": 9, "head": "cityscapes"}, data,
                          {"size": [96, 128], "resize": "stretch"})
    save_checkpoint(sys.argv[1] + f"/{attention}.safetensors", model.state_dict(), meta)
"""


@pytest.fixture(scope="module", params=["tiny", pytest.param("b0", marks=pytest.mark.slow)])
def bundles(
    request: pytest.FixtureRequest, make_bundle: Any, colour_folder: Path, tmp_path_factory: Any
) -> list[Bundle]:
    """Two models of one domain with labelled images, linear and softmax, and a third one for CT."""
    rule = Preprocess((24, 32), (0.5, 0.5, 0.5), (1.0, 1.0, 1.0), in_graph=True, hu_window=(-200.0, 300.0))
    ct = make_bundle(preprocess=rule, provenance=_provenance("phantom", "linear"))
    if request.param == "b0":
        return [*_real(tmp_path_factory.mktemp("b0")), ct]
    more = {"eval": colour_folder}
    street = [
        make_bundle(more=more, eval="eval", provenance=_provenance("street", attention))
        for attention in ("linear", "softmax")
    ]
    return [*street, ct]


def _provenance(domain: str, attention: str) -> Provenance:
    return Provenance(None, "0" * 64, {}, {domain: "CC0"}, {"variant": "tiny", "attention": attention})


def _real(folder: Path) -> list[Bundle]:
    """B0 with both kinds of attention, untrained, exported with labelled images."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", B0_CODE, str(folder)], check=True, env=environment)
    prepare = "-m pipeline prepare --kind synthetic --train 1 --val 4 --size 96x128 --out"
    subprocess.run([sys.executable, *prepare.split(), f"{folder}/data"], check=True, env=environment)
    for attention in ("linear", "softmax"):
        words = ["--checkpoint", f"{folder}/{attention}.safetensors", "--target", "onnxruntime"]
        words += ["--data", f"{folder}/data", "--eval", "4", "--out", f"{folder}/{attention}"]
        subprocess.run([sys.executable, "-m", "export", "build", *words], check=True, env=environment)
    return [load_bundle(folder / attention) for attention in ("linear", "softmax")]


@pytest.fixture(scope="module")
def browser(needs_web: None) -> Iterator[Any]:
    """Debian's Chromium under Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: make system")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        running = driver.chromium.launch(executable_path=chromium, args=arguments)
        yield running
        running.close()


class Visit:
    """A page that was opened, and what its console said."""

    def __init__(self, browser: Any, name: str, folder: Path) -> None:
        width, height = SIZES[name]
        phone = {"is_mobile": True, "has_touch": True} if name == "phone" else {}
        self.context = browser.new_context(viewport={"width": width, "height": height}, **phone)
        self.page = self.context.new_page()
        self.name, self.folder, self.said = name, folder, []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))

    def until(self, expression: str, seconds: float = 60) -> None:
        """Wait for it; the page's own policy forbids Playwright's way, which evaluates text in the page."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < end, f"{expression}; {self.page.inner_text('#status')}; {self.said}"
            time.sleep(0.05)

    def labels(self, pane: int = 0) -> np.ndarray:
        """The label map that a pane shows, `[H, W]`."""
        told = self.page.evaluate(f"""(() => {{ const pane = edgeseg.stage.panes[{pane}];
            return [pane.canvas.height, pane.canvas.width, ...pane.labels]; }})()""")
        return np.array(told[2:], np.uint8).reshape(told[:2])

    def fresh(self, action: Callable[[], Any]) -> None:
        """Do something, and wait for a label map that was made after it."""
        self.page.evaluate("edgeseg.stage.panes.forEach((pane) => { pane.labels = null; })")
        action()
        self.until(f"{READY} && edgeseg.stage.panes.every((pane) => pane.labels)")

    def slide(self, name: str, value: int) -> None:
        """Move a slider."""
        code = f"(() => {{ const s = document.getElementById('{name}'); s.value = {value}; s.oninput(); }})()"
        self.page.evaluate(code)

    def shot(self, what: str) -> None:
        """Keep a screenshot of the whole page."""
        self.page.screenshot(path=str(self.folder / f"{self.name}-{what}.png"), full_page=True)


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
        _the_view_obeys(visit)
        _two_models_side_by_side(visit)
        _a_model_that_does_not_load_stops_no_other(visit)
        _this_device_is_measured(visit, bundles[0], tmp_path / "reports")
        _the_domain_switches_to_ct(visit, bundles[2])
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
    expected = [line for line in visit.said if "ERR_CONNECTION_REFUSED" not in line]  # of the stopped server
    assert expected == []


def _a_picture_is_segmented_as_in_python(visit: Visit, bundle: Bundle, folder: Path) -> None:
    height, width = bundle.manifest.preprocess.size
    rng = np.random.default_rng(0)
    for name, size in (("own size", (height, width)), ("larger", (2 * height + 3, 3 * width))):
        coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
        path = folder / f"{name}.png"
        cv2.imwrite(str(path), cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_CUBIC))
        visit.fresh(lambda path=path: visit.page.set_input_files("#file", str(path)))
        with Segmenter(bundle, 1) as segmenter:
            expected = segmenter.segment(read_image(path))
        assert np.mean(visit.labels() == expected) >= 0.999
    assert visit.page.inner_text("#status") == "larger.png"


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


def _two_models_side_by_side(visit: Visit) -> None:
    visit.fresh(lambda: visit.page.keyboard.press("b"))
    visit.until("edgeseg.stage.panes.length === 2")
    visit.until("edgeseg.stage.panes.every((pane) => pane.labels && /fps/.test(pane.element.textContent))")
    captions = visit.page.locator("figcaption").all_inner_texts()
    assert "linear" in captions[0] and "softmax" in captions[1]
    assert all(re.search(r"[\d.]+ ms, [\d.]+ fps", caption) for caption in captions)
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
    refused = visit.page.evaluate("""(() => {
        const broken = { ...edgeseg.models.current, model: "/icon.svg" };
        return edgeseg.stage.open([broken], 1, () => "broken").then(() => "", (error) => error.message);
    })()""")
    assert refused and visit.page.evaluate("edgeseg.stage.panes.length") == 0
    visit.page.evaluate("edgeseg.stage.open([edgeseg.models.current], 1, () => 'again')")
    visit.until(READY)


def _this_device_is_measured(visit: Visit, bundle: Bundle, reports: Path) -> None:
    visit.page.click("#measure")
    visit.until("document.getElementById('measure-result').textContent", 240)
    visit.shot("measured")
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


def _a_picture_stays_where_the_domain_changes(visit: Visit, picture: Path) -> None:
    visit.fresh(lambda: visit.page.set_input_files("#file", str(picture)))
    assert "not a CT slice" in visit.page.inner_text("#status")
    visit.fresh(lambda: visit.page.keyboard.press("d"))
    visit.until("edgeseg.models.current.id === '0' && document.getElementById('status').textContent")
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
