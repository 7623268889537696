"""The ASGI app: the table of assets, the reports' page, and one address that takes a report.

Refuses everything that is not in the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from deploy.errors import InputError
from deploy.server.assets import Asset, asset_route
from deploy.server.guard import App, Guard
from deploy.server.intake import Intake, Rate, Refused, read_body

if TYPE_CHECKING:
    from pathlib import Path

_BODY_S = 20.0
_EMPTY = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>edgeseg: measurements</title>'
    '<p>No measurement yet. <a href="/">Measure this device.</a></p></html>'
)


def make_app(assets: Mapping[str, Asset], intake: Intake, token: str | None) -> App:
    """The app behind its guard."""
    rate = Rate()

    async def reports(request: Request) -> Response:
        return await asyncio.to_thread(_reports_page, intake.folder)

    async def report(request: Request) -> Response:
        try:
            rate.take(request.client.host if request.client else "")
            declared = request.headers.get("content-length")
            body = await asyncio.wait_for(read_body(request.stream(), declared), _BODY_S)
            path = await asyncio.to_thread(intake.keep, body)
        except (Refused, ClientDisconnect, asyncio.TimeoutError) as error:
            status = error.status if isinstance(error, Refused) else 408
            headers = {"connection": "close"}  # what is left of the body is not read
            return JSONResponse({"error": str(error) or "too slow"}, status, headers)
        except InputError as error:
            return JSONResponse({"error": str(error)}, 507)
        return JSONResponse({"file": path.name}, 201)

    routes = [
        Route("/reports", reports, methods=["GET"]),
        Route("/reports", report, methods=["POST"]),
        asset_route(assets),
    ]
    return Guard(Starlette(routes=routes), token)


def _reports_page(folder: Path) -> Response:
    """The page of `report`, made of what is in the folder now."""
    from deploy.page import page, policy
    from deploy.report import read_all

    if not any(folder.glob("*.json")):
        return HTMLResponse(_EMPTY)
    try:
        return HTMLResponse(page(read_all([folder])), headers={"content-security-policy": policy()})
    except InputError as error:
        return PlainTextResponse(f"{error}\n", 500)
