"""What a program imports is read from its source; what packages weigh and need, from their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.backends.local.warm import package_weights, preload_plan, script_imports
from bireme.core.machine.warm_starts import Needs


def read(folder: Path, source: str, **modules: str) -> Needs:
    (folder / "train.py").write_text(source)
    for name, text in modules.items():
        path = folder / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return script_imports.needs(["train.py"], str(folder), "")


@pytest.mark.parametrize(
    ("source", "certain", "possible"),
    [
        ("import torch.nn as nn, os, sys", {"torch"}, set()),
        ("from torch.utils.data import DataLoader", {"torch"}, set()),
        ("import json\nfrom . import x", set(), set()),
        ("def main():\n    import torch\n", set(), {"torch"}),
        ("class A:\n    import torch\n", {"torch"}, set()),
        ("if __name__ == '__main__':\n    import torch\n", {"torch"}, set()),
        ("import sys\nif len(sys.argv) > 1:\n    import tensorflow\n", set(), {"tensorflow"}),
        ("try:\n    import torch\nexcept ImportError:\n    import jax\n", {"torch"}, {"jax"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n", set(), set()),
        (
            "import typing\nif typing.TYPE_CHECKING:\n    import torch\nelse:\n    import jax\n",
            {"jax"},
            set(),
        ),
        ("import importlib\nimportlib.import_module('torch.nn')\n__import__('jax')", {"torch", "jax"}, set()),
        ("import torch\ndef f():\n    import torch\n", {"torch"}, set()),
        ("import torch\nthis is no Python", set(), set()),
        ("import torch\0", set(), set()),
        ("(" * 5000, set(), set()),
    ],
)
def test_what_a_source_imports(tmp_path: Path, source: str, certain: set[str], possible: set[str]) -> None:
    found = read(tmp_path, source)

    assert (set(found.certain), set(found.possible)) == (certain, possible)


def test_modules_of_the_users_own_are_read_as_well(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "from models.net import Net\nimport util\ndef late():\n    import other\n",
        models__in____init__="from . import data\n",
        models__in__net="from .data import x\nimport torch\n",
        models__in__data="import pandas\n",
        util="import train, yaml\n",
        other="import jax\n",
    )

    assert found == Needs(frozenset({"torch", "pandas", "yaml"}), frozenset({"jax"}))


def test_a_module_beside_the_script_is_not_the_package_of_that_name(tmp_path: Path) -> None:
    assert read(tmp_path, "import torch", torch="import math") == Needs()


def test_modules_and_folders_are_found_as_python_finds_them(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("")
    (tmp_path / "app" / "__main__.py").write_text("import torch")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "tool.py").write_text("import jax")
    torch, jax = Needs(frozenset({"torch"})), Needs(frozenset({"jax"}))

    assert script_imports.needs(("-m", "app"), str(tmp_path), "") == torch
    assert script_imports.needs(["-m", "app.__main__"], str(tmp_path), "") == torch
    assert script_imports.needs(["app", "--epochs", "3"], str(tmp_path), "") == torch
    assert script_imports.needs(["-m", "tool"], str(tmp_path), str(tmp_path / "lib")) == jax
    assert script_imports.needs(["-m", "nothing"], str(tmp_path), "") == Needs()
    assert script_imports.needs(["absent.py"], str(tmp_path), "") == Needs()


def package(site: Path, name: str, modules: int, requires: str = "") -> None:
    folder = site / name
    folder.mkdir(parents=True)
    for number in range(modules):
        (folder / f"m{number}.py").touch()
    (site / f"{name}-1.0.dist-info").mkdir()
    (site / f"{name}-1.0.dist-info" / "METADATA").write_text(
        f"Name: {name}\n{requires}\n\nRequires-Dist: body\n"
    )


def test_only_what_takes_long_is_preloaded_and_what_a_script_imports_itself(tmp_path: Path) -> None:
    for name, modules in (("torch", 300), ("sympy", 200), ("lightning", 150), ("tqdm", 20)):
        package(tmp_path, name, modules)
    sites = (str(tmp_path),)
    every = ("lightning", "numpy", "sympy", "torch", "torch.nn.parallel", "torch._inductor", "tqdm")

    both = preload_plan.plan(every, Needs(frozenset({"torch", "lightning", "tqdm", "numpy"})), sites)
    hidden = preload_plan.plan(every, Needs(frozenset({"wrapper"})), sites)

    assert [name for name in both if "." not in name] == ["torch", "lightning"]
    assert {"torch._dynamo", "torch._inductor"} < set(both)
    assert [name for name in hidden if "." not in name] == ["torch", "sympy", "lightning"]
    assert preload_plan.plan(("numpy", "yaml", "bireme"), Needs(frozenset({"numpy", "bireme"})), sites) == ()
    assert preload_plan.plan(("tqdm",), Needs(frozenset({"tqdm"})), sites) == ("tqdm",)


def test_what_a_package_needs_is_known_before_it_is_imported(tmp_path: Path) -> None:
    package(
        tmp_path, "lightning", 1, "Requires-Dist: torch<4.0,>=2.1\nRequires-Dist: rich>=1; extra == 'extra'"
    )
    package(tmp_path, "torch", 1, "Requires-Dist: typing-extensions (>=4)\nRequires-Dist: lightning")

    assert package_weights.required({"lightning"}, [str(tmp_path)]) == {
        "torch",
        "typing_extensions",
        "lightning",
    }
    assert package_weights.required({"absent"}, [str(tmp_path), "/no/such/folder"]) == frozenset()
