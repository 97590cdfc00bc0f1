"""Work on a simulated GPU, through the C interface of include/flyball/sim.h. Real GPUs need none of this."""

import concurrent.futures
import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


class SimulatedGpu:
    """One board of the simulated machine that `flyball sim up` has made and `flyball sim env` names."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.flyball_sim_error_text.restype = ctypes.c_char_p
        self.worker = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        time_s, time_scale = ctypes.c_double(), ctypes.c_double()
        self._check(self.library.flyball_sim_time(ctypes.byref(time_s), ctypes.byref(time_scale)))
        self.time_scale = time_scale.value
        # Whenever nothing is computed, this process waits for others with a kernel on its GPU.
        self._check(self.library.flyball_sim_block(ctypes.c_uint(index)))

    def _check(self, result: int) -> None:
        if result != 0:
            raise RuntimeError(self.library.flyball_sim_error_text(result).decode())

    def work(self, kind: str, seconds_at_max_clock: float) -> None:
        """Returns when the GPU has done that much work, however long its clock makes it."""
        self._check(self.library.flyball_sim_work(ctypes.c_uint(self.index), kind.encode(),
                                                  ctypes.c_double(seconds_at_max_clock), None))

    @contextmanager
    def computes(self, kind: str, seconds_at_max_clock: float) -> Iterator[None]:
        """The GPU is at work during the with-block, and for as long as its clock makes it: what the block itself computes
        on the processor takes less."""
        work = self.worker.submit(self.work, kind, seconds_at_max_clock)
        try:
            yield
        finally:
            work.result()
