"""Makes `import bireme` work in an interpreter that does not have it: the runtime as one zip."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from bireme.runtime import wire

_RUNTIME = Path(wire.__file__).parent


def runtime_zip(home: Path) -> Path:
    """The zip that holds `bireme` as far as a script needs it; made once for each state of its files."""
    files = [_RUNTIME.parent / "__init__.py", *sorted(_RUNTIME.rglob("*.py"))]
    stamps = "".join(f"{path}{path.stat().st_mtime_ns}" for path in files)
    target = home / "runtime" / f"{hashlib.sha256(stamps.encode()).hexdigest()[:16]}.zip"
    if target.exists():
        return target
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    import zipfile  # here, because the archive is made once for a version

    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, Path("bireme") / path.relative_to(_RUNTIME.parent))
    fresh.replace(target)
    return target
