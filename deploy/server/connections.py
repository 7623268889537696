"""Connections that cost the server little: bounded in all and by visitor, and closed where no request comes.

uvicorn bounds requests; a connection that stays silent would hold its place for ever. Refuses to know HTTP
beyond that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 256
MOST_PER_VISITOR = 64
_PATIENCE_S = 10.0  # until a request that has begun, or the first one, is complete


class Connection(H11Protocol):  # type: ignore[misc]
    """uvicorn's connection with bounds, and a time limit for a request to come."""

    open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Take the connection, or drop it."""
        super().connection_made(transport)
        self._visitor = self.client[0] if self.client else ""
        self.open[self._visitor] += 1
        if self.open[self._visitor] > MOST_PER_VISITOR or self.open.total() > MOST:
            transport.abort()
        self._limit = self.loop.call_later(_PATIENCE_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Free its place."""
        self._limit.cancel()
        self.open[self._visitor] -= 1
        if not self.open[self._visitor]:
            del self.open[self._visitor]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes that end no request start the time limit, once; further ones do not extend it."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._limit.cancel()
        elif self._waits() and self._limit.cancelled():
            self._limit = self.loop.call_later(_PATIENCE_S, self._give_up)

    def _waits(self) -> bool:
        """Whether it is the visitor's turn."""
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        if self._waits():
            self.transport.abort()


def limits() -> dict[str, Any]:
    """uvicorn's own settings that go with it."""
    return {
        "http": Connection,
        "ws": "none",
        "lifespan": "off",
        "limit_concurrency": MOST,
        "timeout_keep_alive": 15,
        "timeout_graceful_shutdown": 2,
        "h11_max_incomplete_event_size": 16384,
        "server_header": False,
        "access_log": False,
        "log_level": "critical",
        "proxy_headers": False,
    }
