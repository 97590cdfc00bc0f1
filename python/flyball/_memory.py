"""What fits into a rank's memory, as PyTorch's allocator tells it while the rank trains: the bytes that one microbatch's
activations hold from its forward to its backward, and the bytes that there are for those of all.

With n microbatches in flight at most, and P bytes allocated at the peak, k more microbatches of m bytes allocate P + k m
at most, whatever else the peak consists of. They fit if that, times what the allocator loses to fragmentation, is less
than what other processes and a margin leave of the device. Hence n m + (what is left / fragmentation - P) bytes are there
for activations, of which m are taken by each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SKIPPED_STEPS = 2  # in which optimizers and libraries allocate what they keep
MEASURED_STEPS = 3
MARGIN = 0.05  # of the device's memory, for what grows later


def activation_bytes(
    *, total: int, others: int, peak: int, reserved: int, microbatch: int, in_flight: int, margin: float = MARGIN
) -> int:
    """The bytes that there are for activations. `total`: of the device; `others`: of it, that are not PyTorch's in this
    process; `peak` and `reserved`: the most that was allocated, and that the allocator held for it; `in_flight`: the most
    microbatches of `microbatch` bytes that were held meanwhile."""
    fragmentation = max(1.0, reserved / peak)
    left = (total * (1.0 - margin) - others) / fragmentation - peak
    return max(0, int(in_flight * microbatch + left))


class SavedTensors:
    """On a processor, which has no such counter: the bytes of the tensors that autograd saves for the backward, each
    storage once, without the model's parameters."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._storages: dict[int, int] = {}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._saved, lambda tensor: tensor)
        self._hooks.__enter__()

    def _saved(self, tensor: Any) -> Any:
        whole = tensor._base if tensor._is_view() else tensor
        if not isinstance(whole, self._torch.nn.Parameter):
            # PyTorch 2 warns of storage(), PyTorch 1 has no untyped_storage().
            storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
            self._storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    def end(self) -> int:
        self._hooks.__exit__(None, None, None)
        return sum(self._storages.values())


class MemoryWatch:
    """Watches the first steps of a training, and tells what it has found, once: `tell(microbatch_bytes, activation_bytes)`.
    Where the allocator has had to give memory back later to get more, it tells that no more than before fits. Costs some
    calls of PyTorch's statistics per computation in these steps, some 0.1 ms each, and one per step afterwards.

    `torch` is the module. `total_bytes`: how much memory there is; none: the GPU's. On a processor it is that for
    activations alone."""

    def __init__(self, torch: Any, tell: Callable[[int, int], None], total_bytes: int | None = None) -> None:
        self._cuda = torch.cuda if torch.cuda.is_initialized() else None
        if self._cuda is None and total_bytes is None:
            raise ValueError("PyTorch uses no GPU in this process: say how many bytes there are for activations")
        self._torch, self._tell, self._total = torch, tell, total_bytes
        self._steps = 0
        self._microbatch = self._most_held = self._held = self._before = self._at_begin = 0
        self._saved: SavedTensors | None = None
        self._retries = 0
        self._measuring = self._chunked = False

    def step_begin(self) -> None:
        self._measuring = SKIPPED_STEPS <= self._steps < SKIPPED_STEPS + MEASURED_STEPS
        self._held = 0
        if self._measuring and self._cuda:
            self._before = self._cuda.memory_allocated()

    def begin(self, type: str) -> None:
        self._chunked = self._chunked or type.startswith("forward.")
        if not self._measuring:
            return
        if self._cuda:
            self._at_begin = self._cuda.memory_allocated()
        elif type == "forward":
            self._saved = SavedTensors(self._torch)

    def end(self, type: str) -> None:
        if not self._measuring:
            return
        forward = type == "forward"
        if self._cuda:
            now = self._cuda.memory_allocated()
            # The input came before the forward's begin. What was let go since the last computation does not count.
            held = now - min(self._before, self._at_begin) if forward else 0
            self._before = now
        else:
            held = self._saved.end() if forward and self._saved else 0
            self._saved = None
        self._microbatch = max(self._microbatch, held)
        # Of a backward in two parts, the gradients of the weights come last.
        self._held += 1 if forward else -1 if type in ("backward", "backward_weight") else 0
        self._most_held = max(self._most_held, self._held)

    def step_end(self) -> None:
        self._steps += 1
        if self._saved:  # a forward that has failed
            self._saved.end()
            self._saved = None
        if self._chunked or self._steps < SKIPPED_STEPS + MEASURED_STEPS:
            return
        if self._measuring:
            self._measuring = False
            self._report()
        elif self._cuda and self._microbatch > 0 and self._allocation_retries() > self._retries:
            self._retries = self._allocation_retries()
            self._tell(self._microbatch, self._most_held * self._microbatch)

    def _allocation_retries(self) -> int:
        return int(self._cuda.memory_stats().get("num_alloc_retries", 0)) if self._cuda else 0

    def _report(self) -> None:
        if self._microbatch <= 0:
            return
        if self._cuda is None:
            assert self._total is not None
            self._tell(self._microbatch, int(self._total * (1.0 - MARGIN)))
            return
        self._retries = self._allocation_retries()
        free, total = self._cuda.mem_get_info()
        there = activation_bytes(
            total=min(total, self._total or total),
            others=max(0, total - free - self._cuda.memory_reserved()),
            peak=self._cuda.max_memory_allocated(),
            reserved=self._cuda.max_memory_reserved(),
            microbatch=self._microbatch,
            in_flight=self._most_held,
        )
        # What had to be given back once was too much already.
        there = min(there, self._most_held * self._microbatch) if self._retries else there
        self._tell(self._microbatch, there)
