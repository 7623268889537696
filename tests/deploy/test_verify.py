"""verify replays the golden with the real runtime and fails where answers differ; info describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy import info, verify
from deploy.bundle import Bundle, Golden
from deploy.errors import GateError, InputError
from deploy.options import Parser
from deploy.verify import Replay, compare, replay_golden, shortfall


def _run(module: Any, *arguments: object) -> int:
    parser = Parser()
    module.add_arguments(parser)
    return int(module.run(parser.parse_args([str(argument) for argument in arguments])))


@pytest.mark.parametrize("output", ["labels", "logits"])
def test_a_sound_bundle_verifies(make_bundle: Any, output: str, tmp_path: Path, capsys: Any) -> None:
    bundle = make_bundle(output)
    assert _run(verify, bundle.root, "--threads", 1, "--json", tmp_path / "v.json") == 0
    shown = capsys.readouterr().out
    assert "agreement" in shown and ("max error" in shown) == (output == "logits")
    result = json.loads((tmp_path / "v.json").read_text())
    assert result["passed"] and result["samples"] == 2 and result["bundle_sha256"] == bundle.sha256
    assert result["agreement"] == 1.0 and (result["max_abs_error"] is None) == (output == "labels")


def _with_golden(make_bundle: Any, output: str, change: Any, **golden: float) -> Bundle:
    """A bundle whose golden was recorded with other answers (hashes are right)."""
    import dataclasses

    from deploy.bundle import write_bundle

    bundle = make_bundle(output)
    inputs, outputs = bundle.golden()
    outputs = change(outputs.copy())
    path = bundle.root.parent / "other.npz"
    np.savez(path, inputs=inputs, outputs=outputs)
    asked = dataclasses.replace(bundle.manifest.golden, **golden)
    manifest = dataclasses.replace(bundle.manifest, files=(), golden=asked)
    files = {"model.onnx": bundle.path("model.onnx").read_bytes(), "golden.npz": path}
    return write_bundle(bundle.root, manifest, files)


def test_labels_that_differ_fail_within_the_tolerance_asked(make_bundle: Any, capsys: Any) -> None:
    def change(outputs: np.ndarray) -> np.ndarray:
        outputs[:, :, :8] = (outputs[:, :, :8] + 1) % 3  # a quarter of the pixels
        return outputs

    with pytest.raises(GateError, match=r"agreement \| got 0\.75 \| expected >= 0\.999"):
        _run(verify, _with_golden(make_bundle, "labels", change).root)
    assert _run(verify, _with_golden(make_bundle, "labels", change, min_agreement=0.75).root) == 0


def test_logits_that_differ_fail_though_their_argmax_agrees(make_bundle: Any, tmp_path: Path) -> None:
    bundle = _with_golden(make_bundle, "logits", lambda outputs: outputs + np.float32(0.01))
    with pytest.raises(GateError, match=r"largest error \| got 0\.01.* \| expected <= 0\.0001"):
        _run(verify, bundle.root, "--json", tmp_path / "v.json")
    assert json.loads((tmp_path / "v.json").read_text())["passed"] is False


def test_nan_meets_no_tolerance() -> None:
    outputs = np.full((1, 3, 2, 2), np.nan, np.float32)
    replay = compare(outputs, np.zeros((1, 3, 2, 2), np.float32))
    assert shortfall(replay, Golden("g", 1e9, 0.0)) is not None
    assert shortfall(Replay(1, float("nan"), None, None), Golden("g", 1.0, 0.0)) is not None


def test_replay_equals_a_loop_over_pixels(make_bundle: Any) -> None:
    rng = np.random.default_rng(0)
    outputs, references = rng.standard_normal((2, 2, 3, 4, 5)).astype(np.float32)
    replay = compare(outputs, references)
    same, largest = 0, 0.0
    for n, h, w in np.ndindex(2, 4, 5):
        same += int(np.argmax(outputs[n, :, h, w]) == np.argmax(references[n, :, h, w]))
        largest = max(
            largest,
            *(
                abs(float(a) - float(b))
                for a, b in zip(outputs[n, :, h, w], references[n, :, h, w], strict=True)
            ),
        )
    assert replay.agreement == pytest.approx(same / 40) and replay.max_abs_error == pytest.approx(largest)
    assert replay_golden(make_bundle(), 1).samples == 2


def test_a_bundle_without_golden_cannot_be_verified(make_bundle: Any) -> None:
    with pytest.raises(GateError, match="no golden"):
        _run(verify, make_bundle(golden=None).root)


def test_a_changed_byte_is_bad_input(make_bundle: Any) -> None:
    bundle = make_bundle()
    path = bundle.path("golden.npz")
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(InputError, match=r"golden\.npz has changed") as error:
        _run(verify, bundle.root)
    assert error.value.exit_status == 2


def test_info_in_words_and_as_json(tiny_bundle: Bundle, capsys: Any, tmp_path: Path) -> None:
    assert _run(info, tiny_bundle.root, "--json", tmp_path / "i.json") == 0
    shown = capsys.readouterr().out
    for word in (
        "tiny-labels",
        "onnxruntime fp32",
        "24x32",
        "red, green, blue",
        "executed",
        tiny_bundle.sha256,
    ):
        assert word in shown
    assert json.loads((tmp_path / "i.json").read_text())["bundle_sha256"] == tiny_bundle.sha256
    _run(info, tiny_bundle.root, "--json", "-")
    assert json.loads(capsys.readouterr().out)["name"] == "tiny-labels"
