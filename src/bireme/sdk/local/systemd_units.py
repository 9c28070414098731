"""Writes, describes and removes the unit of the user's systemd that resumes jobs after a reboot.

What a reboot ended is resumed by the next `bireme` command, and the unit is such a command. It is written
only where no other program has a file, and changed or removed only as it was written.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.runs import home as homes
from bireme.runs.storage import files

ROOT = Path("/")
_MARK = "# Written by `bireme doctor --install-unit`, sha256 of the rest: "
_PATIENCE = 10.0


class UnitPlan(Struct, frozen=True):
    """The unit that resumes the jobs of a home."""

    path: Path
    home: Path
    python: str

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def wanted(self) -> Path:
        """The link by which systemd starts the unit: what `systemctl --user enable` makes."""
        return self.path.parent / "default.target.wants" / self.name


class BootUnit(Struct, frozen=True):
    """The state of the unit that resumes the jobs of a home after a reboot."""

    systemd: bool
    """Whether systemd runs on this machine."""
    unit: str = ""
    """The file; empty if there is none."""
    lingers: bool = False
    """Whether the user's units are started at boot, and not only when the user logs in."""


def plan(home: Path, environ: Mapping[str, str], python: str = sys.executable) -> UnitPlan:
    """The unit of a home; each home has its own, the usual one the plain name. Pure."""
    usual = homes.place({name: value for name, value in environ.items() if name != homes.VARIABLE})
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    name = "bireme.service" if home == usual else f"bireme-{digest}.service"
    user = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    folder = config if config.is_absolute() else user / ".config"
    return UnitPlan(folder / "systemd" / "user" / name, home, python)


def text(plan: UnitPlan) -> str:
    """The unit as a file. Pure."""
    # A dollar sign begins a variable in a command, though not in `Environment=`.
    command = " ".join(_quoted(word).replace("$", "$$") for word in _words(plan))
    body = f"""\
[Unit]
Description=Resume the jobs of Bireme that a reboot ended
Documentation=man:systemd.service(5)

[Service]
Type=oneshot
RemainAfterExit=yes
# The runners that it starts are not part of the command, and must not end with it.
KillMode=process
# Limits of jobs are cgroups below that of the unit.
Delegate=yes
# Not the folder of a user: a file there may have the name of a module.
WorkingDirectory=/
Environment={_quoted(f"{homes.VARIABLE}={plan.home}")}
ExecStart={command}

[Install]
WantedBy=default.target
"""
    return f"{_MARK}{_digest(body)}\n{body}"


def examine(plan: UnitPlan, root: Path = ROOT) -> BootUnit:
    """Looks up what resumes the jobs of a home."""
    there = plan.path.is_file() and plan.wanted.is_symlink()
    return BootUnit(
        systemd=(root / "run/systemd/system").is_dir(),
        unit=str(plan.path) if there else "",
        lingers=(root / "var/lib/systemd/linger" / _user()).exists(),
    )


def install(plan: UnitPlan, root: Path = ROOT) -> BootUnit:
    """Writes the unit and has it started at each start of the user's systemd."""
    if not (root / "run/systemd/system").is_dir():
        words = f"{homes.VARIABLE}={shlex.quote(str(plan.home))} {shlex.join(_words(plan))}"
        line = "@reboot " + words.replace("%", "\\%")  # which ends a command in a crontab
        raise errors.BadInput(
            "systemd does not run on this machine, so nothing would start the unit",
            hint=f"where cron runs, `crontab -e` takes this line instead:\n  {line}",
        )
    _refuse_foreign(plan.path)
    with files.explained(plan.path):
        plan.wanted.parent.mkdir(parents=True, exist_ok=True)
        files.replace(plan.path, text(plan).encode())
        if not plan.wanted.is_symlink():
            plan.wanted.symlink_to(f"../{plan.name}")
    _reload()
    return examine(plan, root)


def remove(plan: UnitPlan) -> bool:
    """Removes the unit as it was written; returns whether there was one."""
    there = os.path.lexists(plan.path)
    if there:
        _refuse_foreign(plan.path)
    with files.explained(plan.path):
        if plan.wanted.is_symlink() and os.readlink(plan.wanted) == f"../{plan.name}":
            plan.wanted.unlink()
        plan.path.unlink(missing_ok=True)
    if there:
        _reload()
    return there


def _refuse_foreign(path: Path) -> None:
    if not os.path.lexists(path):
        return
    with files.explained(path):
        content = "" if path.is_symlink() or not path.is_file() else path.read_text(errors="replace")
    first, _, rest = content.partition("\n")
    if not first.startswith(_MARK):
        raise errors.BadInput("Bireme did not write this unit", where=str(path), hint="move it away first")
    if first.removeprefix(_MARK) != _digest(rest):
        hint = f"move it away first; what you add belongs into {path}.d/local.conf"
        raise errors.BadInput("this unit was edited after Bireme wrote it", where=str(path), hint=hint)


def _reload() -> None:
    """Lets the user's systemd read its units anew; without one it reads them when it starts."""
    program = shutil.which("systemctl")
    if program is None:
        return
    try:
        subprocess.run(
            [program, "--user", "daemon-reload"], capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return


def _words(plan: UnitPlan) -> tuple[str, ...]:
    return (plan.python, "-P", "-m", "bireme.cli", "doctor", "--resume-only")


def _quoted(word: str) -> str:
    """A word as systemd reads it: percent signs begin a specifier, backslashes an escape."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped}"'


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
