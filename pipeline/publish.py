"""`python -m pipeline publish`: a finished training -> zoo/NAME, weights that ship with the project.

    model.safetensors    the run's best weights, byte for byte
    README.md card.json  the model card, for people and for programs (card.py)
    recipe.toml          the settings that were trained with, as a recipe again
    log.csv curves.png   how it went

Everything comes from the run's files; images of the data stay where they are. Knows nothing of training.
"""

from __future__ import annotations

import argparse
import shutil

from deploy.errors import InputError

CARD = "card.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `publish`."""
    parser.add_argument("--run", required=True, metavar="NAME", help="a finished run")
    parser.add_argument("--name", metavar="NAME", help="name in the zoo (default: the run's)")


def run(args: argparse.Namespace) -> int:
    """Write the entry, or replace an older one of the same name."""
    from deploy.files import atomic_folder, atomic_write_text, write_json
    from pipeline.artifact import run_folder
    from pipeline.card import card_text, read_facts, recipe_text
    from pipeline.models.checkpoints import ZOO

    source, target = run_folder(args.run) / "train", ZOO / run_folder(args.name or args.run).name
    if target.exists() and not (target / CARD).is_file():
        raise InputError(f"{target} exists and is no zoo entry", fix="choose another --name")
    facts = read_facts(source, target.name)
    with atomic_folder(target) as folder:
        for name, new in (("best.safetensors", "model.safetensors"), ("log.csv",) * 2, ("curves.png",) * 2):
            shutil.copyfile(source / name, folder / new)
        atomic_write_text(folder / "recipe.toml", recipe_text(facts["training"]["recipe"]))
        write_json(folder / CARD, facts)
        atomic_write_text(folder / "README.md", card_text(facts))
    print(f"wrote {target}: {facts['file']['bytes'] / 1e6:.1f} MB, mIoU {facts['metrics']['miou']:.4f}")
    return 0
