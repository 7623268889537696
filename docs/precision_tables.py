"""The tables of docs/precision.md: searches for the best precision (reports/search_*.json), their results on
the split that is reported (reports/precision_*.json), what helps int8 (reports/helps_*.json), and where its
time goes (reports/benchmark_int8_operators.json).

Refuses to know how a figure was measured: the reports' own commands say that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from cells import Record, by, each, stored, table  # beside this file

from pipeline.accuracy import points, shown

ROOT = Path(__file__).resolve().parent.parent
HELPS_HEAD = ("network", "plan", "helps", "mIoU", "mIoU drop", "agreement")
HEAD = ("plan", "int8 MACs", "mIoU drop", "agreement", "MB", "time / fp32 (rounds)")
VAL_HEAD = ("", "int8 MACs", "mIoU", "drop, points", "agreement", "MB", "time / fp32 (rounds)")
OPERATORS = 8  # shown of each, slowest first


def searches(root: Path = ROOT) -> str:
    """One table a search: what was tried, the choice in bold; single blocks only by their worst."""
    return each(root / "reports", "search_*.json", _search, "No search stored yet.")


def helps(root: Path = ROOT) -> str:
    """One table a target and model: what every help is worth."""
    return each(root / "reports", "helps_*.json", _helps, "Nothing stored yet.")


def _helps(record: Record) -> str:
    method = f", {record['method']}" if record["method"] else ""
    return "\n".join(
        [
            f"**{record['target']}**, {by(record['size'])}{method}, judged on {record['judged_on']}:",
            "",
            *table(HELPS_HEAD, map(_help, record["rows"])),
            "",
            f"`{record['command']}`",
        ]
    )


def _help(row: Record) -> tuple[str, ...]:
    return (
        row["checkpoint"],
        row["plan"],
        ", ".join(row["helps"]) or "none",
        f"{row['miou']:.4f}",
        points(row["drop"]),
        f"{row['agreement']:.4f}",
    )


def _search(record: Record) -> str:
    singles = [row for row in record["rows"] if row["name"].startswith("only ")]
    kept = sorted(singles, key=lambda row: -row["drop"])[:3]
    kept += [row for row in singles if row["name"] == record["chosen"] and row not in kept]
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
            *table(HEAD, [*(_cells(row, record["chosen"]) for row in rows), *_unable(record)]),
            "",
            f"{record['chosen']}: {record['why']}. {machine}: `{record['command']}`",
        ]
    )


def _unable(record: Record) -> Iterator[tuple[str, ...]]:
    """Rows of the plans that the target's converter or runtime could not handle."""
    for name, why in record.get("not_run", {}).items():
        yield (name, f"not run: {why}".replace("|", "/"), *[""] * (len(HEAD) - 2))


def results(root: Path = ROOT) -> str:
    """One table a search: its plans beside the usual ones, on the split that is reported."""
    return each(root / "reports", "precision_*.json", _result, "No result stored yet.")


def _result(record: Record) -> str:
    what = f"{record['model']}, {record['target']}, {by(record['size'])}"
    return "\n".join(
        [
            f"**{what}**, compared on {record['compared_on']}:",
            "",
            *table(VAL_HEAD, map(_result_cells, record["rows"])),
            "",
            f"{record['machine']['cpu_model']}, {record['threads']} threads: `{record['command']}`",
        ]
    )


def _result_cells(row: Record) -> tuple[str, ...]:
    if "not_run" in row:
        return (row["name"], f"not run: {row['not_run']}".replace("|", "/"), *[""] * (len(VAL_HEAD) - 2))
    return (
        row["name"],
        shown(row["int8_share"], ".0%"),
        f"{row['miou']:.4f}",
        points(row["drop"]),
        f"{row['agreement']:.4f}",
        f"{row['size_bytes'] / 1e6:.2f}",
        _time(row["ratio"]),
    )


def operators(root: Path = ROOT) -> str:
    """Time by type of operator, in float and in int8, a table a runtime."""
    record = stored(root / "reports/benchmark_int8_operators.json")
    if record is None:
        return "No measurement stored yet."
    machine = f"{record['machine']['cpu_model']}, {record['threads']} threads"
    made = f"{machine}, medians of {record['rounds']} rounds under the profiler: `{record['command']}`"
    return "\n\n".join([*map(_operators, record["cases"]), made])


def _operators(case: Record) -> str:
    sides = [case["float"], case["int8"]]
    head = [title for side in sides for title in (f"{side['bundle']}: operator", "ms")]
    rows = zip_longest(*map(_slowest, sides), fillvalue=("", ""))
    return "\n".join(table(head, [(*left, *right) for left, right in rows]))


def _slowest(side: Record) -> list[tuple[str, str]]:
    """The slowest operators, all others, and the whole call."""
    times = list(side["operators"].items())
    rest = side["ms"] - sum(ms for _, ms in times[:OPERATORS])
    rows = [*times[:OPERATORS], ("all others, and between them", rest), ("**in all**", side["ms"])]
    return [(name, f"{ms:.2f}") for name, ms in rows]


def _time(ratio: list[float] | None) -> str:
    return f"{ratio[0]:.2f} ({ratio[1]:.2f}..{ratio[2]:.2f})" if ratio else "-"


def _cells(row: Record, chosen: str) -> tuple[str, ...]:
    name = f"**{row['name']}**" if row["name"] == chosen else row["name"]
    return (
        name,
        f"{row['int8_share']:.0%}",
        points(row["drop"]),
        f"{row['agreement']:.4f}",
        f"{row['size_bytes'] / 1e6:.2f}",
        _time(row["ratio"]),
    )
