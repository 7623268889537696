"""A session that takes any number of frames, over a network that was built for a fixed number.

Frames go through in groups; a last group that is not full is filled up with its last frame, whose results are
dropped. Refuses to know runtimes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from deploy.manifest import Manifest
    from deploy.runtimes import RuntimeSession

DYNAMIC_GROUP = 4  # frames a call where any number would do


def group_size(manifest: Manifest) -> int:
    """How many frames of a sequence are best given to a call."""
    return DYNAMIC_GROUP if manifest.target.options.get("dynamic") else manifest.inputs[0].shape[0]


class Batched:
    """A session of a network for `size` frames a call, as a session for any number of them."""

    def __init__(self, session: RuntimeSession, size: int) -> None:
        self.session, self.size = session, size

    def run(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """`[n, ...]` inputs -> `[n, ...]` outputs."""
        missing = -len(array) % self.size
        filled = np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])
        groups = np.split(filled, len(filled) // self.size)
        outputs: npt.NDArray[Any] = np.concatenate([self.session.run(group) for group in groups])
        return outputs[: len(array)]

    def close(self) -> None:
        """Free the network."""
        self.session.close()

    def versions(self) -> dict[str, str]:
        """The session's own."""
        return self.session.versions()
