"""The demo's picture in a browser on this machine: a stream of JPEGs, and its keys back. Loopback only.

Where OpenCV has no window (its headless package, a server, a container). Needs `edgeseg[serve]`. A browser
that is slower than the network gets fewer pictures; nothing waits for it.
"""

from __future__ import annotations

import asyncio
import importlib.resources
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from threading import Thread

import cv2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from deploy.preprocess import Image
from deploy.server.assets import asset_route, make_asset
from deploy.server.connections import settings
from deploy.server.door import open_door
from deploy.server.guard import Guard

_FILES = {"/": "index.html", "/view.js": "view.js", "/view.css": "view.css"}
_BOUNDARY = b"--picture\r\n"
_TICK_S = 0.01
_LONGEST_KEY = 16


class View:
    """A display in a browser; `show` and `key` are the demo's thread, the rest is the server's."""

    def __init__(self) -> None:
        self._picture: Image | None = None
        self._number = 0
        self._keys: deque[str] = deque(maxlen=16)
        self.ended = False

    def show(self, picture: Image) -> None:
        """Offer the picture to whoever looks."""
        self._picture, self._number = picture, self._number + 1

    def key(self) -> str:
        """The oldest key not yet told."""
        return self._keys.popleft() if self._keys else ""

    def app(self) -> Guard:
        """The ASGI app: three files, the stream, and addresses: for keys, and to wait for the end at."""
        routes = [
            Route("/stream", self._stream, methods=["GET"]),
            Route("/key", self._key, methods=["POST"]),
            Route("/end", self._end, methods=["GET"]),
            Route("/favicon.ico", self._nothing, methods=["GET"]),  # browsers ask by themselves
            asset_route({path: make_asset(name, _read(name)) for path, name in _FILES.items()}),
        ]
        return Guard(Starlette(routes=routes), None)

    async def _nothing(self, request: Request) -> Response:
        return Response(status_code=204)

    async def _key(self, request: Request) -> Response:
        async for chunk in request.stream():
            self._keys.append(chunk[:_LONGEST_KEY].decode("utf-8", "replace"))
            break
        return Response(status_code=204)

    async def _end(self, request: Request) -> Response:
        while not self.ended and not await request.is_disconnected():
            await asyncio.sleep(_TICK_S)
        return Response(status_code=204)

    async def _stream(self, request: Request) -> Response:
        return StreamingResponse(self._pictures(), media_type="multipart/x-mixed-replace; boundary=picture")

    async def _pictures(self) -> AsyncIterator[bytes]:
        """Each with the next one's boundary at its end: a browser shows no picture before that."""
        seen = 0
        yield _BOUNDARY
        while not self.ended:
            if self._picture is None or self._number == seen:
                await asyncio.sleep(_TICK_S)
                continue
            seen = self._number
            data = await asyncio.to_thread(_jpeg, self._picture)
            head = f"Content-Type: image/jpeg\r\nContent-Length: {len(data)}\r\n\r\n"
            yield head.encode() + data + b"\r\n" + _BOUNDARY


@contextmanager
def open_view(port: int) -> Iterator[View]:
    """A view that is served while the block runs.

    Raises:
        InputError: the port is in use.
    """
    view = View()
    with open_door("127.0.0.1", port) as listening:
        server = uvicorn.Server(uvicorn.Config(**settings(view.app())))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        print(f"open http://localhost:{listening.getsockname()[1]}/", flush=True)
        try:
            yield view
        finally:
            view.ended = server.should_exit = True
            thread.join(5)


def _jpeg(picture: Image) -> bytes:
    done, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    assert done
    return data.tobytes()


def _read(name: str) -> bytes:
    return (importlib.resources.files("deploy.live") / "view" / name).read_bytes()
