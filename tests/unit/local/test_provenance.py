"""Is it told what became of the scripts of a run since it was submitted."""

from __future__ import annotations

from pathlib import Path

from bireme.backends.local.preflight import provenance
from bireme.runs.run_files import CodeRecord


def test_a_script_that_was_deleted_is_not_called_changed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("new")
    before = CodeRecord(files={str(tmp_path / "a.py"): "old", str(tmp_path / "b.py"): "old"})

    assert provenance.told(before) == f"{tmp_path / 'a.py'} changed since, {tmp_path / 'b.py'} is gone"
    assert provenance.told(CodeRecord()) == ""
