"""A sweep's record as rows of text, on the terminal and for documents, and as a picture.

Spread is the standard deviation over seeds. Refuses to know how a figure was measured.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

DOMAINS = 3  # what so many domains need beside their base, against whole models
Record = dict[str, Any]


def head(record: Record) -> list[str]:
    """Titles of the columns."""
    dice = [f"Dice {name}" for name in foreground(record)]
    cost = ["trained", "share", "head", "stored kB", f"base + {DOMAINS}", "train s", "ms"]
    return ["method", "mIoU", *dice, *cost]


def rows(record: Record) -> list[list[str]]:
    """A line of cells for every method, in the record's order."""
    return [_cells(record, row) for row in record["rows"]]


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


def _cells(record: Record, row: Record) -> list[str]:
    seeds, latency = row["seeds"], row["latency_ms"]
    dice = [spread([seed["dice"][name] for seed in seeds]) for name in foreground(record)]
    r = f" r={row['bottleneck']}" if row["bottleneck"] else ""
    aside = sum(row["trained"].values()) - row["trained"]["head"]
    return [
        f"{row['method']}{r}",
        spread([seed["miou"] for seed in seeds]),
        *dice,
        f"{aside:,}",
        f"{trained_share(row):.1%}",
        f"{row['trained']['head']:,}",
        f"{row['stored_bytes'] / 1e3:.0f}",
        f"{total(record, row):.2f}x",
        f"{statistics.fmean(seed['train_s'] for seed in seeds):.0f}",
        "-" if latency is None else f"{latency:.1f}",
    ]


def show(record: Record) -> None:
    """Print the table."""
    from rich.box import SIMPLE
    from rich.table import Table

    from pipeline.display import plain_console

    data, base = record["data"], record["base"]
    images = ", ".join(f"{count} {split}" for split, count in data["images"].items())
    table = Table(title=f"{data['name']} ({images}) on {base['name']}", title_justify="left", box=SIMPLE)
    for index, title in enumerate(head(record)):
        table.add_column(title, justify="right" if index else "left", no_wrap=True)
    for cells in rows(record):
        table.add_row(*cells)
    console = plain_console()
    console.print(table)
    note = (
        f"base at this size {base['latency_ms']:.1f} ms: frozen parts cost their time, too"
        if base["latency_ms"]
        else ""
    )
    console.print(f"trained and share without the head; {note}", highlight=False)


def draw(record: Record, path: Path) -> None:
    """mIoU over the trained share as a PNG: a point a method, bars from the lowest to the highest seed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    kinds = list(dict.fromkeys(row["method"].split("-")[0] for row in record["rows"]))
    for row in record["rows"]:
        values = [seed["miou"] or 0.0 for seed in row["seeds"]]
        mean, kind = statistics.fmean(values), kinds.index(row["method"].split("-")[0])
        share = 100 * max(trained_share(row), 1e-4)
        bars = [[mean - min(values)], [max(values) - mean]]
        axes.errorbar([share], [mean], yerr=bars, fmt="o", color=f"C{kind}", capsize=3)
        axes.annotate(_cells(record, row)[0], (share, mean), xytext=(6, 5), textcoords="offset points")
    images, seeds = next(iter(record["data"]["images"].values())), len(record["rows"][0]["seeds"])
    title = f"{record['data']['name']}: {images} images to train on, {seeds} seed{'s' if seeds > 1 else ''}"
    axes.set(xscale="log", xlim=(0.008, 250), title=title, ylabel="mIoU on val")
    axes.set_xlabel("trained parameters without the head, % of the model (0 % at the left edge)")
    axes.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100, metadata={"Software": None})
