"""Command line of data, models and training, `python -m pipeline COMMAND`: what it offers, no more."""

from __future__ import annotations

import sys

from deploy.errors import run_cli
from deploy.options import dispatch

COMMANDS = {
    "prepare": ("pipeline.prepare", "make a labelled folder"),
    "import": ("pipeline.import_official", "official EfficientViT weights -> a checkpoint"),
    "summary": ("pipeline.models.summary", "layers, parameters and operations of a model"),
    "attention": ("pipeline.models.attention_map", "pictures of where a model looks"),
    "train": ("pipeline.train", "train a recipe on a labelled folder"),
    "adapt": (
        "pipeline.adapt",
        "a base and a domain's labelled folder -> what the domain adds",
    ),
    "evaluate": ("pipeline.evaluate", "mIoU of a checkpoint on a labelled split"),
    "publish": ("pipeline.publish", "a finished run -> zoo/NAME, with its model card"),
}


def main() -> int:
    """Run the command that the command line names."""
    return dispatch("pipeline", "Data, models, training.", COMMANDS)


if __name__ == "__main__":
    sys.exit(run_cli(main))
