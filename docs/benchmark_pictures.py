"""Draws docs/images/benchmark_*.png from reports/benchmark_*.json: `python docs/benchmark_pictures.py`.

Colours are of Okabe and Ito's palette, which colour-blind readers tell apart; the ground is white, so that
the pictures read on dark pages, too. Refuses to know how a figure was measured.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from deploy.files import atomic_write_bytes  # noqa: E402

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#9A9A9A"
INK, DPI = "#222222", 150
Record = dict[str, Any]
TASKS = {"network": "network to logits", "frame": "frame to label map"}
KINDS = (("linear", BLUE, "o"), ("softmax", ORANGE, "s"))


def sheet(width: float, height: float) -> Figure:
    """A white figure of so many inches."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def tidy(axes: Axes, title: str, grid: str) -> None:
    """Title on the left, no box, a light grid along one axis or both."""
    axes.set_title(title, loc="left", fontsize=12, color=INK, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10.5, colors=INK)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def by(size: list[int]) -> str:
    """ "512x1024"."""
    return f"{size[0]}x{size[1]}"


def plain(record: Record) -> Figure:
    """Time and memory of ours as shares of the plain export's, a pair of bars a case."""
    figure = sheet(9, 0.75 * len(record["cases"]) + 1.1)
    time, memory = figure.subplots(1, 2, sharey=True)
    names = [f"{TASKS[case['task']]}\n{by(case['size'])}" for case in record["cases"]]
    for axes, unit, value in (
        (time, "ms", lambda side: side["ms"]),
        (memory, "MB", lambda side: side["net_bytes"] / 1e6),
    ):
        for row, case in enumerate(record["cases"]):
            whole = value(case["plain"])
            for offset, name, colour in ((-0.19, "plain", GREY), (0.19, "ours", BLUE)):
                amount = value(case[name])
                axes.barh(row + offset, amount / whole, 0.36, color=colour, label=name if not row else None)
                text = f"{amount:.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
                axes.text(amount / whole + 0.015, row + offset, text, va="center", fontsize=10.5, color=INK)
        axes.set(xlim=(0, 1.24), xticks=[])
    time.set_yticks(range(len(names)), names)
    time.invert_yaxis()
    tidy(time, "time", "x")
    tidy(memory, "memory while it runs", "x")
    figure.legend(
        *time.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=2,
        fontsize=10.5,
        frameon=False,
    )
    return figure


def scaling(record: Record) -> Figure:
    """Time of the network and of the core, and memory of the network, over tokens; both axes logarithmic."""
    figure = sheet(11, 4.3)
    panels = (("network", "ms", "time of the whole network"), ("core", "ms", "time of the attention core"))
    network, core, memory = figure.subplots(1, 3)
    for axes, (part, key, title) in zip((network, core), panels, strict=True):
        _curves(axes, record, part, key, 1.0, record["exponents"][part])
        axes.set_ylabel("ms", fontsize=11)
        tidy(axes, title, "both")
    _curves(memory, record, "network", "net_bytes", 1e6, None)
    memory.set_ylabel("MB while it runs", fontsize=11)
    tidy(memory, "memory of the whole network", "both")
    return figure


def _curves(axes: Axes, record: Record, part: str, key: str, unit: float, exponents: Any) -> None:
    cases = [case for case in record["cases"] if case["part"] == part]
    for kind, colour, marker in KINDS:
        points = [(case["tokens"], case[kind][key] / unit) for case in cases if key in case[kind]]
        fitted = exponents and exponents[kind]["all"]
        label = f"{kind}, tokens$^{{{fitted:.2f}}}$" if fitted else kind
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, lw=2, ms=6, label=label)
    axes.set(xscale="log", yscale="log", xlabel="image size (tokens at stride 16)")
    axes.xaxis.label.set_fontsize(11)
    axes.set_xticks([case["tokens"] for case in cases])
    names = [f"{by(case['size'])}  ({case['tokens']})" for case in cases]
    axes.set_xticklabels(names, rotation=40, ha="right", rotation_mode="anchor")
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.legend(fontsize=10.5, frameon=False, loc="upper left")


def operators(record: Record) -> Figure:
    """Time by operator type, and the slowest nodes with the share of the peak that they reach."""
    case = record["cases"][0]
    figure = sheet(11, 5.2)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.25))
    rows = _with_rest(case, most=9)
    colours = [BLUE if gflops else GREY for _, _, gflops in rows]
    left.barh(range(len(rows)), [ms for _, ms, _ in rows], color=colours)
    for index, (_, ms, gflops) in enumerate(rows):
        speed = f", {gflops:.0f} GFLOP/s" if gflops else ""
        left.text(ms, index, f" {ms:.1f} ms{speed}", va="center", fontsize=10.5, color=INK)
    left.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    left.set(xlim=(0, 2.2 * max(ms for _, ms, _ in rows)), xlabel="ms a frame")
    left.invert_yaxis()
    tidy(left, f"by operator, {case['ms']:.0f} ms in all", "x")
    _slowest(right, case, most=12)
    return figure


def _with_rest(case: Record, most: int) -> list[tuple[str, float, float | None]]:
    """The first operators, all others as one row, and what no node accounts for."""
    rows = [(f"{row['op']} ({row['nodes']})", row["ms"], row.get("gflops")) for row in case["operators"]]
    rest = sum(ms for _, ms, _ in rows[most:])
    return [*rows[:most], ("other operators", rest, None), ("between nodes", case["outside_nodes_ms"], None)]


def _slowest(axes: Axes, case: Record, most: int) -> None:
    nodes, peak = case["nodes"][:most], case["peak"]["gflops"]
    axes.barh(range(len(nodes)), [node.get("gflops", 0) for node in nodes], color=GREEN)
    for index, node in enumerate(nodes):
        text = f" {node['gflops']:.0f}" if "gflops" in node else " no products"
        axes.text(node.get("gflops", 0), index, text, va="center", fontsize=10.5, color=INK)
    axes.axvline(peak, color=ORANGE, lw=2, label=f"one large matrix product: {peak:.0f} GFLOP/s")
    axes.set_yticks(range(len(nodes)), [f"{node['what']}: {node['ms']:.1f} ms" for node in nodes])
    axes.set(xlim=(0, 1.05 * max(peak, *(node.get("gflops", 0) for node in nodes))), xlabel="GFLOP/s reached")
    axes.invert_yaxis()
    tidy(axes, "the slowest nodes", "x")
    axes.figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower right", fontsize=10.5, frameon=False
    )


def main() -> None:
    """Write a picture for each benchmark whose record is stored."""
    for draw in (plain, scaling, operators):
        source = ROOT / "reports" / f"benchmark_{draw.__name__}.json"
        if source.is_file():
            buffer = io.BytesIO()
            draw(json.loads(source.read_text())).savefig(
                buffer, format="png", dpi=DPI, metadata={"Software": None}
            )
            atomic_write_bytes(ROOT / "docs" / "images" / f"benchmark_{draw.__name__}.png", buffer.getvalue())


if __name__ == "__main__":
    main()
