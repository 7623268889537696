"""Measurements as one self-contained HTML page: plot, table, per-class IoU, what lies behind each row.

Measurements may come from anywhere: every text is escaped, and the page's own policy forbids all scripts but
the one in it and every request. Refuses to rank: unlike rows are shown, and named as unlike.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from html import escape

from deploy.measurement import Measurement
from deploy.page_style import SCRIPT, STYLE
from deploy.scatter import SERIES, Point, mark_path, scatter

Rows = Sequence[Measurement]

# Head of a column -> (its value for sorting, its cell); a number is set to the right.
_COLUMNS: dict[str, tuple[Callable[[Measurement], object], Callable[[Measurement], str]]] = {
    "model": (lambda m: m.name, lambda m: f"{escape(model_name(m))}<small>{escape(m.name)}</small>"),
    "target": (
        lambda m: f"{m.target} {m.precision}",
        lambda m: f"{escape(_target(m))}<small>{m.size[0]}&times;{m.size[1]}</small>",
    ),
    "proof": (lambda m: m.proof, lambda m: proof_badge(m.proof)),
    "mIoU %": (lambda m: m.miou, lambda m: _miou_cell(m)),
    "p50 ms": (lambda m: m.latency_ms.p50, lambda m: _latency(m)),
    "stages": (lambda m: m.stages_ms.inference, lambda m: _stages(m)),
    "frames/s": (lambda m: m.throughput_fps, lambda m: f"{m.throughput_fps:.1f}"),
    "peak MB": (
        lambda m: m.peak_memory_bytes,
        lambda m: _megabytes(m.peak_memory_bytes, m.peak_memory_reason),
    ),
    "bundle MB": (lambda m: m.bundle_bytes, lambda m: f"{m.bundle_bytes / 1e6:.1f}"),
    "data": (lambda m: _data(m), lambda m: escape(_data(m))),
    "machine": (
        lambda m: _cpu(m),
        lambda m: f"{escape(_cpu(m))}<small>{m.threads} thread{'s' if m.threads > 1 else ''}</small>",
    ),
}
_TEXT_COLUMNS = {"model", "target", "proof", "stages", "data", "machine"}


def page(rows: Rows) -> str:
    """The whole document; needs at least one measurement."""
    assert rows
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    body = [_header(rows), _notice(rows), _plot(rows), _table(rows), _classes(rows), _details(rows)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>edgeseg: measurements</title><style>{STYLE}</style></head>\n"
        f"<body><main>{''.join(body)}</main><script>{SCRIPT}</script></body></html>\n"
    )


def model_name(m: Measurement) -> str:
    """Short name of the network: variant and attention, else the bundle's name."""
    words = [str(m.model[key]) for key in ("variant", "attention") if key in m.model]
    return " ".join(words) or m.name


def proof_badge(proof: str) -> str:
    """The proof word, set apart; "not run" keeps its reason."""
    kind = "executed" if proof == "executed" else "other"
    return f'<span class="proof {kind}">{escape(proof)}</span>'


def unlike(rows: Rows) -> list[str]:
    """Which conditions differ between the rows, in words."""
    conditions: dict[str, Callable[[Measurement], str]] = {
        "data": _data,
        "input size": lambda m: f"{m.size[0]}x{m.size[1]}",
        "machine": _cpu,
        "threads": lambda m: str(m.threads),
    }
    found = []
    for name, value in conditions.items():
        values = sorted({value(m) for m in rows})
        if len(values) > 1:
            found.append(f"{name}: {', '.join(values[:4])}{', ...' if len(values) > 4 else ''}")
    return found


def short_labels(rows: Rows) -> list[str]:
    """A label a row: its model, and of target, data and size what tells the rows apart."""
    parts: list[Callable[[Measurement], str]] = [model_name]
    for part in (
        _target,
        lambda m: m.dataset.name if m.dataset else "",
        lambda m: f"{m.size[0]}x{m.size[1]}",
    ):
        if len({part(m) for m in rows}) > 1:
            parts.append(part)
    return [", ".join(filter(None, (part(m) for part in parts))) for m in rows]


def _header(rows: Rows) -> str:
    newest = max(m.timestamp for m in rows).replace("T", " ").replace("+00:00", " UTC")
    count = f"{len(rows)} measurement{'s' if len(rows) > 1 else ''}"
    return f"<header><h1>Device measurements</h1><p>{count}, newest {escape(newest)}.</p></header>"


def _notice(rows: Rows) -> str:
    lines = unlike(rows)
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    head = "<strong>These rows differ in more than the model.</strong>"
    return f'<div class="notice">{head}<ul>{items}</ul></div>'


def _plot(rows: Rows) -> str:
    plotted = [(number, m) for number, m in enumerate(rows, 1) if m.miou is not None]
    intro = "<h2>Accuracy against latency</h2><p>Decoded frame to label map at the frame's own size.</p>"
    if not plotted:
        return f"<section>{intro}<p>No row has a mIoU: measure with labelled data (--data).</p></section>"
    series, shapes = _indices(rows, model_name), _indices(rows, _target)
    labels = short_labels([m for _, m in plotted])
    points = [
        _point(number, m, label, series, shapes) for (number, m), label in zip(plotted, labels, strict=True)
    ]
    left_out = len(rows) - len(plotted)
    note = f"<p>{left_out} without mIoU not drawn.</p>" if left_out else ""
    legend = _legend(series, shapes)
    return f'<section>{intro}{legend}<div class="plot">{scatter(points)}</div>{note}</section>'


def _point(number: int, m: Measurement, label: str, series: dict[str, int], shapes: dict[str, int]) -> Point:
    percent, p50 = 100 * (m.miou or 0.0), m.latency_ms.p50
    title = f"{number}. {m.name}: mIoU {percent:.1f} %, p50 {p50:.1f} ms, {m.proof}"
    return Point(p50, percent, label, title, series[model_name(m)], shapes[_target(m)])


def _legend(series: dict[str, int], shapes: dict[str, int]) -> str:
    entries = [(f"s{index % SERIES}", 0, name) for name, index in series.items()]
    entries += [("plain", index, name) for name, index in shapes.items()]
    marks = "".join(
        f'<span><svg viewBox="0 0 18 18"><path class="{css}" d="{mark_path(shape, 9, 9)}"/></svg>'
        f"{escape(name)}</span>"
        for css, shape, name in entries[:24]
    )
    return f'<div class="legend">{marks}</div>'


def _table(rows: Rows) -> str:
    heads = "".join(
        f'<th class="{_align(name)}" scope="col"><button type="button">{name}</button></th>'
        for name in _COLUMNS
    )
    body = "".join(f"<tr>{''.join(_cells(m))}</tr>" for m in rows)
    stages = zip("abc", ("preprocess", "inference", "postprocess"), strict=True)
    keys = "".join(f'<span><i class="swatch {css}"></i>{name}</span>' for css, name in stages)
    legend = f'<div class="legend">{keys}</div>'
    intro = "<h2>Measurements</h2><p>mIoU at the masks' own size; memory of a fresh process.</p>"
    table = f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'<section>{intro}{legend}<div class="scroll">{table}</div></section>'


def _cells(m: Measurement) -> Iterator[str]:
    for name, (value, cell) in _COLUMNS.items():
        found = value(m)
        key = "" if found is None else str(found)
        css = "name" if name == "model" else _align(name)
        yield f'<td class="{css}" data-v="{escape(key)}">{cell(m)}</td>'


def _classes(rows: Rows) -> str:
    """Per-class IoU: a row a class, a column a measurement, shaded by value."""
    measured = [m for m in rows if m.iou]
    labels = short_labels(measured)
    if not measured:
        return ""
    names = list(dict.fromkeys(name for m in measured for name in m.iou or {}))
    heads = "".join(
        f'<th class="n" scope="col">{escape(name)}<small>{rest}</small></th>'
        for name, rest in (_split(label) for label in labels)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(_iou_cell(m, name) for m in measured)}</tr>'
        for name in names
    )
    table = f"<table><thead><tr><th>class</th>{heads}</tr></thead><tbody>{body}</tbody></table>"
    intro = (
        "<h2>IoU by class (%)</h2><p>A class that is in no mask and no prediction is absent, not zero.</p>"
    )
    return f'<section>{intro}<div class="scroll">{table}</div></section>'


def _split(label: str) -> tuple[str, str]:
    name, _, rest = label.partition(", ")
    return name, escape(rest)


def _iou_cell(m: Measurement, name: str) -> str:
    value = (m.iou or {}).get(name)
    if value is None:
        return f'<td class="n absent">{"absent" if name in (m.iou or {}) else "&ndash;"}</td>'
    return f'<td class="n" style="background:rgba(var(--tint),{0.32 * value:.3f})">{100 * value:.1f}</td>'


def _details(rows: Rows) -> str:
    return f"<section><h2>Behind each row</h2>{''.join(_detail(m) for m in rows)}</section>"


def _detail(m: Measurement) -> str:
    machine = m.machine
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else "memory unknown"
    entries = {
        "command": f"<code>{escape(m.command)}</code>",
        "measured": escape(m.timestamp),
        "proof": proof_badge(m.proof),
        "frames": f"{m.frames} timed, {m.warmup} dropped, {m.images} compared with masks",
        "machine": escape(
            f"{_cpu(m)}, {machine.cores} cores, {memory}, {machine.os}, Python {machine.python}"
        ),
        "versions": escape(", ".join(f"{name} {version}" for name, version in m.versions.items())),
        "model": escape(", ".join(f"{key} {value}" for key, value in m.model.items())),
        "options": escape(", ".join(f"{key}={value}" for key, value in m.options.items())),
        "bundle": f"<code>{escape(m.bundle_sha256)}</code>",
        "data": f"{escape(_data(m))} <code>{escape(m.dataset.sha256) if m.dataset else ''}</code>",
        "no accuracy": escape(m.accuracy_reason or ""),
    }
    listing = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in entries.items() if text)
    return f"<details><summary>{escape(m.name)}</summary><dl>{listing}</dl></details>"


def _indices(rows: Rows, name: Callable[[Measurement], str]) -> dict[str, int]:
    """Distinct names in order of appearance -> 0, 1, 2, ..."""
    return {text: index for index, text in enumerate(dict.fromkeys(name(m) for m in rows))}


def _align(column: str) -> str:
    return "" if column in _TEXT_COLUMNS else "n"


def _target(m: Measurement) -> str:
    return f"{m.target} {m.precision}"


def _data(m: Measurement) -> str:
    return f"{m.dataset.name} {m.dataset.split} ({m.images})" if m.dataset else "none"


def _cpu(m: Measurement) -> str:
    return m.machine.cpu_model or m.machine.architecture


def _miou_cell(m: Measurement) -> str:
    if m.miou is None:
        return f'<span class="absent" title="{escape(m.accuracy_reason or "")}">&ndash;</span>'
    return f"{100 * m.miou:.1f}"


def _megabytes(size: int | None, reason: str | None) -> str:
    return (
        f"{size / 1e6:.0f}" if size else f'<span class="absent" title="{escape(reason or "")}">&ndash;</span>'
    )


def _latency(m: Measurement) -> str:
    latency = m.latency_ms
    return f"{latency.p50:.1f}<small>p90 {latency.p90:.1f}</small><small>p99 {latency.p99:.1f}</small>"


def _stages(m: Measurement) -> str:
    """A bar of the three medians' shares."""
    times = (m.stages_ms.preprocess, m.stages_ms.inference, m.stages_ms.postprocess)
    total, left, parts = sum(times) or 1.0, 0.0, []
    for css, value in zip("abc", times, strict=True):
        width = 130 * value / total
        parts.append(f'<rect class="{css}" x="{left:.1f}" width="{width:.1f}" height="10"/>')
        left += width
    text = f"{times[0]:.2f} + {times[1]:.2f} + {times[2]:.2f} ms"
    bar = f'<svg class="stages" viewBox="0 0 130 10"><title>{text}</title>{"".join(parts)}</svg>'
    return f"{bar}<small>{text}</small>"
