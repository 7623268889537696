"""Strict JSON for dataclasses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from deploy.errors import InputError
from deploy.schema import decode, encode


@dataclass(frozen=True)
class Inner:
    sides: tuple[int, int]
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer:
    ratio: float
    inner: Inner
    table: dict[str, int | str]
    many: tuple[Inner, ...] = ()
    note: str | None = None


GOOD: dict[str, Any] = {"ratio": 1, "inner": {"sides": [3, 4]}, "table": {"x": 1, "y": "z"}}


def test_round_trip() -> None:
    value = decode(Outer, {**GOOD, "many": [{"sides": [1, 2], "kind": "b"}], "note": "ü\n図"}, "here")
    many = (Inner((1, 2), "b"),)
    assert value == Outer(1.0, Inner((3, 4)), {"x": 1, "y": "z"}, many, "ü\n図")
    assert isinstance(value.ratio, float)
    assert decode(Outer, encode(value), "here") == value
    assert decode(Outer, GOOD, "here") == Outer(1.0, Inner((3, 4)), {"x": 1, "y": "z"})


def test_encode_has_no_nan() -> None:
    assert encode({"a": (math.nan, math.inf, 1.5), "b": Inner((1, 2))}) == {
        "a": [None, None, 1.5],
        "b": {"sides": [1, 2], "kind": "a"},
    }


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"ratio": "1"}, "here.ratio"),
        ({"ratio": True}, "here.ratio"),
        ({"ratio": 10**400}, "here.ratio"),
        ({"ratio": None}, "here.ratio"),
        ({"inner": []}, "here.inner"),
        ({"inner": {"sides": [1]}}, "here.inner.sides"),
        ({"inner": {"sides": [1, 2.0]}}, "here.inner.sides[1]"),
        ({"inner": {"sides": [1, 2], "kind": "c"}}, "here.inner.kind"),
        ({"inner": {"sides": [1, 2], "kind": []}}, "here.inner.kind"),
        ({"table": []}, "here.table"),
        ({"table": {"x": 1.5}}, "here.table.'x'"),
        ({"many": {}}, "here.many"),
        ({"many": [3]}, "here.many[0]"),
        ({"note": 3}, "here.note"),
        ({"other": 3}, "unknown key"),
        ({"note": "\x1b[31mred"}, "here.note"),
        ({"note": "\ud800"}, "here.note"),
        ({"table": {"\x07": 1}}, "here.table"),
        ({"table": {"x": "\x9b"}}, "here.table.'x'"),
    ],
)
def test_wrong_values_name_their_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as error:
        decode(Outer, {**GOOD, **change}, "here")
    assert place in str(error.value) and len(str(error.value)) < 400


def test_missing_keys_are_listed() -> None:
    with pytest.raises(InputError, match=r"missing key \| got ratio, table"):
        decode(Outer, {"inner": {"sides": [1, 2]}}, "here")
