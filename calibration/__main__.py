"""Command line of calibration, `python -m calibration COMMAND`: what it offers, no more."""

from __future__ import annotations

import sys

from deploy.errors import run_cli
from deploy.options import dispatch

COMMANDS = {
    "collect": ("calibration.collect", "choose the training images that INT8 ranges are taken from"),
    "inspect": ("calibration.inspect", "what every convolution saw on them, and what 8 bits would cost it"),
    "helps": ("calibration.helps", "what equalisation, bias correction and training for int8 are worth"),
    "search": ("calibration.search", "the fastest precision of every block within a budget of mIoU"),
}


def main() -> int:
    """Run the command that the command line names."""
    return dispatch("calibration", "Precision, by measurement.", COMMANDS)


if __name__ == "__main__":
    sys.exit(run_cli(main))
