"""A sweep's record as rows of text, on the terminal and for documents, and as a picture.

Spread is the standard deviation over seeds. Refuses to know how a figure was measured.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

LEAST_SHOWN = 0.1  # %: where the picture's logarithmic axis has its 0
DOMAINS = 3  # what so many domains need beside their base, against whole models
Record = dict[str, Any]


def head(record: Record) -> list[str]:
    """Titles of the columns: the method, what came out, what it costs."""
    return ["method", *_outcome_head(record), *_COST]


def rows(record: Record) -> list[list[str]]:
    """A line of cells for every method, in the record's order."""
    return [[_name(record, row), *_outcome(record, row), *_cost(record, row)] for row in record["rows"]]


def foreground(record: Record) -> list[str]:
    """Classes whose Dice is shown: all but the first, which is what nothing else is."""
    return list(record["data"]["classes"][1:])


def trained_share(row: Record) -> float:
    """Trained parameters without the head, as a share of the model's."""
    return (sum(row["trained"].values()) - row["trained"]["head"]) / row["parameters"]


def total(record: Record, row: Record, domains: int = DOMAINS) -> float:
    """Bytes of the base and so many domains, as a multiple of the base's."""
    return 1 + domains * row["stored_bytes"] / record["base"]["bytes"]


def spread(values: list[float | None], digits: int = 3) -> str:
    """Mean, and the standard deviation where there are several; a class that occurs nowhere is `-`."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    mean = f"{statistics.fmean(known):.{digits}f}"
    return f"{mean} ±{statistics.stdev(known):.{digits}f}" if len(known) > 1 else mean


_COST = ("trained", "share", "head", "stored kB", f"base + {DOMAINS}", "train s", "ms")


def _name(record: Record, row: Record) -> str:
    """Method and r; the learning rate where only that tells rows apart."""
    same = [row["method"], row["bottleneck"]]
    alike = [other for other in record["rows"] if [other["method"], other["bottleneck"]] == same]
    rate = f" lr={row['lr']:g}" if len(alike) > 1 else ""
    return row["method"] + (f" r={row['bottleneck']}" if row["bottleneck"] else "") + rate


def _outcome_head(record: Record) -> list[str]:
    return ["mIoU", *(f"Dice {name}" for name in foreground(record))]


def _outcome(record: Record, row: Record) -> list[str]:
    seeds = row["seeds"]
    dice = [spread([seed["dice"][name] for seed in seeds]) for name in foreground(record)]
    return [spread([seed["miou"] for seed in seeds]), *dice]


def _cost(record: Record, row: Record) -> list[str]:
    aside = sum(row["trained"].values()) - row["trained"]["head"]
    return [
        f"{aside:,}",
        f"{trained_share(row):.1%}",
        f"{row['trained']['head']:,}",
        f"{row['stored_bytes'] / 1e3:.0f}",
        f"{total(record, row):.2f}x",
        f"{statistics.median(seed['train_s'] for seed in row['seeds']):.0f}",
        "-" if row["latency_ms"] is None else f"{row['latency_ms']:.1f}",
    ]


def show(record: Record) -> None:
    """Print two tables: what came out, and what it costs."""
    from pipeline.display import plain_console

    data, base, console = record["data"], record["base"], plain_console()
    images = ", ".join(f"{count} {split}" for split, count in data["images"].items())
    title = f"{data['name']} ({images}) on {base['name']}"
    console.print(_table(title, _outcome_head(record), record, _outcome))
    console.print(_table("trained and share: without the head", _COST, record, _cost))
    if base["latency_ms"]:
        note = f"The base at this size: {base['latency_ms']:.1f} ms. Frozen parts cost their time, too."
        console.print(note, highlight=False)


def _table(
    title: str, columns: Sequence[str], record: Record, cells: Callable[[Record, Record], list[str]]
) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE)
    table.add_column("method", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")
    for row in record["rows"]:
        table.add_row(_name(record, row), *cells(record, row))
    return table


_BESIDE: dict[str, Any] = {  # where a name stands, so that neighbours do not cover each other
    "adapter": {"xytext": (-7, 5), "ha": "right"},
    "adapter again": {"xytext": (-7, -13), "ha": "right"},
    "lora": {"xytext": (7, -12)},
    "norm": {"xytext": (7, -13)},
    "scratch": {"xytext": (-7, -12), "ha": "right"},
}


def draw(record: Record, path: Path) -> None:
    """mIoU over the trained share as a PNG: a point a method, bars from the lowest to the highest seed."""
    from matplotlib.figure import Figure

    from pipeline.picture import save_figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    kinds = list(dict.fromkeys(row["method"].split("-")[0] for row in record["rows"]))
    named: set[str] = set()
    for row in record["rows"]:
        values = [seed["miou"] or 0.0 for seed in row["seeds"]]
        mean, kind = statistics.fmean(values), kinds.index(row["method"].split("-")[0])
        share = max(100 * trained_share(row), LEAST_SHOWN)
        bars = [[mean - min(values)], [max(values) - mean]]
        axes.errorbar([share], [mean], yerr=bars, fmt="o", color=f"C{kind}", capsize=3)
        again = f"{row['method']} again" if row["method"] in named else row["method"]
        aside = _BESIDE.get(again, {"xytext": (6, 5)})
        named.add(row["method"])
        axes.annotate(
            _name(record, row), (share, mean), textcoords="offset points", color=f"C{kind}", **aside
        )
    images, seeds = next(iter(record["data"]["images"].values())), len(record["rows"][0]["seeds"])
    title = f"{record['data']['name']}: {images} images to train on, {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set(xscale="log", xlim=(0.7 * LEAST_SHOWN, 300), title=title, ylabel="mIoU on val")
    axes.set_xticks([0.1, 1, 10, 100], ["0", "1", "10", "100"])
    axes.set_xlabel("trained parameters without the head, % of the model")
    axes.margins(y=0.12)
    axes.grid(alpha=0.3)
    save_figure(figure, path)
