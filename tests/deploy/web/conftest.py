"""Node, to run the page's modules without a browser; Chromium, to run the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WEB = Path(__file__).resolve().parents[3] / "deploy" / "web"
_HEAD = """
import { readFileSync, writeFileSync } from "node:fs";
const load = (name) => import(process.env.WEB + "/" + name);
const given = JSON.parse(readFileSync(0, "utf8"));
const bytes = (path) => new Uint8Array(readFileSync(path));
const tell = (value) => process.stdout.write(JSON.stringify(value));
"""


@pytest.fixture(scope="session")
def run_js() -> Callable[..., Any]:
    """run_js(code, given) -> what the code tells; `load(name)` imports a module of the page."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: make system")

    def run(code: str, given: Any) -> Any:
        done = subprocess.run(
            [node, "--input-type=module", "-e", _HEAD + code],
            input=json.dumps(given), capture_output=True, text=True, timeout=60, env={"WEB": str(WEB)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run
