"""The tables of docs/precision.md: searches for the best precision (reports/search_*.json), what helps int8
(reports/helps_*.json).

Refuses to know how a figure was measured: the reports' own commands say that.
"""

from __future__ import annotations

import json
from pathlib import Path

from cells import Record, by, line  # beside this file

from pipeline.accuracy import points

ROOT = Path(__file__).resolve().parent.parent
HELPS_HEAD = ("network", "plan", "helps", "mIoU", "mIoU drop", "agreement")
HEAD = ("plan", "int8 MACs", "mIoU drop", "agreement", "MB", "time / fp32 (rounds)")


def searches(root: Path = ROOT) -> str:
    """One table a search: what was tried, the choice in bold; single blocks only by their worst."""
    records = [json.loads(path.read_text()) for path in sorted(root.glob("reports/search_*.json"))]
    return "\n\n".join(map(_search, records)) if records else "No search stored yet."


def helps(root: Path = ROOT) -> str:
    """One table a target and model: what every help is worth."""
    records = [json.loads(path.read_text()) for path in sorted(root.glob("reports/helps_*.json"))]
    return "\n\n".join(map(_helps, records)) if records else "Nothing stored yet."


def _helps(record: Record) -> str:
    method = f", {record['method']}" if record["method"] else ""
    return "\n".join(
        [
            f"**{record['target']}**, {by(record['size'])}{method}, judged on {record['judged_on']}:",
            "",
            line(*HELPS_HEAD),
            "|---" * len(HELPS_HEAD) + "|",
            *(
                line(
                    row["checkpoint"],
                    row["plan"],
                    ", ".join(row["helps"]) or "none",
                    f"{row['miou']:.4f}",
                    points(row["drop"]),
                    f"{row['agreement']:.4f}",
                )
                for row in record["rows"]
            ),
            "",
            f"`{record['command']}`",
        ]
    )


def _search(record: Record) -> str:
    singles = [row for row in record["rows"] if row["name"].startswith("only ")]
    kept = sorted(singles, key=lambda row: -row["drop"])[:3]
    rows = [row for row in record["rows"] if row not in singles or row in kept]
    picture = f"images/search_{record['model']}_{record['target']}.png"
    drawn = [f"![points of mIoU lost over time, {record['target']}]({picture})", ""]
    machine = record["machine"]["cpu_model"]
    what = f"{record['model']}, {record['target']}, {by(record['size'])}"
    return "\n".join(
        [
            f"**{what}**, judged on {record['judged_on']}:",
            "",
            *(drawn if (ROOT / "docs" / picture).is_file() else []),
            line(*HEAD),
            "|---" * len(HEAD) + "|",
            *(line(*_cells(row, record["chosen"])) for row in rows),
            "",
            f"{record['chosen']}: {record['why']}. {machine}: `{record['command']}`",
        ]
    )


def _cells(row: Record, chosen: str) -> tuple[str, ...]:
    name = f"**{row['name']}**" if row["name"] == chosen else row["name"]
    ratio = row["ratio"]
    return (
        name,
        f"{row['int8_share']:.0%}",
        points(row["drop"]),
        f"{row['agreement']:.4f}",
        f"{row['size_bytes'] / 1e6:.2f}",
        f"{ratio[0]:.2f} ({ratio[1]:.2f}..{ratio[2]:.2f})" if ratio else "-",
    )
