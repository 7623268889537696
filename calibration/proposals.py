"""Which plans a search tries: all of int8 by every method, each block alone, then ever more blocks together.

Refuses to know how a plan is built and measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibration.choice import Row

Blocks = dict[str, str]
SHARES = (0.25, 0.5, 0.6, 0.75, 0.9)


def everything(blocks: Sequence[str]) -> Blocks:
    """Every block in int8 but the last, whose logits the label map is made of."""
    return dict.fromkeys(blocks[:-1], "int8")


def but_first(blocks: Sequence[str]) -> Blocks:
    """Every block in int8 but the first, whose channels differ most: what a build without a plan does."""
    return dict.fromkeys(blocks[1:], "int8")


def alone(blocks: Sequence[str]) -> dict[str, Blocks]:
    """Name -> one block in int8."""
    return {f"only {block}": {block: "int8"} for block in blocks}


def together(sensitivity: Mapping[str, Row], work: Mapping[str, float]) -> dict[str, Blocks]:
    """Name -> the blocks that lose least for the work they take over, until a share of the work is in int8;
    and where latency is known, all blocks that became faster by themselves.

    Args:
        sensitivity: block -> its row, alone in int8. work: block -> share of the multiplications.
    """
    order = sorted(sensitivity, key=lambda block: max(sensitivity[block].drop, 0.0) / max(work[block], 1e-9))
    plans: dict[str, Blocks] = {}
    for share in SHARES:
        taken: Blocks = {}
        for block in order:
            if sum(work[name] for name in taken) < share:
                taken[block] = "int8"
        plans[f"least sensitive {share:.0%}"] = taken
    faster = [block for block, row in sensitivity.items() if row.ratio and row.ratio[0] < 1]
    if faster:
        plans["faster alone"] = dict.fromkeys(faster, "int8")
    return plans
