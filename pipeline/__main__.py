"""Command line of data, models and training, `python -m pipeline COMMAND`: parses and dispatches."""

from __future__ import annotations

import argparse
import importlib
import sys

from deploy.errors import run_cli
from deploy.options import Parser

COMMANDS = {
    "prepare": ("pipeline.prepare", "make a labelled folder"),
    "import": ("pipeline.models.official", "official EfficientViT weights -> a checkpoint"),
    "summary": ("pipeline.models.summary", "layers, parameters and operations of a model"),
    "attention": ("pipeline.models.attention_map", "pictures of where a model looks"),
    "train": ("pipeline.train", "train a recipe on a labelled folder"),
    "evaluate": ("pipeline.evaluate", "mIoU of a checkpoint on a labelled split"),
}


def main() -> int:
    """Import only the chosen command's module, so that --help needs nothing but the standard library."""
    parser = Parser(prog="python -m pipeline", description="Data, models, training.")
    listing = "\n".join(f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items())
    parser.usage = "python -m pipeline COMMAND ... (COMMAND --help for its options)\n\n" + listing
    parser.add_argument("command", help=argparse.SUPPRESS)
    command = parser.parse_args(sys.argv[1:2] or ["--help"]).command
    if command not in COMMANDS:
        parser.error(f"unknown command {command!r}, expected one of {', '.join(COMMANDS)}")
    module_name, text = COMMANDS[command]
    module = importlib.import_module(module_name)
    options = Parser(prog=f"python -m pipeline {command}", description=text)
    module.add_arguments(options)
    return int(module.run(options.parse_args(sys.argv[2:])))


if __name__ == "__main__":
    sys.exit(run_cli(main))
