"""Command line of export, `python -m export COMMAND`: what it offers, no more."""

from __future__ import annotations

import sys

from deploy.errors import run_cli
from deploy.options import dispatch

COMMANDS = {
    "list": ("export.listing", "every target, available here or not, and why"),
    "build": (
        "export.build",
        "build a bundle for a target, and prove that it computes the checkpoint's masks",
    ),
    "all": ("export.everything", "every available target in every precision, each proven, as one table"),
}


def main() -> int:
    """Run the command that the command line names."""
    return dispatch("export", "Checkpoints to proven bundles.", COMMANDS)


if __name__ == "__main__":
    sys.exit(run_cli(main))
