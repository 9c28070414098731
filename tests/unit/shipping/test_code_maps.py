"""A folder becomes ConfigMaps, and out of them a program that runs as it would have run here."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bireme import errors
from bireme.backends.kubernetes.observe import termination_log
from bireme.backends.kubernetes.submit import code_maps, code_mounts, script_folder
from bireme.backends.kubernetes.submit.code_maps import PART, Parcel
from bireme.core.restarts import permanent_errors

MANIFEST: dict[str, Any] = {
    "kind": "PyTorchJob",
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {
                "replicas": 1,
                "template": {
                    "spec": {
                        "containers": [{"name": "pytorch", "command": ["python", "train.py", "--lr", "1"]}]
                    }
                },
            }
        }
    },
}


def _parcel(folder: Path, script: str = "train.py") -> Parcel:
    return code_maps.packed(script_folder.of_script(script, folder))


def _mounted(parcel: Parcel, target: Path) -> Path:
    """The ConfigMaps as a projected volume shows them."""
    target.mkdir()
    for one in parcel.maps:
        data: Any = one["binaryData"]
        for name, value in data.items():
            (target / name).write_bytes(base64.b64decode(value))
    return target


def _run(parcel: Parcel, tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Starts what a container would start, with our paths in place of its mounts."""
    return _start(_command(parcel, *words), _mounted(parcel, tmp_path / "parts"), tmp_path / "work", **env)


def _command(parcel: Parcel, *words: str) -> list[str]:
    """What a container is told to run for the code of a parcel."""
    template = {"spec": {"containers": [{"name": "pytorch", "command": list(words)}]}}
    manifest = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": template}}}}
    (container,) = code_mounts.containers(code_mounts.with_code(manifest, parcel))
    found: list[str] = container["command"]
    return found


def _start(words: list[str], parts: Path, work: Path, **env: str) -> subprocess.CompletedProcess[str]:
    work.mkdir()
    command = [
        word.replace(code_mounts.PARTS, str(parts)).replace(code_mounts.WORK, str(work)) for word in words
    ]
    return subprocess.run(
        command,
        env={"PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_same_files_make_the_same_parcel(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text("print(1)")
    os.utime(tmp_path / "one" / "train.py", (1, 1))

    first, second = _parcel(tmp_path / "one"), _parcel(tmp_path / "two")

    assert first.names == second.names
    assert first.maps == second.maps
    (tmp_path / "two" / "train.py").write_text("print(2)")
    assert _parcel(tmp_path / "two").names != first.names


def test_a_large_folder_is_split_and_comes_out_whole(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    noise = random.Random(0).randbytes(3 * PART)
    (code / "weights.bin").write_bytes(noise)
    (code / "train.py").write_text(
        "import hashlib; print(hashlib.sha256(open('weights.bin', 'rb').read()).hexdigest())"
    )

    parcel = _parcel(code)
    ended = _run(parcel, tmp_path, "python", "train.py")

    sizes = [sum(len(base64.b64decode(value)) for value in _data(one).values()) for one in parcel.maps]
    assert len(sizes) == 4
    assert max(sizes) <= PART
    assert ended.stdout.strip() == hashlib.sha256(noise).hexdigest(), ended.stderr


def test_a_folder_that_is_too_large_is_refused_with_its_largest_files(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.bin").write_bytes(random.Random(0).randbytes(9_000_000))

    with pytest.raises(errors.BadInput) as refused:
        _parcel(tmp_path)

    assert "data/train.bin (8.58 MiB)" in str(refused.value)
    assert "echo 'data/' >> " in refused.value.hint


def test_a_script_finds_its_neighbours_its_arguments_and_bireme(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "src").mkdir(parents=True)
    (code / "src" / "helper.py").write_text("NAME = 'helper'")
    (code / "src" / "train.py").write_text(
        "import os, sys, bireme, helper\n"
        "print(helper.NAME, sys.argv, os.path.exists('src/helper.py'), bireme.__file__)"
    )

    ended = _run(_parcel(code, "src/train.py"), tmp_path, "python", "src/train.py", "--lr", "0.1")

    assert ended.stdout.startswith("helper ['src/train.py', '--lr', '0.1'] True"), ended.stderr
    assert "runtime.zip" in ended.stdout


def test_a_module_is_run_as_one(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "pkg").mkdir(parents=True)
    (code / "pkg" / "train.py").write_text("print(__name__, __package__)")
    parcel = code_maps.packed(script_folder.of_module("pkg.train", code))

    ended = _run(parcel, tmp_path, "python", "-m", "pkg.train")

    assert ended.stdout == "__main__ pkg\n", ended.stderr


def test_an_error_is_told_in_the_termination_log_as_a_person_reads_it(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("def f():\n    raise ValueError('no such file')\nf()\n")
    log = tmp_path / "termination-log"
    log.touch()

    ended = _run(_parcel(code), tmp_path, "python", "train.py", BIREME_LAST_WORDS=str(log))

    assert ended.returncode == 1
    assert ended.stderr.endswith("ValueError: no such file\n")
    report = termination_log.report(log.read_text())
    assert report is not None
    assert report.error is not None
    assert (report.error.type, report.error.message) == ("ValueError", "no such file")
    assert "in f" in report.error.traceback
    assert report.error.time > 1e9


def test_work_that_is_on_no_disk_is_told_in_the_termination_log(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "taken").touch()
    save = 'import bireme\nwith bireme.init(checkpoints="taken") as run:\n    run.save_now(7, x=1)\n'
    (code / "train.py").write_text(save)
    log = tmp_path / "termination-log"
    log.touch()

    ended = _run(_parcel(code), tmp_path, "python", "train.py", BIREME_LAST_WORDS=str(log))

    assert ended.returncode == 0
    report = termination_log.report(log.read_text())
    assert report is not None
    assert report.error is None
    assert report.lost.startswith("saved no checkpoint: the save of step 7 failed: ")


FAR = """
import bireme
import os
with bireme.init(every=1, checkpoints="ck") as run:
    for step in range(3):
        run.report(step, loss=1.0)
        run.save(step, weights=[1.0])
    run._checkpoints.wait()
    if os.environ["HOW"] == "kill":
        os.kill(os.getpid(), 9)
    raise KeyError("label")
"""


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_the_last_words_tell_how_far_the_script_had_come(tmp_path: Path, how: str) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(FAR)
    log = tmp_path / "termination-log"
    log.touch()

    _run(_parcel(code), tmp_path, "python", "train.py", BIREME_LAST_WORDS=str(log), HOW=how)

    told = termination_log.told(log.read_text())
    if how == "kill":
        assert (told.type, told.step, told.saved) == ("", 2, 2)
    else:
        assert (told.line, told.step, told.saved) == ("KeyError: 'label'", 2, 2)
        assert told.place.endswith("train.py:11")
    assert termination_log.without(log.read_text()).startswith("Traceback" if how == "raise" else "")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import argparse; argparse.ArgumentParser().parse_args()", "unrecognized arguments: --bogus"),
        ("x = (", "SyntaxError: '(' was never closed"),
    ],
)
def test_the_last_words_of_what_cannot_change_say_so(tmp_path: Path, script: str, said: str) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(script)
    log = tmp_path / "termination-log"
    log.touch()

    _run(_parcel(code), tmp_path, "python", "train.py", "--bogus", BIREME_LAST_WORDS=str(log))

    told = termination_log.told(log.read_text())
    assert permanent_errors.is_unchanging(told), log.read_text()
    assert told.line == said


def test_a_long_traceback_keeps_its_end(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("def f(n):\n    g(n)\ndef g(n):\n    f(n - 1) if n else 1 / 0\nf(200)\n")
    log = tmp_path / "termination-log"
    log.touch()

    _run(_parcel(code), tmp_path, "python", "train.py", BIREME_LAST_WORDS=str(log))

    assert len(log.read_bytes()) < 4096
    report = termination_log.report(log.read_text())
    assert report is not None
    assert report.error is not None
    assert report.error.line == "ZeroDivisionError: division by zero"


def test_requirements_are_installed_before_the_script_and_said(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    _write_wheel(code / "tiny-1-py3-none-any.whl")
    (code / "requirements.txt").write_text("--no-index\n./tiny-1-py3-none-any.whl\n")
    (code / "train.py").write_text("import tiny; print(tiny.ANSWER)")
    parcel = _parcel(code)

    ended = _run(parcel, tmp_path, "python", "train.py", BIREME_REQUIREMENTS=parcel.requirements)

    assert ended.stdout == "42\n", ended.stderr
    assert "bireme: installing requirements.txt" in ended.stderr


def test_requirements_that_cannot_be_installed_end_the_start_with_a_sentence(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "requirements.txt").write_text("--no-index\nthere-is-no-such-package\n")
    (code / "train.py").write_text("print('never')")

    ended = _run(_parcel(code), tmp_path, "python", "train.py", BIREME_REQUIREMENTS="requirements.txt")

    assert (ended.returncode, ended.stdout) == (126, "")
    assert "bireme: requirements.txt could not be installed" in ended.stderr


def test_code_that_was_tampered_with_is_not_run(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('never')")
    parcel = _parcel(code)
    _data(parcel.maps[0])["code.000"] = base64.b64encode(b"else").decode()

    ended = _run(parcel, tmp_path, "python", "train.py")

    assert (ended.returncode, ended.stdout) == (126, "")


def test_code_that_somebody_else_put_under_our_name_is_not_run(tmp_path: Path) -> None:
    """The map is whole and fits its own checksum: it was made by who knew its name beforehand."""
    parcels = {}
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(f"print({name!r})")
        parcels[name] = _parcel(tmp_path / name)
    parts = _mounted(parcels["theirs"], tmp_path / "parts")

    ended = _start(_command(parcels["ours"], "python", "train.py"), parts, tmp_path / "work")

    assert (ended.returncode, ended.stdout) == (126, "")
    assert "not what was sent" in ended.stderr


@pytest.mark.parametrize("name", ["unpack.py", "runtime.zip", "hashlib.py", "code.999"])
def test_nothing_of_a_map_is_run_before_all_of_it_was_compared(tmp_path: Path, name: str) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('never')")
    parcel = _parcel(code)
    parts = _mounted(parcel, tmp_path / "parts")
    (parts / name).write_text("print('owned'); raise SystemExit(0)")

    ended = _start(_command(parcel, "python", "train.py"), parts, tmp_path / "work")

    assert (ended.returncode, ended.stdout) == (126, "")
    assert not (tmp_path / "work" / "code").exists()


def test_a_volume_that_changes_while_the_script_runs_changes_nothing(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("import bireme; print(bireme.__file__)")
    parcel = _parcel(code)

    ended = _run(parcel, tmp_path, "python", "train.py")

    assert str(tmp_path / "work") in ended.stdout
    assert str(tmp_path / "parts") not in ended.stdout


def test_a_file_of_the_images_folder_is_not_taken_for_one_of_pythons(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('fine')")
    parcel = _parcel(code)
    parts = _mounted(parcel, tmp_path / "parts")
    (tmp_path / "tarfile.py").write_text("print('another module')")
    command = ["sh", "-c", 'cd "$0" && exec "$@"', str(tmp_path), *_command(parcel, "python", "train.py")]

    ended = _start(command, parts, tmp_path / "work")

    assert ended.stdout == "fine\n", ended.stderr


def test_a_manifest_mounts_the_code_and_starts_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    parcel = _parcel(tmp_path)

    changed = code_mounts.with_code(MANIFEST, parcel)

    spec = changed["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"] == [
        "sh",
        "-c",
        code_mounts.BOOT,
        "python",
        parcel.sum,
        "train.py",
        "--lr",
        "1",
    ]
    assert {one["name"]: one["mountPath"] for one in container["volumeMounts"]} == {
        "bireme-parts": "/bireme/parts",
        "bireme-work": "/bireme/work",
    }
    assert [one["configMap"]["name"] for one in spec["volumes"][0]["projected"]["sources"]] == list(
        parcel.names
    )
    assert code_mounts.unbooted(container["command"]) == ("python", "train.py", "--lr", "1")
    assert MANIFEST["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"].keys() == {"containers"}


@pytest.mark.parametrize("words", [("bash", "run.sh"), ("./run.sh",)])
def test_a_script_that_is_not_python_runs_among_its_files(tmp_path: Path, words: tuple[str, ...]) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("import sys; print('trained', *sys.argv[1:])")
    (folder / "run.sh").write_text("#!/bin/bash\nexec python train.py $# python")
    (folder / "run.sh").chmod(0o755)

    done = _run(_parcel(folder, "run.sh"), tmp_path, *words, "a", "python")

    assert (done.returncode, done.stdout) == (0, "trained 2 python\n"), done.stderr


def test_the_command_of_a_program_is_shown_as_it_was_given() -> None:
    found = code_mounts.booted(["mpirun", "-np", "2", "bash", "run.sh"], "sha256:1a", lambda word: word)

    assert code_mounts.unbooted(found) == ("mpirun", "-np", "2", "bash", "run.sh")
    assert code_mounts.booted([], "sha256:1a") == []


def test_mpirun_starts_the_script_by_way_of_the_unpacking() -> None:
    found = code_mounts.booted(["mpirun", "-np", "2", "python", "train.py"], "sha256:1a")

    assert found == ["mpirun", "-np", "2", "sh", "-c", code_mounts.BOOT, "python", "sha256:1a", "train.py"]
    assert code_mounts.unbooted(found) == ("mpirun", "-np", "2", "python", "train.py")


def _data(config_map: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = config_map["binaryData"]
    return found


def _write_wheel(path: Path) -> None:
    info = "tiny-1.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "ANSWER = 42")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_every_rank_knows_its_run_and_its_attempt() -> None:
    changed = code_mounts.with_run(MANIFEST, "train-1a2b")

    variables = [one["env"] for one in code_mounts.containers(changed)]
    attempt = {"fieldRef": {"fieldPath": "metadata.labels['bireme.io/attempt']"}}
    assert variables
    for each in variables:
        assert {"name": "BIREME_RUN", "value": "train-1a2b/"} in each
        assert {"name": "BIREME_ATTEMPT", "valueFrom": attempt} in each
        assert {"name": "BIREME_ECHO", "value": "1"} in each


def test_who_does_not_want_reports_in_the_log_says_so() -> None:
    quiet = code_mounts.with_variables(MANIFEST, {"BIREME_ECHO": "0"})

    changed = code_mounts.with_run(quiet, "train-1a2b")

    for one in code_mounts.containers(changed):
        assert [each["value"] for each in one["env"] if each["name"] == "BIREME_ECHO"] == ["0"]


def test_a_job_that_was_read_from_a_cluster_keeps_the_names_of_its_code() -> None:
    sources = [{"configMap": {"name": "code-1a"}}, {"secret": {"name": "mine"}}]
    volumes = [
        {"name": "bireme-parts", "projected": {"sources": sources}},
        {"name": "bireme-parts", "emptyDir": {}},
    ]
    dumped = {"kind": "Job", "spec": {"template": {"spec": {"volumes": volumes}}}}

    assert code_mounts.with_maps(dumped, {}) == dumped
    (template,) = code_mounts.templates(code_mounts.with_maps(dumped, {"code-1a": "code-2b"}))
    assert template["spec"]["volumes"][0]["projected"]["sources"][0] == {"configMap": {"name": "code-2b"}}
