"""Choices that overtake each other, and what does not come, on the page in Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np

from deploy.bundle import Bundle
from tests.deploy.server.visit import READY, Held, Visit


def test_the_last_choice_wins(browser: Any, serve: Any, bundles: list[Bundle], tmp_path: Path) -> None:
    opened = Visit(browser, "desk", tmp_path, service_workers="block")
    with serve([bundle.root for bundle in bundles], tmp_path / "reports") as server:
        opened.page.goto(f"http://localhost:{server.port}/")
        opened.until(READY)
        _a_picture_that_comes_late(opened, tmp_path / "own.png")
        _a_domain_left_before_its_sample_came(opened)
        _a_key_held_down(opened)
        assert opened.said == ["warning: Service Worker registration blocked by Playwright"]
    opened.context.close()


def _a_picture_that_comes_late(visit: Visit, own: Path) -> None:
    cv2.imwrite(str(own), np.full((24, 32, 3), 90, np.uint8))
    late = Held(visit, "**/street-2.png")
    visit.page.locator("#samples button").nth(1).click()
    late.come()
    visit.fresh(lambda: visit.page.set_input_files("#file", str(own)))
    late.let_go()
    assert visit.page.evaluate("edgeseg.stage.source.title") == visit.page.inner_text("#status") == own.name


def _a_domain_left_before_its_sample_came(visit: Visit) -> None:
    late = Held(visit, "**/ct-1.png")
    visit.page.keyboard.press("d")
    late.come()
    visit.page.keyboard.press("d")
    late.let_go()
    visit.fresh(lambda: visit.page.evaluate("edgeseg.stage.touch()"))
    assert visit.page.evaluate("edgeseg.models.current.id") == visit.page.input_value("#model") == "0"
    assert visit.page.inner_text("#status") == "own.png"
    assert not visit.page.evaluate("document.getElementById('status').classList.contains('error')")


def _a_key_held_down(visit: Visit) -> None:
    """Of so many requests only the last one is loaded."""
    workers: list[str] = []
    visit.page.on("worker", lambda worker: workers.append(worker.url))
    late = Held(visit, "**/bundles/1/model.onnx")
    for _ in range(9):
        visit.page.keyboard.press("m")
    late.come()
    late.let_go()
    visit.until("edgeseg.stage.panes[0].element.textContent.includes('softmax')")
    visit.fresh(lambda: visit.page.evaluate("edgeseg.stage.touch()"))
    assert visit.page.evaluate("edgeseg.models.current.id") == visit.page.input_value("#model") == "1"
    loads = [url for url in workers if url.endswith("worker.js")]
    assert len(loads) == 2, "the first one, which was on its way, and the last one"


def test_what_did_not_come_is_said(browser: Any, serve: Any, bundles: list[Bundle], tmp_path: Path) -> None:
    """The first picture, or the list of models."""
    opened = Visit(browser, "desk", tmp_path, service_workers="block")
    failed = "document.getElementById('status').classList.contains('error')"
    with serve([bundles[0].root], tmp_path / "reports") as server:
        opened.context.route("**/street-1.png", lambda route: route.abort())
        opened.page.goto(f"http://localhost:{server.port}/")
        opened.until(failed)
        assert opened.page.inner_text("#status") == "/samples/street-1.png: the server does not answer"
        opened.page.locator("#samples button").nth(1).click()
        opened.until(READY)
        opened.context.route("**/catalog.json", lambda route: route.fulfill(status=503))
        opened.page.reload()
        opened.until(failed)
        assert (
            opened.page.inner_text("#status")
            == "/catalog.json: the server answers 503. Reload the page later."
        )
    opened.context.close()
