"""The listening socket: how many it lets in, counted before a byte is read, so before TLS's handshake too.

Refuses to know what is said on a connection. By the standard library alone: the command lines need it before
anything is installed.
"""

from __future__ import annotations

import socket
from typing import Any

from deploy.errors import InputError

MOST = 256
MOST_PER_VISITOR = 64
WAITING = 128  # at the door, in the kernel


class Door(socket.socket):
    """Closes at once what comes above the bounds, in all and by visitor."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._inside: list[tuple[socket.socket, str]] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """The next one that may come in.

        Raises:
            ConnectionAbortedError: it may not; asyncio then waits for the next.
        """
        connection, address = super().accept()
        self._inside = [pair for pair in self._inside if pair[0].fileno() >= 0]
        own = sum(visitor == address[0] for _, visitor in self._inside)
        if own >= MOST_PER_VISITOR or len(self._inside) >= MOST:
            connection.close()
            raise ConnectionAbortedError
        self._inside.append((connection, address[0]))
        return connection, address


def open_door(host: str, number: int) -> Door:
    """A listening socket.

    Raises:
        InputError: no such interface, or the port is in use.
    """
    door = Door(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, number))
        door.listen(WAITING)
    except OSError as error:
        door.close()
        fix = "choose another --port" if host == "127.0.0.1" else "choose another --port or --host"
        raise InputError(f"cannot listen on {host}:{number}", got=error.strerror or error, fix=fix) from error
    return door
