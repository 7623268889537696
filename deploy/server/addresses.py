"""Under which names and addresses this machine is reached. Refuses to ask any other machine."""

from __future__ import annotations

import socket

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def own_addresses() -> list[str]:
    """Addresses and names under which others may reach this machine; few phones know its name."""
    found = [*LOOPBACK]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks which interface would
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    return list(dict.fromkeys([*found, socket.gethostname()]))
