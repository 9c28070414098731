"""Names the programs and scripts that a command line is certain to open, launchers and shells included. Pure.

What cannot be known for sure is left out: a word that holds a variable, an option of a launcher that is not
known here, whatever stands in a shell line behind a command that may make files.
"""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct


class Use(StrEnum):
    """The way in which a command line uses a file."""

    PROGRAM = "program"
    SCRIPT = "script"


class OpenedFile(Struct, frozen=True):
    """A file that a command line opens."""

    path: str
    """As it is written, or below the folder that a shell line changes to."""
    use: Use
    is_first: bool = False
    """Whether it is the first word of the whole command, which the place itself looks up."""


_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))
_WRAPPERS = frozenset(("exec", "nohup", "time", "env"))
_TORCHRUN_MODULES = frozenset(("torch.distributed.run", "torch.distributed.launch"))


def _each(count: int, names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), count)


# How many words follow each option; an option that is in no table ends what can be known.
_MPI_VALUES = {
    **_each(
        1,
        """np n c N x host H hosts hostfile machinefile f ppn perhost npernode npersocket map-by bind-to
        rank-by wdir wd path prefix output-filename output display am tune app timeout report-uri stdin xterm
        rankfile rf cpu-set cpu-list launcher launcher-exec bootstrap bootstrap-exec rmk iface genvlist
        envlist outfile-pattern errfile-pattern personality runtime-options max-restarts""",
    ),
    **_each(2, "mca gmca omca pmixmca prtemca genv env"),
    **_each(
        0,
        """allow-run-as-root v verbose q quiet tag-output timestamp-output oversubscribe nooversubscribe
        bynode byslot bycore bysocket report-bindings display-map display-allocation nolocal pernode
        bind-to-core bind-to-socket bind-to-none debug-daemons leave-session-attached enable-recovery
        continuous use-hwthread-cpus genvall genvnone envall envnone prepend-rank l print-rank-map
        merge-stderr-to-stdout""",
    ),
}
_HOROVOD_VALUES = {
    **_each(
        1,
        """np num-proc min-np max-np min-num-proc max-num-proc slots-per-host slots H hosts hostfile
        host-discovery-script network-interfaces network-interface p ssh-port i ssh-identity-file
        start-timeout elastic-timeout gloo-timeout-seconds reset-limit output-filename config-file
        fusion-threshold-mb cycle-time-ms cache-capacity num-nccl-streams thread-affinity timeline-filename
        autotune-log-file log-level mpi-args binding-args
        stall-check-warning-time-seconds stall-check-shutdown-time-seconds""",
    ),
    **_each(
        0,
        """v version verbose gloo mpi jsrun disable-cache autotune no-autotune timeline-mark-cycles
        no-timeline-mark-cycles hierarchical-allreduce no-hierarchical-allreduce hierarchical-allgather
        no-hierarchical-allgather stall-check no-stall-check log-hide-timestamp log-with-timestamp tcp
        prefix-output-with-timestamp mpi-threads-disable no-mpi-threads-disable""",
    ),
}
_TORCHRUN_VALUES = {
    **_each(
        1,
        """nnodes nproc-per-node node-rank master-addr master-port rdzv-backend rdzv-endpoint rdzv-id
        rdzv-conf max-restarts monitor-interval start-method role log-dir r redirects t tee local-addr
        local-ranks-filter logs-specs""",
    ),
    **_each(0, "standalone no-python run-path use-env"),
}
_LAUNCHERS: Mapping[str, Mapping[str, int]] = {
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"), _MPI_VALUES),
    "horovodrun": _HOROVOD_VALUES,
}
_OTHER_FOLDER = frozenset(("wdir", "wd", "path"))
_PYTHON_VALUES = frozenset(("-W", "-X", "--check-hash-based-pycs"))

# Commands of a shell line after which the files of the machine are still what they were.
_CHANGE_NO_FILE = frozenset(
    _each(
        0,
        """cd export set unset echo printf sleep ulimit umask date hostname pwd ls id whoami true : mkdir env
    nvidia-smi nproc free df uname which""",
    )
)
_ELSEWHERE = ("-t", "--target", "--prefix", "--root", "--src")
_UNKNOWN = frozenset("$`*?~{}[]!#")
_LINE_ENDS = frozenset((";", "&&", "\n"))
_PUNCTUATION = ";()<>|&\n"


def opened(argv: Sequence[str]) -> tuple[OpenedFile, ...]:
    """The files that a command is certain to open, in the order in which it does."""
    found = tuple(_of_command(argv, folder=""))
    if found and argv and found[0].path == argv[0]:
        return (OpenedFile(found[0].path, found[0].use, is_first=True), *found[1:])
    return found


def is_python(word: str) -> bool:
    """Whether a command's word asks for the interpreter."""
    name = os.path.basename(word)
    return name in ("python", "python3") or (name.startswith("python3.") and name[8:].isdecimal())


def _of_command(words: Sequence[str], folder: str | None) -> Iterator[OpenedFile]:
    """`folder` is what relative paths begin with; None where it is not known."""
    words = _unwrapped(words)
    if not words or not _is_known(words[0]):
        return
    name = os.path.basename(words[0])
    yield from _at(words[0], Use.PROGRAM, folder if "/" in words[0] else "")
    if is_python(words[0]):
        yield from _of_python(words[1:], folder)
    elif name in _SHELLS:
        yield from _of_shell(words[1:], folder)
    elif name in _LAUNCHERS:
        yield from _of_launcher(words[1:], _LAUNCHERS[name], folder)
    elif name == "torchrun":
        yield from _of_torchrun(words[1:], folder)


def _unwrapped(words: Sequence[str]) -> Sequence[str]:
    """The command without the assignments and the wrappers before it."""
    for index, word in enumerate(words):
        variable, equals, _ = word.partition("=")
        is_assignment = bool(equals) and variable.isidentifier()
        if not is_assignment and os.path.basename(word) not in _WRAPPERS:
            return words[index:]
    return ()


def _is_known(word: str) -> bool:
    return bool(word) and not _UNKNOWN.intersection(word) and not word.startswith("-")


def _at(word: str, use: Use, folder: str | None) -> Iterator[OpenedFile]:
    if not _is_known(word):
        return
    if word.startswith("/") or folder is not None:
        yield OpenedFile(os.path.join(folder or "", word), use)


def _of_python(words: Sequence[str], folder: str | None) -> Iterator[OpenedFile]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-m" and rest and rest[0] in _TORCHRUN_MODULES:
            yield from _of_torchrun(rest[1:], folder)
            return
        if word.startswith(("-m", "-c")) or word == "-":
            return
        if word in _PYTHON_VALUES:
            rest = rest[1:]
        elif not word.startswith("-"):
            yield from _at(word, Use.SCRIPT, folder)
            return


def _of_torchrun(words: Sequence[str], folder: str | None) -> Iterator[OpenedFile]:
    given = {_option(word) for word in words if word.startswith("-")}
    if given.isdisjoint(("m", "module", "no-python", "run-path")):
        rest, _ = _after_options(words, _TORCHRUN_VALUES)
        if rest:
            yield from _at(rest[0], Use.SCRIPT, folder)


def _of_launcher(words: Sequence[str], values: Mapping[str, int], folder: str | None) -> Iterator[OpenedFile]:
    """The programs that a launcher starts; a colon stands between two of them."""
    for is_colon, part in itertools.groupby(words, key=lambda word: word == ":"):
        if is_colon:
            continue
        rest, options = _after_options(list(part), values)
        inner = None if _OTHER_FOLDER.intersection(options) else folder
        # A launcher's program is looked up by the replicas, each of which may have a folder of its own.
        for file in _of_command(rest, inner):
            if file.path.startswith("/") or file.use is Use.SCRIPT:
                yield file


def _after_options(words: Sequence[str], values: Mapping[str, int]) -> tuple[Sequence[str], set[str]]:
    """The words from the program on, and which options stood before; after an unknown one, from Python on."""
    rest = list(words)
    given: set[str] = set()
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name = _option(word)
        given.add(name)
        if "=" in word and word.startswith("--"):
            continue
        count = values.get(name)
        if count is None:
            # Of an unknown option it is not known whether a value follows, so the words up to Python may be
            # options or values. None of them is taken for the program.
            at = next((index for index, later in enumerate(rest) if is_python(later)), len(rest))
            return rest[at:], given | {_option(later) for later in rest[:at]}
        rest = rest[count:]
    return rest, given


def _option(word: str) -> str:
    return word.partition("=")[0].lstrip("-").replace("_", "-")


def _of_shell(words: Sequence[str], folder: str | None) -> Iterator[OpenedFile]:
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            if rest:
                yield from _of_line(rest[0], folder)
            return
        if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            rest = rest[1:]
        elif word == "-s":
            return
        elif not word.startswith(("-", "+")):
            yield from _at(word, Use.SCRIPT, folder)
            return


def _of_line(line: str, folder: str | None) -> Iterator[OpenedFile]:
    """The files of a shell line, up to the first command after which they cannot be known."""
    commands = list(_commands(line))
    for index, (command, end) in enumerate(commands):
        redirection = next((at for at, word in enumerate(command) if word and set(word) <= set("<>&")), None)
        plain = command[:redirection]
        words = list(_unwrapped(plain))
        name = os.path.basename(words[0]) if words else ""
        # To add packages to the interpreter changes no other file.
        pip = words[2:] if words[1:3] == ["-m", "pip"] and is_python(words[0]) else words
        is_installer = pip[:1] in (["pip"], ["pip3"]) and not any(word.startswith(_ELSEWHERE) for word in pip)
        if name == "cd":
            target = plain[-1] if len(plain) == 2 else ""
            is_certain = _is_known(target) and (folder is not None or target.startswith("/"))
            folder = os.path.join(folder or "", target) if is_certain else None
        elif name not in _CHANGE_NO_FILE and not is_installer:
            # Where another command runs if this one fails, as in `a || b`, its files may be missing.
            links = (link for _, link in commands[index:])
            if "||" not in itertools.takewhile(lambda link: link in ("&&", "||", "|"), links):
                yield from _of_command(plain, folder)
            if name:
                return
        # Neither behind a pipe nor behind a redirection, which may make a file, is anything certain.
        if end not in _LINE_ENDS or redirection is not None:
            return


def _commands(line: str) -> Iterator[tuple[list[str], str]]:
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    for word in words:
        bare = word.strip("\n") or "\n"
        if not set(word) <= set(";|&()\n"):
            command.append(word)
        elif command:
            yield command, bare
            command = []
        elif bare != "\n":
            return
    if command:
        yield command, ";"
