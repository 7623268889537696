"""The rules of a graph: what is allowed, how many of it, and what is said otherwise."""

from __future__ import annotations

from collections import Counter

import pytest

from deploy.errors import GateError
from export.graphrules import GraphRules, Most, check_graph

RULES = GraphRules("Conv Transpose", {"Transpose": Most(2, linear=1, softmax=5)})


def test_what_is_allowed_passes() -> None:
    check_graph(Counter(Conv=50, Transpose=4), RULES, {"linear": 2}, "net")
    check_graph(Counter(Conv=50, Transpose=12), RULES, {"softmax": 2}, "net")


@pytest.mark.parametrize(
    ("counts", "parts", "message"),
    [
        (Counter(Conv=1, Resize=2), {}, r"net: .*got Resize \(2\) \| expected only Conv, Transpose"),
        (Counter(Transpose=5), {"linear": 2}, "got 5 Transpose | expected at most 4 Transpose"),
        (Counter(Transpose=3), {"band": 9}, "got 3 Transpose | expected at most 2 Transpose"),
    ],
)
def test_more_is_refused(counts: Counter[str], parts: dict[str, int], message: str) -> None:
    with pytest.raises(GateError, match=message):
        check_graph(counts, RULES, parts, "net")
