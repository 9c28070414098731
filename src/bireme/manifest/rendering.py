"""Writes the full manifest of a job as YAML, with every default filled in."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import yaml

from bireme import kinds
from bireme.manifest.read import ReadJob
from bireme.manifest.text import yaml_scalars
from bireme.model.job import Job, Restart, Role

Manifest = dict[str, Any]  # Any: JSON has no better type

_FIRST = ("apiVersion", "kind", "metadata", "spec")


def render(read_job: ReadJob) -> str:
    """Returns the manifest with its defaults written out; reading it again gives the same job."""
    text: str = yaml.dump(
        complete(read_job),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )
    return text


def complete(read_job: ReadJob) -> Manifest:
    """Returns the manifest as plain data, with everything filled in that it left open."""
    manifest = copy.deepcopy(read_job.manifest)
    job = read_job.job
    spec = dict(manifest.get("spec") or {})
    field = kinds.of(job).specs
    if field:
        written = spec.get("runPolicy") or {}
        policy = {"cleanPodPolicy": str(job.policy.clean_pods), **_limits(job, written), **written}
        spec["runPolicy"] = policy
    else:
        spec |= _limits(job, spec)
    options: Manifest = msgspec.to_builtins(job.options)
    filled: Manifest = _filled(spec, options)
    spec |= {key: filled[key] for key in options if key in filled}
    if field:
        by_small = {key.lower(): value for key, value in spec[field].items()}
        spec[field] = {role.type: _role(job, role, by_small[role.name]) for role in job.roles}
    manifest["spec"] = spec
    return {key: manifest[key] for key in (*_FIRST, *manifest) if key in manifest and key != "status"}


class _Dumper(yaml.SafeDumper):
    """Writes everything out, and quotes every text that would be read as something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif yaml_scalars.resolve(text) != text:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _limits(job: Job, written: Manifest) -> Manifest:
    policy = job.policy
    known = {
        "backoffLimit": policy.backoff_limit,
        "activeDeadlineSeconds": policy.deadline,
        "ttlSecondsAfterFinished": policy.ttl,
    }
    return {key: value for key, value in known.items() if value is not None and written.get(key) is None}


def _filled(written: Any, value: object) -> Any:  # Any: JSON has no better type
    """Adds to what was written what it left open; lists are whole as they are."""
    if isinstance(value, dict):
        base = written if isinstance(written, dict) else {}
        said = {
            key: each
            for key, each in value.items()
            # Not `in` for False, which would also leave out 0.
            if (each is not False and each not in (None, "", [], ())) or base.get(key) is not None
        }
        return {**base, **{key: _filled(base.get(key), each) for key, each in said.items()}}
    if isinstance(value, list | tuple):
        return list(value) if written is None else written
    return value


def _role(job: Job, role: Role, written: Manifest) -> Manifest:
    # A launcher that is replaced when it fails is one whose manifest says Never.
    restart = Restart.NEVER if role.restart is Restart.RECREATE else role.restart
    filled: Manifest = {"replicas": role.replicas, "restartPolicy": str(restart)}
    filled |= {key: value for key, value in written.items() if value is not None and key not in filled}
    name, number = kinds.of(job).port
    for container in filled["template"]["spec"]["containers"] if name else ():
        ports = container.get("ports") or []
        if container["name"] == role.main and not any(port.get("name") == name for port in ports):
            container["ports"] = [*ports, {"containerPort": number, "name": name}]
    return filled
