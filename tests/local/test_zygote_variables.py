"""A zygote serves a rank only if the variables that its modules read at import are the rank's as well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.runtime import linux
from tests.local.harness import Bireme, until
from tests.local.test_rank import write
from tests.local.zygotes import zygote

pytestmark = pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")

COPY = "import os, subprocess\nsubprocess.run(['true'], env={})\n"
READS = {
    "get": "import os\nSEEN = os.environ.get('SETTING')\n",
    "getenv": "import os\nSEEN = os.getenv('SETTING')\n",
    "bytes": "import os\nSEEN = (os.environb.get(b'SETTING') or b'').decode() or None\n",
    "in": "import os\nSEEN = 'SETTING' in os.environ or None\n",
    "setdefault": "import os\nSEEN = os.environ.setdefault('SETTING', 'none')\n",
    "name of the module": "import os\nSEEN = {k: v for k, v in os.environ.items() if k.startswith('LIB')}\n",
}


def site_packages(folder: Path, source: str) -> Path:
    library = folder / "site-packages"
    library.mkdir(exist_ok=True)
    write(library, "library", source)
    write(folder, "train", "import library\nprint(library.SEEN)\n")
    return library


@pytest.mark.parametrize("source", READS.values(), ids=READS)
def test_a_variable_that_a_module_read_at_import_is_not_ignored(tmp_path: Path, source: str) -> None:
    library = site_packages(tmp_path, source)
    plain = {**os.environ, "PYTHONPATH": str(library)}
    name = "LIBRARY_SETTING" if "LIB" in source else "SETTING"

    with zygote(tmp_path / "z", "library", env=plain) as started:
        runner = started.connect()
        _, other = same = runner.start(tmp_path, "train.py", env={**plain, "UNRELATED": "1"})
        assert runner.finish(same[0]) == 0
        rank, changed = runner.start(tmp_path, "train.py", env={**plain, name: "1"})
        printed = rank.out.read().decode()
        assert runner.finish(rank) == 0
        runner.close()

    assert other["warm"] is True
    assert (changed["warm"], changed["why"]) == (False, f"{name} differs from the zygote's")
    assert "1" in printed or "True" in printed


@pytest.mark.parametrize("copied", ["os.environ.copy()", "dict(os.environ)", "{**os.environ, 'A': '1'}"])
def test_a_copy_of_the_environment_for_a_program_makes_no_variable_count(tmp_path: Path, copied: str) -> None:
    library = site_packages(tmp_path, f"{COPY.format(copied)}SEEN = 1\n")
    plain = {**os.environ, "PYTHONPATH": str(library)}

    with zygote(tmp_path / "z", "library", env=plain) as started:
        runner = started.connect()
        rank, answer = runner.start(tmp_path, "train.py", env={**plain, "SETTING": "1"})
        assert runner.finish(rank) == 0
        runner.close()

    assert answer["warm"] is True, answer


def test_modules_keep_a_plain_environment_after_the_preload(tmp_path: Path) -> None:
    library = site_packages(tmp_path, "from os import environ\nSEEN = environ.get('SETTING')\n")
    look = "assert library.environ is os.environ\nprint(type(os.environ), type(os.environb))\n"
    write(tmp_path, "train", f"import library, os\n{look}")
    plain = {**os.environ, "PYTHONPATH": str(library)}

    with zygote(tmp_path / "z", "library", env=plain) as started:
        runner = started.connect()
        rank, answer = runner.start(tmp_path, "train.py", env=plain)
        printed = rank.out.read().decode()
        assert runner.finish(rank) == 0
        runner.close()

    assert answer["warm"] is True
    assert printed == "<class 'os._Environ'> <class 'os._Environ'>\n"


TQDM = """
import os, tqdm
bar = tqdm.tqdm(range(3), file=open(os.devnull, "w"))
print("disabled" if bar.disable else "enabled")
"""


def test_tqdm_disable_works_for_warm_ranks(bireme: Bireme) -> None:
    bireme.write("bars.py", TQDM)
    stable = ZygotePool(bireme.home)

    def printed(*options: str) -> str:
        done = bireme("run", "bars.py", "--name", "bars", *options)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()[0]

    assert printed() == "enabled"
    until(lambda: len(stable.living()) == 1, "a zygote is ready")
    assert printed() == "enabled"
    assert bireme.was_warm("bars") == [True]

    assert printed("--env", "TQDM_DISABLE=1") == "disabled"
    until(lambda: len(stable.living()) == 2, "a second zygote is ready")
    assert printed("--env", "TQDM_DISABLE=1") == "disabled"
    assert bireme.was_warm("bars") == [True]
    assert printed() == "enabled"
    assert bireme.was_warm("bars") == [True]
