"""What a command line opens for sure is known before it runs, and nothing else is guessed."""

from __future__ import annotations

import shlex

import pytest

from bireme.core.scripts import command_lines


def _scripts(words: list[str]) -> list[str]:
    return [one.path for one in command_lines.opened(words) if one.use is command_lines.Use.SCRIPT]


@pytest.mark.parametrize(
    "line",
    [
        "python /a/t.py --lr 0.1",
        "/usr/bin/python3.8 -u -W ignore /a/t.py",
        "mpirun -np 2 --allow-run-as-root -bind-to none -x PATH -mca btl ^openib python /a/t.py",
        "mpirun --hostfile /etc/mpi/hostfile --mca plm_rsh_agent /etc/mpi/kubexec.sh python /a/t.py",
        "mpirun --some-new-option value -np 2 python -u /a/t.py",
        "mpiexec -n 1 hostname : -n 2 python /a/t.py",
        "horovodrun -np 2 -H localhost:2 --verbose python /a/t.py --epochs 3",
        "horovodrun --network-interfaces eth0 --min-np 1 python /a/t.py",
        "torchrun --nproc_per_node=2 --standalone /a/t.py",
        "torchrun --nproc-per-node 2 /a/t.py",
        "python -m torch.distributed.run --nnodes 2 /a/t.py",
        "env A=b python /a/t.py",
        "bash /a/t.py",
        "bash -ec 'set -x; cd /a && exec python t.py'",
        "sh -c 'export A=b\npip install numpy\npython \\\n  /a/t.py | tee log'",
        "bash -c 'mpirun -np 2 python /a/t.py > log 2>&1'",
        "bash -o pipefail -c 'A=b python /a/t.py'",
    ],
)
def test_the_script_is_found_behind_launchers_and_shells(line: str) -> None:
    assert _scripts(shlex.split(line)) == ["/a/t.py"]


@pytest.mark.parametrize(
    "line",
    [
        "python -c 'open(\"/a/t.py\")'",
        "python -m package /a/t.py",
        "python $(SCRIPT)",
        "mpirun --some-new-option /a/t.py",
        "torchrun -m package.train /a/t.py",
        "bash -c 'git clone somewhere /a && python /a/t.py'",
        "bash -c 'echo 1 > /a/t.py; python /a/t.py'",
        "bash -c 'test -f /a/t.py || exit 0; python /a/t.py'",
        "bash -c 'for x in 1 2; do python /a/t.py; done'",
        "bash -c 'cd $HOME && python t.py'",
        "bash -c 'python \"$SCRIPT\"'",
        "bash -c 'pip install -t /a t && python /a/t.py'",
        "bash -c 'false || python /a/t.py'",
        "bash -c 'python /a/t.py || python ./y.py'",
        "bash -c 'cd /a && python /a/t.py && echo done || python ./y.py'",
        "bash -c 'an open \"quotation'",
        "mpirun -np 2 --wdir /b python t.py",
        "my-launcher --flag python /a/t.py",
        "",
    ],
)
def test_what_cannot_be_known_is_not_guessed(line: str) -> None:
    assert _scripts(shlex.split(line)) == []


def test_programs_are_named_too_and_only_the_first_is_looked_up_by_the_place() -> None:
    found = command_lines.opened(["mpirun", "-np", "2", "/opt/tool"])

    assert [(one.path, one.is_first) for one in found] == [("mpirun", True), ("/opt/tool", False)]
