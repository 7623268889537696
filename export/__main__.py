"""Command line of export: `python -m export list|build`. Only parses and dispatches."""

from __future__ import annotations

import importlib
import sys

from deploy.errors import run_cli
from deploy.options import Parser

COMMANDS = {
    "list": ("export.listing", "every target, available here or not, and why"),
    "build": (
        "export.build",
        "build a bundle for a target, and prove that it computes the checkpoint's masks",
    ),
}


def main() -> int:
    """Parse the command line and run the command's module; only that module is imported."""
    parser = Parser(prog="python -m export", description="Checkpoints to proven bundles.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text)
        if sys.argv[1:2] == [name]:
            importlib.import_module(module).add_arguments(command)
    args = parser.parse_args()
    status = importlib.import_module(COMMANDS[args.command][0]).run(args)
    return int(status)


if __name__ == "__main__":
    sys.exit(run_cli(main))
