"""Command line of calibration, `python -m calibration COMMAND`: what it offers, no more."""

from __future__ import annotations

import sys

from deploy.errors import run_cli
from deploy.options import dispatch

COMMANDS = {
    "collect": ("calibration.collect", "choose the training images that INT8 ranges are taken from"),
}


def main() -> int:
    """Run the command that the command line names."""
    return dispatch("calibration", "Precision, by measurement.", COMMANDS)


if __name__ == "__main__":
    sys.exit(run_cli(main))
