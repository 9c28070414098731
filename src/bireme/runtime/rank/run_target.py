"""Runs a target just as `python [-m] TARGET args...` would run it.

The interpreter is already up, with a program of ours as its `__main__`. The script gets a `__main__` of its
own, so that pickles, multiprocessing and tracebacks find what they expect. What cannot be done alike from the
inside (a source that does not compile, a file that is not there) is handed to a plain interpreter in place.
"""

from __future__ import annotations

import builtins
import os
import sys

from . import environment_reads, fault_handler, rank_report

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from typing import Any, FrozenSet, List, NoReturn, Optional, Sequence, Set

ZIP = "BIREME_RUNTIME_ZIP"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(argv: Sequence[str], started: FrozenSet[str], preloaded: FrozenSet[str] = frozenset()) -> None:
    """Runs `[-m] TARGET args...` as the main program; returns only when that ended without an error.

    Neither our frames nor our folder are seen by it: the caller has taken its own entry off `sys.path`.
    An uncaught exception is shown as the interpreter shows it and becomes SystemExit(1).
    """
    report = rank_report.begin(started, preloaded)
    fault_handler.watch()
    # `import bireme` works where Bireme is not installed; what is installed comes first.
    archive = os.environ.get(ZIP)
    if archive and archive not in sys.path:
        sys.path.append(archive)
    elif not archive and os.path.isfile(os.path.join(_PACKAGE, "__init__.py")):
        sys.meta_path.append(_OnlyBireme())
    if os.environ.get("BIREME_TERMINAL"):
        before_terminal = set(sys.modules)
        from . import stdin_terminal

        stdin_terminal.give()
        for name in {"select", "fcntl", "typing"} - before_terminal:
            # A script may have a module of that name beside it, and must get that one.
            sys.modules.pop(name, None)
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [*sys.orig_argv[:1], *argv]
    failure: Optional[BaseException] = None
    try:
        _run_as_main(list(argv), report)
    except SystemExit as error:
        if report is not None and error.code not in (None, 0):
            _without_us(error)
            report.failed(error)
        raise
    except BaseException as error:
        failure = error
    if failure is None:
        return
    _without_us(failure)
    if report is not None:
        report.failed(failure)
    ending = _show(failure)
    # Outside the handler and without this name: the frames of the script are held by sys.last_* alone.
    failure = None
    raise ending


def _run_as_main(argv: List[str], report: Optional[rank_report.Report]) -> None:
    if argv[:1] == ["-m"] and len(argv) > 1:
        _replace_main()
        sys.argv = ["-m", *argv[2:]]
        _put_first(os.getcwd())
        import runpy

        runpy._run_module_as_main(argv[1])  # type: ignore[attr-defined]
        return
    if not argv or argv[0].startswith("-") or argv[0].endswith(".pyc"):
        _hand_over(argv)
    sys.argv = argv
    if is_importable(argv[0]):
        _replace_main()
        # The safe path is about what the user did not name; a folder that is itself the program always leads.
        sys.path.insert(0, os.path.join(os.getcwd(), argv[0]))
        import runpy

        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
        return
    path = argv[0] if os.path.isabs(argv[0]) else os.path.join(os.getcwd(), argv[0])
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError) as error:
        error.__traceback__ = None
        if report is not None:
            report.failed(error)
        _hand_over(argv)
    from _frozen_importlib_external import SourceFileLoader

    names = _replace_main()
    names["__loader__"] = SourceFileLoader("__main__", path)
    names["__file__"] = path
    names["__cached__"] = None
    _put_first(os.path.dirname(os.path.realpath(path)))
    exec(code, names)


def _replace_main() -> Any:
    # Any: the namespace of a module holds whatever the script puts there.
    main = type(sys)("__main__")
    names = main.__dict__
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    names["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return names


def _put_first(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def is_importable(path: str) -> bool:
    """Whether `path` is a folder or an archive, which Python runs by the `__main__.py` inside."""
    if os.path.isdir(path):
        return True
    for hook in sys.path_hooks:
        try:
            hook(path)
        except ImportError:
            continue
        return True
    return False


def _hand_over(argv: List[str]) -> NoReturn:
    """Becomes a plain interpreter, which says in its own words what is wrong with the target."""
    name = sys.orig_argv[0] if hasattr(sys, "orig_argv") else sys.executable
    os.execv(sys.executable, [name, *argv])


def _without_us(error: BaseException) -> None:
    """Takes our frames out of the tracebacks of an error and of those that led to it."""
    ours = (_without_us.__code__.co_filename, environment_reads.__file__)
    waiting: List[Optional[BaseException]] = [error]
    seen: Set[int] = set()
    while waiting:
        shown = waiting.pop()
        if shown is None or id(shown) in seen:
            continue
        seen.add(id(shown))
        waiting += [shown.__cause__, shown.__context__]
        trace = shown.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in ours:
            trace = trace.tb_next
        shown.__traceback__ = trace
        while trace is not None:
            # A variable that is not set is missed in the watched `os.environ`, deep inside the script.
            while trace.tb_next is not None and trace.tb_next.tb_frame.f_code.co_filename in ours:
                trace.tb_next = trace.tb_next.tb_next
            trace = trace.tb_next


def _show(error: BaseException) -> BaseException:
    """Acts as the interpreter does on an uncaught exception (PyErr_PrintEx); returns what is to end it."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        sys.stderr.write("sys.excepthook is missing\n")
        hook = sys.__excepthook__
    try:
        sys.audit("sys.excepthook", hook, type(error), error, error.__traceback__)
        hook(type(error), error, error.__traceback__)
    except SystemExit:
        raise
    except BaseException as second:
        second.__context__ = None
        _without_us(second)
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    if not isinstance(error, KeyboardInterrupt):
        return SystemExit(1)
    # The interpreter itself ends as interrupted: exit handlers first, then by the signal. It would show the
    # interrupt once more.
    before = sys.excepthook

    def silent(*_: object) -> None:
        sys.excepthook = before

    sys.excepthook = silent
    return KeyboardInterrupt()


class _OnlyBireme:
    """Finds the package `bireme` around this file, and nothing else that lies in the same folder.

    That folder may be another environment's site-packages, none of which is the script's.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        # Any: ModuleSpec or None; the import system is told by its protocol, not by a type.
        if name != "bireme":
            return None
        from _frozen_importlib_external import PathFinder

        return PathFinder.find_spec(name, [os.path.dirname(_PACKAGE)])
