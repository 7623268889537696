"""Command line of the device side, `python -m deploy COMMAND`: what it offers, no more."""

from __future__ import annotations

import sys

from deploy.errors import run_cli
from deploy.options import dispatch

COMMANDS = {
    "info": ("deploy.info", "what a bundle is"),
    "verify": ("deploy.verify", "check hashes and replay the golden on this machine"),
    "run": ("deploy.run", "an image or a folder -> masks and overlays"),
    "bench": ("deploy.bench", "speed, memory and mIoU as JSON"),
    "serve": ("deploy.serve", "a page that runs bundles in the visitor's browser"),
    "demo": ("deploy.demo", "a camera, a video or a folder through a bundle, on screen"),
    "push": ("deploy.push", "a bundle and this program to devices, verified there"),
    "report": ("deploy.report", "one HTML page or CSV table of many bench files"),
    "compare": ("deploy.compare", "old against new bench files: exit status 1 if slower"),
}
INTERNAL = {
    "_memory": ("deploy.memory", "peak memory of this process (started by bench)"),
    "_ondevice": ("deploy.ondevice", "the device's side of a remote run (started over ssh)"),
    "_onefile": ("deploy.onefile", "this package as one file (started by make device)"),
    "_vendor": ("deploy.server.vendor", "onnxruntime-web beside the page (started by make web)"),
}


def main() -> int:
    """Run the command that the command line names."""
    return dispatch("deploy", "Run and measure bundles.", COMMANDS, INTERNAL)


if __name__ == "__main__":
    sys.exit(run_cli(main))
