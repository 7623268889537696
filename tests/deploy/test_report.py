"""report: one self-contained page from untrusted files."""

from __future__ import annotations

import copy
import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from deploy import report
from deploy.errors import InputError
from deploy.measurement import keep_measurement, read_measurement
from deploy.options import Parser
from deploy.page import page
from deploy.scatter import Point, latency_axis, nice_ticks, scatter

VALUE: dict[str, Any] = {
    "schema_version": 1,
    "name": "street-onnxruntime-fp32",
    "proof": "executed",
    "target": "onnxruntime",
    "precision": "fp32",
    "options": {},
    "size": [360, 480],
    "model": {"variant": "b0", "attention": "linear", "classes": 3, "head": "cityscapes"},
    "dataset": {"name": "camvid", "split": "val", "sha256": "ab" * 32},
    "images": 101,
    "miou": 0.5991,
    "iou": {"sky": 0.91, "pole": 0.08, "bus": None},
    "pixel_accuracy": 0.9,
    "accuracy_reason": None,
    "frames": 101,
    "warmup": 10,
    "latency_ms": {"p50": 21.3, "p90": 23.0, "p99": 29.9, "mean": 21.9},
    "stages_ms": {"preprocess": 1.5, "inference": 19.0, "postprocess": 0.5},
    "throughput_fps": 45.7,
    "peak_memory_bytes": 181_000_000,
    "peak_memory_reason": None,
    "threads": 2,
    "bundle_bytes": 3_100_000,
    "bundle_sha256": "cd" * 32,
    "machine": {"cpu_model": "Some CPU", "architecture": "x86_64", "cores": 2, "memory_bytes": 2**34,
                "os": "Linux", "python": "3.11"},
    "versions": {"numpy": "2", "opencv": "5", "onnxruntime": "1.32"},
    "command": "python -m deploy bench b --data d",
    "timestamp": "2026-01-02T03:04:05+00:00",
}  # fmt: skip
NOTHING_COMPARED = {"dataset": None, "images": 0, "miou": None, "iou": None, "pixel_accuracy": None}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
CURVE = {"duration_s": 600.0, "window_s": 60.0, "first_ms": 20.0, "last_ms": 27.0, "verdict": "slowed",
         "absent": {"power_w": HOSTILE},
         "points": [{"at_s": float(t), "frames": 9, "p50_ms": 20.0 + t / 100, "clock_mhz": 1500.0 - t,
                     "temperature_c": 40.0, "power_w": None} for t in range(0, 601, 10)]}  # fmt: skip
VOID = {"meta", "br", "link", "img", "input", "hr"}


class _Checker(HTMLParser):
    """Well-nested tags; collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def _parse(html: str) -> _Checker:
    checker = _Checker()
    checker.feed(html)
    checker.close()
    assert not checker.open
    return checker


def _write(tmp_path: Path, *changes: dict[str, Any]) -> list[Path]:
    paths = []
    for index, change in enumerate(changes):
        paths.append(tmp_path / f"r{index}.json")
        paths[-1].write_text(json.dumps({**copy.deepcopy(VALUE), **change}), encoding="utf-8")
    return paths


def _report(paths: list[Path], html: Path) -> str:
    parser = Parser()
    report.add_arguments(parser)
    assert report.run(parser.parse_args([*map(str, paths), "--html", str(html)])) == 0
    return html.read_text(encoding="utf-8")


SOFTMAX = {"name": "soft", "model": {"variant": "b0", "attention": "softmax"}, "miou": 0.61}


def test_the_page_holds_table_plot_classes_and_proof(tmp_path: Path) -> None:
    speed_only = {"accuracy_reason": "no data", **NOTHING_COMPARED}
    paths = _write(tmp_path, {}, SOFTMAX, {**speed_only, "proof": "not run: no such device", "name": "third"})
    checked = _parse(_report(paths, tmp_path / "out" / "page.html"))
    for words in (
        "b0 linear",
        "b0 softmax",
        "59.9",
        "21.3",
        "latency p50 (ms)",
        "mIoU (%)",
        "absent",
        "8.0",
        "not run: no such device",
        "no data",
        "street-onnxruntime-fp32",
    ):
        assert words in checked.text, words
    assert checked.text.count("executed") >= 2
    assert checked.tags.count("table") == 3 and "svg" in checked.tags


def test_a_phone_shows_every_figure(tmp_path: Path, chromium: Any) -> None:
    _report(_write(tmp_path, {}, SOFTMAX), tmp_path / "page.html")
    phone = chromium.new_page(viewport={"width": 390, "height": 844})
    phone.goto((tmp_path / "page.html").as_uri())
    shown = phone.locator(".sortable td, .plot path.mark").all()
    assert len(shown) == 2 * 9 + 2
    for element in shown:
        box = element.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390, element.inner_text()
    head = phone.locator(".sortable td").nth(4).evaluate("td => getComputedStyle(td, '::before').content")
    assert head == '"p50 ms"'
    phone.close()


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    html = _report(_write(tmp_path, {}, SOFTMAX), tmp_path / "page.html")
    addresses = set(re.findall(r"(?:https?:)?//[^\s\"'<)]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name space, not fetched
    checked = _parse(html)
    assert not {"link", "img", "iframe", "object", "embed"} & set(checked.tags)
    assert not {"src", "href", "srcset", "action"} & {name for name, _ in checked.attributes}
    assert not [name for name, _ in checked.attributes if name.startswith("on")]
    assert "prefers-color-scheme" in html and "default-src 'none'" in html


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    clean = _parse(_report(_write(tmp_path, {}), tmp_path / "clean.html"))
    change = {
        "name": HOSTILE, "target": HOSTILE, "precision": HOSTILE, "command": HOSTILE, "timestamp": HOSTILE,
        "proof": f"not run: {HOSTILE}", "model": {"variant": HOSTILE, "attention": HOSTILE, HOSTILE: HOSTILE},
        "options": {HOSTILE: HOSTILE}, "versions": {HOSTILE: HOSTILE}, "accuracy_reason": HOSTILE,
        "peak_memory_bytes": None, "peak_memory_reason": HOSTILE, "iou": {HOSTILE: 0.5, "pole": None},
        "dataset": {"name": HOSTILE, "split": HOSTILE, "sha256": HOSTILE}, "bundle_sha256": HOSTILE,
        "machine": {"cpu_model": HOSTILE, "architecture": HOSTILE, "cores": 1, "memory_bytes": None,
                    "os": HOSTILE, "python": HOSTILE},
    }  # fmt: skip
    html = _report(_write(tmp_path, change, {}), tmp_path / "page.html")
    checked = _parse(html)
    assert checked.tags.count("script") == clean.tags.count("script") == 1
    assert set(checked.tags) - {"div", "strong", "ul", "li"} <= set(clean.tags)
    assert not [name for name, _ in checked.attributes if name.startswith("on") or name == "src"]
    assert checked.text.count(HOSTILE) > 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 3}, "schema_version | got 3 | expected at most 2 | update edgeseg"),
        ({"schema_version": 0}, "schema_version | got 0"),
        ({"schema_version": None}, "is not a measurement"),
        ({"surprise": 1}, "unknown key | got 'surprise'"),
        ({"miou": 1e308}, "out of range | got miou"),
        ({"miou": -0.1}, "out of range | got miou"),
        ({"iou": {"a": 1.1}}, "out of range | got miou"),
        ({"iou": {str(i): 0.5 for i in range(300)}}, "255 classes"),
        ({"latency_ms": {"p50": 0, "p90": 1, "p99": 1, "mean": 1}}, "latency_ms"),
        ({"latency_ms": {"p50": 1e308, "p90": 1, "p99": 1, "mean": 1}}, "latency_ms"),
        ({"throughput_fps": -1}, "throughput_fps"),
        ({"peak_memory_bytes": -5}, "counts"),
        ({"size": [-1, 3]}, "size (at least 1)"),
        ({"frames": 0}, "frames, threads, cores"),
        ({"threads": 0}, "frames, threads, cores"),
        ({"machine": {**VALUE["machine"], "cores": -5}}, "frames, threads, cores"),
        ({"machine": {**VALUE["machine"], "cores": 10**400}}, "frames, threads, cores"),
        ({"machine": {**VALUE["machine"], "memory_bytes": -1}}, "counts"),
        ({"latency_ms": {"p50": 1e6, "p90": 11, "p99": 12, "mean": 10}}, "ascending"),
        ({"latency_ms": {"p50": 1, "p90": 3, "p99": 2, "mean": 1}}, "ascending"),
        ({**NOTHING_COMPARED, "miou": 1.0}, "need a dataset"),
        ({**NOTHING_COMPARED, "images": 3}, "need a dataset"),
        ({"threads": "many"}, "threads"),
        ({"proof": ""}, "proof"),
        ({"name": "x" * 5000}, "texts"),
        ({"jitter_ms": -1.0}, "jitter_ms"),
        ({"startup": {"load_ms": 1e308, "first_ms": 1}}, "startup"),
        (
            {"offline": [{"streams": 0, "threads": 1, "batch": 1, "frames": 1, "throughput_fps": 1}]},
            "offline",
        ),
        ({"sustained": {**CURVE, "first_ms": 1e308}}, "sustained"),
        ({"sustained": {**CURVE, "first_ms": 0, "last_ms": 0, "points": []}}, "sustained"),
        ({"sustained": {**CURVE, "verdict": "fine"}}, "steady or slowed or sped up"),
        ({"sustained": {**CURVE, "points": CURVE["points"] * 20}}, "sustained"),
    ],
)
def test_malformed_files_are_refused_by_name(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    paths = _write(tmp_path, {}, change)
    with pytest.raises(InputError) as error:
        _report(paths, tmp_path / "page.html")
    assert words in str(error.value) and "r1.json" in str(error.value) and len(str(error.value)) < 1000
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    "text", ["", "[1]", "null", "{", "{}", '{"schema_version": NaN}', "[" * 100_000, " " * (2 << 20)]
)
def test_rubbish_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(InputError, match=r"bad\.json"):
        _report([tmp_path / "bad.json"], tmp_path / "page.html")
    with pytest.raises(InputError, match=r"none\.json"):
        _report([tmp_path / "none.json"], tmp_path / "page.html")


def test_missing_key_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path, {})[0]
    value = json.loads(path.read_text())
    del value["stages_ms"]
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=r"missing key \| got stages_ms"):
        read_measurement(path)


def test_a_measurement_is_never_overwritten(tmp_path: Path) -> None:
    (path,) = _write(tmp_path, {})
    before = path.read_bytes()
    with pytest.raises(InputError, match="is read, and would be written"):
        _report([path], path)
    assert path.read_bytes() == before


def test_a_folder_stands_for_its_json_files(tmp_path: Path) -> None:
    _write(tmp_path, {}, SOFTMAX)
    assert "2 measurements" in _report([tmp_path], tmp_path / "page.html")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="measurement files"):
        _report([tmp_path / "empty"], tmp_path / "page.html")


def test_unlike_rows_are_kept_apart_and_what_differs_is_named(tmp_path: Path) -> None:
    other = {"threads": 4, "size": [512, 1024]}
    rows = [read_measurement(path) for path in _write(tmp_path, {}, SOFTMAX, other)]
    text = _parse(page(rows)).text
    assert "2 comparisons: unlike rows are kept apart." in text
    assert "threads: 2; 4" in text and "size: 360x480; 512x1024" in text
    assert page(rows).count('class="plot"') == 2 and "comparisons" not in page(rows[:2])


def test_a_comparison_shows_front_speed_up_and_marks(tmp_path: Path) -> None:
    twin = {**VALUE["model"], "attention": "softmax"}
    slow = {**SOFTMAX, "model": twin, "latency_ms": {"p50": 63.9, "p90": 70, "p99": 80, "mean": 64}}
    noise = {"noisy": True, "why": ["other processes used 31 % of the machine"], "spread": 0.0,
             "others_cpu": 0.31, "clock_jump_s": 0.0}  # fmt: skip
    brought = {"brought": True, "name": "S", **NOTHING_COMPARED,
               "accuracy_reason": "brought model: latency only", "model": {"variant": "S"}}  # fmt: skip
    again = {
        "latency_ms": {"p50": 23.5, "p90": 24, "p99": 25, "mean": 23},
        "noise": noise,
        "interrupted": True,
    }
    rows = [read_measurement(path) for path in _write(tmp_path, {}, slow, brought, again)]
    html = page(rows)
    text = _parse(html).text
    for words in (
        "3.00 ×",
        "latency only",
        "noisy machine",
        "runs differ by 10 %",
        "Pareto front",
        "interrupted",
    ):
        assert words in text, words
    assert "31 % of the machine" in html and html.count("<h2>Some CPU, 360x480, camvid val (101)</h2>") == 1
    assert "1 without mIoU not drawn." in text


def test_a_sustained_run_is_drawn(tmp_path: Path) -> None:
    html = page([read_measurement(path) for path in _write(tmp_path, {"sustained": CURVE})])
    checked = _parse(html)
    assert "slowed: 20.0 to 27.0 ms (+35 %) in 600 s" in checked.text and HOSTILE in checked.text
    assert html.count('<path class="line ') == 3, "latency, clock and temperature; no power was measured"
    path = re.search(r'<path class="line a" d="M([^"]+)"', html)
    assert path is not None and path[1].count("L") == 60


def test_csv_holds_every_row_and_no_formula(tmp_path: Path) -> None:
    paths = _write(tmp_path, {"name": "=HYPERLINK(1)"}, {"name": 'a "quoted", name', "miou": None}, SOFTMAX)
    parser = Parser()
    report.add_arguments(parser)
    assert report.run(parser.parse_args([*map(str, paths), "--csv", str(tmp_path / "t.csv")])) == 0
    with open(tmp_path / "t.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["name"] for row in rows] == ["'=HYPERLINK(1)", 'a "quoted", name', "soft"]
    assert rows[0]["p50_ms"] == "21.3" and rows[1]["miou"] == "" and rows[2]["attention"] == "softmax"
    with pytest.raises(InputError, match="nothing to write"):
        report.run(parser.parse_args([str(paths[0])]))


def test_a_file_named_by_its_content_must_still_hold_it(tmp_path: Path) -> None:
    measurement = read_measurement(_write(tmp_path, {"name": "street/../b0 ü"})[0])
    path = keep_measurement(tmp_path / "kept", measurement)
    assert path.parent == tmp_path / "kept" and re.fullmatch(r"street_.._b0_ü-[0-9a-f]{16}\.json", path.name)
    assert (
        read_measurement(path)
        == measurement
        == read_measurement(keep_measurement(tmp_path / "kept", measurement))
    )
    path.write_text(path.read_text().replace("21.3", "11.3"))
    with pytest.raises(InputError, match="has changed since it was measured"):
        read_measurement(path)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with open(tmp_path / "huge.json", "wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(InputError, match=r"huge\.json is too large"):
        read_measurement(tmp_path / "huge.json")


@pytest.mark.slow
def test_ten_thousand_reports_become_one_page(tmp_path: Path) -> None:
    targets, sizes = ("onnxruntime", "openvino", "ncnn"), ([360, 480], [512, 1024])
    changes = (
        {
            "target": targets[n % 3],
            "size": sizes[n % 2],
            "threads": 1 + n % 4,
            "miou": n / 10_000,
            **(SOFTMAX if n % 5 else {}),
        }
        for n in range(10_000)
    )
    _write(tmp_path, *changes)
    assert "10000 measurements" in _report([tmp_path], tmp_path / "page.html")


@pytest.mark.parametrize("spread", [1.0, 3.0, 100.0, 1e9])
@pytest.mark.parametrize("count", [1, 2, 12, 40])
def test_every_point_lies_inside_the_plot(count: int, spread: float) -> None:
    points = [
        Point(0.01 * spread ** (i / max(1, count - 1)), 100 * i / count, f"p{i}", f"title {i}", i, i)
        for i in range(count)
    ]
    root = ElementTree.fromstring(scatter(points))
    space = "{http://www.w3.org/2000/svg}"
    marks = [element for element in root.iter(f"{space}path") if "mark" in element.get("class", "")]
    assert len(marks) == count
    for mark in marks:
        x, y = map(float, re.findall(r"-?[\d.]+", mark.get("d", ""))[:2])
        assert 50 <= x <= 910 and 10 <= y <= 410
    ticks = [element for element in root.iter(f"{space}text") if element.get("class") == "tick"]
    assert 5 <= len(ticks) <= 30
    labels = [element for element in root.iter(f"{space}text") if element.get("class") == "label"]
    assert len(labels) == (count if count <= 16 else 0)


def test_ticks_are_round_and_inside() -> None:
    assert nice_ticks(0, 100) == (0, 20, 40, 60, 80, 100)
    assert nice_ticks(55.9, 65.2) == (56, 58, 60, 62, 64)
    assert latency_axis([20, 30]).low == 0 and not latency_axis([20, 30]).log
    wide = latency_axis([1, 100])
    assert wide.log and wide.ticks == (1, 2, 5, 10, 20, 50, 100)
    assert wide.px(10) == pytest.approx((wide.px(1) + wide.px(100)) / 2)
