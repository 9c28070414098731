"""Writes `deploy/`: the same objects that `bireme install` applies, as files for kubectl and kustomize."""

from __future__ import annotations

from pathlib import Path

from tools.deploy.files import files

FOLDER = Path(__file__).resolve().parents[2] / "deploy"


def main() -> None:
    wanted = files()
    for path in FOLDER.rglob("*.yaml"):
        if str(path.relative_to(FOLDER)) not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
