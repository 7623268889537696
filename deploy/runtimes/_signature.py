"""What every runtime asks of a network that it has loaded: its ends are those of the manifest.

Refuses to know how a runtime describes its tensors.
"""

from __future__ import annotations

from deploy.errors import InputError


def require_same(model: object, found: object, expected: object) -> None:
    """Names, types and shapes must be the manifest's, or results would be garbage without an error.

    Raises:
        InputError: they differ. `model` names the network.
    """
    if found != expected:
        raise InputError(f"{model} is not what bundle.json says", found, expected, "export again")
