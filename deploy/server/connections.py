"""Connections that cost the server little: closed where no request comes, or where an answer is not taken.

uvicorn bounds requests; a visitor who stays silent, or never reads, would hold memory for ever. An answer
goes out in pieces, so that no more than one waits. How many come in: `door.py`. Refuses to know HTTP beyond.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from deploy.server.door import MOST, WAITING
from deploy.server.guard import App, Message, Receive, Send

_PATIENCE_S = 10.0  # for TLS's handshake, and until a request that has begun, or the first one, is complete
_TAKING_S = 30.0  # until a visitor has taken one piece of an answer
_PIECE_BYTES = 1 << 16
_FILES = 1024  # open ones that are enough for all connections; some systems allow 256


class Loop(asyncio.SelectorEventLoop):
    """asyncio's own loop, whose TLS handshakes end in time; `Door` counts by its `accept`."""

    async def create_server(self, *arguments: Any, **options: Any) -> asyncio.Server:
        """As asyncio's."""
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = _PATIENCE_S
        return await super().create_server(*arguments, **options)


class Connection(H11Protocol):  # type: ignore[misc]
    """uvicorn's connection with time limits: for a request to come, and for an answer to be taken."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=1)  # what waits to be taken is told from its first bytes on
        self._taking: asyncio.TimerHandle | None = None
        self._limit = self.loop.call_later(_PATIENCE_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._limit.cancel()
        self._taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes that end no request start the time limit, once; further ones do not extend it."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._limit.cancel()
        elif self._waits() and self._limit.cancelled():
            self._limit = self.loop.call_later(_PATIENCE_S, self._give_up)

    def pause_writing(self) -> None:
        """The visitor has not taken all of it yet."""
        super().pause_writing()
        self._taking = self.loop.call_later(_TAKING_S, self.transport.abort)

    def resume_writing(self) -> None:
        """All is taken."""
        self._taken()
        super().resume_writing()

    def _taken(self) -> None:
        if self._taking:
            self._taking.cancel()

    def _waits(self) -> bool:
        """Whether it is the visitor's turn."""
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        if self._waits():
            self.transport.abort()


def in_pieces(app: App) -> App:
    """The app, whose answers go on only as far as the visitor takes them."""

    async def wrapped(scope: Message, receive: Receive, send: Send) -> None:
        async def send_pieces(message: Message) -> None:
            body = message.get("body", b"")
            last = max(0, len(body) - 1) // _PIECE_BYTES * _PIECE_BYTES
            for start in range(0, last, _PIECE_BYTES):
                piece = body[start : start + _PIECE_BYTES]
                await send({**message, "body": piece, "more_body": True})
            await send({**message, "body": body[last:]} if last else message)

        await app(scope, receive, send_pieces)

    return wrapped


def settings(app: App) -> dict[str, Any]:
    """uvicorn's own, for an app that is served through a `Door`."""
    _allow_files()
    return {
        "app": in_pieces(app),
        "loop": f"{__name__}:{Loop.__name__}",
        "http": Connection,
        "ws": "none",
        "lifespan": "off",
        "backlog": WAITING,
        "limit_concurrency": MOST,
        "timeout_keep_alive": 15,
        "timeout_graceful_shutdown": 2,
        "h11_max_incomplete_event_size": 16384,
        "server_header": False,
        "access_log": False,
        "log_level": "critical",
        "proxy_headers": False,
    }


def _allow_files() -> None:
    """As many open files as connections need, where the system lets us."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # POSIX only

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < _FILES:
            resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES, hard))
