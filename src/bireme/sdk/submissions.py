"""Makes submissions of what is to be run: a script or manifests, with the user's options."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bireme import errors, kinds
from bireme.core.scripts import interpreters
from bireme.core.scripts.interpreters import Launch
from bireme.manifest import name_rules, read, short_form
from bireme.manifest.diagnostics import Diagnostics
from bireme.manifest.read import Reading, ReadJob
from bireme.manifest.text.nodes import Document
from bireme.runner.submit import Submission
from bireme.runs.run_files import ReferencedValues
from bireme.runs.run_files import RunOptions as RunOptions

_STDIN = "-"
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
"""No vowels, so that no word comes out; nothing that looks like something else."""
_LONGEST_STEM = 40
ORIGIN = "BIREME_FROM"
"""Tells a script's `restore` which checkpoint to continue from, as FOLDER or FOLDER@STEP."""
TERMINAL = "BIREME_TERMINAL"
"""Tells a rank which terminal it may read."""
_ONLY_HERE = ("is not a job, so it is left alone", "only a cluster acts on this")


class Script(Struct, frozen=True, kw_only=True):
    """A script or module, and how many ranks of it."""

    path: str
    args: tuple[str, ...] = ()
    is_module: bool = False
    """`path` is what `python -m` takes."""
    name: str = ""
    workers: int = 1
    gpu: int = 0
    cpu: str = ""
    memory: str = ""
    retries: int = short_form.RETRIES


class Invocation(Struct, frozen=True):
    """The folder and the environment of the user; relative paths of options are meant from there."""

    cwd: Path
    environ: Mapping[str, str]


class SubmissionBatch(Struct, frozen=True):
    """Jobs that are ready to be submitted, and the warnings about them."""

    submissions: tuple[Submission, ...]
    read: tuple[ReadJob, ...]
    warnings: tuple[str, ...] = ()
    options: RunOptions = RunOptions()
    beside: tuple[dict[str, Any], ...] = ()  # Any: JSON has no better type
    """What stands beside the jobs in their files; a cluster gets it too."""

    @property
    def warnings_in_a_cluster(self) -> tuple[str, ...]:
        """The warnings without those that only speak of what this machine leaves alone."""
        return tuple(warning for warning in self.warnings if not warning.endswith(_ONLY_HERE))


def of_script(script: Script, options: RunOptions, invocation: Invocation) -> SubmissionBatch:
    """Makes the submission of a script; rejects one that is not there."""
    launch = Launch()
    if not script.is_module:
        _look_for(script.path, invocation.cwd)
        launch = launch_of(invocation.cwd / script.path, script.path)
        if launch.wrong:
            raise errors.BadInput(launch.wrong, hint=launch.hint)
    words = ("-m", script.path) if script.is_module else (script.path,)
    manifest = short_form.from_script(
        words[0],
        (*words[1:], *script.args),
        name=script.name or name_of(script.path, is_module=script.is_module),
        workers=script.workers,
        gpu=script.gpu,
        cpu=script.cpu,
        memory=script.memory,
        env=options.env,
        retries=script.retries,
        launch=launch,
    )
    reading = read.from_manifest(manifest, script=short_form.called(script.path, launch))
    # The variables of a script stand in its manifest, where `bireme render` and `show` find them.
    return _batch(reading, replace(options, env={}), invocation)


def documents(
    manifests: Sequence[str | Path],
    stdin: Callable[[int], bytes] | None = None,
    diagnostics: Diagnostics | None = None,
) -> list[Document]:
    """Reads files, folders and texts of several lines in the order given.

    `-` is standard input, asked for so many bytes. What is wrong with a file is raised, or
    added to diagnostics.
    """
    from bireme.manifest.text import source  # here, because it imports YAML, and a script needs none

    if manifests.count(_STDIN) > 1:
        raise errors.BadInput("standard input can be read only once", hint="give `-f -` once")
    found: list[Document] = []
    for manifest in manifests:
        if manifest == _STDIN and stdin is not None:
            found += source.read_text(stdin(source.MOST_BYTES + 1), "<stdin>")
        elif isinstance(manifest, str) and "\n" in manifest:
            found += source.read_text(manifest, "<text>")
        else:
            found += source.read_path(Path(manifest), diagnostics)
    return found


def of_documents(
    documents: Sequence[Document],
    options: RunOptions,
    invocation: Invocation,
    name: str = "",
    diagnostics: Diagnostics | None = None,
) -> SubmissionBatch:
    """Makes the submissions of manifests; a name replaces that of the only job.

    `diagnostics` are those about files that could not be read.
    """
    reading = read.read(
        documents, lambda file, path: launch_of(_folder(file, invocation.cwd) / path, path), diagnostics
    )
    batch = _batch(_renamed(reading, name) if name else reading, options, invocation)
    jobs, beside = (*read.KINDS, "Pod"), []
    for document in documents:
        whole = document.root.plain()
        is_list = isinstance(whole, dict) and whole.get("kind") == "List"
        for item in whole.get("items") or () if is_list else (whole,):
            if isinstance(item, dict) and item.get("apiVersion") and item.get("kind") not in jobs:
                beside.append(item)
    return replace(batch, beside=tuple(beside))


def of_manifest(
    manifest: Mapping[str, object], options: RunOptions, invocation: Invocation, name: str = ""
) -> SubmissionBatch:
    """Makes the submission of a manifest that is plain data."""
    reading = read.from_manifest(manifest)
    return _batch(_renamed(reading, name) if name else reading, options, invocation)


def launch_of(file: Path, shown: str) -> Launch:
    """What runs a script; one that is not there, or cannot be read, is said elsewhere."""
    try:
        if file.is_dir():
            return Launch()
        with file.open("rb") as stream:
            head = stream.read(interpreters.HEAD)
    except (OSError, ValueError):
        return interpreters.by_name(shown)
    return interpreters.by_content(shown, head, is_executable=os.access(file, os.X_OK))


def rendered(batch: SubmissionBatch) -> str:
    """The manifests in full, as YAML, with a line of dashes between two."""
    from bireme.manifest import rendering  # here, because it imports YAML

    return "---\n".join(rendering.render(job) for job in batch.read)


def completed(batch: SubmissionBatch) -> list[dict[str, Any]]:  # Any: JSON has no better type
    """The same as plain data."""
    from bireme.manifest import rendering  # here, because it imports YAML

    return [rendering.complete(job) for job in batch.read]


def name_of(path: str, *, is_module: bool = False) -> str:
    """A name for the job of a script: after the script, with four letters that differ each time."""
    stem = path.rpartition(".")[2] if is_module else Path(path).stem
    return _with_letters(name_rules.label_of(stem)[:_LONGEST_STEM].strip("-") or "job")


def _with_letters(stem: str) -> str:
    return f"{stem}-{''.join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(4))}"


def _look_for(path: str, cwd: Path) -> None:
    found = cwd / path
    if found.is_file() or (found / "__main__.py").is_file():
        return
    if found.is_dir():
        raise errors.BadInput(
            f"{path} is a folder without a __main__.py", hint=f"name the script: bireme run {path}/train.py"
        )
    folder = found.parent
    there = [file.name for file in folder.glob("*.py")] if folder.is_dir() else []
    import difflib  # here, because it is hardly ever needed

    near = difflib.get_close_matches(found.name, there, n=1)
    if near:
        hint = f"did you mean {os.path.join(os.path.dirname(path), near[0])}?"
    else:
        hint = "a script's path is meant from the current folder"
    raise errors.BadInput(f"there is no script {path} in {cwd}", hint=hint)


def _batch(reading: Reading, options: RunOptions, invocation: Invocation) -> SubmissionBatch:
    slips = [warning for warning in reading.warnings if warning.is_slip]
    if slips:
        # The reader only warns, because what a cluster holds must be readable. A person can still mend it.
        others = [warning for warning in reading.warnings if not warning.is_slip]
        raise errors.BadManifest.of([replace(warning, warning=False) for warning in slips], warnings=others)
    options = _absolute(options, invocation.cwd)
    jobs = tuple(_named(job) for job in reading.jobs)
    for name, count in Counter(job.job.name for job in jobs).items():
        if count > 1:
            raise errors.BadInput(
                f"there are two jobs named {name}", hint="a run is known by its name: change one"
            )
    references = ReferencedValues(
        _as_bytes(reading.references.config_maps), _as_bytes(reading.references.secrets)
    )
    environ = invocation.environ
    if options.terminal:
        environ = {**environ, TERMINAL: options.terminal}
    return SubmissionBatch(
        submissions=tuple(
            Submission(
                job=job.job,
                manifest=job.manifest,
                references=references,
                options=options,
                cwd=str(_folder(job.file, invocation.cwd)),
                environ=environ,
                script=job.script or job.module or "",
            )
            for job in jobs
        ),
        read=jobs,
        warnings=tuple(str(warning) for warning in reading.warnings),
        options=options,
    )


def _absolute(options: RunOptions, cwd: Path) -> RunOptions:
    """The options as any later shell may use them. Here alone are paths made absolute."""
    for target, source in options.maps.items():
        if not os.path.normpath(target).strip("/"):
            raise errors.BadInput(
                f"--map {target}={source}: the root of an image cannot be mapped as a whole",
                hint="map a folder or a file of it: --map /train.py=./train.py",
            )
    return replace(
        options,
        maps={target: os.path.normpath(cwd / source) for target, source in options.maps.items()},
        volumes={claim: os.path.normpath(cwd / folder) for claim, folder in options.volumes.items()},
        python=str(cwd / options.python) if "/" in options.python else options.python,
    )


def _as_bytes(objects: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, bytes]]:
    """The exact bytes of ConfigMaps and Secrets, which a run keeps."""
    return {
        name: {key: value.encode("utf-8", "surrogateescape") for key, value in values.items()}
        for name, values in objects.items()
    }


def _folder(file: str, cwd: Path) -> Path:
    """The folder in which a job runs: that of its manifest, or the user's own."""
    return (cwd / file).parent if file and not file.startswith("<") else cwd


def _named(read_job: ReadJob) -> ReadJob:
    """Gives a generated name its end; a name that was given is kept."""
    metadata = read_job.manifest.get("metadata") or {}
    if metadata.get("name") or not metadata.get("generateName"):
        return read_job
    return _called(read_job, _with_letters(read_job.job.name[:_LONGEST_STEM].strip("-")))


def _renamed(reading: Reading, name: str) -> Reading:
    if len(reading.jobs) != 1:
        raise errors.BadInput(
            f"--name names one job, and there are {len(reading.jobs)} in the manifest",
            hint="leave --name out: each job has a name of its own",
        )
    kind = kinds.of(reading.jobs[0].job)
    if not kind.subdomain_names and (wrong := name_rules.wrong_job_name(name)):
        raise errors.BadInput(f"--name {name}: {wrong}")
    return replace(reading, jobs=(_called(reading.jobs[0], name),))


def _called(read_job: ReadJob, name: str) -> ReadJob:
    metadata: dict[str, Any] = {**(read_job.manifest.get("metadata") or {}), "name": name}
    metadata.pop("generateName", None)
    # Read once more, so that a name from which no pod's name can be made is refused.
    again = read.from_manifest(
        {**read_job.manifest, "metadata": metadata}, file=read_job.file, script=read_job.script
    )
    return replace(again.jobs[0], line=read_job.line, module=read_job.module)
