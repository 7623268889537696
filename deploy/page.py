"""Measurements as one self-contained HTML page: a section for each comparison, and what lies behind a row.

Measurements may come from anywhere: every text is escaped, and the page's own policy forbids all scripts but
the one in it and every request. Refuses to rank, and to put unlike rows (deploy/comparison.py) side by side.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from html import escape

from deploy.comparison import (
    data,
    differing,
    groups,
    limits,
    pareto,
    power_mode,
    processor,
    repeats,
    size,
    speedups,
)
from deploy.curves import curve
from deploy.measurement import Measurement
from deploy.page_style import SCRIPT, STYLE
from deploy.page_table import (
    MOST_CLASS_COLUMNS,
    classes_table,
    model_name,
    proof_badge,
    rows_table,
    stage_legend,
    target_name,
)
from deploy.scatter import SERIES, Point, mark_path, scatter

Rows = Sequence[Measurement]
MOST_DETAILS = 300
MOST_CURVES = 60


def page(rows: Rows, left_out: Sequence[str] = (), home: str = "") -> str:
    """The whole document.

    Args:
        left_out: a line for each file that is no measurement.
        home: address of the page that measures, for a link back to it; "" where there is none.
    """
    compared = groups(rows)
    body = [_header(rows, home), _left_out(left_out), _notice(rows, len(compared))]
    body += [*map(_comparison, compared), _curves(rows), _details(rows)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>edgeseg: measurements</title><style>{STYLE}</style></head>\n"
        f"<body><main>{''.join(body)}</main><script>{SCRIPT}</script></body></html>\n"
    )


def policy() -> str:
    """The page's own Content-Security-Policy: its one script, its styles, no request."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"


def short_labels(rows: Rows) -> list[str]:
    """A label a row: its model, and its target where targets differ."""
    several = len({target_name(m) for m in rows}) > 1
    return [", ".join([model_name(m), *([target_name(m)] if several else [])]) for m in rows]


def _header(rows: Rows, home: str) -> str:
    newest = max((m.timestamp for m in rows), default="").replace("T", " ").replace("+00:00", " UTC")
    count = f"{len(rows)} measurement{'s' if len(rows) > 1 else ''}"
    text = f"{count}, newest {escape(newest)}." if rows else "No measurement yet."
    link = f' <a href="{escape(home)}">Measure this device</a>' if home else ""
    return f"<header><h1>Device measurements</h1><p>{text}{link}</p></header>"


def _left_out(lines: Sequence[str]) -> str:
    """Files that stand in no table, and why."""
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines[:MOST_DETAILS])
    return f'<div class="notice"><strong>{len(lines)} left out</strong><ul>{items}</ul></div>'


def _notice(rows: Rows, compared: int) -> str:
    """Which conditions keep the rows in several comparisons."""
    if compared < 2:
        return ""
    items = "".join(f"<li>{escape(_values(name, found))}</li>" for name, found in differing(rows).items())
    head = f"<strong>{compared} comparisons: unlike rows are kept apart.</strong> They differ in"
    return f'<div class="notice">{head}<ul>{items}</ul></div>'


def _values(name: str, found: list[str]) -> str:
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return f"{name}: {'; '.join(found[:4])}{more}"


def _comparison(rows: Rows) -> str:
    """One section: plot, rows, speed-ups, classes."""
    own = next((m for m in rows if not m.brought), rows[0])
    facts = [f"{own.threads} thread{'s' if own.threads > 1 else ''}", f"power mode: {power_mode(own)}"]
    facts += [f"limits: {limits(own)}"] if limits(own) != "none" else []
    title = f"{processor(own)}, {size(own)}, {data(own) if own.dataset else 'no labelled data'}"
    head = f"<h2>{escape(title)}</h2><p>{escape('; '.join(facts))}.</p>"
    labels = short_labels(rows)
    parts = [_plot(rows, labels), stage_legend(), rows_table(rows, repeats(rows)), _speedups(rows)]
    return f"<section>{head}{''.join(parts)}{_classes(rows, labels)}</section>"


def _plot(rows: Rows, labels: Sequence[str]) -> str:
    plotted = [(m, label) for m, label in zip(rows, labels, strict=True) if m.miou is not None]
    if not plotted:
        return "<p>No row has a mIoU: nothing was compared with labelled images.</p>"
    series, shapes = _indices(rows, model_name), _indices(rows, target_name)
    points = [_point(m, label, series, shapes) for m, label in plotted]
    front = [(m.latency_ms.p50, 100 * (m.miou or 0.0)) for m in pareto(rows)]
    left_out = len(rows) - len(plotted)
    note = f"<p>{left_out} without mIoU not drawn.</p>" if left_out else ""
    return f'{_legend(series, shapes, len(front) > 1)}<div class="plot">{scatter(points, front)}</div>{note}'


def _point(m: Measurement, label: str, series: dict[str, int], shapes: dict[str, int]) -> Point:
    percent, p50 = 100 * (m.miou or 0.0), m.latency_ms.p50
    title = f"{m.name}: mIoU {percent:.1f} %, p50 {p50:.1f} ms, {m.proof}"
    return Point(p50, percent, label, title, series[model_name(m)], shapes[target_name(m)])


def _legend(series: dict[str, int], shapes: dict[str, int], front: bool) -> str:
    entries = [(f"s{index % SERIES}", 0, name) for name, index in series.items()]
    entries += [("plain", index, name) for name, index in shapes.items()]
    marks = "".join(
        f'<span><svg viewBox="0 0 18 18"><path class="{css}" d="{mark_path(shape, 9, 9)}"/></svg>'
        f"{escape(name)}</span>"
        for css, shape, name in entries[:24]
    )
    line = '<svg viewBox="0 0 18 18"><path class="front" d="M0 9H18"/></svg>'
    marks += f"<span>{line}Pareto front: nothing is both faster and more accurate</span>" if front else ""
    return f'<div class="legend">{marks}</div>'


def _speedups(rows: Rows) -> str:
    """Linear against softmax attention, all else equal."""
    pairs = sorted(speedups(rows), key=lambda pair: -pair.ratio)
    if not pairs:
        return ""
    heads = "".join(
        f'<th class="{css}">{name}</th>'
        for css, name in (
            ("", "model"),
            ("", "target"),
            ("n", "linear ms"),
            ("n", "softmax ms"),
            ("n", "speed-up"),
        )
    )
    body = "".join(
        f"<tr><td>{escape(str(pair.linear.model.get('variant', '')))}</td>"
        f"<td>{escape(target_name(pair.linear))}</td><td class=n>{pair.linear.latency_ms.p50:.1f}</td>"
        f"<td class=n>{pair.softmax.latency_ms.p50:.1f}</td><td class=n>{pair.ratio:.2f} &times;</td></tr>"
        for pair in pairs
    )
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f'<h3>Linear against softmax attention</h3><div class="scroll">{table}</div>'


def _classes(rows: Rows, labels: Sequence[str]) -> str:
    measured = sum(bool(m.iou) for m in rows)
    if not measured:
        return ""
    intro = "A class that is in no mask and no prediction is absent, not zero."
    if measured > MOST_CLASS_COLUMNS:
        intro += f" The first {MOST_CLASS_COLUMNS} of {measured} rows."
    return f"<h3>IoU by class (%)</h3><p>{intro}</p>{classes_table(rows, labels)}"


def _curves(rows: Rows) -> str:
    """Every sustained run: what its device held, and what it did not."""
    loaded = [m for m in rows if m.sustained]
    if not loaded:
        return ""
    more = f" The first {MOST_CURVES} of {len(loaded)}." if len(loaded) > MOST_CURVES else ""
    intro = f"<h2>Sustained load</h2><p>Latency (p50 of each interval) over time under steady load.{more}</p>"
    figures = "".join(map(_curve, loaded[:MOST_CURVES]))
    return f'<section>{intro}<div class="curves">{figures}</div></section>'


def _curve(m: Measurement) -> str:
    assert m.sustained
    held = m.sustained
    change = f"{100 * (held.last_ms / held.first_ms - 1):+.0f} %"
    words = (
        f"{held.verdict}: {held.first_ms:.1f} to {held.last_ms:.1f} ms ({change}) in {held.duration_s:.0f} s"
    )
    lacking = "; ".join(f"no {name}: {reason}" for name, reason in held.absent.items())
    note = f'<small class="absent">{escape(lacking)}</small>' if lacking else ""
    title = f"<strong>{escape(m.name)}</strong><small>{escape(processor(m))}: {escape(words)}</small>"
    return f"<figure><figcaption>{title}{note}</figcaption>{curve(held)}</figure>"


def _details(rows: Rows) -> str:
    if not rows:
        return ""
    more = (
        f"<p>The first {MOST_DETAILS} of {len(rows)}; `report --csv` holds all.</p>"
        if len(rows) > MOST_DETAILS
        else ""
    )
    return f"<section><h2>Behind each row</h2>{more}{''.join(map(_detail, rows[:MOST_DETAILS]))}</section>"


def _detail(m: Measurement) -> str:
    listing = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _facts(m) if text)
    return f"<details><summary>{escape(m.name)}</summary><dl>{listing}</dl></details>"


def _facts(m: Measurement) -> Iterator[tuple[str, str]]:
    yield "command", f"<code>{escape(m.command)}</code>"
    yield "measured", escape(m.timestamp)
    yield "proof", proof_badge(m.proof)
    yield "frames", f"{m.frames} timed, {m.warmup} dropped, {m.images} compared with masks"
    if m.startup:
        yield "start", f"load {m.startup.load_ms:.0f} ms, first frame {m.startup.first_ms:.1f} ms"
    if m.jitter_ms is not None and m.overhead is not None:
        yield "steadiness", f"jitter {m.jitter_ms:.2f} ms, overhead of the measuring {100 * m.overhead:.2f} %"
    if m.noise:
        yield "noise", escape("; ".join(m.noise.why) or "quiet")
    yield "machine", escape(_machine(m))
    yield "not known", escape("; ".join(f"{name}: {reason}" for name, reason in m.machine.absent.items()))
    yield "versions", escape(", ".join(f"{name} {version}" for name, version in m.versions.items()))
    yield "model", escape(", ".join(f"{key} {value}" for key, value in m.model.items()))
    yield "options", escape(", ".join(f"{key}={value}" for key, value in m.options.items()))
    yield "bundle", f"<code>{escape(m.bundle_sha256)}</code>"
    yield "data", f"{escape(data(m))} <code>{escape(m.dataset.sha256) if m.dataset else ''}</code>"
    yield "no accuracy", escape(m.accuracy_reason or "")


def _machine(m: Measurement) -> str:
    machine = m.machine
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB" if machine.memory_bytes else "memory unknown"
    words = [processor(m), f"{machine.cores} cores", memory, machine.software or "", machine.os]
    words += [
        f"Python {machine.python}" if machine.python else "",
        f"throttled: {', '.join(machine.throttled)}" if machine.throttled else "",
    ]
    return ", ".join(filter(None, words))


def _indices(rows: Rows, name: Callable[[Measurement], str]) -> dict[str, int]:
    """Distinct names in order of appearance -> 0, 1, 2, ..."""
    return {text: index for index, text in enumerate(dict.fromkeys(name(m) for m in rows))}
