"""What every request passes: who asks, under which name, from which page; and the headers of every answer.

On loopback the Host must be loopback's name (a foreign page cannot rebind its own). Elsewhere the link's
token is needed, once: it becomes a cookie that scripts cannot read. Refuses to know what is served.
Source of the policies: https://www.w3.org/TR/CSP3/, https://html.spec.whatwg.org/ (cross-origin isolation).
"""

from __future__ import annotations

import hmac
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse, Response

from deploy.server.addresses import LOOPBACK

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self'",
        "connect-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "media-src 'self' blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "cache-control": "no-cache",
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Guard:
    """An ASGI app around another.

    Args:
        token: what the link must hold; None: loopback only, where the Host is checked instead.
    """

    def __init__(self, app: App, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        if scope["type"] != "http":
            return
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        answer = self._refusal(scope, headers)
        try:
            await (answer or self._app)(scope, receive, _with_headers(send))
        except Exception:
            traceback.print_exc()  # a defect; uvicorn's own log would print an end by Ctrl-C like one
            raise

    def _refusal(self, scope: MutableMapping[str, Any], headers: dict[str, str]) -> Response | None:
        host = _hostname(headers.get("host", ""))
        if host is None or (self._token is None and host not in LOOPBACK):
            return PlainTextResponse("unknown host\n", 421)
        if self._token is not None and not _equal(_cookie(headers), self._token):
            return self._entrance(scope, _cookie_name(headers))
        own = f"{scope['scheme']}://{headers['host']}"
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin") != own:
            return PlainTextResponse("only this page's own requests are taken\n", 403)
        return None

    def _entrance(self, scope: MutableMapping[str, Any], name: str) -> Response:
        """The link with the token: the visitor gets the cookie; anyone else is told what is missing."""
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] != "/" or not _equal(asked, self._token or ""):
            text = "This page needs the whole link that `python -m deploy serve` printed, token and all.\n"
            return PlainTextResponse(text, 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(name, self._token or "", secure=True, httponly=True, samesite="lax")
        return response


def _equal(given: str, token: str) -> bool:
    return bool(given) and hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def _cookie(headers: dict[str, str]) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(_cookie_name(headers))
    except CookieError:
        return ""
    return morsel.value if morsel else ""


def _cookie_name(headers: dict[str, str]) -> str:
    """Cookies know no port: without it in the name, two servers on one machine would lock each other out."""
    port = urlsplit(f"//{headers['host']}").port
    return f"edgeseg-{port}" if port else "edgeseg"


def _hostname(host: str) -> str | None:
    """ "localhost:8700" -> "localhost"; None for what is no host."""
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018  raises ValueError for a port that is none
    except ValueError:
        return None
    return parts.hostname if parts.netloc == host and not parts.username else None


def _with_headers(send: Send) -> Send:
    """Adds the headers that an answer does not set itself."""

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {key.lower() for key, _ in message["headers"]}
            more = {"content-security-policy": POLICY, **HEADERS}
            message["headers"] = [
                *message["headers"],
                *((k.encode(), v.encode()) for k, v in more.items() if k.encode() not in present),
            ]
        await send(message)

    return wrapped
