"""How do a kubelet and Prometheus look at the operator: health, readiness and metrics over HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from msgspec import Struct

from bireme.operator.metrics import Metrics


class Listens(Struct, frozen=True):
    """Where requests are accepted."""

    address: str
    port: int
    """0 for nowhere."""


@contextlib.asynccontextmanager
async def health(
    where: Listens, is_well: Callable[[], bool], is_ready: Callable[[], bool]
) -> AsyncIterator[None]:
    """Answer probes for as long as this is entered; port 0 means not at all."""

    def answer(fine: Callable[[], bool]) -> Callable[[web.Request], object]:
        async def handler(request: web.Request) -> web.Response:
            return web.Response(text="ok\n") if fine() else web.Response(status=503, text="not now\n")

        return handler

    async with _serve(where, {"/healthz": answer(is_well), "/readyz": answer(is_ready)}):
        yield


@contextlib.asynccontextmanager
async def metrics(where: Listens, counted: Metrics) -> AsyncIterator[None]:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(
            body=counted.text().encode(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    async with _serve(where, {"/metrics": handler}):
        yield


@contextlib.asynccontextmanager
async def _serve(where: Listens, routes: dict[str, Callable[[web.Request], object]]) -> AsyncIterator[None]:
    if not where.port:
        yield
        return
    app = web.Application()
    for route, handler in routes.items():
        app.router.add_get(route, handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, where.address, where.port).start()
        yield
    finally:
        await runner.cleanup()
