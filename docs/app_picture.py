"""Takes docs/images/app.png: the page in a real browser, on a desk and on a phone.

Run after `make demo` and `make web`: `python docs/app_picture.py [BUNDLE...]` (default: those of the demo).
Nothing is retouched: two screenshots, side by side.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.browser import CHROMIUM, serving  # noqa: E402
from deploy.files import atomic_write_bytes  # noqa: E402

DESK, PHONE = (1180, 720), (390, 720)
READY = "edgeseg.stage.panes.length && edgeseg.stage.panes.every((p) => /fps/.test(p.element.textContent))"
GAP = 24


def main(folders: list[str]) -> None:
    """Write the picture."""
    demo = [ROOT / "bundles" / f"demo-{name}" for name in ("domains", "softmax")]
    with serving(*(map(Path, folders) if folders else demo)) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        desk = browser.new_page(viewport={"width": DESK[0], "height": DESK[1]})
        desk.goto(address)
        settle(desk)
        desk.keyboard.press("b")
        desk.keyboard.press("s")
        settle(desk)
        phone = browser.new_page(viewport={"width": PHONE[0], "height": PHONE[1]}, color_scheme="dark")
        phone.goto(address)
        settle(phone)
        shots = [decoded(page.screenshot()) for page in (desk, phone)]
        browser.close()
    gap = np.full((DESK[1], GAP, 3), 255, np.uint8)
    data = cv2.imencode(".png", np.hstack([shots[0], gap, shots[1]]), [cv2.IMWRITE_PNG_COMPRESSION, 9])[1]
    atomic_write_bytes(ROOT / "docs" / "images" / "app.png", data.tobytes())


def settle(page: Page) -> None:
    """Wait until every model has shown its figures, and the machine its second ones."""
    end = time.monotonic() + 120
    time.sleep(2)
    while not page.evaluate(f"Boolean(globalThis.edgeseg && {READY})"):
        assert time.monotonic() < end, page.inner_text("#status")
        time.sleep(0.2)
    time.sleep(2)


def decoded(data: bytes) -> Any:
    """PNG bytes -> pixels."""
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)


if __name__ == "__main__":
    main(sys.argv[1:])
