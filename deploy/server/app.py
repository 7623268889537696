"""The ASGI app: the table of assets, the reports' page, and one address that takes a report.

Refuses everything that is not in the table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from deploy.errors import InputError
from deploy.page import policy
from deploy.server.assets import Asset, asset_route
from deploy.server.board import Board
from deploy.server.guard import App, Guard
from deploy.server.intake import Intake, Rate, Refused, read_body

_BODY_S = 20.0


def make_app(assets: Mapping[str, Asset], intake: Intake, token: str | None) -> App:
    """The app behind its guard."""
    rate, board = Rate(), Board(intake.folder)

    async def reports(request: Request) -> Response:
        return HTMLResponse(await board.html(), headers={"content-security-policy": policy()})

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
