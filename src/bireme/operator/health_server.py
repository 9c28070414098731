"""Serves health, readiness and metrics of the operator over HTTP, for kubelets and Prometheus."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from msgspec import Struct

from bireme import errors
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

    async with _serve(where, "health", {"/healthz": answer(is_well), "/readyz": answer(is_ready)}):
        yield


@contextlib.asynccontextmanager
async def metrics(where: Listens, counted: Metrics) -> AsyncIterator[None]:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(
            body=counted.text().encode(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    async with _serve(where, "metrics", {"/metrics": handler}):
        yield


@contextlib.asynccontextmanager
async def _serve(
    where: Listens, what: str, routes: dict[str, Callable[[web.Request], object]]
) -> AsyncIterator[None]:
    if not where.port:
        yield
        return
    app = web.Application()
    for route, handler in routes.items():
        app.router.add_get(route, handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, where.address, where.port).start()
        except OSError as error:
            raise _explained(error, where, what) from error
        yield
    finally:
        await runner.cleanup()


def _explained(error: OSError, where: Listens, what: str) -> errors.BiremeError:
    address, port, flag = where.address, where.port, f"--{what}-port"
    other = port + 100 if 1023 < port < 65000 else 8181
    why = error.strerror or error
    if error.errno in (errno.EACCES, errno.EPERM):
        return errors.NoAccess(
            f"port {port} may not be used: {why}", hint=f"choose one above 1023: {flag} {other}"
        )
    if error.errno != errno.EADDRINUSE:
        # An address that this machine does not have, or a name that is not known.
        return errors.BadInput(
            f"nothing can listen at {address}: {why}",
            hint=f"choose an address of this machine: --{what}-bind 127.0.0.1",
        )
    return errors.BadInput(
        f"port {port} cannot be used: {why}",
        hint=f"choose another: {flag} {other}, or none: {flag} 0; `ss -ltnp` shows which process has it",
    )
