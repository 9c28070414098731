"""Does an example that saves its work go on after a rank was killed, and end with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.model.status import Phase
from tests.examples.test_examples import EXAMPLES, EXPECTED, is_there
from tests.local.harness import Bireme, bireme_in, kill, until

RESUMING = [manifest for manifest in EXPECTED if "-resume/" in manifest]


@pytest.fixture(scope="module")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """One home for all, so that what a first run imported is warm for the next."""
    with bireme_in(tmp_path_factory.mktemp("resuming")) as command:
        yield command


@pytest.mark.frameworks
@pytest.mark.timeout(600)
@pytest.mark.parametrize("manifest", RESUMING)
def test_a_killed_example_goes_on_and_ends_with_the_same_numbers(bireme: Bireme, manifest: str) -> None:
    need, says = EXPECTED[manifest]
    if not is_there(need):
        pytest.skip(f"{need} is not installed on this machine; `make frameworks` installs it")
    file, name = str(EXAMPLES / manifest), Path(manifest).parent.name

    undisturbed = bireme("run", "-f", file)
    begun = bireme("run", "-f", file, "--detach")
    until(lambda: bool(checkpoints(bireme, name)), "the first checkpoint is there")
    kill(list(bireme.ranks(name).values())[-1])
    until(lambda: bireme.status(name).phase.is_final, "the job ends")
    logs = bireme("logs", name).stdout

    assert (undisturbed.returncode, begun.returncode) == (0, 0), undisturbed.stderr + begun.stderr
    assert (bireme.status(name).phase, bireme.status(name).attempt) == (Phase.SUCCEEDED, 1), logs[-3000:]
    assert re.search(r"continues after step \d+9, from step-0\d+", logs), logs[-3000:]
    assert results(logs, says) == results(undisturbed.stdout, says) != []
    assert bireme.leftovers() == []


def checkpoints(bireme: Bireme, name: str) -> list[Path]:
    """Those that are whole: in the making they have hidden names."""
    return list((bireme.run(name).path / "checkpoints").glob("step-*"))


def results(output: str, says: str) -> list[str]:
    """The lines with the final numbers, which have all digits."""
    return [line for line in output.splitlines() if re.search(says, line)]
