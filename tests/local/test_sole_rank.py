"""Is a sole rank to Lightning as under plain `python`, and to scripts for torchrun as under torchrun?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.model.status import Phase
from bireme.runtime import start_rank
from tests.local.harness import Bireme, until

TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "GROUP_RANK": "0",
    "ROLE_RANK": "0",
    "TORCHELASTIC_RUN_ID": "job",
    "TORCHELASTIC_RESTART_COUNT": "0",
}

SHOW = """
import os, subprocess
import {module} as asked

print(asked.was_launched())
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
print(*(os.environ.get(name, "-") for name in names), flush=True)
subprocess.run(["sh", "-c", "echo ${{RANK--}} ${{LOCAL_RANK--}} ${{TORCHELASTIC_RUN_ID--}}"], check=True)
"""
ASKING = "import os\ndef was_launched():\n    return os.environ.get('TORCHELASTIC_RUN_ID') is not None\n"


def ran(folder: Path, module: str, **more: str) -> list[str]:
    """What a script prints which has that module ask, as the only rank or as one of several."""
    (folder / f"{module}.py").write_text(ASKING)
    (folder / "train.py").write_text(SHOW.format(module=module))
    environ = {"PATH": os.environ["PATH"], "BIREME_REPORT": str(folder / "report"), **TORCHRUN, **more}
    words = [sys.executable, start_rank.__file__, "train.py"]
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("module", ["lightning", "pytorch_lightning", "lightning_fabric"])
def test_lightning_does_not_see_that_a_sole_rank_was_launched(tmp_path: Path, module: str) -> None:
    assert ran(tmp_path, module) == ["False", "- - - - -", "- - -"]


@pytest.mark.parametrize(
    ("module", "more"), [("mine", {}), ("lightning", {"WORLD_SIZE": "2"})], ids=["script", "two ranks"]
)
def test_everything_else_sees_what_torchrun_sets(tmp_path: Path, module: str, more: dict[str, str]) -> None:
    size = more.get("WORLD_SIZE", "1")

    assert ran(tmp_path, module, **more) == ["True", f"0 0 {size} job 0", "0 0 job"]


LIGHTNING = """
import os, pathlib, sys, time
import torch
import lightning
from torch.utils.data import DataLoader, TensorDataset

class Tiny(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        pathlib.Path(f"pid-{self.global_rank}").write_text(str(os.getpid()))
        while not os.path.exists("go on"):
            time.sleep(0.02)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=2, **off)
trainer.fit(Tiny(), DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4))
pathlib.Path(f"trained-{trainer.global_rank}").write_text(str(trainer.world_size))
"""


def _pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in sorted(folder.glob("pid-*")) if path.read_text()]


def _both_train(bireme: Bireme) -> list[int]:
    """Starts the script, and answers its processes once both are in their first step."""
    pytest.importorskip("lightning")
    bireme.write("train.py", LIGHTNING)
    words = ("run", "train.py", "--workers", "1", "--retries", "0", "--detach", "--name", "job")
    assert bireme(*words).returncode == 0
    until(lambda: len(_pids(bireme.folder)) == 2 or bireme.status("job").phase.is_final, "both train", 300)
    pids = _pids(bireme.folder)
    assert len(pids) == 2, bireme("logs", "job").stdout[-2000:]
    return pids


def _are_gone(pids: list[int]) -> bool:
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lightning_with_two_devices_trains_under_one_worker(bireme: Bireme) -> None:
    pids = _both_train(bireme)
    (bireme.folder / "go on").touch()
    until(lambda: bireme.status("job").phase.is_final, "the job ends", 120)

    assert bireme.status("job").phase is Phase.SUCCEEDED, bireme("logs", "job").stdout[-2000:]
    assert [(bireme.folder / f"trained-{rank}").read_text() for rank in (0, 1)] == ["2", "2"]
    until(lambda: _are_gone(pids), "no process is left")


@pytest.mark.frameworks
@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_process_that_lightning_has_started_ends_with_its_job(bireme: Bireme) -> None:
    pids = _both_train(bireme)

    bireme("stop", "job")

    until(lambda: _are_gone(pids), "no process is left")


FOR_TORCHRUN = """
import os
import torch, torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print("rank", int(os.environ["LOCAL_RANK"]), "of", dist.get_world_size(), total.item())
print("elastic", dist.is_torchelastic_launched())
dist.destroy_process_group()
"""


@pytest.mark.frameworks
def test_a_script_for_torchrun_runs_unchanged_under_one_worker(bireme: Bireme) -> None:
    bireme.write("train.py", FOR_TORCHRUN)

    done = bireme("run", "train.py", "--workers", "1")

    assert done.returncode == 0, done.stderr
    assert "rank 0 of 1 1.0\nelastic True\n" in done.stdout
