"""The README's matrix of targets: one table for each reports/targets_*.json, as `export all` stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cells import each, line  # beside this file

from pipeline.accuracy import points, shown

REPORTS = Path(__file__).resolve().parent.parent / "reports"
HEAD = (
    "| target | precision | proof | agreement | mIoU drop, points | MB | p50 ms here |",
    "|---|---|---|---|---|---|---|",
)


def matrix() -> str:
    """Every stored report, the model and what it was compared on above its table."""
    return each(REPORTS, "targets_*.json", _table, "No report stored yet.")


def _table(report: dict[str, Any]) -> str:
    model, (height, width) = report["model"], report["size"]
    machine, threads = report["machine"], report["threads"]
    where = f"timed on {machine['cpu_model']}, {threads} threads" if machine else "not timed"
    title = (
        f"**{report['run']}** ({model['variant']}, {model['attention']} attention), {height}x{width}, "
        f"compared on {report['compared_on']}, {where}:"
    )
    return "\n".join([title, "", *HEAD, *map(_row, report["rows"])])


def _row(made: dict[str, Any]) -> str:
    cells = [
        made["target"],
        made["precision"],
        made["proof"].replace("|", "/"),
        shown(made["agreement"], ".5f"),
        points(made["miou_drop_points"]),
        shown(made["size_bytes"] and made["size_bytes"] / 1e6, ".2f"),
        shown(made["latency_ms"], ".1f"),
    ]
    return line(*cells)
