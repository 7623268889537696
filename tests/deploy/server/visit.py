"""A page that was opened in a real, headless Chromium: what the browser's tests do with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"desk": (1280, 800), "phone": (390, 844)}
READY = "Boolean(globalThis.edgeseg?.stage.panes[0]?.labels)"


class Visit:
    """A page that was opened, and what its console said."""

    def __init__(self, browser: Any, name: str, folder: Path, **options: Any) -> None:
        width, height = SIZES[name]
        phone = {"is_mobile": True, "has_touch": True} if name == "phone" else {}
        self.context = browser.new_context(viewport={"width": width, "height": height}, **phone, **options)
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


class Held:
    """Requests that wait until they are let go."""

    def __init__(self, visit: Visit, pattern: str) -> None:
        self.visit, self.pattern = visit, pattern
        self.waiting: list[Any] = []
        self.free = False  # the route stays: there is no moment without one
        visit.context.route(pattern, lambda route: self._came(route))

    def _came(self, route: Any) -> None:
        if self.free:
            route.continue_()
        else:
            self.waiting.append(route)

    def come(self) -> None:
        """Wait for the first one."""
        end = time.monotonic() + 30
        while not self.waiting:
            said = f"{self.visit.page.inner_text('#status')}; {self.visit.said}"
            assert time.monotonic() < end, f"nobody asked for {self.pattern}; {said}"
            self.visit.page.wait_for_timeout(20)

    def let_go(self) -> None:
        """All of them, those that still come too."""
        self.free = True
        for route in self.waiting:
            route.continue_()
        self.visit.page.wait_for_timeout(500)
