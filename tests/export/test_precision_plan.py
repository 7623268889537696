"""Plans and calibration tables as files: what is written is read, what was changed or is another's is not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deploy.errors import InputError
from export.calibration_table import CalibrationTable, load_table, save_table
from export.layers import block_of, blocks, short_name
from export.observe import Observed
from export.precision_plan import EQUALISATION, HELPS, PrecisionPlan, load_plan, require_helps, save_plan
from export.targets import find

LAYER = "backbone.stages.2.op_list.1.local_module.main.point_conv.conv"
PLAN = PrecisionPlan(
    "onnxruntime", "a" * 64, "b" * 64, (48, 64), "mse", "fp32", {block_of(LAYER): "int8"}, 0.5
)


@pytest.fixture
def seen() -> dict[str, Observed]:
    draw, found = np.random.default_rng(0), {}
    for layer in (LAYER, "head.middle"):
        found[layer] = Observed()
        for end in (found[layer].input, found[layer].output):
            end.add(draw.standard_normal(1000).astype(np.float32))
    return found


@pytest.mark.parametrize(
    ("layer", "block", "short"),
    [
        ("backbone.input_stem.op_list.0.conv", "backbone.input_stem.op_list.0", "input_stem.0"),
        (LAYER, "backbone.stages.2.op_list.1.local_module", "stages.2.1.local.point"),
        ("head.input_ops.2.conv", "head.input_ops.2", "head.input.2"),
        ("head.output_ops.0.op_list.1.conv", "head.output_ops.0.op_list.1", "head.output.0.1"),
        ("Conv_17", "Conv_17", "Conv_17"),
    ],
)
def test_blocks(layer: str, block: str, short: str) -> None:
    assert block_of(layer) == block and short_name(layer) == short
    assert blocks([layer, layer])[block] == [layer, layer]


def test_a_plan_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_plan(path, PLAN.sealed())
    plan = load_plan(path, "onnxruntime", "a" * 64, (48, 64))
    assert plan == PLAN.sealed() and plan.precision == "int8"
    assert plan.in_int8(LAYER) and not plan.in_int8("another")
    assert replace(PLAN, blocks={}).precision == "fp32"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target": "ort"}, "another target"),
        ({"checkpoint_sha256": "c" * 64}, "another checkpoint"),
        ({"size": (64, 48)}, "another size"),
        ({"method": "guess"}, "unknown method"),
        ({"blocks": {"stem": "int4"}}, "unknown precision of a block"),
        ({"baseline": "int4"}, "unknown precision"),
        ({"helps": ("luck",)}, "unknown help"),
        ({"schema_version": 1}, "schema_version"),
    ],
)
def test_what_is_not_for_this_network_is_refused(tmp_path: Path, changed: dict, message: str) -> None:
    path = tmp_path / "plan.json"
    save_plan(path, replace(PLAN, **changed).sealed())
    with pytest.raises(InputError, match=message):
        load_plan(path, "onnxruntime", "a" * 64, (48, 64))


def test_a_help_that_the_converter_gives_itself_is_refused() -> None:
    require_helps(find("onnxruntime", "int8"), HELPS)
    require_helps(find("openvino", "int8"), (EQUALISATION,))
    with pytest.raises(InputError, match="bias correction for openvino"):
        require_helps(find("openvino", "int8"), HELPS)


def test_an_edited_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_plan(path, PLAN.sealed())
    path.write_text(path.read_text().replace("mse", "entropy"))
    with pytest.raises(InputError, match="was changed"):
        load_plan(path, "onnxruntime", "a" * 64, (48, 64))


def test_a_table_comes_back(seen: dict[str, Observed], tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    save_table(path, CalibrationTable.of("b" * 64, "a" * 64, seen))
    again = load_table(path, "b" * 64, "a" * 64).observed()
    assert list(again) == list(seen)
    for layer, ends in seen.items():
        assert np.array_equal(again[layer].output.counts, ends.output.counts)
        assert (again[layer].input.low, again[layer].input.limit) == (ends.input.low, ends.input.limit)


def test_another_ones_table_is_refused(seen: dict[str, Observed], tmp_path: Path) -> None:
    path = tmp_path / "ranges.json"
    save_table(path, CalibrationTable.of("b" * 64, "a" * 64, seen))
    for keys, message in (
        (("c" * 64, "a" * 64), "another calibration set"),
        (("b" * 64, "c" * 64), "another checkpoint"),
    ):
        with pytest.raises(InputError, match=message):
            load_table(path, *keys)
    value = json.loads(path.read_text())
    value["layers"][LAYER]["input"]["first"] = -5
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match="another content"):
        load_table(path, "b" * 64, "a" * 64)


@pytest.mark.parametrize(
    "changed", [{"first": 4090}, {"first": -1}, {"counts": (-1,)}, {"low": 1.0}, {"high": 1e9}]
)
def test_what_no_histogram_can_be_is_refused(seen: dict[str, Observed], changed: dict) -> None:
    table = CalibrationTable.of("b", "a", seen)
    ends = table.layers[LAYER]
    broken = replace(table, layers={LAYER: replace(ends, input=replace(ends.input, **changed))})
    with pytest.raises(InputError, match="is no histogram"):
        broken.observed()
