"""`adapt --sweep`: the methods on one domain, each a training of its own, and what each costs and brings.

Trainings are runs like any other, runs/BASE+DOMAIN-METHOD-sSEED: finished ones are cached, a killed one goes
on by the same command. `scratch` is the same network without the base. Each method's first run is exported
and timed by the commands of `export` and `deploy`, in turn. Refuses to know what the methods do
(models/adaptation.py), and how the result is shown (sweep_table.py).
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
import sys
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.errors import GateError, InputError
from deploy.files import sha256_file, write_json
from pipeline import artifact, train
from pipeline.adapt import adapted_recipe, trained_parameters

if TYPE_CHECKING:
    from pipeline.config import Recipe

SCHEMA_VERSION = 1
SCRATCH = "scratch"
# Where most of a network moves, the recipe's rate for a few new parameters is too high.
RATES = {"full": 2e-3, "top-1": 3e-3, "top-2": 3e-3, "top-4": 3e-3, SCRATCH: 3e-3}
ROUNDS, FRAMES = 3, 30  # of the timing
Record = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A method of the sweep; `bottleneck` and `lr` None: the command's, and the method's or the recipe's."""

    method: str
    bottleneck: int | None = None
    lr: float | None = None

    def __str__(self) -> str:
        rate = "" if self.lr is None else f"@{self.lr:g}"
        return self.method + (f"-{self.bottleneck}" if self.bottleneck else "") + rate


def candidates(text: str) -> list[Candidate]:
    """Parse METHOD[:R][@LR],...

    Raises:
        InputError: not such a list, or a method twice.
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"([a-z0-9-]+)(?::([0-9]{1,4}))?(?:@([0-9.e-]{1,12}))?", part.strip())
        try:
            lr = float(match[3]) if match and match[3] else None
        except ValueError:
            match = None
        if not match:
            raise InputError(
                "--methods", got=repr(part), expected="METHOD[:R][@LR], such as adapter:8 or full@1e-3"
            )
        found.append(Candidate(match[1], int(match[2]) if match[2] else None, lr))
    if len(set(found)) != len(found):
        raise InputError("--methods", got=text, expected="each once")
    return found


def sweep(args: argparse.Namespace) -> int:
    """Train what is not trained yet, time it, and write table, picture and JSON.

    Raises:
        InputError: as a training. GateError: an export that fails.
    """
    from pipeline.sweep_table import draw, show

    if args.run:
        expected = "none: a sweep names its runs after base, domain, method and seed"
        raise InputError("--run", got=args.run, expected=expected)
    folder = artifact.run_folder(f"{_name(args)}.sweep")  # refuses a name before hours of training
    wanted = [(each, _recipe(args, each)) for each in candidates(args.methods)]
    rows = [_row(args, each, recipe) for each, recipe in wanted]
    record = _record(args, wanted[0][1], rows)
    _add_latency(args, record, folder / "bundles")
    if args.json != "-":
        show(record)
        print(f"{folder / 'sweep.json'}, {folder / 'sweep.png'}")
    for path in filter(None, (folder / "sweep.json", args.json)):
        write_json(str(path), record)
    for path in filter(None, (folder / "sweep.png", args.picture)):
        draw(record, path)
    return 0


def _name(args: argparse.Namespace) -> str:
    """Of all runs of a sweep, how they start."""
    head, own = ("", "-head")[args.head == "full"], ("", "-bn")[args.bn_stats == "domain"]
    return f"{args.checkpoint}+{args.domain or args.data.resolve().name}{head}{own}"


def _recipe(args: argparse.Namespace, each: Candidate) -> Recipe:
    """A candidate's recipe, named as its runs but for the seed."""
    from pipeline.config import AdaptConfig

    method = "full" if each.method == SCRATCH else each.method
    chosen = {"method": method, "bottleneck": each.bottleneck or args.bottleneck}
    recipe = adapted_recipe(argparse.Namespace(**{**vars(args), **chosen}))
    given = any(text.partition("=")[0].strip() == "train.lr" for text in args.set)
    usual = recipe.train.lr if given else RATES.get(each.method, recipe.train.lr)
    how = AdaptConfig() if each.method == SCRATCH else recipe.adapt
    name = f"{_name(args)}-" + re.sub(r"[^\w.+-]", "-", str(each))
    return replace(recipe, name=name, adapt=how, train=replace(recipe.train, lr=each.lr or usual))


def _row(args: argparse.Namespace, each: Candidate, recipe: Recipe) -> Record:
    """Train a candidate with every seed; what it costs and what came out."""
    from deploy.labels import read_dataset

    seeds = []
    for number in range(args.seeds):
        seed = recipe.train.seed + number
        name = f"{recipe.name}-s{seed}"
        print(f"{name}:", flush=True)
        train.train(replace(recipe, train=replace(recipe.train, seed=seed)), args.data, name, args)
        seeds.append(_outcome(name, seed))
    counts = trained_parameters(recipe, len(read_dataset(args.data).classes))
    weights = artifact.run_folder(seeds[0]["run"]) / "train" / "best.safetensors"
    return {
        "method": each.method,
        "bottleneck": recipe.adapt.bottleneck if counts["adapters"] or counts["low rank"] else None,
        "lr": recipe.train.lr,
        "parameters": counts.pop("all"),
        "trained": counts,
        "stored_bytes": weights.stat().st_size,
        "seeds": seeds,
        "latency_ms": None,
    }


def _outcome(name: str, seed: int) -> Record:
    """What a finished run says of its best weights, and how long it trained."""
    from pipeline.logbook import read_log
    from pipeline.models.checkpoints import read_meta

    folder = artifact.run_folder(name) / "train"
    metrics = read_meta(folder / "best.safetensors").metrics
    figures = {key: metrics[key] for key in ("miou", "iou", "dice", "step", "images")}
    seconds = sum(row.get("seconds", 0.0) for row in read_log(folder / "log.csv"))
    return {"run": name, "seed": seed, **figures, "train_s": seconds}


def _record(args: argparse.Namespace, recipe: Recipe, rows: list[Record]) -> Record:
    """All that a reader needs to judge and to repeat it; the base's own figures beside."""
    from dataclasses import asdict

    from deploy.device import this_machine
    from deploy.labels import dataset_digest, list_pairs, read_dataset
    from pipeline.device import versions
    from pipeline.models.checkpoints import load_checkpoint, resolve_checkpoint

    path, info = resolve_checkpoint(args.checkpoint), read_dataset(args.data)
    splits = {split: list_pairs(info, split) for split in (recipe.data.train_split, recipe.data.val_split)}
    parameters = sum(p.numel() for p in load_checkpoint(path)[0].parameters())
    return {
        "schema_version": SCHEMA_VERSION,
        "command": shlex.join(["python", "-m", "pipeline", *sys.argv[1:]]),
        "timestamp": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "machine": asdict(this_machine()),
        "versions": versions(),
        "threads": args.threads,
        "base": {
            "name": args.checkpoint,
            "sha256": sha256_file(path),
            "bytes": path.stat().st_size,
            "parameters": parameters,
            "latency_ms": None,
        },
        "domain": args.domain or args.data.resolve().name,
        "data": {
            "name": info.name,
            "classes": list(info.classes),
            "images": {split: len(pairs) for split, pairs in splits.items()},
            "sha256": {split: dataset_digest(pairs) for split, pairs in splits.items()},
        },
        "size": list(recipe.data.size),
        "steps": recipe.train.steps,
        "batch": recipe.train.batch,
        "head": args.head,
        "bn_stats": args.bn_stats,
        "rows": rows,
    }


def _add_latency(args: argparse.Namespace, record: Record, folder: Path) -> None:
    """Export the base and every row's first run, and time them in turn: medians of `ROUNDS` p50."""
    from deploy.child import ChildFailed, call
    from deploy.turns import take_turns

    size = "x".join(map(str, record["size"]))
    wanted = {args.checkpoint: record["base"], **{row["seeds"][0]["run"]: row for row in record["rows"]}}
    for name in wanted:
        words = ["export", "build", "--checkpoint", name, "--target", "onnxruntime", "--size", size]
        words += [] if name == args.checkpoint else ["--data", str(args.data)]
        try:
            call(*words, "--out", str(folder / name))
        except ChildFailed as error:
            raise GateError(f"{name} cannot be exported", got=error) from None
    words = ["--frames", str(FRAMES), *(["--threads", str(args.threads)] if args.threads else [])]
    found = take_turns([folder / name for name in wanted], words, ROUNDS)
    for name, row in wanted.items():
        row["latency_ms"] = statistics.median(one.latency_ms.p50 for one in found[str(folder / name)])
