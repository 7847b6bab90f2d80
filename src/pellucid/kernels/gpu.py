"""What a GPU has in place of the C++ files: attention of short sentences in Triton (triton_attention.py), and chains of
elementwise operations that torch.compile makes one kernel of. Whatever is not here goes by torch's own functions.

Using it is a choice of the process, as with the kernels of a CPU (calls.py). It is tried before it is used, beside
torch's own attention: what depends on a compiler, a driver and a card is known of the machine it runs on alone.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from threading import Lock
from typing import Any, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])
Launch = Callable[[], None]
LARGEST = 256  # bytes of a head's column, of which a program holds all: 64 tokens in fp32, 128 in bf16
WIDTHS = (16, 32, 64)  # of a head
_VARIANTS = 64  # of a compiled function: sides of up to 128 tokens or more, with padding or without
_CLOSE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}  # two ways to compute it, of numbers around 1
_MANY = 2 * 10**8  # logits
_is_used = False
_recording = Lock()  # whoever waits for a GPU while another thread records on it spoils what is recorded
_renewed = 0


def use(wanted: bool, device: torch.device) -> str:
    """Computes with what is here from now on, or only with torch's own functions.

    Returns:
        "compiled", or "plain" and why.
    """
    global _is_used
    torch.backends.cuda.enable_cudnn_sdp(False)  # it makes a plan for each shape, for a hundredth of a second
    offered = offer(wanted, device)
    _is_used = offered == "compiled"
    return offered


def offer(wanted: bool, device: torch.device) -> str:
    """What `use` would return."""
    fault = fault_of(device) if wanted else "as configured"
    return "compiled" if fault is None else f"plain: {fault}"


def is_used() -> bool:
    """Whether this process computes with it."""
    return _is_used


def serves(x: Tensor) -> bool:
    """Whether it is for x."""
    return _is_used and x.is_cuda


def fuses(logits: Tensor) -> bool:
    """Whether what is made of these logits is made by one kernel: they are so many that it saves more than compiling it
    takes."""
    return serves(logits) and logits.numel() >= _MANY


@functools.cache
def fault_of(device: torch.device) -> str | None:
    """Why attention of short sentences cannot be used on a device: what is missing or fails there, or that it is not
    what torch's own functions compute."""
    if find_spec("triton") is None:
        return "triton is not installed"
    try:
        with torch.inference_mode(False), torch.enable_grad():  # who only decodes may load a run first
            is_close = all(_is_close(dtype, device) for dtype in _CLOSE)
    except Exception as error:  # of a compiler, a driver, a card: of any type
        return f"triton fails here ({type(error).__name__}: {first_line(error)})"
    return None if is_close else "attention in triton differs from torch's here"


def first_line(error: Exception) -> str:
    """What a compiler, a driver or a card says first, which may be nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_close(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the largest heads, and their gradients, come out as by torch, within the type's precision."""
    from pellucid.kernels.triton_attention import attend

    length = LARGEST // dtype.itemsize
    drawn = torch.randn(4, 2, 2, length, WIDTHS[-1], generator=torch.Generator().manual_seed(0), device="cpu")
    *inputs, upstream = drawn.to(device, dtype)
    real = torch.arange(length, device=device) < torch.tensor([[length], [length // 2 + 1]], device=device)
    seen = real[:, None, None] & torch.ones(length, length, dtype=torch.bool, device=device).tril()
    found = []
    for equation in (lambda q, k, v: attend(q, k, v, real, True),
                     lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=seen)):
        leaves = [each.clone().requires_grad_() for each in inputs]
        out = equation(*leaves)
        found.append([out, *torch.autograd.grad(out, leaves, upstream)])
    close = _CLOSE[dtype]
    return all(torch.allclose(one, other, close, close) for one, other in zip(*found, strict=True))


@functools.cache
def fused(function: Function) -> Function:
    """The function by torch.compile, for tensors of any size; it is compiled when it is first called."""
    torch._dynamo.config.recompile_limit = _VARIANTS
    return cast(Function, torch.compile(function, dynamic=True))


def recorder() -> Callable[[Launch], Launch]:
    """A function: records what another one launches, which is not computed then, and gives a function that launches it
    all at once. What has to be compiled or made first must have been before.

    All that is recorded shares its memory: to be launched one after the other.
    """
    pool = torch.cuda.graph_pool_handle()

    def record(function: Launch) -> Launch:
        with _recording:
            torch.cuda.synchronize()
            free, whole = torch.cuda.mem_get_info()
            if free < whole / 2:
                torch.cuda.empty_cache()  # what is recorded cannot take the memory of what was computed before
            with torch.cuda.stream(_recording_stream()):
                return _graph_of(function, pool).replay

    def anything() -> None:
        torch.zeros(1, device="cuda")

    first = [record(anything)]  # to be kept: a pool of which no graph is left cannot be used again
    return lambda function: record(function) if first else function


_recording_stream = functools.cache(torch.cuda.Stream)  # one for all, for each has memory of its own for its products


def _graph_of(function: Launch, pool: Any) -> torch.cuda.CUDAGraph:
    """What is launched, in the memory of a pool."""
    global _renewed
    graph, device = torch.cuda.CUDAGraph(), torch.cuda.current_device()
    graph.capture_begin(pool, capture_error_mode="thread_local")
    try:
        function()
        graph.capture_end()
    except BaseException:
        try:
            graph.capture_end()
        except RuntimeError:  # what was recorded is void, and memory is still taken for it
            with contextlib.suppress(RuntimeError):
                torch._C._cuda_endAllocateToPool(device, pool)
        generator = torch.cuda.default_generators[device]
        generator.graphsafe_set_state(generator.clone_state())  # which takes itself for one that is recorded
        _renewed += 1
        raise
    return graph


def renewed() -> int:
    """How often random numbers have got a state of which what was recorded before does not know."""
    return _renewed


@contextlib.contextmanager
def repeatable(device: torch.device) -> Iterator[None]:
    """What a GPU sums, it sums in the same order each time: a run that is resumed is what it would have been."""
    if device.type != "cuda":
        yield
        return
    before = torch.is_deterministic_algorithms_warn_only_enabled(), torch.are_deterministic_algorithms_enabled()
    fills = torch._C._get_deterministic_fill_uninitialized_memory()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch._C._set_deterministic_fill_uninitialized_memory(False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have a deterministic implementation")  # sums of integers
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[1], warn_only=before[0])
            torch._C._set_deterministic_fill_uninitialized_memory(fills)
