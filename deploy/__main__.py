"""Command line of the device side, `python -m deploy info|verify|run|bench|report`: parses and dispatches."""

from __future__ import annotations

import argparse
import importlib
import sys

from deploy.errors import run_cli
from deploy.options import Parser

COMMANDS = {
    "info": ("deploy.info", "what a bundle is"),
    "verify": ("deploy.verify", "check hashes and replay the golden on this machine"),
    "run": ("deploy.run", "an image or a folder -> masks and overlays"),
    "bench": ("deploy.harness", "speed, memory and mIoU as JSON"),
    "report": ("deploy.report", "one HTML page of many bench files"),
}
INTERNAL = {"_memory": ("deploy.memory", "peak memory of this process (started by bench)")}


def main() -> int:
    """Import only the chosen command's module, so that --help needs nothing but the standard library."""
    parser = Parser(prog="python -m deploy", description="Run and measure bundles.")
    listing = "\n".join(f"  {name:<8} {text}" for name, (_, text) in COMMANDS.items())
    parser.usage = "python -m deploy COMMAND ... (COMMAND --help for its options)\n\n" + listing
    parser.add_argument("command", help=argparse.SUPPRESS)
    command = parser.parse_args(sys.argv[1:2] or ["--help"]).command
    if command not in {**COMMANDS, **INTERNAL}:
        parser.error(f"unknown command {command!r}, expected one of {', '.join(COMMANDS)}")
    module_name, text = {**COMMANDS, **INTERNAL}[command]
    module = importlib.import_module(module_name)
    options = Parser(prog=f"python -m deploy {command}", description=text)
    module.add_arguments(options)
    return int(module.run(options.parse_args(sys.argv[2:])))


if __name__ == "__main__":
    sys.exit(run_cli(main))
