"""The tables of docs/domains.md: sweeps (reports/sweep_*.json), packs, and the domains that ship (zoo cards).

Refuses to know how a figure was measured: the reports' own commands say that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cells import Record, by, line, stored, table  # beside this file

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipeline import sweep_table  # noqa: E402
from pipeline.accuracy import shown  # noqa: E402
from pipeline.models.adaptation import WITH_BOTTLENECK  # noqa: E402


def sweeps(root: Path = ROOT) -> str:
    """One table a domain, and its picture if there is one."""
    paths = sorted(root.glob("reports/sweep_*.json"))
    return "\n\n".join(map(_sweep, paths)) if paths else "No sweep stored yet."


def _sweep(path: Path) -> str:
    record = json.loads(path.read_text())
    data, base, head = record["data"], record["base"], sweep_table.head(record)
    images = ", ".join(f"{count} {split}" for split, count in data["images"].items())
    picture = f"images/{path.stem}.png"
    drawn = [f"![mIoU over trained parameters, {data['name']}]({picture})", ""]
    machine = f"{record['machine']['cpu_model']}, {record['threads'] or 'all'} thread(s)"
    trained = f"{record['steps']} steps of {record['batch']} from {base['name']}"
    how = f"statistics: {record['bn_stats']}, head: {record['head']}"
    latency = f"The base at {by(record['size'])}: {base['latency_ms']:.1f} ms"
    return "\n".join(
        [
            f"**{data['name']}** ({images}), {trained}, {how}:",
            "",
            *(drawn if (ROOT / "docs" / picture).is_file() else []),
            *table(head, sweep_table.rows(record)),
            "",
            f"{latency}. {machine}: `{record['command']}`",
        ]
    )


def packs(root: Path = ROOT) -> str:
    """Bytes of a bundle with domains, and what a change of domain costs."""
    found = stored(root / "reports/benchmark_domains.json")
    if found is None:
        return "No measurement stored yet."
    machine = f"{found['machine']['cpu_model']}, {found['threads']} threads"
    added = ", ".join(f"{name} {_kb(size)} kB" for name, size in found["added_bytes"].items())
    first = ", ".join(f"{name} {ms:.0f} ms" for name, ms in found["first_use_ms"].items())
    change, frame = f"{found['change_ms']:.1f}", f"{found['same_domain_ms']:.1f}"
    return "\n".join(
        [
            "| | base alone | with its domains | ratio |",
            "|---|---|---|---|",
            line("ZIP, kB", _kb(found["base_zip_bytes"]), _kb(found["zip_bytes"]), f"{found['ratio']:.3f}"),
            "",
            f"Added to the folder: {added}. First use: {first};",
            f"then a change of domain costs {change} ms a frame (a frame: {frame} ms).",
            f"{machine}: `{found['command']}`",
        ]
    )


def zoo(root: Path = ROOT) -> str:
    """The domains that ship."""
    cards = [json.loads(path.read_text()) for path in sorted(root.glob("zoo/*/card.json"))]
    cards = [card for card in cards if "base" in card]
    if not cards:
        return "No domain in zoo/ yet."
    head = ("domain", "method", "kB", "trained, head aside", "mIoU on val", "Dice")
    return "\n".join(table(head, map(_card, cards)))


def _card(card: Record) -> tuple[str, ...]:
    how, metrics = card["model"]["adaptation"], card["metrics"]
    names = card["dataset"]["classes"][1:]
    return (
        f"[{card['name']}](../zoo/{card['name']}/README.md)",
        f"{how['method']} r={how['bottleneck']}" if how["method"] in WITH_BOTTLENECK else how["method"],
        _kb(card["file"]["bytes"]),
        f"{card['trained_share']:.1%}",
        shown(metrics["miou"]),
        ", ".join(f"{name} {shown(metrics['dice'][name])}" for name in names),
    )


def _kb(size_bytes: int) -> str:
    return f"{size_bytes / 1e3:,.0f}"
