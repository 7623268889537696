"""ncnn: which layers of an fp16 network do not compute in half precision."""

from __future__ import annotations

from collections import Counter

import pytest

from export.targets import ncnn as target

pytestmark = pytest.mark.skipif(target.requires() is not None, reason=str(target.requires()))


@pytest.mark.parametrize(("precision", "expected"), [("fp32", {}), ("fp16", {"ConvolutionDepthWise": 20})])
def test_depthwise_convolutions_leave_half_arithmetic(export_bundle, precision: str, expected: dict) -> None:
    lines = export_bundle("ncnn", precision).path(target.MODEL_FILE).read_text().splitlines()
    assert Counter(line.split()[0] for line in lines if line.endswith(" 31=1")) == expected
