"""`python -m benchmarks.browser BUNDLE --json FILE`: a bundle in Chromium against ONNX Runtime, same threads.

Alternates fresh processes: "Measure this device" of the page in headless Chromium, and `deploy bench` on the
same labelled images (the bundle's own `eval/`, else the golden's frames). Also what a browser downloads to
show the page with this bundle, compressed. Needs `edgeseg[serve]`, Playwright, Chromium and `make web`.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.rounds import ROOT
from deploy.bundle import load_bundle
from deploy.device import this_machine
from deploy.files import write_json
from deploy.options import count

CHROMIUM = "/usr/bin/chromium"
MEASURE = """async ([threads, frames]) => {
  const { measure } = await import("/measure.js");
  const { models, catalog } = edgeseg;
  return await measure(models.current, threads, catalog.runtime_version, () => {}, frames);
}"""
READY = "Boolean(globalThis.edgeseg?.stage.panes[0]?.labels)"
_LONGEST_S = 300.0

Report = dict[str, Any]


def main() -> None:
    """Alternate both, and write the medians and ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.browser", description=__doc__)
    parser.add_argument("bundle", type=Path, metavar="BUNDLE")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--frames", type=count, default=100)
    parser.add_argument("--rounds", type=count, default=3)
    parser.add_argument("--json", required=True, metavar="FILE", help="- for stdout")
    args = parser.parse_args()
    rounds: dict[str, list[Report]] = {"browser": [], "native": []}
    for number in range(args.rounds):
        print(f"round {number + 1}/{args.rounds}", file=sys.stderr)
        rounds["browser"].append(in_browser(args.bundle, args.threads, args.frames))
        rounds["native"].append(native(args.bundle, args.threads, args.frames))
    write_json(args.json, record(args, rounds))


def record(args: argparse.Namespace, rounds: dict[str, list[Report]]) -> Report:
    """What is stored: the medians of both, and the ratio round by round."""
    p50 = {side: [report["latency_ms"]["p50"] for report in reports] for side, reports in rounds.items()}
    slower = [there / here for there, here in zip(p50["browser"], p50["native"], strict=True)]
    return {
        "schema_version": 1,
        "benchmark": "browser",
        "command": shlex.join(["python", "-m", "benchmarks.browser", *sys.argv[1:]]),
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": asdict(this_machine()),
        "rounds": args.rounds,
        "threads": args.threads,
        "size": list(load_bundle(args.bundle).manifest.preprocess.size),
        "first_load_bytes": first_load_bytes(args.bundle),
        "slower": {"median": statistics.median(slower), "min": min(slower), "max": max(slower)},
        **{side: _side(reports) for side, reports in rounds.items()},
    }


def _side(reports: list[Report]) -> Report:
    return {
        "versions": reports[0]["versions"],
        "miou": reports[0]["miou"],
        "p50_ms": statistics.median(report["latency_ms"]["p50"] for report in reports),
        "fps": statistics.median(report["throughput_fps"] for report in reports),
        "noisy": [report["noise"]["noisy"] for report in reports],
    }


def native(bundle: Path, threads: int, frames: int) -> Report:
    """`deploy bench` in a process of its own."""
    words = ["bench", str(bundle), "--threads", str(threads), "--frames", str(frames), "--json", "-"]
    if folder := load_bundle(bundle).manifest.eval:
        words += ["--data", str(bundle / folder)]
    command = [sys.executable, "-m", "deploy", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    report: Report = json.loads(done.stdout)
    return report


def first_load_bytes(bundle: Path) -> int:
    """Of the page, the runtime, the samples and the bundle without golden and labelled images, compressed."""
    from deploy.server.assets import bundle_assets, page_assets
    from deploy.server.catalog import load_bundles

    files = {path: asset.wire_bytes for path, asset in page_assets().items()}
    found = bundle_assets(load_bundles([bundle])).items()
    files |= {p: asset.wire_bytes for p, asset in found if "/eval/" not in p and not p.endswith(".npz")}
    return sum(files.values())


def in_browser(bundle: Path, threads: int, frames: int) -> Report:
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
        report: Report = page.evaluate(MEASURE, [threads, frames])
        browser.close()
    return report


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
    main()
