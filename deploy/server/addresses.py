"""Under which names and addresses this machine is reached, and a socket that listens on one of them.

By the standard library alone: the demo and the plain `serve` need nothing for TLS.
"""

from __future__ import annotations

import socket

from deploy.errors import InputError

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def open_socket(host: str, number: int) -> socket.socket:
    """A listening socket.

    Raises:
        InputError: no such interface, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, number))
        listening.listen(128)
    except OSError as error:
        listening.close()
        fix = "choose another --port or --host"
        raise InputError(f"cannot listen on {host}:{number}", got=error.strerror or error, fix=fix) from error
    return listening


def own_addresses() -> list[str]:
    """Names and addresses under which others may reach this machine."""
    found = [*LOOPBACK, socket.gethostname()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: asks which interface would
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    return list(dict.fromkeys(found))
