"""Command line of calibration: `python -m calibration collect`. Only parses and dispatches."""

from __future__ import annotations

import importlib
import sys

from deploy.errors import run_cli
from deploy.options import Parser

COMMANDS = {
    "collect": ("calibration.collect", "choose the training images that INT8 ranges are taken from"),
}


def main() -> int:
    """Parse the command line and run the command's module; only that module is imported."""
    parser = Parser(prog="python -m calibration", description="Precision, by measurement.")
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
