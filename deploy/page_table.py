"""The tables of the report page: a row a measurement, and IoU by class, as HTML. Every text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

from deploy.measurement import Measurement

Rows = Sequence[Measurement]
MOST_CLASS_COLUMNS = 40

# Head of a column -> (its value for sorting, its cell); a number is set to the right.
_COLUMNS: dict[str, tuple[Callable[[Measurement], object], Callable[[Measurement], str]]] = {
    "model": (lambda m: m.name, lambda m: f"{escape(model_name(m))}<small>{escape(m.name)}</small>"),
    "target": (lambda m: target_name(m), lambda m: f"{escape(target_name(m))}{_provider(m)}"),
    "proof": (lambda m: m.proof, lambda m: f"{proof_badge(m.proof)}{_marks(m)}"),
    "mIoU %": (lambda m: m.miou, lambda m: _miou_cell(m)),
    "p50 ms": (lambda m: m.latency_ms.p50, lambda m: _latency(m)),
    "stages": (lambda m: m.stages_ms.inference, lambda m: _stages(m)),
    "frames/s": (lambda m: m.throughput_fps, lambda m: _throughput(m)),
    "peak MB": (
        lambda m: m.peak_memory_bytes,
        lambda m: _megabytes(m.peak_memory_bytes, m.peak_memory_reason),
    ),
    "bundle MB": (lambda m: m.bundle_bytes, lambda m: f"{m.bundle_bytes / 1e6:.1f}"),
}
_TEXT_COLUMNS = {"model", "target", "proof", "stages"}


def model_name(m: Measurement) -> str:
    """Short name of the network: variant and attention, else the bundle's name."""
    words = [str(m.model[key]) for key in ("variant", "attention") if key in m.model]
    return " ".join(words) or m.name


def target_name(m: Measurement) -> str:
    """Runtime and precision."""
    return f"{m.target} {m.precision}"


def proof_badge(proof: str) -> str:
    """The proof word, set apart; "not run" keeps its reason."""
    kind = "executed" if proof == "executed" else "other"
    return f'<span class="proof {kind}">{escape(proof)}</span>'


def rows_table(rows: Rows, apart: Mapping[int, float]) -> str:
    """One sortable table; `apart`: id of a row -> how far repeated runs of it differ."""
    heads = "".join(
        f'<th class="{_align(name)}" scope="col"><button type="button">{name}</button></th>'
        for name in _COLUMNS
    )
    body = "".join(f"<tr>{''.join(_cells(m, apart.get(id(m))))}</tr>" for m in rows)
    table = f'<table class="sortable"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def stage_legend() -> str:
    """What the colours of a stage bar mean."""
    stages = zip("abc", ("preprocess", "inference", "postprocess"), strict=True)
    keys = "".join(f'<span><i class="swatch {css}"></i>{name}</span>' for css, name in stages)
    return f'<div class="legend">{keys}</div>'


def classes_table(rows: Rows, labels: Sequence[str]) -> str:
    """IoU by class: a row a class, a column a measurement that has a mIoU, shaded by value."""
    measured = [(m, label) for m, label in zip(rows, labels, strict=True) if m.iou][:MOST_CLASS_COLUMNS]
    names = list(dict.fromkeys(name for m, _ in measured for name in m.iou or {}))
    heads = "".join(
        f'<th class="n" scope="col">{escape(name)}<small>{escape(rest)}</small></th>'
        for name, _, rest in (label.partition(", ") for _, label in measured)
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(_iou_cell(m, name) for m, _ in measured)}</tr>'
        for name in names
    )
    table = f"<table><thead><tr><th>class</th>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _cells(m: Measurement, apart: float | None) -> Iterator[str]:
    for name, (value, cell) in _COLUMNS.items():
        found, text = value(m), cell(m)
        if name == "p50 ms" and apart is not None:
            text += f'<small class="mark">runs differ by {100 * apart:.0f} %</small>'
        css = "name" if name == "model" else _align(name)
        sorted_by = escape("" if found is None else str(found))
        yield f'<td class="{css}" data-head="{name}" data-v="{sorted_by}">{text}</td>'


def _marks(m: Measurement) -> str:
    """What a reader must know before quoting the row."""
    found = [("latency only", m.accuracy_reason or "")] if m.brought else []
    found += [("noisy machine", "; ".join(m.noise.why))] if m.noise and m.noise.noisy else []
    found += [("interrupted", f"after {m.frames} frames")] if m.interrupted else []
    return "".join(f'<small class="mark" title="{escape(why)}">{text}</small>' for text, why in found)


def _provider(m: Measurement) -> str:
    provider = str(m.options.get("providers", ""))
    return (
        f"<small>{escape(provider.partition(',')[0].removesuffix('ExecutionProvider'))}</small>"
        if provider
        else ""
    )


def _align(column: str) -> str:
    return "" if column in _TEXT_COLUMNS else "n"


def _iou_cell(m: Measurement, name: str) -> str:
    value = (m.iou or {}).get(name)
    if value is None:
        return f'<td class="n absent">{"absent" if name in (m.iou or {}) else "&ndash;"}</td>'
    return f'<td class="n" style="background:rgba(var(--tint),{0.32 * value:.3f})">{100 * value:.1f}</td>'


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


def _throughput(m: Measurement) -> str:
    best = max(m.offline or (), key=lambda row: row.throughput_fps, default=None)
    text = f"{m.throughput_fps:.1f}"
    if best:
        text += f"<small>offline {best.throughput_fps:.1f}</small>"
        text += f"<small>{best.streams} &times; {best.threads}</small>"
    return text


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
