"""`python -m export list`: every target, whether it can be built here, its precisions and its proof.

Refuses to know how a target works; it shows what the registry says.
"""

from __future__ import annotations

import argparse
from typing import Any

from deploy.files import write_json
from deploy.options import add_json
from export.targets import Entry, entries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `python -m export list`."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, or write the JSON."""
    rows = [_row(entry) for entry in entries().values()]
    if args.json:
        write_json(args.json, {"targets": rows})
    if args.json != "-":
        _print(rows)
    return 0


def _row(entry: Entry) -> dict[str, Any]:
    """One target as plain data; the proof of one that cannot be built is `not run` and why."""
    target, reason = entry.target, entry.reason
    return {
        "target": entry.name,
        "available": reason is None,
        "reason": reason,
        "precisions": list(target.PRECISIONS) if target else [],
        "artifact": target.EXTENSION if target else None,
        "proof": target.PROOF if target and reason is None else f"not run: {reason}",
    }


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from pipeline.display import plain_console

    table = Table("target", "available", "precisions", "artifact", "proof")
    for row in rows:
        available = "yes" if row["available"] else "no"
        precisions = ", ".join(row["precisions"]) or "-"
        table.add_row(row["target"], available, precisions, row["artifact"] or "-", row["proof"])
    plain_console().print(table)
