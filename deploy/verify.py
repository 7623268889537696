"""`verify BUNDLE`: hashes, then the golden replayed with the bundle's own runtime on this machine.

Passes only if every output is finite and within the tolerance that the manifest asks. Refuses to know how the
golden came about: raw network inputs and the fp32 reference's outputs.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deploy.errors import GateError
from deploy.files import write_json
from deploy.manifest import Golden
from deploy.options import add_bundle, add_json
from deploy.schema import encode

if TYPE_CHECKING:
    import numpy.typing as npt

    from deploy.bundle import Bundle
    from deploy.runtimes import Opener


@dataclass(frozen=True)
class Replay:
    """How the runtime's answers differ from the reference's.

    `max_abs_error` and `mean_abs_error` are None for label maps; `agreement` is the share of equal labels.
    """

    samples: int
    agreement: float
    max_abs_error: float | None
    mean_abs_error: float | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `verify`."""
    add_bundle(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Verify a bundle; raises GateError where it does not hold."""
    from deploy.bundle import load_bundle

    bundle = load_bundle(args.bundle, domain=args.domain)
    golden = bundle.manifest.golden
    if golden is None:
        raise GateError(f"{args.bundle} holds no golden, so it cannot be verified", fix="export it again")
    replay = replay_golden(bundle, args.threads)
    failed = shortfall(replay, golden)
    if args.json:
        write_json(args.json, {**encode(replay), "passed": failed is None, "bundle_sha256": bundle.sha256})
    if failed:
        raise failed
    if args.json != "-":
        files = len(bundle.manifest.files)
        print(f"verified     {files} files by hash, {replay.samples} golden samples executed")
        print(f"agreement    {replay.agreement:.6f} (asked >= {golden.min_agreement})")
        if replay.max_abs_error is not None:
            print(f"max error    {replay.max_abs_error:.3g} (asked <= {golden.max_abs_error:.3g})")
    return 0


def replay_golden(bundle: Bundle, threads: int | None = None, open_with: Opener | None = None) -> Replay:
    """Run every golden input and compare; `open_with` makes the session (default: the bundle's own runtime).

    Raises:
        InputError: no golden, or the runtime refuses the bundle.
    """
    import numpy as np

    from deploy.batches import group_size
    from deploy.postprocess import channels_first
    from deploy.runtimes import open_session

    inputs, references = bundle.golden()
    session = (open_with or open_session)(bundle, threads)
    try:
        groups = range(0, len(inputs), size := group_size(bundle.manifest))
        outputs = np.concatenate([session.run(inputs[start : start + size]) for start in groups])
    finally:
        session.close()
    spec = bundle.manifest.outputs[0]
    return compare(channels_first(outputs, spec), channels_first(references, spec))


def compare(outputs: npt.NDArray[Any], references: npt.NDArray[Any]) -> Replay:
    """Label maps `[N, H, W]` of integers, or logits `[N, C, h, w]` of floats, against the reference's."""
    import numpy as np

    assert outputs.shape == references.shape
    if references.dtype.kind in "iu" and references.ndim == 3:
        return Replay(len(outputs), float(np.mean(outputs == references)), None, None)
    error = np.abs(outputs.astype(np.float64) - references)
    agreement = float(np.mean(outputs.argmax(1) == references.argmax(1)))
    return Replay(len(outputs), agreement, float(error.max()), float(error.mean()))


def shortfall(replay: Replay, golden: Golden) -> GateError | None:
    """The tolerance that is not met, as an error to raise; None if all are met. A nan meets none."""
    checks = [("agreement", replay.agreement, replay.agreement >= golden.min_agreement, golden.min_agreement)]
    if (error := replay.max_abs_error) is not None:
        checks.append(("largest error", error, error <= golden.max_abs_error, golden.max_abs_error))
    for what, value, holds, asked in checks:
        if not holds:
            fix = "export again, or for another precision or runtime"
            relation = ">=" if what == "agreement" else "<="
            return GateError(
                f"golden not met: {what}", got=f"{value:.6g}", expected=f"{relation} {asked}", fix=fix
            )
    return None
