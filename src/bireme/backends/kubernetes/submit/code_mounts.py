"""Makes of a manifest whose script is sent along the same job with the code mounted. Pure."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bireme.backends.kubernetes.objects import job_objects
from bireme.backends.kubernetes.submit.code_maps import CODE_LABEL, UNPACKING, Parcel
from bireme.runtime import unpack, wire
from bireme.runtime.rank import rank_report

Manifest = dict[str, Any]  # Any: JSON has no better type

PARTS = "/bireme/parts"
WORK = "/bireme/work"
CODE = f"{WORK}/code"
VERIFY = (
    # Not from the folder that an image starts in: a file there may have the name of one of Python's modules.
    "import sys;sys.path=[x for x in sys.path if x];import hashlib,os;p,w,s=sys.argv[1:4];"
    # Read once: what is compared is what is run, whatever becomes of the folder meanwhile.
    'b={n:open(os.path.join(p,n),"rb").read() for n in os.listdir(p) if n[0]!="."};'
    'h=lambda x:hashlib.sha256(x).hexdigest();t="".join(h(b[n])+" "+n+";" for n in sorted(b));'
    's=="sha256:"+h(t.encode()) or (print("bireme: the code in the ConfigMaps is not what was sent: '
    f'somebody may have changed it; submit the job again",file=sys.stderr),sys.exit({unpack.BROKEN}));'
    f'g={{"__name__":"unpacking"}};exec(compile(b["{UNPACKING}"],"{UNPACKING}","exec"),g);'
    'g["main"](b,w,sys.argv[4:])'
)
"""Compares the mounted files with the sum that comes with the job, then runs the unpacking among them.

In one line and without single quotes, for it stands within those of a shell, perhaps by way of `mpirun`.
"""
_FINDING = 'p=$(command -v "$0" || '
BOOT = (
    f"{_FINDING}command -v python3 || command -v python) || "
    "{ echo 'bireme: the image has no Python: choose another one with --image' >&2; exit 127; }; "
    f"""exec "$p" -c '{VERIFY}' {PARTS} {WORK} "$@\""""
)
"""Looks for the image's Python, which does the rest; the shell is all that an image must have besides.

Its arguments are the program, the sum, and the script with its own arguments.
"""

_RANKS_AT = 3
"""Where the command of the ranks begins behind `mpirun -np N`."""
_PARTS_VOLUME = "bireme-parts"
_TERMINATION_LOG = "/dev/termination-log"
_ECHO = "BIREME_ECHO"


def containers(manifest: Manifest) -> Iterator[Manifest]:
    """The containers of every role, those that prepare included."""
    for template in templates(manifest):
        spec = template.get("spec") or {}
        yield from (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))


def templates(manifest: Manifest) -> Iterator[Manifest]:
    """The pod template of every role, whatever the kind."""
    spec = manifest.get("spec") or {}
    if "template" in spec:
        yield spec["template"]
    for name, value in spec.items():
        if name.endswith("ReplicaSpecs"):
            yield from (role["template"] for role in value.values() if role.get("template"))


def with_image(manifest: Manifest, image: str) -> Manifest:
    """The manifest with another image in every container."""
    changed = copy.deepcopy(manifest)
    for container in containers(changed):
        container["image"] = image
    return changed


def with_variables(manifest: Manifest, variables: dict[str, str]) -> Manifest:
    """The manifest with variables in every container; of one that is there the value is replaced."""
    changed = copy.deepcopy(manifest)
    for container in containers(changed):
        _set(container, variables)
    return changed


def with_code(manifest: Manifest, parcel: Parcel, renamed: Callable[[str], str] = str) -> Manifest:
    """The manifest of a script whose containers unpack the code before they run it."""
    changed = copy.deepcopy(manifest)
    variables = {rank_report.LAST_WORDS: _TERMINATION_LOG}
    if parcel.requirements:
        variables[unpack.REQUIREMENTS] = parcel.requirements
    sources = [{"configMap": {"name": name}} for name in parcel.names]
    volumes = (
        {"name": _PARTS_VOLUME, "projected": {"sources": sources}},
        {"name": "bireme-work", "emptyDir": {}},
    )
    mounts = (
        {"name": _PARTS_VOLUME, "mountPath": PARTS, "readOnly": True},
        {"name": "bireme-work", "mountPath": WORK},
    )
    for template in templates(changed):
        spec = template["spec"]
        template.setdefault("metadata", {}).setdefault("labels", {})[CODE_LABEL] = parcel.digest
        spec["volumes"] = [*(spec.get("volumes") or ()), *copy.deepcopy(volumes)]
        for container in spec["containers"]:
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *copy.deepcopy(mounts)]
            container["command"] = booted(container.get("command") or [], parcel.sum, renamed)
            if not container["command"]:
                del container["command"]
            _set(container, variables)
    return changed


def with_maps(manifest: Manifest, names: Mapping[str, str]) -> Manifest:
    """The manifest with other names of the ConfigMaps that hold the code."""
    changed = copy.deepcopy(manifest)
    for template in templates(changed):
        for volume in (template.get("spec") or {}).get("volumes") or ():
            if volume.get("name") == _PARTS_VOLUME:
                for source in (volume.get("projected") or {}).get("sources") or ():
                    # A manifest read from a cluster names the code of another run.
                    config_map = source.get("configMap") or {}
                    name = str(config_map.get("name"))
                    if name in names:
                        config_map["name"] = names[name]
    return changed


def variable(manifest: Manifest, name: str) -> str:
    """The value of a variable of any container, or nothing."""
    found = (
        each
        for container in containers(manifest)
        for each in container.get("env") or ()
        if each.get("name") == name
    )
    return str(next((entry.get("value") or "" for entry in found), ""))


def with_run(manifest: Manifest, run: str) -> Manifest:
    """The manifest whose ranks know their run, and its attempt, with which the operator labels each pod.

    What they report is printed, too: their files go with the pod.
    """
    changed = copy.deepcopy(manifest)
    attempt = {"fieldRef": {"fieldPath": f"metadata.labels['{job_objects.ATTEMPT}']"}}
    for container in containers(changed):
        _set(container, {wire.MARK: f"{run}/"})
        container["env"].append({"name": "BIREME_ATTEMPT", "valueFrom": attempt})
        if not any(variable["name"] == _ECHO for variable in container["env"]):
            container["env"].append({"name": _ECHO, "value": "1"})
    return changed


def booted(command: Sequence[str], sum_: str, renamed: Callable[[str], str] = str) -> list[str]:
    """A command that is started by way of the unpacking, behind `mpirun` where there is one."""
    at = _RANKS_AT if tuple(command[:2]) == ("mpirun", "-np") else 0
    before, words = list(command[:at]), list(command[at:])
    if not words:
        return before
    if os.path.basename(words[0]).startswith("python"):
        script = [renamed(word) if number == 0 else word for number, word in enumerate(words[1:])]
        return [*before, "sh", "-c", BOOT, words[0], sum_, *script]
    own = [renamed(word) for word in words]
    if "/" in words[0] and "/" not in own[0]:
        own[0] = f"./{own[0]}"  # else it would be looked for on PATH
    return [*before, "sh", "-c", BOOT, "python3", sum_, unpack.PROGRAM, *own]


def unbooted(command: Sequence[str]) -> tuple[str, ...]:
    """The command as its user gave it."""
    words = tuple(command)
    at = next((index for index, word in enumerate(words) if word.startswith(_FINDING)), None)
    if at is None:
        return words
    rest = words[at + 1 :]
    if rest[2:3] == (unpack.PROGRAM,):
        return (*words[: at - 2], *rest[3:])
    # A job of an older Bireme has no sum.
    has_sum = len(rest) > 1 and rest[1].startswith("sha256:")
    return (*words[: at - 2], *rest[:1], *rest[2 if has_sum else 1 :])


def _set(container: Manifest, variables: dict[str, str]) -> None:
    """Sets variables, each where it was: others may refer to it there. New ones come before all others."""
    given = {name: {"name": name, "value": value} for name, value in variables.items()}
    before = container.get("env") or ()
    known = {entry.get("name") for entry in before}
    new = [entry for name, entry in given.items() if name not in known]
    container["env"] = [*new, *(given.get(entry.get("name"), entry) for entry in before)]
