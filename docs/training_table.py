"""The README's table of the weights that ship: linear and softmax attention by one recipe, side by side.

From zoo/*/card.json (accuracy, steps, hours), reports/benchmark_training.json (images/s) and
reports/bench_*.json (latency). Refuses to know how a figure was measured.
"""

from __future__ import annotations

import json
from pathlib import Path

from cells import Record, by, line, stored  # beside this file

ROOT = Path(__file__).resolve().parent.parent
HEAD = "| weights | parameters | mIoU on val | steps | hours | training images/s | p50 ms (target, size) |"


def weights(root: Path = ROOT) -> str:
    """A row for each entry of the zoo; figures that no file holds are `-`."""
    cards = [json.loads(path.read_text()) for path in sorted(root.glob("zoo/*/card.json"))]
    cards = [card for card in cards if "base" not in card]  # domains: docs/domain_tables.py
    if not cards:
        return "No weights in zoo/ yet."
    speed = stored(root / "reports/benchmark_training.json")
    benches = [json.loads(path.read_text()) for path in sorted(root.glob("reports/bench_*.json"))]
    rows = [_row(card, speed, benches) for card in cards]
    return "\n".join([HEAD, "|---|---|---|---|---|---|---|", *rows, "", *_commands(cards, speed, benches)])


def _row(card: Record, speed: Record | None, benches: list[Record]) -> str:
    training, model = card["training"], card["model"]
    hours = "-" if training["hours"] is None else f"{training['hours']:.2f}"
    bench = _bench_of(card, benches)
    cells = (
        f"[{card['name']}](zoo/{card['name']}/README.md)",
        f"{model['parameters'] / 1e6:.2f} M",
        f"{card['metrics']['miou']:.3f}",
        str(training["steps"]),
        hours,
        _rate(card, speed),
        "-"
        if bench is None
        else f"{bench['latency_ms']['p50']:.1f} ({bench['target']}, {by(bench['size'])})",
    )
    return line(*cells)


def _rate(card: Record, speed: Record | None) -> str:
    """Of the benchmark, if it is of this recipe: a training's own rate depends on what else ran."""
    if speed is None or speed["recipe"] != card["training"]["recipe"]["name"]:
        return "-"
    return f"{speed[card['model']['attention']]['step_images_per_s']:.1f}"


def _bench_of(card: Record, benches: list[Record]) -> Record | None:
    """The measurement of a bundle named after the entry, on the card's data."""
    found = [b for b in benches if b["name"].startswith(card["name"]) and b["precision"] == "fp32"]
    return next((b for b in found if b["dataset"] and b["dataset"]["name"] == card["dataset"]["name"]), None)


def _commands(cards: list[Record], speed: Record | None, benches: list[Record]) -> list[str]:
    """How each column was made, and where."""
    recipe = f"zoo/{cards[0]['name']}/recipe.toml"
    lines = [f"mIoU, steps, hours: `python -m pipeline train --recipe {recipe} --data DIR`."]
    if speed:
        machine, rounds = speed["machine"]["cpu_model"], speed["rounds"]
        made = f"{machine}, {speed['threads']} threads, medians of {rounds} rounds"
        alone = min(speed[kind]["loader_images_per_s"] for kind in ("linear", "softmax"))
        lines.append(f"Images/s, optimizer step alone ({made}): `{speed['command']}`.")
        lines.append(f"The loader alone delivers {alone:.0f} images/s.")
    measured = [bench for card in cards if (bench := _bench_of(card, benches))]
    lines += [f"Latency, {b['name']}, {b['threads']} threads: `{b['command']}`." for b in measured]
    return lines
