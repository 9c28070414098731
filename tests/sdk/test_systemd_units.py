"""The unit that resumes jobs after a reboot is right for systemd, and nobody else's file is touched."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk.local import systemd_units
from bireme.sdk.local.systemd_units import UnitPlan
from tests.cli.commands import Cli

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="systemd-analyze is not installed: apt-get install systemd",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine on which systemd runs."""
    (tmp_path / "root" / "run/systemd/system").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def plan(tmp_path: Path) -> UnitPlan:
    return systemd_units.plan(tmp_path / "home", {"HOME": str(tmp_path)})


def test_each_home_has_a_unit_of_its_own(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}

    usual = systemd_units.plan(tmp_path / ".local/share/bireme", environ)
    other = systemd_units.plan(tmp_path / "other", environ)
    elsewhere = systemd_units.plan(tmp_path / "other", {**environ, "XDG_CONFIG_HOME": "/etc/me"})

    assert usual.path == tmp_path / ".config/systemd/user/bireme.service"
    assert other.path.parent == usual.path.parent
    assert other.name.startswith("bireme-")
    assert elsewhere.path.parent == Path("/etc/me/systemd/user")


def test_it_is_installed_and_removed(plan: UnitPlan, root: Path) -> None:
    made = systemd_units.install(plan, root)
    again = systemd_units.install(plan, root)
    (root / "var/lib/systemd/linger").mkdir(parents=True)
    (root / "var/lib/systemd/linger" / systemd_units._user()).touch()

    assert (made.unit, again.unit, made.lingers) == (str(plan.path), str(plan.path), False)
    assert systemd_units.examine(plan, root).lingers
    assert plan.wanted.resolve() == plan.path
    assert systemd_units.remove(plan)
    assert not systemd_units.remove(plan)
    assert [one for one in plan.path.parent.rglob("*") if not one.is_dir()] == []


@pytest.mark.parametrize("what", ["other", "edited", "link"])
def test_a_unit_that_bireme_did_not_write_so_is_left_alone(plan: UnitPlan, root: Path, what: str) -> None:
    systemd_units.install(plan, root)
    if what == "link":
        plan.path.unlink()
        plan.path.symlink_to("/dev/null")  # masked by `systemctl mask`
    elif what == "other":
        plan.path.write_text("[Service]\nExecStart=/bin/true\n")
    else:
        plan.path.write_text(plan.path.read_text().replace("oneshot", "simple"))
    before = plan.path.read_bytes()

    for change in (lambda: systemd_units.install(plan, root), lambda: systemd_units.remove(plan)):
        with pytest.raises(errors.BadInput, match=r"write this unit|was edited"):
            change()

    assert plan.path.read_bytes() == before
    assert plan.wanted.is_symlink()


def test_without_systemd_nothing_is_written_and_cron_is_named(plan: UnitPlan, tmp_path: Path) -> None:
    with pytest.raises(errors.BadInput) as caught:
        systemd_units.install(plan, tmp_path / "bare")

    assert f"@reboot BIREME_HOME={plan.home} {sys.executable} -P -m bireme.cli doctor" in caught.value.hint
    assert not plan.path.parent.exists()


@needs_systemd
@pytest.mark.parametrize("name", ["home", 'a "b" 100% $HOME \\x'])
def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path, root: Path, name: str) -> None:
    plan = systemd_units.plan(tmp_path / name, {"HOME": str(tmp_path)})
    systemd_units.install(plan, root)

    done = subprocess.run(
        ["systemd-analyze", "--user", "--man=no", "verify", str(plan.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )

    assert done.returncode == 0, done.stderr
    assert plan.name not in done.stderr, done.stderr


def test_its_command_is_one_that_the_command_line_takes(tmp_path: Path, plan: UnitPlan) -> None:
    words = next(line for line in systemd_units.text(plan).splitlines() if line.startswith("ExecStart="))

    done = subprocess.run(
        words.removeprefix("ExecStart=").replace('"', "").split(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"BIREME_HOME": str(plan.home), "PATH": "/usr/bin:/bin"},
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_command_line_offers_it(tmp_path: Path) -> None:
    cli = Cli(tmp_path / "home", tmp_path)

    shown = cli("doctor", "--remove-unit", HOME=str(tmp_path))

    assert (shown.status, shown.err) == (0, "there is no unit that resumes jobs at boot\n")
    assert "reboots" in cli("doctor", HOME=str(tmp_path)).out
