"""Turns arrays of numpy, torch and JAX into raw bytes, and back into what they were.

No framework is imported to find out what a value is: a script that holds a tensor has imported its library.
"""

from __future__ import annotations

import ctypes
import importlib
import mmap
import re
import sys
from functools import cache
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...script.complaints import Complaint
from ..storage import checkpoint_format, checkpoint_reader
from .plain_values import Node, Path, shown

Library = Any  # a framework's module, which the type checker must not need
Buffer = Any  # anything with the buffer protocol

_NUMPY_KINDS = "biufcmMSU"
# The others have several numbers in a byte, or scales beside their numbers.
_TORCH_DTYPES = re.compile(
    r"bool|u?int(8|16|32|64)|bfloat16|float(16|32|64)|complex(32|64|128)|float8_[a-z0-9]+"
)

_SHARED_FROM = 1 << 20
"""From so many bytes on torch's threads share a copy; for less, to wake them takes longer than the copy."""


class Shapeless(Complaint):
    """A tensor has no shape before the first batch; later it can be saved."""


class Taken(NamedTuple):
    """An array that is to be saved: what it is, how many bytes, and the array itself."""

    kind: str
    dtype: str
    shape: Tuple[int, ...]
    size: int
    source: Any


class Taking:
    """Collects the arrays of a tree in the order in which they are found."""

    def __init__(self) -> None:
        self.taken: List[Taken] = []
        self.spread: List[Tuple[str, Any]] = []
        """Tensors of which each rank has a piece, by their path."""
        self._seen: Dict[Tuple[Any, ...], int] = {}

    def __call__(self, value: Any, path: Path) -> Optional[Node]:
        """The node of a value that is not plain; None if it is of no kind that is known."""
        kind = type(value)
        if kind is bytes:
            return self.add(Taken("bytes", "", (), len(value), value))
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "Tensor"):
            if isinstance(value, torch.Tensor):
                if is_spread(value):
                    place = shown(path)
                    self.spread.append((place, value))
                    return {"spread": place, "dtype": _name(value.dtype), "shape": list(value.shape)}
                return self._tensor(torch, value, path)
            if kind is torch.Size:
                return {"t": list(value)}
            if kind is torch.dtype or kind is torch.device:
                return {"torch": [kind.__name__, str(value).replace("torch.", "")]}
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            if isinstance(value, numpy.generic):
                return self.add(_described("scalar", value.dtype, numpy.asarray(value), path))
            if kind in (numpy.ndarray, numpy.memmap):
                return self.add(_described("numpy", value.dtype, value, path))
            raise Complaint(
                f"{shown(path)} is a {kind.__module__}.{kind.__qualname__}, which cannot be saved",
                "save a plain array of it: numpy.asarray(...)",
            )
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "Array") and isinstance(value, jax.Array):
            return self._jax(jax, value, path)
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow is not None and hasattr(tensorflow, "Tensor") and isinstance(value, tensorflow.Tensor):
            array = value.numpy()
            return self.add(_described("tensorflow", array.dtype, array, path))
        return None

    def add(self, taken: Taken) -> Node:
        self.taken.append(taken)
        return {"a": len(self.taken) - 1}

    def _tensor(self, torch: Library, value: Any, path: Path) -> Node:
        taken = of_torch(torch, value, path)
        if not taken.size or not value.data_ptr():
            return self.add(taken)  # one that stands for others has no memory of its own, and no address
        # Tied weights have two names and one memory: they are written once.
        look = (value.is_conj(), value.is_neg(), value.stride())
        memory = (value.data_ptr(), value.device, taken.dtype, taken.shape, look)
        if memory in self._seen:
            return {"a": self._seen[memory]}
        self._seen[memory] = len(self.taken)
        return self.add(taken)

    def _jax(self, jax: Library, value: Any, path: Path) -> Node:
        if not value.is_fully_addressable and not value.is_fully_replicated:
            raise Complaint(
                f"{shown(path)} is a JAX array that is spread over processes, which cannot be saved",
                "gather it: jax.experimental.multihost_utils.process_allgather(array, tiled=True)",
            )
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            node = self._jax(jax, jax.random.key_data(value), path)
            return {"key": str(jax.random.key_impl(value)), "data": node}
        return self.add(_described("jax", sys.modules["numpy"].dtype(value.dtype), value, path))


class Memory:
    """A buffer that grows and is never given back: a copy of the state lies in it while it is written.

    Fresh memory is several times slower than used memory, because the kernel hands it out page by page.
    """

    def __init__(self) -> None:
        self._buffer: Any = None  # a mapping, or a numpy array over pinned memory
        self._size = 0
        self._kind = ""

    def of(self, size: int, kind: str) -> Buffer:
        """At least so many bytes, `plain` or `pinned`, with whatever was in them before."""
        if size > self._size or kind != self._kind:
            self._buffer = None  # first: the old one and the new one together may not fit
            if kind == "pinned":
                torch: Any = sys.modules["torch"]
                self._buffer = torch.empty(max(size, 1), dtype=torch.uint8, pin_memory=True).numpy()
            else:
                self._buffer = checkpoint_reader.fresh(size)
                if hasattr(mmap, "MADV_DONTFORK"):
                    # A data loader's worker has no use for it, and would make each page of it dearer.
                    self._buffer.madvise(mmap.MADV_DONTFORK)
            self._size, self._kind = size, kind
        return self._buffer


def is_spread(value: Any) -> bool:
    """Whether it is a DTensor, of which this rank has a piece (FSDP, tensor parallelism)."""
    return type(value).__name__ == "DTensor"


def of_torch(torch: Library, value: Any, path: Path) -> Taken:
    if type(value).__name__ in ("UninitializedParameter", "UninitializedBuffer"):
        raise Shapeless(
            f"{shown(path)} has no shape yet, and cannot be saved",
            "its layer gets one from the first batch: give it one before the first save",
        )
    dtype = _name(value.dtype)
    plain = type(value) in (torch.Tensor, torch.nn.Parameter) or not hasattr(value, "__tensor_flatten__")
    if not plain or value.layout is not torch.strided or not dtype or value.device.type == "meta":
        raise Complaint(
            f"{shown(path)} is a {type(value).__name__} of {value.dtype}, {value.layout} on {value.device}, "
            "which cannot be saved",
            "save a dense tensor of it: .to_dense(), .dequantize()",
        )
    return Taken("torch", dtype, tuple(value.shape), value.numel() * value.element_size(), value.detach())


@cache
def _name(dtype: Any) -> str:
    """The name of a torch dtype; empty if tensors of it cannot be saved."""
    name = str(dtype).replace("torch.", "")
    return name if _TORCH_DTYPES.fullmatch(name) else ""


def copy(taken: Sequence[Taken], places: Sequence[int], buffer: Buffer) -> Callable[[], None]:
    """Copies the arrays to their places; what it answers waits until accelerators are done with it."""
    tensors = [(array, at) for array, at in zip(taken, places) if array.kind == "torch" and array.size]
    # First the copies that accelerators make by themselves: they run beside those of the processor below.
    events = _copy_tensors(sys.modules["torch"], tensors, buffer) if tensors else []
    for array in taken:
        if array.kind == "jax":
            array.source.copy_to_host_async()
    for array, at in zip(taken, places):
        if array.kind == "torch" or not array.size:
            continue
        if array.kind == "bytes":
            memoryview(buffer)[at : at + array.size] = array.source
            continue
        numpy = sys.modules["numpy"]
        raw = numpy.frombuffer(buffer, numpy.uint8, array.size, at)
        numpy.copyto(raw.view(array.source.dtype).reshape(array.shape), numpy.asarray(array.source))

    def done() -> None:
        for event in events:
            event.synchronize()

    return done


def build(array: checkpoint_format.Array, buffer: Buffer) -> Any:
    """The array whose bytes lie in the buffer. A torch tensor is a view of it, anything else a copy."""
    data = memoryview(buffer)[array.offset : array.offset + array.size]
    if array.kind == "bytes":
        return bytes(data)
    if array.kind == "torch":
        return tensor(array, buffer)
    numpy = library("numpy", "arrays of it are in the checkpoint")
    if not array.size:
        made = numpy.empty(array.shape, numpy_dtype(array.dtype))
    else:
        made = (
            numpy.frombuffer(bytearray(data), numpy.uint8).view(numpy_dtype(array.dtype)).reshape(array.shape)
        )
    if array.kind == "scalar":
        return made[()]
    if array.kind == "jax":
        array_here = library("jax", "arrays of it are in the checkpoint").numpy.asarray(made)
        if array_here.dtype != made.dtype:
            raise Complaint(
                f"an array of {made.dtype} was saved, and JAX makes {array_here.dtype} of it",
                "jax.config.update('jax_enable_x64', True) before anything else",
            )
        return array_here
    if array.kind == "tensorflow":
        return library("tensorflow", "tensors of it are in the checkpoint").constant(made)
    return made


def tensor(array: checkpoint_format.Array, buffer: Buffer) -> Any:
    torch = library("torch", "tensors of it are in the checkpoint")
    dtype = getattr(torch, array.dtype)
    if not array.size:
        return torch.empty(array.shape, dtype=dtype)
    raw = torch.frombuffer(buffer, dtype=torch.uint8, count=array.size, offset=array.offset)
    return raw.view(dtype).view(array.shape)


def numpy_dtype(name: str) -> Any:
    numpy = sys.modules["numpy"]
    try:
        return numpy.dtype(name)
    except TypeError:
        return numpy.dtype(getattr(library("ml_dtypes", f"{name} arrays are in the checkpoint"), name))


def library(name: str, why: str) -> Library:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise Complaint(f"{name} is not installed, and {why}", f"pip install {name}") from None


def buffer_for(taken: Sequence[Taken]) -> str:
    """`pinned` if an accelerator is to copy into the memory by itself, else `plain`."""
    return "pinned" if any(array.kind == "torch" and array.source.is_cuda for array in taken) else "plain"


def _copy_tensors(torch: Library, tensors: List[Tuple[Taken, int]], buffer: Buffer) -> List[Any]:
    """Copies tensors to their places; answers the events of accelerators that are still at it."""
    base = torch.frombuffer(buffer, dtype=torch.uint8)
    begin = base.data_ptr()
    devices = set()
    with torch.no_grad():
        for array, at in tensors:
            source = array.source
            if array.size < _SHARED_FROM and _is_plain(torch, source):
                ctypes.memmove(begin + at, source.data_ptr(), array.size)
                continue
            target = base[at : at + array.size].view(source.dtype).view(array.shape)
            # Later kernels of a CUDA stream come after the copy, so the loop may go on at once.
            target.copy_(source, non_blocking=source.is_cuda)
            if source.is_cuda:
                devices.add(source.device)
    return [torch.cuda.current_stream(device).record_event() for device in devices]


def _is_plain(torch: Library, tensor: Any) -> bool:
    """Whether the bytes at its address are the tensor, one number after another."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.is_contiguous()
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.data_ptr() != 0
    )


def _described(kind: str, dtype: Any, value: Any, path: Path) -> Taken:
    if dtype.type.__module__.startswith("ml_dtypes"):
        name = str(dtype.name)
    elif dtype.kind in _NUMPY_KINDS:
        name = str(dtype.str)
    else:
        raise Complaint(
            f"{shown(path)} is an array of {dtype}, which cannot be saved",
            "save numbers, or the fields as arrays of their own",
        )
    return Taken(kind, name, tuple(value.shape), int(value.size) * int(dtype.itemsize), value)
