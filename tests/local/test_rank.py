"""Does `python start_rank.py TARGET` behave as `python TARGET` does, and does it report truly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

import bireme.runtime

RUNTIME = Path(bireme.runtime.__file__).parent
RANK = str(RUNTIME / "start_rank.py")
SECONDS = 60


class Ended(msgspec.Struct, frozen=True):
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str


def run(folder: Path, *words: str, **env: str) -> Ended:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def report(folder: Path, *words: str, **env: str) -> Any:
    """Runs a rank and reads what it left. Any: the JSON of the report."""
    path = folder / "report.json"
    run(folder, RANK, *words, BIREME_REPORT=str(path), **env)
    return json.loads(path.read_text())


FACTS = """
import json, sys
main = sys.modules["__main__"]
names = {name: type(value).__name__ for name, value in vars(main).items() if name.startswith("__")}
spec = getattr(__spec__, "name", None)
facts = [names, __name__, __file__, __package__, spec, sys.argv, sys.path, sys.orig_argv[1:]]
print(json.dumps(facts, indent=1), main.__dict__ is globals())
"""
FAILS = """
import os

def look():
    return os.environ["NOT_THERE_AT_ALL"]

def main():
    try:
        look()
    except KeyError as error:
        raise ValueError("no such variable: \\u2603") from error

main()
"""
SCRIPTS: dict[str, str | bytes] = {
    "facts": FACTS,
    "fails": FAILS,
    "fails_in_a_handler": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined_name\n",
    "does_not_parse": "def (:\n    pass\n",
    "is_badly_indented": "x = 1\n  y = 2\n",
    "is_not_utf8": b"name = '\xff'\n",
    "declares_its_encoding": b"# coding: latin-1\nprint(len('\xe9'))\n",
    "begins_with_a_mark": b"\xef\xbb\xbfprint('byte order mark')\n",
    "exits_0": "import sys; sys.exit()",
    "exits_3": "import sys; sys.exit(3)",
    "exits_with_text": "import sys; print('last words'); sys.exit('something went wrong')",
    "exits_hard": "import os; os._exit(9)",
    "is_interrupted": "import atexit; atexit.register(print, 'bye'); raise KeyboardInterrupt",
    "joins_its_threads": (
        "import atexit, threading, time\natexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "print('main', end=' ')\n"
    ),
    "fails_in_a_thread": "import threading\nthreading.Thread(target=lambda: 1 / 0, name='t').start()\n",
    "has_a_hook": (
        "import sys, traceback\n"
        "sys.excepthook = lambda kind, error, trace: print(kind, traceback.format_tb(trace))\n1 / 0\n"
    ),
    "has_a_broken_hook": "import sys\ndef hook(*_): raise OSError('hook')\nsys.excepthook = hook\n1 / 0\n",
    "has_no_hook": "import sys\ndel sys.excepthook\n1 / 0\n",
    "starts_what_is_not_there": "import subprocess\nsubprocess.run(['/nothing/there'])\n",
    "becomes_what_is_not_there": "import os\nos.execv('/nothing/there', ['x'])\n",
    "warns": "import warnings\nwarnings.warn('careful')\n",
    "pickles_its_own_class": (
        "import pickle\nclass Own: pass\nprint(type(pickle.loads(pickle.dumps(Own()))) is Own, Own)\n"
    ),
    "starts_workers": (
        "import multiprocessing\nclass Own: pass\n"
        "def work(own): print(type(own).__name__, type(own).__module__, flush=True)\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn', 'forkserver'):\n"
        "        process = multiprocessing.get_context(method).Process(target=work, args=(Own(),))\n"
        "        process.start(); process.join(); print(method, process.exitcode, flush=True)\n"
    ),
}


PROCESS = """
import multiprocessing
if __name__ == "__main__":
    process = multiprocessing.get_context("{method}").Process()
    process.start()
    process.join()
"""


def write(folder: Path, name: str, source: str | bytes) -> None:
    (folder / f"{name}.py").write_bytes(source if isinstance(source, bytes) else source.encode())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_cannot_tell_the_difference(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, SCRIPTS[name])

    plain = run(tmp_path, f"{name}.py", "--lr", "0.1")
    ours = run(tmp_path, RANK, f"{name}.py", "--lr", "0.1", BIREME_REPORT=str(tmp_path / "report"))

    assert ours == plain


def test_a_script_that_aborts_ends_as_it_would_and_leaves_its_stack(tmp_path: Path) -> None:
    write(tmp_path, "aborts", "import os\nos.abort()\n")

    plain = run(tmp_path, "aborts.py")
    ours = run(tmp_path, RANK, "aborts.py")

    assert (ours.code, ours.out) == (plain.code, plain.out)
    assert ours.err.startswith("Fatal Python error: Aborted\n")
    assert 'aborts.py", line 2 in <module>' in ours.err


@pytest.mark.parametrize("name", ["facts", "fails", "does_not_parse", "exits_with_text", "starts_workers"])
def test_a_module_of_a_nested_package_cannot_tell_the_difference(tmp_path: Path, name: str) -> None:
    nested = tmp_path / "outer" / "inner"
    nested.mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").touch()
    (nested / "__init__.py").write_text("import sys; print(sys.argv)\n")
    write(nested, name, SCRIPTS[name])

    plain = run(tmp_path, "-m", f"outer.inner.{name}", "x")
    ours = run(tmp_path, RANK, "-m", f"outer.inner.{name}", "x")

    assert ours == plain


@pytest.mark.parametrize(
    "words",
    [
        *(
            ["absent.py"],
            ["-m", "absent"],
            ["-m", "package.absent"],
            ["package"],
            ["-m", "package"],
            ["app.zip"],
        ),
        *(["empty"], ["./package/../link.py"], ["-c", "print(1)"]),
    ],
    ids=" ".join,
)
def test_any_other_target_is_treated_as_python_treats_it(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(FACTS)
    (tmp_path / "package" / "real.py").write_text(FACTS)
    (tmp_path / "link.py").symlink_to("package/real.py")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", FACTS)

    assert run(tmp_path, RANK, *words) == run(tmp_path, *words)


def test_an_interrupt_ends_it_by_the_signal_after_its_exit_handlers(tmp_path: Path) -> None:
    write(
        tmp_path,
        "waits",
        "import atexit, signal\natexit.register(print, 'bye')\nprint('up', flush=True)\nsignal.pause()\n",
    )
    with subprocess.Popen(
        [sys.executable, RANK, "waits.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        process.send_signal(signal.SIGINT)

        assert process.stdout.read() == b"bye\n"
    assert process.returncode == -signal.SIGINT


def test_modules_beside_the_script_come_before_the_standard_library(tmp_path: Path) -> None:
    for name in ("json", "typing", "traceback", "contextlib"):
        write(tmp_path, name, "WHO = 'mine'\n")
    write(
        tmp_path,
        "train",
        "import json, typing, traceback, contextlib\nprint(json.WHO, typing.WHO, contextlib.WHO)\n",
    )

    ended = run(tmp_path, RANK, "train.py", BIREME_REPORT=str(tmp_path / "report"))

    assert ended == Ended(0, "mine mine mine\n", "")
    assert json.loads((tmp_path / "report").read_text())["error"] is None


def test_an_uncaught_error_is_reported_with_the_users_traceback(tmp_path: Path) -> None:
    write(tmp_path, "fails", FAILS)

    error = report(tmp_path, "fails.py")["error"]

    assert error["type"] == "ValueError"
    assert error["message"] == "no such variable: \u2603"
    assert error["traceback"] == run(tmp_path, "fails.py", PYTHONIOENCODING="utf-8").err
    assert error["time"] > 0


@pytest.mark.parametrize(("code", "type"), [("'text'", "SystemExit"), ("2", "SystemExit"), ("0", None)])
def test_an_exit_is_an_error_unless_it_is_0(tmp_path: Path, code: str, type: str | None) -> None:
    write(tmp_path, "ends", f"raise SystemExit({code})")

    assert (report(tmp_path, "ends.py")["error"] or {}).get("type") == type


@pytest.mark.parametrize(("source", "type"), [("def (", "SyntaxError"), (None, "FileNotFoundError")])
def test_a_script_that_cannot_be_loaded_is_an_error_too(
    tmp_path: Path, source: str | None, type: str
) -> None:
    if source is not None:
        write(tmp_path, "train", source)

    assert report(tmp_path, "train.py")["error"]["type"] == type


def test_the_error_is_there_although_an_exit_handler_hangs(tmp_path: Path) -> None:
    write(
        tmp_path,
        "hangs",
        "import atexit, signal\natexit.register(lambda: (print('in', flush=True), signal.pause()))\n1 / 0\n",
    )
    path = tmp_path / "report"
    with subprocess.Popen(
        [sys.executable, RANK, "hangs.py"],
        cwd=tmp_path,
        env={**os.environ, "BIREME_REPORT": str(path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert json.loads(path.read_text())["error"]["type"] == "ZeroDivisionError"
        process.kill()


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ("import os; os.environ['PATH']; list(os.environ)", False),
        ("import os; os.environ['RANK'] = '1'", False),
        ("import os; os.getenv('RANK')", True),
        ("import os; os.environ.get('TF_CONFIG')", True),
        ("import os; 'LOCAL_RANK' in os.environ", True),
        ("import os; os.environb.get(b'WORLD_SIZE')", True),
        ("import os; os.environ.copy()", True),
        ("import os; {**os.environ}", True),
        ("import subprocess; subprocess.run(['true'])", True),
        ("__import__('sub' + 'process').run(['true'])", True),
        ("import os; os.system('true')", True),
        (PROCESS.format(method="spawn"), True),
        (PROCESS.format(method="fork"), False),
    ],
)
def test_it_is_noticed_whether_the_script_asked_for_its_rank(tmp_path: Path, source: str, read: bool) -> None:
    write(tmp_path, "train", source)

    assert report(tmp_path, "train.py", RANK="0", WORLD_SIZE="2", LOCAL_RANK="0")["read_rank"] is read


def test_what_a_third_party_module_reads_as_it_is_imported_does_not_count(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    write(site, "copies", "import os, subprocess\nseen = dict(os.environ)\nsubprocess.run(['true'])\n")
    write(site, "renames", "import sys\nsys.modules['a_part_of_it'] = sys.modules[__name__]\n")
    write(tmp_path, "train", "import copies, renames, os\nos.environ['PATH']\n")

    told = report(tmp_path, "train.py", RANK="0", PYTHONPATH=str(site))

    assert told["read_rank"] is False
    assert told["modules"] == ["copies", "renames"]
    assert told["files"] == [str(tmp_path / "train.py")]
    assert told["warm"] is False


def test_a_missing_variable_is_complained_about_without_our_frames(tmp_path: Path) -> None:
    write(tmp_path, "train", "import os\nos.environ['RANK']\n")

    assert run(tmp_path, RANK, "train.py", BIREME_REPORT=str(tmp_path / "report")) == run(
        tmp_path, "train.py"
    )


def test_a_forked_child_of_the_script_does_not_write_the_report(tmp_path: Path) -> None:
    write(tmp_path, "forks", "import os\nif os.fork():\n    os.wait()\nelse:\n    raise SystemExit(5)\n")

    assert report(tmp_path, "forks.py")["error"] is None


def test_bireme_can_be_imported_from_the_archive_after_everything_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "runtime.zip", "w") as archive:
        archive.writestr("bireme/__init__.py", "WHERE = 'archive'\n")
        archive.writestr("json.py", "raise ImportError('the standard library comes first')\n")
    write(tmp_path, "train", "import json, sys, bireme\nprint(bireme.WHERE, sys.path[-1])\n")

    ended = run(tmp_path, "-S", RANK, "train.py", BIREME_RUNTIME_ZIP=str(tmp_path / "runtime.zip"))

    assert ended == Ended(0, f"archive {tmp_path / 'runtime.zip'}\n", "")


def test_without_an_archive_only_bireme_is_offered_and_not_its_neighbours(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "bireme"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("WHERE = 'folder'\n")
    (tmp_path / "site-packages" / "neighbour.py").touch()
    (package / "runtime").symlink_to(RUNTIME)
    write(tmp_path, "train", "import bireme\nprint(bireme.WHERE)\nimport neighbour\n")

    ended = run(tmp_path, "-S", str(package / "runtime" / "start_rank.py"), "train.py")

    assert ended.out == "folder\n"
    assert ended.err.endswith("ModuleNotFoundError: No module named 'neighbour'\n")
