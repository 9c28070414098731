"""Reports on a rank after it ended: modules, files, whether it asked for its rank, its first error.

The file named by BIREME_REPORT is replaced at once when an error ends the script, and again when the
interpreter exits. A rank that was killed, or that replaced itself by another program, leaves none or the
former one. Only modules that Python has loaded before any script are used here: a script may have a `json.py`
beside it, and must get that one.

In a cluster BIREME_LAST_WORDS names the container's termination log, where the error goes too.
"""

from __future__ import annotations

import atexit
import os
import sys
import time

from . import environment_reads, loaded_modules, report_files

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from typing import Any, Dict, FrozenSet, Optional

VARIABLE = "BIREME_REPORT"
LAST_WORDS = "BIREME_LAST_WORDS"
_PACKAGES = ("site-packages", "dist-packages")
_MOST_LOST = 500
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
        self._reads = environment_reads.RankReads()
        self._pid = os.getpid()

    def failed(self, error: BaseException) -> None:
        """Records what ended the script, at once: exit handlers may hang."""
        try:
            kind, code = type(error), error.code if isinstance(error, SystemExit) else None
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
            # A parser's own words, which it has printed, say more than the lines that lead into it.
            usage, shown = _usage(error), ""
            if not usage:
                import traceback

                shown = "".join(traceback.format_exception(kind, error, error.__traceback__))
            self._error = {
                "type": kind.__qualname__ if is_plain else f"{kind.__module__}.{kind.__qualname__}",
                "message": usage or message,
                "place": place,
                "traceback": shown,
                "time": time.time(),
                "status": int(code)
                if isinstance(code, int) and -_MOST_STATUS <= code < _MOST_STATUS
                else None,
            }
            self.write()
        except Exception:
            pass

    def write(self) -> None:
        try:
            if os.getpid() != self._pid:
                return
            # What the script's run could not save; a script that has no run has lost nothing.
            run = getattr(sys.modules.get("bireme.runtime.script.startup"), "_open", None)
            modules, files = loaded_modules.imported(self._started, self._preloaded)
            content = {
                "modules": modules,
                "files": files,
                "sites": [folder for folder in sys.path if folder.endswith(_PACKAGES)],
                "read_rank": self._reads.were_wanted(files, self._preloaded),
                "trainer": loaded_modules.trainer(),
                "warm": bool(self._preloaded),
                "error": self._error,
                "lost": " ".join(str(getattr(run, "lost", "")).split())[:_MOST_LOST],
            }
            # First: a pod's status must say why it ended even where the run directory cannot be written.
            if self._words:
                report_files.write_last_words(self._words, content)
            if self._path:
                # For a full disk: its end has to be known, what it imported can be learnt another time.
                shorter = {**content, "modules": [], "files": [], "sites": []}
                if self._error is not None:
                    essential = {
                        name: text[-_MOST_ESSENTIAL:] if name == "traceback" else text[:_MOST_ESSENTIAL]
                        for name, text in self._error.items()
                        if isinstance(text, str)
                    }
                    shorter["error"] = {"time": self._error["time"], **essential}
                report_files.replace(self._path, to_json(content), to_json(shorter))
        except Exception:
            # The script's own end is what matters; the reader treats a missing report as unknown.
            pass


def begin(started: FrozenSet[str], preloaded: FrozenSet[str]) -> Optional[Report]:
    """Starts a report when one is wanted; it is written when the interpreter exits."""
    path = os.environ.get(VARIABLE)
    if not path and not os.environ.get(LAST_WORDS):
        return None
    report = Report(os.path.abspath(path) if path else "", started, preloaded)
    if path:
        report_files.reserve(os.path.abspath(path))
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


def _usage(error: BaseException) -> str:
    """What a parser of options had to say before it ended the script; it raises nothing but the status."""
    if not isinstance(error, SystemExit):
        return ""
    shown: object = error.__context__  # click's, which exits while it handles its own error, or after that
    trace = error.__traceback__
    try:
        while trace is not None:
            code, names = trace.tb_frame.f_code, trace.tb_frame.f_locals
            file = os.path.basename(code.co_filename)
            if code.co_name == "error" and file in ("argparse.py", "optparse.py"):
                said = names.get("message", names.get("msg"))
                return said if isinstance(said, str) else ""
            if code.co_name == "main" and code.co_filename.endswith("click/core.py"):
                shown = shown or getattr(names.get("report"), "__self__", None)
            trace = trace.tb_next
        tell = getattr(shown, "format_message", None)
        return str(tell()) if callable(tell) else ""
    except Exception:  # of the script's own parser, or of its words
        return ""
