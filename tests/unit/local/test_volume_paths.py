"""No name of a manifest leads out of the folder that it is joined to, even where nobody checked it before."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.backends.local.processes import NotStarted
from bireme.backends.local.programs import Allocation, RunEnvironment, compose
from bireme.model.decisions import Start
from bireme.model.pods import Container, EmptyDir, Mount, PodSpec, RefFiles, RefKind, Volume, VolumeClaim

OUTSIDE = ["../x", "../../x", "/etc", "a/../../x", ".."]


def composed(folder: Path, volume: Volume, sub_path: str = "") -> None:
    container = Container("main", command=("true",), mounts=(Mount(volume.name, "/data", sub_path=sub_path),))
    pod = PodSpec((container,), volumes=(volume,))
    start = Start("job-worker-0", "worker", 0, 0, pod, False, main="main")
    references = {(RefKind.CONFIG_MAP, "settings"): {"../../out": "bad", "good": "1"}}
    site = RunEnvironment(
        "job", "default", folder / "run", str(folder), {}, "python", references, folder / "claims"
    )
    compose(site, Allocation(start, "uid"), container, ())


def refused(folder: Path, volume: Volume, sub_path: str = "") -> None:
    (folder / "home" / "run").mkdir(parents=True)
    before = sorted(folder.rglob("*"))

    with pytest.raises(NotStarted, match="leads out of"):
        composed(folder / "home", volume, sub_path)

    outside = [one for one in sorted(folder.rglob("*")) if "home" not in one.parts]
    assert outside == [one for one in before if "home" not in one.parts]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_claim_name(tmp_path: Path, name: str) -> None:
    refused(tmp_path, Volume("v", VolumeClaim(name)))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_volume_name(tmp_path: Path, name: str) -> None:
    refused(tmp_path, Volume(name, EmptyDir()))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_sub_path(tmp_path: Path, name: str) -> None:
    refused(tmp_path, Volume("v", EmptyDir()), sub_path=name)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_path_of_an_item(tmp_path: Path, name: str) -> None:
    refused(tmp_path, Volume("v", RefFiles(RefKind.CONFIG_MAP, "settings", {"good": name})))


def test_a_key_of_a_config_map(tmp_path: Path) -> None:
    refused(tmp_path, Volume("v", RefFiles(RefKind.CONFIG_MAP, "settings")))


def test_a_sub_path_that_is_the_volume_itself_is_no_way_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()

    composed(tmp_path, Volume("data", VolumeClaim("data")), sub_path=".")

    assert (tmp_path / "claims" / "data").is_dir()
