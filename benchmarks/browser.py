"""`python -m benchmarks.browser BUNDLE --json FILE`: a bundle in Chromium against ONNX Runtime, same threads.

Alternates fresh processes: "Measure this device" of the page in headless Chromium, and `deploy bench` on the
same labelled images (the bundle's own `eval/`, else the golden's frames). Also what a browser downloads to
show the page with this bundle, compressed. Needs `edgeseg[serve]`, Playwright, Chromium and `make web`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import record
from benchmarks.rounds import ROOT
from deploy.bundle import load_bundle
from deploy.errors import run_cli
from deploy.measurement import Measurement, measurement_from_json
from deploy.options import Parser, count
from deploy.progress import track
from deploy.turns import measured, ratios

CHROMIUM = "/usr/bin/chromium"
MEASURE = """async ([threads, frames]) => {
  const { measure } = await import("/measure.js");
  const { models, catalog } = edgeseg;
  return await measure(models.current, threads, catalog.runtime_version, () => {}, frames);
}"""
READY = "Boolean(globalThis.edgeseg?.stage.panes[0]?.labels)"
_LONGEST_S = 300.0


def main() -> None:
    """Alternate both, and write the medians and ratios."""
    parser = Parser(prog="python -m benchmarks.browser", description="a bundle in Chromium and natively")
    parser.add_argument("bundle", type=Path, metavar="BUNDLE")
    parser.add_argument("--threads", type=count, default=2, help="default: 2")
    parser.add_argument("--frames", type=count, default=100, help="default: 100")
    parser.add_argument("--rounds", type=count, default=3, help="default: 3")
    parser.add_argument("--json", required=True, metavar="FILE", help="where the result goes (- for stdout)")
    parser.set_defaults(seconds=0.0)
    args: argparse.Namespace = parser.parse_args()
    manifest = load_bundle(args.bundle).manifest
    words = ["--threads", str(args.threads), "--frames", str(args.frames)]
    words += ["--data", str(args.bundle / manifest.eval)] if manifest.eval else []
    browser, native = [], []
    for _ in track(range(args.rounds), "browser"):
        browser.append(in_browser(args.bundle, args.threads, args.frames))
        native.append(measured(args.bundle, words))
    loaded = {"size": list(manifest.preprocess.size), "first_load_bytes": first_load_bytes(args.bundle)}
    record.write("browser", args, {**loaded, **figures(browser, native)})


def figures(browser: Sequence[Measurement], native: Sequence[Measurement]) -> dict[str, Any]:
    """The medians of both, and the ratio round by round."""
    spread = ratios(*([one.latency_ms.p50 for one in side] for side in (browser, native)))
    slower = dict(zip(("median", "min", "max"), spread, strict=True))
    return {"slower": slower, "browser": _side(browser), "native": _side(native)}


def _side(rounds: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "versions": rounds[0].versions,
        "miou": rounds[0].miou,
        "p50_ms": statistics.median(one.latency_ms.p50 for one in rounds),
        "fps": statistics.median(one.throughput_fps for one in rounds),
        "noisy": [one.noise is not None and one.noise.noisy for one in rounds],
    }


def first_load_bytes(bundle: Path) -> int:
    """Of the page, the runtime, the samples and the bundle without golden and labelled images, compressed."""
    from deploy.server.assets import bundle_assets, page_assets
    from deploy.server.catalog import load_bundles

    files = {path: asset.wire_bytes for path, asset in page_assets().items()}
    found = bundle_assets(load_bundles([bundle])).items()
    files |= {p: asset.wire_bytes for p, asset in found if "/eval/" not in p and not p.endswith(".npz")}
    return sum(files.values())


def in_browser(bundle: Path, threads: int, frames: int) -> Measurement:
    """The page's own measurement in a new browser."""
    from playwright.sync_api import sync_playwright

    with serving(bundle) as address, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(_LONGEST_S * 1000)
        page.goto(address)
        end = time.monotonic() + _LONGEST_S
        while not page.evaluate(READY):
            if time.monotonic() > end:
                raise RuntimeError(f"the page does not start: {page.inner_text('#status')}")
            time.sleep(0.1)
        told = page.evaluate(MEASURE, [threads, frames])
        browser.close()
    return measurement_from_json(told, "the page's report")


@contextmanager
def serving(*bundles: Path) -> Iterator[str]:
    """The page's address."""
    with TemporaryDirectory() as reports:
        command = [sys.executable, "-m", "deploy", "serve", *map(str, bundles)]
        command += ["--port", "0", "--reports", reports]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                found = re.search(r"http://\S+", process.stdout.readline())
                assert found
                yield found[0]
            finally:
                process.terminate()


if __name__ == "__main__":
    sys.exit(run_cli(main))
