"""Runs one operator process: it takes the lead, runs jobs, and leaves in good order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import time
import uuid

from msgspec import Struct

from bireme import errors
from bireme.backends.kubernetes import gang_admission, operators
from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.pod_backend import Settings
from bireme.operator import health_server
from bireme.operator.controller import Controller, Scope
from bireme.operator.health_server import Listens
from bireme.operator.heartbeats import Heartbeat
from bireme.operator.leader_election import LEASES, Leadership, LostLead
from bireme.operator.metrics import Metrics

LEASE = "bireme-operator"
_log = logging.getLogger(__name__)


class Options(Struct, frozen=True):
    scope: Scope = Scope()
    settings: Settings = Settings()
    lead: bool = True
    """Whether a lease is taken first, so that of several operators one acts."""
    lease_namespace: str = "bireme-system"
    health: Listens = Listens("127.0.0.1", 8081)
    metrics: Listens = Listens("127.0.0.1", 8080)


def serve(access: Access, options: Options) -> None:
    """Run an operator until it is told to stop, or until it cannot continue: then an error says why."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    root = logging.getLogger("bireme")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        asyncio.run(_serve(access, options))
    except BaseExceptionGroup as group:
        raise _explained(_first(group)) from None
    except (ApiError, LostLead) as error:
        raise _explained(error) from None


async def _serve(access: Access, options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    metrics = Metrics()
    identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    async with Api(access) as api:
        if options.settings.gang_scheduler:
            await gang_admission.require(api, options.settings.gang_scheduler)
        scope = await _within_rights(api, options.scope)
        controller = Controller(api, scope, options.settings, metrics, identity, time)
        home, served, namespaces = options.lease_namespace, options.scope.kinds, options.scope.namespaces
        leadership = None
        if options.lead:
            leadership = Leadership(api, home, LEASE, identity, time, served, namespaces)
        else:
            # There may be another operator already: both would act on the same jobs.
            leases = await operators.find_leases(api, home) or ()
            if others := operators.acting(leases, served, namespaces, time.time()):
                said = {"holders": sorted(others)}
                _log.warning("another operator acts already, or ended just now", extra=said)
        heartbeat = Heartbeat(api, home, identity, options.scope, time)
        async with (
            health_server.health(
                options.health, lambda: True, lambda: leadership is not None or controller.is_ready
            ),
            health_server.metrics(options.metrics, metrics),
        ):
            await _run_until(stop, controller, leadership, heartbeat)
            _log.info("stopping")
            await (heartbeat if leadership is None else leadership).leave()


async def _run_until(
    stop: asyncio.Event, controller: Controller, leadership: Leadership | None, heartbeat: Heartbeat
) -> None:
    """Run jobs until told to stop; what ends it before is raised."""

    async def run() -> None:
        if leadership is not None:
            await leadership.take()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task((heartbeat if leadership is None else leadership).keep())
            tasks.create_task(controller.run())

    working = asyncio.create_task(run())
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working in done:
        working.result()
        return
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


def _first(group: BaseExceptionGroup) -> BaseException:
    """The first failure of tasks that ended together."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _explained(error: BaseException) -> BaseException:
    match error:
        case LostLead():
            return errors.Unreachable(str(error), hint="another operator acts now; start this one again")
        case ApiError(status=404) if LEASES in error.source.path:
            return errors.BadInput(
                f"the lease cannot be made: {error.message}",
                hint="create that namespace, name another with --lease-namespace, or use --no-leader-elect",
            )
        case ApiError():
            return explained(error)
    return error


async def _within_rights(api: Api, scope: Scope) -> Scope:
    """Without the right to see nodes we do without, and say what that costs."""
    try:
        await api.get(path("v1", "nodes"), dict, limit="1")
    except ApiError as error:
        if error.status != 403:
            raise
        _log.warning("nodes may not be listed: pods of a lost node are waited for until they are deleted")
        return Scope(scope.namespaces, scope.kinds, nodes=False)
    return scope


class _Json(logging.Formatter):
    """One JSON object a line; what a call gives as `extra` becomes fields."""

    _usual = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

    def format(self, record: logging.LogRecord) -> str:
        fields = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"), "level": record.levelname.lower()}
        fields["message"] = record.getMessage()
        fields |= {name: value for name, value in vars(record).items() if name not in self._usual}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)
