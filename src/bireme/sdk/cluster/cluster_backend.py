"""Jobs in a cluster: found, listed and started through the API server."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from bireme import errors, kinds
from bireme.backends.kubernetes import operators
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.submit import code_mounts, job_client
from bireme.backends.kubernetes.submit.job_client import Served
from bireme.sdk.backends import BackendName, Started, Where
from bireme.sdk.cluster import cluster_progress, cluster_submission, cluster_views, session
from bireme.sdk.cluster.cluster_job import ClusterJob
from bireme.sdk.cluster.cluster_submission import Body, Home
from bireme.sdk.cluster.clusters import Book, Known
from bireme.sdk.cluster.session import Session
from bireme.sdk.submissions import SubmissionBatch
from bireme.sdk.views import CheckedJob, CheckView, JobSummary


def opened(home: Path, environ: Mapping[str, str], where: Where) -> ClusterPlace:
    """The place that is meant; nothing is asked of it yet."""
    # A program that embeds us may listen; a user's terminal is no place for a log.
    logging.getLogger("bireme").addHandler(logging.NullHandler())
    return ClusterPlace(session.opened(where, environ), Home(home, environ), where)


class ClusterPlace:
    """A namespace of a cluster."""

    backend = BackendName.KUBERNETES

    def __init__(self, session: Session, home: Home, where: Where) -> None:
        self.session = session
        self.namespace = where.namespace or session.access.namespace
        self._home = home
        self._chosen = where.namespace
        self._book = Book(home.folder)
        self._served: Served | None = None
        files = where.kubeconfig or home.environ.get("KUBECONFIG", "")
        absolute = os.pathsep.join(os.path.abspath(file) for file in files.split(os.pathsep) if file)
        self.known = Known(session.access.context, self.namespace, absolute)

    @property
    def name(self) -> str:
        return self.known.where

    def jobs(self, all: bool, patience: float | None = None) -> tuple[JobSummary, ...]:
        async def look(api: Api) -> list[JobSummary]:
            objects = await job_client.listed(api, await self._kinds(api), self.namespace)
            active = [job for job in objects if not cluster_views.status_of(job).phase.is_final]
            # The pods of all these jobs, in one request for each way in which they are labelled.
            pods: dict[str, tuple[Pod, ...]] = {}
            for label in dict.fromkeys(kinds.named(job.kind).job_label for job in active):
                where = path("v1", "pods", self.namespace)
                pods[label] = (await api.listing(where, Pod, labelSelector=label)).items
            now = time.time()
            seen = []
            for job in objects if all else active:
                name, label = job.metadata.name, kinds.named(job.kind).job_label
                named = [pod for pod in pods.get(label, ()) if pod.metadata.labels.get(label) == name]
                own = tuple(pod for pod in named if job_client.belongs(pod, job))
                seen.append(cluster_views.seen(name, self.known.context, job, own, now))
            return [cluster_views.summary(job) for job in await cluster_progress.all_measured(api, seen)]

        found = self.session.ask(look, patience)
        return tuple(sorted(found, key=lambda job: job.created, reverse=True))

    def names(self, patience: float | None = None) -> tuple[str, ...]:
        """What the jobs of the namespace are called, the newest first."""

        async def look(api: Api) -> list[JobObject]:
            return await job_client.listed(api, await self._kinds(api), self.namespace)

        found = self.session.ask(look, patience)
        newest = sorted(
            found, key=lambda job_object: job_object.metadata.creationTimestamp or "", reverse=True
        )
        return tuple(dict.fromkeys(job_object.metadata.name for job_object in newest))

    def find(self, name: str, patience: float | None = None) -> ClusterJob:
        """The job of a name; `kind/name` tells apart those of different kinds."""
        # `context/namespace/kind/name`, of which only the name must be there.
        *before, plain = name.rsplit("/", 3)
        context, namespace, kind = ("", "", "", *before)[-3:]
        kind = kind.lower()
        if not plain:
            raise errors.BadInput(f"{name!r} is not the name of a job", hint="`bireme ps` lists them")
        if context and context != self.known.context:
            raise errors.BadInput(f"{name} is not in the context {self.known.context}")
        namespace = namespace or self.namespace

        async def look(api: Api) -> list[JobObject]:
            return await job_client.named(api, await self._kinds(api), namespace, plain, kind)

        found = self.session.ask(look, patience)
        if not found:
            raise errors.BadInput(
                f"there is no job {name} in {self.known.context}/{namespace}",
                hint="`bireme ps --all --on kubernetes` lists them; --namespace chooses another namespace",
            )
        if len(found) > 1:
            several = ", ".join(f"{job_object.kind.lower()}/{plain}" for job_object in found)
            raise errors.BadInput(
                f"there are {len(found)} jobs {plain} in {self.name}", hint=f"say which one: {several}"
            )
        return self._job(found[0], plain if not kind else f"{kind}/{plain}")

    def start(self, batch: SubmissionBatch) -> tuple[Started, ...]:
        bodies = cluster_submission.bodies(batch, self.namespace, self._chosen, self._home)

        async def send(api: Api) -> tuple[Started, ...]:
            if len(bodies) > 1:
                # All or none: a rejected job must not leave the others behind.
                for body in bodies:
                    await job_client.create(api, body.manifest, dry_run=True)
            applied = [await job_client.apply(api, manifest, self.namespace) for manifest in batch.beside]
            notes = (f"applied {', '.join(applied)}",) if applied else ()
            submitted = {str(body.manifest["kind"]) for body in bodies}
            found = await operators.find(api, await self._kinds(api), submitted, self.namespace)
            started = []
            for body in bodies:
                made = await self._create(api, body)
                kind = made.kind
                said = (
                    "" if kinds.named(kind).native else operators.sentence(found[kind], kind, self.namespace)
                )
                self._book.note(self._place_of(made), made.metadata.name)
                more = (*notes, *body.notes, *([said] if said else []))
                started.append(Started(self._job(made, made.metadata.name), more))
            return tuple(started)

        return self.session.ask(send)

    def checked(self, batch: SubmissionBatch) -> CheckView:
        """Lets the API server say what it thinks of each job; only what is not valid is an error."""
        found = []
        for submission, read in zip(batch.submissions, batch.read, strict=False):
            alone = SubmissionBatch((submission,), (read,), options=batch.options)
            here, notes = "", list[str]()
            try:
                (body,) = cluster_submission.bodies(alone, self.namespace, self._chosen, self._home)
                notes += body.notes
                self.session.ask(partial(job_client.create, body=body.manifest, dry_run=True))
            except errors.BadManifest as error:
                raise errors.BadManifest(
                    f"the API server rejects it: {error.what}", where=f"{read.file}:{read.line}"
                ) from error
            except errors.BadInput as error:
                here = str(error)
            job = submission.job
            found.append(
                CheckedJob(
                    kind=str(job.kind),
                    name=job.name,
                    file=read.file,
                    line=read.line,
                    replicas={role.name: role.replicas for role in job.roles},
                    here=here,
                    notes=tuple(notes),
                )
            )
        return CheckView(jobs=tuple(found), warnings=batch.warnings_in_a_cluster)

    # Inside the event loop

    async def _kinds(self, api: Api) -> Served:
        if self._served is None:
            self._served = await job_client.served(api)
        return self._served

    async def _create(self, api: Api, body: Body) -> JobObject:
        namespace = body.manifest["metadata"]["namespace"]
        parcel, token = body.parcel, job_client.submission(body.manifest)
        wanted = parcel.names if parcel is not None else ()
        maps = await job_client.send_maps(api, namespace, parcel.maps if parcel is not None else (), token)
        names = dict(zip(wanted, (config_map["metadata"]["name"] for config_map in maps), strict=True))
        try:
            made = await job_client.create(api, code_mounts.with_maps(body.manifest, names))
        except ApiError as error:
            if not job_client.is_undecided(error):
                with suppress(ApiError):  # why there is no job is the story, not what is left of it
                    await job_client.drop_maps(api, maps)
            if error.name_is_taken:
                raise errors.BadInput(
                    f"{body.manifest['kind']} {body.name} is in {self.known.context}/{namespace} already",
                    hint=f"end it with `bireme rm {body.name} --on kubernetes`, or choose another --name",
                ) from error
            raise
        await job_client.own_maps(api, made, maps)
        return made

    def _place_of(self, job_object: JobObject) -> Known:
        return Known(self.known.context, job_object.metadata.namespace, self.known.kubeconfig)

    def _job(self, job_object: JobObject, id: str) -> ClusterJob:
        place, name = self._place_of(job_object), job_object.metadata.name
        return ClusterJob(
            self.session,
            job_object,
            id,
            self.known.context,
            self._home.folder,
            forget=lambda: self._book.forget(place, name),
        )
