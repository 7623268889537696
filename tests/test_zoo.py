"""The weights that ship: every entry is complete, unchanged, described by its own facts, and usable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.files import sha256_file
from pipeline.card import card_text, recipe_text
from pipeline.config import load_recipe, settings
from pipeline.models.checkpoints import load_checkpoint

ENTRIES = sorted(path.parent for path in (Path(__file__).resolve().parent.parent / "zoo").glob("*/card.json"))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda path: path.name)
def test_card_recipe_and_weights_belong_together(entry: Path) -> None:
    card = json.loads((entry / "card.json").read_text())
    weights = entry / "model.safetensors"
    assert card["name"] == entry.name and card["file"]["sha256"] == sha256_file(weights)
    assert (entry / "README.md").read_text() == card_text(card)
    assert (entry / "recipe.toml").read_text() == recipe_text(card["training"]["recipe"])
    model, meta = load_checkpoint(weights)
    assert card["metrics"] == meta.metrics and meta.metrics["miou"] > 0
    assert json.loads(json.dumps(settings(load_recipe(entry / "recipe.toml")))) == meta.provenance["settings"]
    assert sum(p.numel() for p in model.parameters()) == card["model"]["parameters"]
    assert meta.dataset["licence"] and meta.dataset["licence"] in (entry / "README.md").read_text()
