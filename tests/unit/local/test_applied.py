"""A variable of the command line stands where the manifest has it, so that others can refer to it."""

from __future__ import annotations

from bireme.backends.kubernetes.submit import code_mounts
from bireme.backends.local.preflight import overrides
from bireme.core.replicas import container_env
from bireme.runs.run_files import Overrides
from tests.unit.manifest import samples

ENV = """
env:
- {name: A, value: "1"}
- {name: B, value: "$(A)/b"}
- {name: C, value: "$(NEW)/c"}
"""
FACTS = container_env.Facts(name="", namespace="", uid="", ip="", node="")


def test_env_does_not_break_variables_that_refer_to_the_one_it_replaces() -> None:
    job = samples.job_of(samples.with_container(ENV))

    changed = overrides.applied(job, Overrides(env={"A": "2", "NEW": "$(A)"}))

    values = container_env.environment(changed.roles[0].container, FACTS, {}, {})
    assert (values["A"], values["B"], values["C"]) == ("2", "2/b", "$(A)/c")


def test_env_does_not_break_them_in_a_cluster_either() -> None:
    (read,) = samples.reading(samples.with_container(ENV)).jobs

    changed = code_mounts.with_variables(read.manifest, {"A": "2", "NEW": "n"})

    (container,) = code_mounts.containers(changed)
    assert [one["name"] for one in container["env"]] == ["NEW", "A", "B", "C"]
    assert container["env"][1] == {"name": "A", "value": "2"}
