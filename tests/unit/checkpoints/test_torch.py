"""Are torch's modules, optimizers and tensors saved and restored bit for bit."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import keeping

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.frameworks

DTYPES = ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "float8_e4m3fn"]


def network(width: int = 8) -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    )


def trained(model: Any, optimizer: Any, scheduler: Any, steps: int) -> list[float]:
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        loss = model(torch.randn(16, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


def parts(kind: str = "AdamW") -> dict[str, Any]:
    model = network()
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 5])
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adafactor", "Adamax"])
def test_training_goes_on_bit_for_bit(tmp_path: Path, kind: str) -> None:
    undisturbed = parts(kind)
    trained(**undisturbed, steps=4)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(4, undisturbed, {}, {})
        losses = trained(**undisturbed, steps=4)

        resumed = parts(kind)
        assert checkpoints.restore(resumed) is not None

    assert trained(**resumed, steps=4) == losses
    for one, other in zip(undisturbed["model"].parameters(), resumed["model"].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", DTYPES)
def test_every_kind_of_number_comes_back_bit_for_bit(tmp_path: Path, name: str) -> None:
    dtype = getattr(torch, name)
    raw = torch.randint(0, 2 if name == "bool" else 256, (24, 16), dtype=torch.uint8)
    tensors = [raw.view(dtype), raw.view(dtype)[0, 0], raw[:0].view(dtype), raw.view(dtype).T]

    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": tensors}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    for one, back in zip(tensors, restored.values["x"], strict=True):
        assert (back.dtype, back.shape) == (one.dtype, one.shape)
        assert torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (one, back)))


@pytest.mark.parametrize("length", [8, 1 << 18])
def test_tensors_come_back_as_they_look_however_they_lie_in_memory(tmp_path: Path, length: int) -> None:
    wave = torch.randn(length, dtype=torch.complex64)
    tensors = [
        wave,
        wave.conj(),
        wave.conj().imag,
        wave.real,
        wave[::2],
        wave.expand(2, length),
        wave.flip(0),
    ]

    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": tensors}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    for one, back in zip(tensors, restored.values["x"], strict=True):
        assert torch.equal(one, back)


class Wrapper(torch.Tensor):  # type: ignore[misc]  # torch may be absent
    """A tensor without memory of its own, as libraries make them."""

    inner: Any

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        made: Any = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def bare(value: Any) -> Any:
            return value.inner if isinstance(value, cls) else value

        plain = [bare(one) for one in args]
        done = func(*plain, **{name: bare(one) for name, one in (kwargs or {}).items()})
        return cls(done) if func is torch.ops.aten.detach.default else done


@pytest.mark.parametrize("length", [8, 1 << 19])
def test_tensors_without_memory_of_their_own_are_copied_as_what_they_stand_for(
    tmp_path: Path, length: int
) -> None:
    tensors = [torch._efficientzerotensor(length), Wrapper(torch.ones(length)), Wrapper(torch.zeros(length))]

    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": tensors}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    assert [one.sum().item() for one in restored.values["x"]] == [0, length, 0]


def test_a_wrapped_module_fits_a_bare_one_and_back(tmp_path: Path) -> None:
    model, other = network(), network(8)
    with torch.no_grad():
        other[0].weight.zero_()
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": torch.nn.DataParallel(model)}, {}, {})
        checkpoints.restore({"model": other})
        assert torch.equal(other[0].weight, model[0].weight)

        checkpoints.save(2, {"model": torch.nn.DataParallel(model).state_dict()}, {}, {})
        torch.nn.init.zeros_(other[0].weight)
        checkpoints.restore({"model": other})
        assert torch.equal(other[0].weight, model[0].weight)

        compiled = torch.compile(network())
        torch.nn.init.zeros_(compiled.get_parameter("0.weight"))
        checkpoints.restore({"model": compiled})
        assert torch.equal(compiled.get_parameter("0.weight"), model[0].weight)


def test_another_model_is_refused_with_the_tensors_that_differ(tmp_path: Path) -> None:
    other = network(16)
    other.append(torch.nn.Linear(1, 1))
    before = copy.deepcopy(other.state_dict())
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": network(8)}, {}, {})

        with pytest.raises(Complaint) as raised:
            checkpoints.restore({"model": other})

    said = str(raised.value)
    assert "0.weight is 8x4 in the checkpoint and 16x4 here" in said
    assert "4.weight is not in the checkpoint" in said
    assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())


def test_a_long_list_of_differences_is_cut(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": torch.nn.Sequential()}, {}, {})

        many = torch.nn.Sequential(*(torch.nn.Linear(1, 1) for _ in range(10)))
        with pytest.raises(
            Complaint, match=r"3.bias is not in the checkpoint, and 12 more; nothing was restored"
        ):
            checkpoints.restore({"model": many})


def test_an_optimizer_of_other_parameters_is_refused_before_the_model_is_touched(tmp_path: Path) -> None:
    saved = parts()
    trained(**saved, steps=1)
    here = parts()
    here["optimizer"] = torch.optim.AdamW(here["model"][0].parameters())
    before = copy.deepcopy(here["model"].state_dict())
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, saved, {}, {})

        with pytest.raises(Complaint, match="groups have 6 parameters in the checkpoint and 2 here"):
            checkpoints.restore(here)
        narrow = torch.optim.AdamW(network(4).parameters())
        with pytest.raises(Complaint, match="exp_avg of parameter 0 is 8x4 in the checkpoint and 4x4 here"):
            checkpoints.restore({"optimizer": narrow})

    assert all(torch.equal(before[name], value) for name, value in here["model"].state_dict().items())


def test_a_layer_that_has_seen_no_batch_is_refused(tmp_path: Path) -> None:
    with (
        keeping(tmp_path) as checkpoints,
        pytest.raises(Complaint, match=r"model\['weight'\] has no shape yet"),
    ):
        checkpoints.save(1, {"model": torch.nn.LazyLinear(3)}, {}, {})


def test_a_layer_that_has_seen_no_batch_takes_what_was_saved(tmp_path: Path) -> None:
    saved, here = torch.nn.Linear(2, 3), torch.nn.LazyLinear(3)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": saved}, {}, {})
        checkpoints.restore({"model": here})

    assert torch.equal(here.weight, saved.weight)


def test_an_optimizer_of_another_kind_is_refused(tmp_path: Path) -> None:
    saved = parts()
    trained(**saved, steps=1)
    other = torch.optim.SGD(saved["model"].parameters(), lr=0.1, momentum=0.9)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, saved, {}, {})

        with pytest.raises(Complaint, match=r"another optimizer than was saved: .*betas.*momentum"):
            checkpoints.restore({"optimizer": other})


def test_tied_weights_are_written_once(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(500, 500, bias=False), torch.nn.Linear(500, 500, bias=False))
    model[1].weight = model[0].weight
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": model}, {}, {})
        checkpoints.wait()
        size = (tmp_path / "step-000000001" / "rank-0.bin").stat().st_size
        restored = checkpoints.restore({"model": model})

    assert size == 1_000_000
    assert restored is not None


def test_random_state_and_scaler_come_back(tmp_path: Path) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    generator = torch.Generator().manual_seed(3)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"scaler": scaler}, {"torch": generator.get_state()}, {})
        expected = torch.rand(3, generator=generator)
        other = torch.amp.GradScaler("cpu", init_scale=2.0)
        restored = checkpoints.restore({"scaler": other})

    assert restored is not None
    assert other.get_scale() == 8.0
    generator.set_state(restored.own["torch"])
    assert torch.equal(torch.rand(3, generator=generator), expected)


@pytest.mark.parametrize("value", [torch.zeros(3).to_sparse(), torch.zeros(3, device="meta")])
def test_tensors_that_are_not_plain_numbers_are_refused(tmp_path: Path, value: Any) -> None:
    with (
        keeping(tmp_path) as checkpoints,
        pytest.raises(Complaint, match=r"model\['w'\] is a Tensor of .* cannot"),
    ):
        checkpoints.save(1, {"model": {"w": value}}, {}, {})


def test_a_tensor_is_restored_in_place_whether_it_needs_a_gradient_or_not(tmp_path: Path) -> None:
    tensor = torch.ones(3, requires_grad=True)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": tensor}, {}, {})
        with torch.no_grad():
            tensor.zero_()
        restored = checkpoints.restore({"x": tensor})

    assert restored is not None
    assert tensor.tolist() == [1, 1, 1]


def test_restored_tensors_can_be_changed_and_used_in_another_process(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": {"w": torch.ones(3)}}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    tensor = restored.values["x"]["w"]
    tensor.add_(1)
    assert tensor.share_memory_().sum() == 6
