"""What does a rank tell after it ended: modules, files, whether it asked for its rank, its first error.

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
    from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set, Tuple

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
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = tuple({os.path.dirname(os.path.abspath(os.__file__)) + os.sep, "<frozen"})
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
        self._watch = rank_reads.install()
        self._pid = os.getpid()

    def failed(self, error: BaseException) -> None:
        """Records what ended the script, at once: exit handlers may hang."""
        try:
            # A parser's own words, which it has printed, say more than the lines that lead into it.
            said = _usage(error) if isinstance(error, SystemExit) else ""
            self._error = {
                "type": _type_name(error),
                "message": said or _text_of(error),
                "place": _place(error),
                "traceback": "" if said else _traceback(error),
                "time": time.time(),
                "status": _status(error),
            }
            self.write()
        except Exception:
            pass

    def write(self) -> None:
        try:
            if os.getpid() != self._pid:
                return
            self._write_words()
            if not self._path:
                return
            content = self._content()
            reserved_file.replace(self._path, to_json(content), to_json(_essential(content)))
        except Exception:
            # The script's own end is what matters; the reader treats a missing report as unknown.
            pass

    def _write_words(self) -> None:
        """Leaves what a person, or `bireme show`, should find in the pod's status; nothing if all is well."""
        lost = _lost()
        if not self._words or (self._error is None and self._asked() and not lost):
            return
        head = f"bireme-report asked={1 if self._asked() else 0}"
        if self._error is None:
            head += f" trainer={_trainer()}" if _trainer() else ""
            text = f"{head}{_far(self._words)}" + (f" lost\n{lost}\n" if lost else "\n")
        else:
            place = " ".join(str(self._error["place"]).split())[-_LONGEST_PLACE:]
            head += f" time={self._error['time']!r}{_far(self._words)}"
            if self._error["status"] is not None:
                head += f" status={self._error['status']}"
            text = f"{head} type={_plain(str(self._error['type']))} place={place}\n"
            text += _end_of(_told(self._error), _MOST_WORDS)
        # In place: it is a mount, which nothing can be renamed onto.
        with open(self._words, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)

    def _asked(self) -> bool:
        """Whether somebody here wanted to know which rank this is."""
        spawned = any(name in sys.modules and name not in self._preloaded for name in _SPAWNED)
        return self._watch.read or spawned

    def _content(self) -> Dict[str, Any]:
        modules, files = _imported(self._started, self._preloaded)
        return {
            "modules": modules,
            "files": files,
            "sites": [folder for folder in sys.path if folder.endswith(_PACKAGES)],
            "read_rank": self._asked(),
            "trainer": _trainer(),
            "warm": bool(self._preloaded),
            "error": self._error,
            "lost": _lost(),
        }


def _essential(content: Dict[str, Any]) -> Dict[str, Any]:
    """What has to be known of a rank's end; what it imported can be learnt another time."""
    error = content["error"] and {
        name: value[-_MOST_ESSENTIAL:] if name == "traceback" else value[:_MOST_ESSENTIAL]
        for name, value in content["error"].items()
        if isinstance(value, str)
    }
    if error:
        error["time"] = content["error"]["time"]
    return {**content, "modules": [], "files": [], "sites": [], "error": error}


def _lost() -> str:
    """What the script's run could not save; a script that has no run has lost nothing."""
    run = getattr(sys.modules.get("bireme.runtime.script.startup"), "_open", None)
    return " ".join(str(getattr(run, "lost", "")).split())[:_MOST_LOST]


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
    # Half a pair is no text, and whoever reads it would refuse all of the report.
    text = str(value).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
    units = text.encode("utf-16-be")
    codes = (units[i] << 8 | units[i + 1] for i in range(0, len(units), 2))
    return (
        '"' + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\u{c:04x}" for c in codes) + '"'
    )


def _imported(started: FrozenSet[str], preloaded: FrozenSet[str]) -> Tuple[List[str], List[str]]:
    """Third-party modules worth importing before the next run, and the files of the user's own."""
    third: Set[str] = set()
    files: Set[str] = set()
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file is None or (name in started and name != "__main__"):
            continue
        if any(site in file for site in _SITE):
            if _is_importable(name, file):
                third.add(name)
        elif not file.startswith(_STANDARD) and not file.startswith(_OURS):
            files.add(os.path.abspath(file))
    wanted = {name for name in third if "." not in name and not name.startswith("__")}
    wanted.update(name for name in NOTABLE if name in third)
    if preloaded:
        wanted.update(_roots(third - preloaded))
    return sorted(wanted)[:_MOST], sorted(files)[: 10 * _MOST]


def _trainer() -> str:
    """The library that runs the script's loop, if the script's own modules name one.

    That it is loaded says nothing: a warm interpreter may have loaded it for another script.
    """
    for module in list(sys.modules.values()):
        file = _file_of(module)
        if file is None or any(site in file for site in _SITE) or file.startswith((*_STANDARD, _OURS)):
            continue
        for value in list(object.__getattribute__(module, "__dict__").values()):
            for origin in _origins(value):
                if origin.partition(".")[0] in _TRAINERS:
                    return _TRAINERS[origin.partition(".")[0]]
    return ""


def _origins(value: object) -> Iterable[str]:
    """The modules that a value of a script comes from, its base classes included."""
    try:
        if type(value) is type(sys):
            return [str(object.__getattribute__(value, "__dict__").get("__name__"))]
        return [str(one.__module__) for one in (value if isinstance(value, type) else type(value)).__mro__]
    except Exception:
        return []


def _is_importable(name: str, file: str) -> bool:
    """Whether `import name` would find this file; some libraries register parts under a bare name too."""
    for site in _SITE:
        file = file.rpartition(site)[2]
    return file.partition("/")[0].partition(".")[0] == name.partition(".")[0]


def _roots(names: Set[str]) -> Iterable[str]:
    """The names without those whose package is itself among them: what a zygote had missed."""
    return (name for name in names if name.rpartition(".")[0] not in names)


def _end_of(text: str, most: int) -> str:
    """The end of a text, in whole lines and at most so many bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    return data[-most:].decode("utf-8", "replace").partition("\n")[2]


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


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "<exception str() failed>"


def _status(error: BaseException) -> Optional[int]:
    """The number with which a script ended itself, if it did and gave one."""
    code = error.code if isinstance(error, SystemExit) else None
    return int(code) if isinstance(code, int) and -_MOST_STATUS <= code < _MOST_STATUS else None


def _plain(name: str) -> str:
    """The name of a type as one word of a line."""
    return "".join(char if char in _OF_TYPES else "_" for char in name[:_LONGEST_TYPE]) or "_"


def _usage(error: SystemExit) -> str:
    """What a parser of options had to say before it ended the script; it raises nothing but the status."""
    try:
        return _said(error)
    except Exception:  # of the script's own parser, or of its words
        return ""


def _said(error: SystemExit) -> str:
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


def _place(error: BaseException) -> str:
    """The file and line in which an error was raised; empty where nothing of the script had run."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"


def _told(error: Dict[str, Any]) -> str:
    return str(error["traceback"]) or f"{error['type']}: {error['message']}\n"


def _far(words: str) -> str:
    """How far the script had come, as its run knows, or as it stands in its last words already."""
    told = _noted(words)
    run = getattr(sys.modules.get("bireme.runtime.script.startup"), "_open", None)
    if run is not None:
        told.update((name, str(value)) for name, value in run.progress.told().items())
    return "".join(f" {name}={told[name]}" for name in ("step", "saved") if name in told)


def _noted(words: str) -> Dict[str, str]:
    try:
        with open(words, encoding="utf-8", errors="replace") as file:
            first = file.readline(_LONGEST_HEAD)
    except OSError:
        return {}
    if not first.startswith("bireme-report "):
        return {}
    told = [one.partition("=") for one in first.split() if one.startswith(("step=", "saved="))]
    return {name: value for name, _, value in told}


def _traceback(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_exception(type(error), error, error.__traceback__))
