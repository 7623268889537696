"""`python -m pipeline adapt`: a base checkpoint and a domain's labelled folder -> what the domain adds to it.

It is a training like any other (train.py: label gate, exact resume, log, pictures, runs/NAME/train), of a
model whose base is frozen but for what the method moves. Its checkpoints hold only the domain's tensors and
name the base, which stays as it is. Refuses to know what the methods do (models/adaptation.py).
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.errors import InputError
from deploy.options import add_json, count
from pipeline import train

if TYPE_CHECKING:
    from pipeline.config import Recipe

RECIPE = Path("recipes/adapt.toml")
METHODS = "adapter:4,adapter:16,lora:4,norm,head,top-1,full,scratch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `adapt`."""
    parser.add_argument("--checkpoint", required=True, metavar="BASE", help="run or zoo name of the base")
    parser.add_argument(
        "--data", required=True, type=Path, metavar="DIR", help="the domain's labelled folder"
    )
    parser.add_argument("--domain", metavar="NAME", help="the domain's name (default: the folder's)")
    parser.add_argument("--run", metavar="NAME", help="runs/NAME (default: BASE+DOMAIN)")
    parser.add_argument(
        "--method",
        default="adapter",
        metavar="M",
        help="adapter, adapter-all, lora, norm, head, top-1, top-2, top-4, full",
    )
    parser.add_argument("--bottleneck", type=count, default=8, metavar="R", help="r, default: 8")
    parser.add_argument(
        "--head", default="classifier", help="what of it trains: classifier (default) or full"
    )
    parser.add_argument("--bn-stats", default="frozen", help="frozen (default) or domain: running statistics")
    parser.add_argument("--recipe", type=Path, default=RECIPE, metavar="FILE", help=f"default: {RECIPE}")
    parser.add_argument("--sweep", action="store_true", help="several methods, as one table and one picture")
    parser.add_argument(
        "--methods", default=METHODS, metavar="M,M", help=f"of the sweep, METHOD[:R][@LR]; default: {METHODS}"
    )
    parser.add_argument("--seeds", type=count, default=1, metavar="N", help="trainings of each (default: 1)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="the sweep's picture, there, too")
    add_json(parser)
    train.add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Adapt, go on, or find everything done; says what the method trains. With --sweep, all of them.

    Raises:
        InputError: as `adapted_recipe`, or options of a sweep without one.
    """
    if args.sweep:
        from pipeline.sweep import sweep

        return sweep(args)
    if args.json or args.picture or args.seeds > 1 or args.methods != METHODS:
        raise InputError("--methods, --seeds, --picture, --json", got="no --sweep", fix="add --sweep")
    recipe = adapted_recipe(args)
    _say_counts(recipe, args.data)
    return train.train(recipe, args.data, args.run or recipe.name, args)


def adapted_recipe(args: argparse.Namespace) -> Recipe:
    """The recipe for this base and method; its [model] is the base's.

    Raises:
        InputError: no such base, a base that is a domain itself or has no name of its own, unknown settings.
    """
    from pipeline.config import AdaptConfig, ModelConfig, load_recipe
    from pipeline.models.adaptation import Adaptation
    from pipeline.models.checkpoints import read_meta, resolve_checkpoint

    name = args.checkpoint
    meta = read_meta(resolve_checkpoint(name))
    if Path(name).name != name:
        fix = "give a run's or zoo name: a domain finds its base by it"
        raise InputError(f"base {name} is a path", fix=fix)
    if meta.base:
        raise InputError(
            f"{name} is a domain itself", expected="a whole model", fix=f"adapt {meta.base['name']}"
        )
    how = Adaptation(args.method, args.bottleneck, args.head, args.bn_stats)
    kept = ("variant", "attention", "head", "activation")
    model = ModelConfig(**{key: meta.model[key] for key in kept if key in meta.model})
    return dataclasses.replace(
        load_recipe(args.recipe, args.set),
        name=f"{name}+{args.domain or args.data.resolve().name}",
        model=model,
        adapt=AdaptConfig(base=name, **dataclasses.asdict(how)),
    )


def trained_parameters(recipe: Recipe, classes: int) -> dict[str, int]:
    """Trained parameters by kind, and "all", as `models.adaptation.count_parameters`; all without a base."""
    import torch

    from pipeline.job import model_spec
    from pipeline.models.adaptation import Adaptation, count_parameters
    from pipeline.models.checkpoints import build_model

    spec = model_spec(recipe, classes)
    with torch.device("meta"):
        return count_parameters(build_model(spec), Adaptation(**spec.get("adaptation", {"method": "full"})))


def _say_counts(recipe: Recipe, data: Path) -> None:
    """One line: how many parameters the domain trains, by kind."""
    from deploy.labels import read_dataset

    counts = trained_parameters(recipe, len(read_dataset(data).classes))
    everything = counts.pop("all")
    parts = ", ".join(f"{kind} {number:,}" for kind, number in counts.items() if number)
    aside = sum(counts.values()) - counts["head"]
    print(f"trains {parts} of {everything:,} parameters; {aside / everything:.1%} without the head")
