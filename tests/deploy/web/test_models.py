"""What a visitor can choose from: domains, models, sizes, and what fits beside a model. By Node."""

from __future__ import annotations

from typing import Any


def _entry(
    key: str, domain: str, attention: str, side: int, classes: str = "ab", name: str = "tiny"
) -> dict[str, Any]:
    manifest = {
        "name": name,
        "target": {"precision": "fp32"},
        "provenance": {"model": {"variant": "b0", "attention": attention}},
        "preprocess": {"size": [side, side], "hu_window": None},
        "classes": [{"name": name} for name in classes],
    }
    return {"id": key, "domain": domain, "manifest": manifest}


ENTRIES = [
    _entry("0", "street", "linear", 256),
    _entry("1", "street", "linear", 512),
    _entry("2", "street", "softmax", 256),
    _entry("3", "street", "softmax", 512),
    _entry("4", "street", "other classes", 256, "xyz"),
    _entry("5", "lane", "linear", 256),
]
TELL = """
const { Models, sizeOf } = await load("models.js");
const models = new Models(given.entries), ids = (entries) => entries.map(({ id }) => id);
models.choose(given.entries[given.chosen]);
tell({ domains: models.domains, models: ids(models.models), sizes: ids(models.sizes),
       others: ids(models.others), label: models.label(models.current), size: sizeOf(models.current) });
"""


def _chosen(run_js: Any, index: int, entries: list[dict[str, Any]] = ENTRIES) -> dict[str, Any]:
    return run_js(TELL, {"entries": entries, "chosen": index})


def test_one_entry_a_model_in_the_size_that_is_shown(run_js) -> None:
    small, large = _chosen(run_js, 0), _chosen(run_js, 3)
    assert small["models"] == ["0", "2", "4"] and large["models"] == ["1", "3", "4"]
    assert small["sizes"] == ["0", "1"] and large["sizes"] == ["2", "3"]
    assert (small["label"], small["size"]) == ("b0 linear, fp32", "256x256")


def test_beside_a_model_stands_what_has_its_classes(run_js) -> None:
    assert _chosen(run_js, 0)["others"] == ["1", "2", "3"]
    assert _chosen(run_js, 4)["others"] == []


def test_another_domain_has_models_of_its_own(run_js) -> None:
    told = _chosen(run_js, 5)
    assert told["domains"] == ["street", "lane"]
    assert told["models"] == ["5"] and told["others"] == []


def test_models_that_look_alike_are_told_apart(run_js) -> None:
    alike = [
        _entry(str(n), "street", "linear", 256, name=name) for n, name in enumerate(("old", "new", "new"))
    ]
    told = [_chosen(run_js, index, alike) for index in range(3)]
    assert [each["label"] for each in told] == [
        "b0 linear, fp32, old",
        "b0 linear, fp32, 1",
        "b0 linear, fp32, 2",
    ]
    assert all(each["models"] == ["0", "1", "2"] and len(each["sizes"]) == 1 for each in told)
