"""Reports on a rank after it ended: modules, files, whether it asked for its rank, its first error.

The file named by BIREME_REPORT is replaced at once when an error ends the script, and again when the
interpreter exits. A rank that was killed, or that replaced itself by another program, leaves none or the
former one. Only modules that Python has loaded before any script are used here: a script may have a `json.py`
beside it, and must get that one.

In a cluster BIREME_LAST_WORDS names the container's termination log, which stays with the pod's status: the
error goes there as a person reads it, below a line with its exact time and place. It holds little, so the
beginning of a long traceback is left out. How far the script has come may stand there before (see
script.notes), and is kept.
"""

from __future__ import annotations

import atexit
import os
import sys
import time

from . import rank_reads, reserved_file

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple

VARIABLE = "BIREME_REPORT"
LAST_WORDS = "BIREME_LAST_WORDS"

# Submodules that cost much and that importing the package alone does not load.
NOTABLE = (
    *("torch._dynamo", "torch._inductor", "torch.distributed", "torch.nn.parallel", "torch.utils.data"),
    *(
        "torch.utils.tensorboard",
        "torch.distributed.fsdp",
        "numpy.random",
        "lightning.pytorch",
        "scipy.stats",
    ),
    *("sklearn.datasets", "matplotlib.pyplot", "transformers.trainer", "tensorflow.python.keras"),
)
_TRAINERS = {"lightning": "lightning", "pytorch_lightning": "lightning"}
_SITE = ("/site-packages/", "/dist-packages/")
_PACKAGES = ("site-packages", "dist-packages")
# The standard library, and this runtime.
_NOT_THE_USERS = (
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep,
    "<frozen",
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
# Words of a script that starts a program, which inherits the rank's variables.
_PROGRAMS = (b"subprocess", b"system(", b"popen", b"Popen", b"posix_spawn", b"spawnv", b"spawnl", b"pty.")
_SPAWNED = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
_MOST = 200
_MOST_LOST = 500
_MOST_WORDS = 3500  # bytes; a kubelet keeps the last 4096 of a termination log
_LONGEST_PLACE = 200
_LONGEST_HEAD = 1000
_LONGEST_TYPE = 200
_OF_TYPES = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.<>")
_MOST_STATUS = 2**31
_MOST_ESSENTIAL = 1500  # characters of a message or a traceback; each may take six bytes


class Report:
    """The report of this process; a copy of it in a forked child writes nothing."""

    def __init__(self, path: str, started: FrozenSet[str], preloaded: FrozenSet[str]) -> None:
        self._path = path  # empty where only last words are wanted
        self._words = os.environ.get(LAST_WORDS, "")
        self._started = started  # modules that the interpreter itself had loaded
        self._preloaded = preloaded  # modules that a zygote had loaded, the former included; empty when cold
        self._error: Optional[Dict[str, Any]] = None  # Any: text and a time, as JSON will hold them
        self._reads = rank_reads.RankReads()
        self._pid = os.getpid()

    def failed(self, error: BaseException) -> None:
        """Records what ended the script, at once: exit handlers may hang."""
        try:
            self._error = _described(error)
            self.write()
        except Exception:
            pass

    def write(self) -> None:
        try:
            if os.getpid() != self._pid:
                return
            # What the script's run could not save; a script that has no run has lost nothing.
            run = getattr(sys.modules.get("bireme.runtime.script.startup"), "_open", None)
            modules, files = _imported(self._started, self._preloaded)
            content = {
                "modules": modules,
                "files": files,
                "sites": [folder for folder in sys.path if folder.endswith(_PACKAGES)],
                "read_rank": self._asked(files),
                "trainer": _trainer(),
                "warm": bool(self._preloaded),
                "error": self._error,
                "lost": " ".join(str(getattr(run, "lost", "")).split())[:_MOST_LOST],
            }
            # First: a pod's status must say why it ended even where the run directory cannot be written.
            self._write_words(content)
            if self._path:
                # For a full disk: its end has to be known, what it imported can be learnt another time.
                shorter = {**content, "modules": [], "files": [], "sites": []}
                shorter["error"] = _shortened(self._error)
                reserved_file.replace(self._path, to_json(content), to_json(shorter))
        except Exception:
            # The script's own end is what matters; the reader treats a missing report as unknown.
            pass

    def _asked(self, files: List[str]) -> bool:
        """Whether the script wanted to know which rank it is, or may have told another program."""
        if self._reads.seen:
            return True
        if any(name in sys.modules and name not in self._preloaded for name in _SPAWNED):
            return True
        for path in files:
            try:
                with open(path, "rb") as file:
                    text = file.read()
            except OSError:  # gone since, or inside an archive
                continue
            if any(word in text for word in _PROGRAMS):
                return True
        return False

    def _write_words(self, content: Dict[str, Any]) -> None:
        """Leaves what a person, or `bireme show`, should find in the pod's status; nothing if all is well."""
        asked, lost, trainer = content["read_rank"], content["lost"], content["trainer"]
        if not self._words or (self._error is None and asked and not lost):
            return
        head = f"bireme-report asked={1 if asked else 0}"
        if self._error is None:
            head += f" trainer={trainer}" if trainer else ""
            text = f"{head}{_progress(self._words)}" + (f" lost\n{lost}\n" if lost else "\n")
        else:
            error = self._error
            head += f" time={error['time']!r}{_progress(self._words)}"
            if error["status"] is not None:
                head += f" status={error['status']}"
            type_name = "".join(char if char in _OF_TYPES else "_" for char in error["type"][:_LONGEST_TYPE])
            place = " ".join(str(error["place"]).split())[-_LONGEST_PLACE:]
            text = f"{head} type={type_name or '_'} place={place}\n"
            told = error["traceback"] or f"{error['type']}: {error['message']}\n"
            data = told.encode("utf-8", "replace")
            if len(data) > _MOST_WORDS:  # the end says most; it begins with a whole line
                told = data[-_MOST_WORDS:].decode("utf-8", "replace").partition("\n")[2]
            text += told
        # In place: it is a mount, which nothing can be renamed onto.
        with open(self._words, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)


def begin(started: FrozenSet[str], preloaded: FrozenSet[str]) -> Optional[Report]:
    """Starts a report when one is wanted; it is written when the interpreter exits."""
    path = os.environ.get(VARIABLE)
    if not path and not os.environ.get(LAST_WORDS):
        return None
    report = Report(os.path.abspath(path) if path else "", started, preloaded)
    if path:
        reserved_file.reserve(os.path.abspath(path))
    # Registered before anything of the script, so it runs after all handlers of the script.
    atexit.register(report.write)
    return report


def to_json(value: object) -> str:
    """Writes JSON by hand, since `json` may be a module of the script."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{to_json(str(k))}:{to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(to_json(item) for item in value) + "]"
    # Half a surrogate pair is no text, and a reader would refuse all of the report.
    text = str(value).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
    units = text.encode("utf-16-be")
    codes = (units[i] << 8 | units[i + 1] for i in range(0, len(units), 2))
    return (
        '"' + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\u{c:04x}" for c in codes) + '"'
    )


def _described(error: BaseException) -> Dict[str, Any]:
    """What ended the script, as the report tells it. Any: text, numbers and None."""
    kind = type(error)
    is_plain = kind.__module__ in ("builtins", "__main__")
    try:
        message = str(error)
    except Exception:
        message = "<exception str() failed>"
    place = ""  # where nothing of the script had run
    trace = error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    usage = ""
    code: object = None
    if isinstance(error, SystemExit):
        code = error.code
        try:
            usage = _usage(error)
        except Exception:  # of the script's own parser, or of its words
            usage = ""
    if not usage:
        import traceback
    return {
        "type": kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}",
        # A parser's own words, which it has printed, say more than the lines that lead into it.
        "message": usage or message,
        "place": place,
        "traceback": "" if usage else "".join(traceback.format_exception(kind, error, error.__traceback__)),
        "time": time.time(),
        "status": int(code) if isinstance(code, int) and -_MOST_STATUS <= code < _MOST_STATUS else None,
    }


def _usage(error: SystemExit) -> str:
    """What a parser of options had to say before it ended the script; it raises nothing but the status."""
    shown: object = error.__context__  # click's, which exits while it handles its own error, or after that
    trace = error.__traceback__
    while trace is not None:
        code, names = trace.tb_frame.f_code, trace.tb_frame.f_locals
        if code.co_name == "error" and os.path.basename(code.co_filename) in ("argparse.py", "optparse.py"):
            said = names.get("message", names.get("msg"))
            return said if isinstance(said, str) else ""
        if code.co_name == "main" and code.co_filename.endswith("click/core.py"):
            shown = shown or getattr(names.get("report"), "__self__", None)
        trace = trace.tb_next
    tell = getattr(shown, "format_message", None)
    return str(tell()) if callable(tell) else ""


def _shortened(error: Optional[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    if error is None:
        return None
    short: Dict[str, Any] = {"time": error["time"]}
    for name, value in error.items():
        if isinstance(value, str):
            short[name] = value[-_MOST_ESSENTIAL:] if name == "traceback" else value[:_MOST_ESSENTIAL]
    return short


def _imported(started: FrozenSet[str], preloaded: FrozenSet[str]) -> Tuple[List[str], List[str]]:
    """Third-party modules worth importing before the next run, and the files of the user's own."""
    third: Set[str] = set()
    files: Set[str] = set()
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file is None or (name in started and name != "__main__"):
            continue
        if any(site in file for site in _SITE):
            inside = file
            for site in _SITE:
                inside = inside.rpartition(site)[2]
            # Some libraries register parts under a bare name too, which `import` would not find.
            if inside.partition("/")[0].partition(".")[0] == name.partition(".")[0]:
                third.add(name)
        elif not file.startswith(_NOT_THE_USERS):
            files.add(os.path.abspath(file))
    wanted = {name for name in third if "." not in name and not name.startswith("__")}
    wanted.update(name for name in NOTABLE if name in third)
    if preloaded:
        # What the zygote had missed, without what comes along with its package.
        missed = third - preloaded
        wanted.update(name for name in missed if name.rpartition(".")[0] not in missed)
    return sorted(wanted)[:_MOST], sorted(files)[: 10 * _MOST]


def _trainer() -> str:
    """The library that runs the script's loop, if the script's own modules name one.

    That it is loaded says nothing: a warm interpreter may have loaded it for another script.
    """
    for module in list(sys.modules.values()):
        file = _file_of(module)
        if file is None or any(site in file for site in _SITE) or file.startswith(_NOT_THE_USERS):
            continue
        for value in list(object.__getattribute__(module, "__dict__").values()):
            for origin in _origins(value):
                if origin.partition(".")[0] in _TRAINERS:
                    return _TRAINERS[origin.partition(".")[0]]
    return ""


def _origins(value: object) -> List[str]:
    """The modules that a value of a script comes from, its base classes included."""
    try:
        if type(value) is type(sys):
            return [str(object.__getattribute__(value, "__dict__").get("__name__"))]
        return [str(base.__module__) for base in (value if isinstance(value, type) else type(value)).__mro__]
    except Exception:
        return []


def _file_of(module: object) -> Optional[str]:
    # Reading an attribute of a lazy module would import it, so its dictionary is read past its class.
    try:
        names = object.__getattribute__(module, "__dict__")
        file = names.get("__file__")
        if file is None and "__path__" in names:
            file = next(iter(names["__path__"]), None)
            file = file and os.path.join(file, "")
        return file if isinstance(file, str) else None
    except Exception:
        return None


def _progress(words: str) -> str:
    """How far the script had come, as its run knows, or as it stands in its last words already."""
    try:
        with open(words, encoding="utf-8", errors="replace") as file:
            first = file.readline(_LONGEST_HEAD)
    except OSError:
        first = ""
    told: Dict[str, str] = {}
    if first.startswith("bireme-report "):
        for word in first.split():
            if word.startswith(("step=", "saved=")):
                name, _, told[name] = word.partition("=")
    run = getattr(sys.modules.get("bireme.runtime.script.startup"), "_open", None)
    if run is not None:
        told.update((name, str(value)) for name, value in run.progress.told().items())
    return "".join(f" {name}={told[name]}" for name in ("step", "saved") if name in told)
