"""A real server in a process of its own, its bundles, plain HTTP to talk to it, and Chromium to visit it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploy.bundle import Bundle, Preprocess, Provenance, load_bundle

ROOT = Path(__file__).resolve().parents[3]
VENDOR = ROOT / "deploy" / "web" / "ort" / "ort-wasm-simd-threaded.wasm"
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


@dataclass
class Server:
    """What a started server printed: its port and token; `request` talks to it."""

    process: subprocess.Popen[str]
    port: int
    token: str | None
    tls: bool
    reports: Path

    @property
    def origin(self) -> str:
        return f"http{'s' if self.tls else ''}://localhost:{self.port}"

    def connect(self, timeout: float = 20) -> http.client.HTTPConnection:
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """(status, headers, body); `host_`-like names lose their underscore."""
        connection = self.connect()
        try:
            named = {key.strip("_").replace("_", "-"): value for key, value in headers.items()}
            named.setdefault("host", f"localhost:{self.port}")
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def post(self, report: Any, **headers: str) -> tuple[int, Any]:
        """Send a report as the page does."""
        body = report if isinstance(report, bytes) else json.dumps(report).encode()
        headers = {"origin": self.origin, "content_type": "application/json", **headers}
        status, _, data = self.request("/reports", "POST", body, **headers)
        return status, json.loads(data) if data.startswith(b"{") else data.decode()


@contextmanager
def serving(bundles: list[Path], reports: Path, *options: str, home: Path | None = None) -> Iterator[Server]:
    """`python -m deploy serve` on a free port."""
    command = [sys.executable, "-m", "deploy", "serve", *map(str, bundles), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(home or reports)}
    process = subprocess.Popen(
        [*command, "--reports", str(reports), *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # tests in the background ignore it
    )  # fmt: skip
    try:
        said = []
        assert process.stdout
        for line in process.stdout:
            said.append(line)
            if line.startswith("measurements go to"):
                break
        found = re.search(r"open (https?)://\S+?:(\d+)/(?:\?token=(\S+))?", "".join(said))
        assert found, said
        yield Server(process, int(found[2]), found[3], found[1] == "https", reports)
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="session")
def needs_web() -> None:
    """Skips where onnxruntime-web is not beside the page (`make test` fetches it)."""
    pytest.importorskip("starlette", reason="edgeseg[serve] is not installed")
    if not VENDOR.is_file():
        pytest.skip("onnxruntime-web is not beside the page: make web")


@pytest.fixture(scope="session")
def serve() -> Callable[..., Any]:
    """serve(bundles, reports folder, *options): a context manager that gives a running `Server`."""
    return serving


@pytest.fixture(scope="module")
def server(needs_web: None, tiny_bundle: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """On loopback, without TLS."""
    with serving([tiny_bundle.root], tmp_path_factory.mktemp("reports")) as running:
        yield running


@pytest.fixture(scope="session")
def make_report() -> Callable[..., dict[str, Any]]:
    """make_report(bundle, **changes): a valid report of a browser."""

    def make(bundle: Any, **changes: Any) -> dict[str, Any]:
        manifest = bundle.manifest
        times = {"p50": 10.0, "p90": 11.0, "p99": 12.0, "mean": 10.2}
        machine = {
            "cpu_model": None, "architecture": "x86_64", "cores": 2, "memory_bytes": None, "os": "Linux",
            "python": None, "platform": "browser", "absent": {"cpu_model": "a browser does not tell"},
        }  # fmt: skip
        report = {
            "schema_version": 2, "name": manifest.name, "proof": "executed", "target": "onnxruntime-web",
            "precision": "fp32", "options": manifest.target.options, "size": list(manifest.preprocess.size),
            "model": manifest.provenance.model, "dataset": None, "images": 0, "miou": None, "iou": None,
            "pixel_accuracy": None, "accuracy_reason": "no labelled images", "frames": 100, "warmup": 10,
            "latency_ms": times, "stages_ms": {"preprocess": 1.0, "inference": 8.0, "postprocess": 1.0},
            "throughput_fps": 98.0, "peak_memory_bytes": None, "peak_memory_reason": "not told",
            "threads": 2, "bundle_bytes": sum(entry.bytes for entry in manifest.files),
            "bundle_sha256": bundle.sha256, "machine": machine, "versions": {"onnxruntime-web": "1.30.0"},
            "command": "", "timestamp": "",
        }  # fmt: skip
        return {**report, **changes}

    return make


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
def browser(needs_web: None, chromium: Any) -> Any:
    """Chromium, where onnxruntime-web is beside the page."""
    return chromium
