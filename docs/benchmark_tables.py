"""The README's tables of benchmarks and of attention, from reports/*.json.

Refuses to know where they go (readme.py) and how a figure was measured (the record's own command says that).
"""

from __future__ import annotations

from pathlib import Path

from cells import Record, by, line, stored  # beside this file

REPORTS = Path(__file__).resolve().parent.parent / "reports"
MISSING = "No measurement stored yet."
TASKS = {"network": "network to logits", "frame": "frame to label map"}
KINDS = ("linear", "softmax")
TOP_OPERATORS = 6


def plain() -> str:
    """Our export against the plain one: a row a task and size."""
    if (record := stored(REPORTS / "benchmark_plain.json")) is None:
        return MISSING
    head = (
        "| task, size | equality | plain ms | ours ms | speed-up (rounds) | plain MB: peak (net) | ours MB |"
    )
    lines = [head, "|---|---|---|---|---|---|---|"]
    for case in record["cases"]:
        theirs, ours = case["plain"], case["ours"]
        cells = (
            f"{TASKS[case['task']]}, {by(case['size'])}",
            _equality(case["equality"]),
            f"{theirs['ms']:.1f}",
            f"{ours['ms']:.1f}",
            _ratio(case["speedup"]),
            _memory(theirs),
            _memory(ours),
        )
        lines.append(line(*cells))
    return "\n".join([*lines, "", _made(record)])


def _equality(figures: Record) -> str:
    if "agreement" in figures:
        return f"{figures['agreement']:.4%} of pixels"
    return f"{figures['share_of_deviation']:.0e} of σ"


def _memory(side: Record) -> str:
    return f"{side['peak_bytes'] / 1e6:.0f} ({side['net_bytes'] / 1e6:.0f})"


def scaling() -> str:
    """Linear against softmax: a row a size, the fitted exponents last."""
    if (record := stored(REPORTS / "benchmark_scaling.json")) is None:
        return MISSING
    head = "| size (tokens) | network ms: linear | softmax | ratio | core ms: linear | softmax | ratio "
    lines = [head + "| network MB: linear | softmax |", "|---|" + "---|" * 8]
    cases = {(case["part"], tuple(case["size"])): case for case in record["cases"]}
    for size in dict.fromkeys(size for _, size in cases):
        network, core = cases["network", size], cases["core", size]
        name = f"{by(size)} ({network['tokens']})"
        memory = (_figure(network[kind], "net_bytes", 1e6, 0) for kind in KINDS)
        lines.append(line(name, *_pair(network), *_pair(core), *memory))
    lines += [_fits(record, "all", "exponent"), _fits(record, "larger_half", "exponent, larger half")]
    return "\n".join([*lines, "", _made(record)])


def _fits(record: Record, which: str, name: str) -> str:
    """A row of fitted exponents; the larger half of the sizes has less of what does not grow."""
    fits = [record["exponents"][part][kind][which] for part in ("network", "core") for kind in KINDS]
    shown = ["-" if fit is None else f"{fit:.2f}" for fit in fits]
    return line(name, *shown[:2], "", *shown[2:], "", "", "")


def _pair(case: Record) -> tuple[str, str, str]:
    ratio = case["softmax_over_linear"]
    kinds = (_figure(case[kind], "ms", 1.0, 2 if case["part"] == "core" else 1) for kind in KINDS)
    linear, softmax = kinds
    return linear, softmax, "" if ratio is None else f"{ratio['median']:.1f}"


def _figure(side: Record, key: str, unit: float, digits: int) -> str:
    return side["not_run"] if "not_run" in side else f"{side[key] / unit:.{digits}f}"


def operators() -> str:
    """Operator types of our graph, slowest first."""
    if (record := stored(REPORTS / "benchmark_operators.json")) is None:
        return MISSING
    case = record["cases"][0]
    lines = ["| operator (nodes) | ms | share | GFLOP/s | of the peak |", "|---|---|---|---|---|"]
    for row in case["operators"][:TOP_OPERATORS]:
        reached = (f"{row['gflops']:.0f}", f"{row['share_of_peak']:.0%}") if "gflops" in row else ("", "")
        lines.append(
            line(
                f"{row['op']} ({row['nodes']})", f"{row['ms']:.2f}", f"{row['ms'] / case['ms']:.0%}", *reached
            )
        )
    rest = sum(row["ms"] for row in case["operators"][TOP_OPERATORS:]) + case["outside_nodes_ms"]
    lines.append(line("all others, and between nodes", f"{rest:.2f}", f"{rest / case['ms']:.0%}", "", ""))
    peak = case["peak"]
    reference = (
        f"Peak: {peak['gflops']:.0f} GFLOP/s in a product of two {peak['side']}x{peak['side']} matrices."
    )
    return "\n".join([*lines, "", f"{reference} {_made(record)}"])


def browser() -> str:
    """The page's own measurement against native ONNX Runtime."""
    if (record := stored(REPORTS / "benchmark_browser.json")) is None:
        return MISSING
    here, there = record["native"], record["browser"]
    cells = (
        by(record["size"]),
        f"{there['p50_ms']:.1f} ({there['fps']:.1f})",
        f"{here['p50_ms']:.1f} ({here['fps']:.1f})",
        _ratio(record["slower"]),
        *("-" if side["miou"] is None else f"{side['miou']:.4f}" for side in (there, here)),
        f"{record['first_load_bytes'] / 1e6:.1f}",
    )
    head = "| size | browser ms (fps) | native ms (fps) | slower (rounds) | mIoU: browser | native | MB |"
    versions = f"{there['versions']['browser']}, onnxruntime-web {there['versions']['onnxruntime-web']}"
    return "\n".join([head, "|---|" + "---|" * 6, line(*cells), "", f"{versions}. {_made(record)}"])


def attention() -> str:
    """Entropy and top-1 share of the attention weights, a row a layer."""
    if (record := stored(REPORTS / "attention.json")) is None:
        return MISSING
    lines = [
        "| layer (tokens) | entropy: linear | softmax | top-1 share: linear | softmax |",
        "|---|---|---|---|---|",
    ]
    for row in record["layers"]:
        figures = (row[kind][key] for key in ("entropy", "top1") for kind in KINDS)
        shown = ("-" if value is None else f"{value:.3f}" for value in figures)
        lines.append(line(f"{row['layer']} ({row['tokens']})", *shown))
    models = " and ".join(f"`{name}`" for name in record["checkpoints"])
    return "\n".join([*lines, "", f"{models}, an image at {by(record['size'])}."])


def _ratio(figures: Record) -> str:
    return f"{figures['median']:.1f} ({figures['min']:.1f}..{figures['max']:.1f})"


def _made(record: Record) -> str:
    machine = record["machine"]["cpu_model"]
    return (
        f"{machine}, {record['threads']} threads, medians of {record['rounds']} rounds: `{record['command']}`"
    )
