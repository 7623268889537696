"""Which training images to calibrate on: seeded, and every class is shown, the rare ones too.

Plain random draws miss rare classes, and ranges taken without them clip exactly those. Half of the places go
to classes from the rarest on, each time to the image that serves most classes still short; the rest is
random. Refuses to know files: it sees which class occurs in which image.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deploy.errors import InputError

Presence = npt.NDArray[np.bool_]


def choose(presence: Presence, count: int, seed: int) -> list[int]:
    """Indices of `count` images, ascending; the same for the same arguments.

    Args:
        presence: `[images, classes]`, whether the class occurs in the image.

    Raises:
        InputError: fewer images than `count`, or `count` cannot show every class that occurs.
    """
    total = len(presence)
    if count > total:
        raise InputError(
            "calibration images", got=f"--count {count}", expected=f"at most {total} (the split)"
        )
    order = np.random.default_rng(seed).permutation(total)
    chosen = _cover(presence[order], count)
    chosen += [index for index in range(total) if index not in set(chosen)][: count - len(chosen)]
    return sorted(int(order[index]) for index in chosen)


def _cover(presence: Presence, count: int) -> list[int]:
    """The first images to take: every class that occurs gets its quota, rarest first."""
    available = presence.sum(0)
    quota = np.minimum(available, max(1, count // (2 * presence.shape[1])))
    shown = np.zeros_like(quota)
    chosen: list[int] = []
    for rare in np.argsort(available, kind="stable"):
        while shown[rare] < quota[rare]:
            if len(chosen) == count:
                raise InputError(
                    "calibration images cannot show every class", got=f"--count {count}", fix="raise --count"
                )
            gain = presence[:, shown < quota].sum(1) * presence[:, rare]
            gain[chosen] = 0
            chosen.append(int(gain.argmax()))
            shown = presence[chosen].sum(0)
    return chosen
