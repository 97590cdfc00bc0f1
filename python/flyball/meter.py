"""Energy of a piece of a program, and the power trace behind it."""

from __future__ import annotations

import collections
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from flyball import _native

if TYPE_CHECKING:
    import numpy as np

_LEAST_PERIOD_S = _native.LEAST_PERIOD_S
_SETTLED_S = 0.5  # by then every sensor has shown what flowed before


@dataclasses.dataclass(frozen=True)
class DeviceEnergy:
    """What one device took in one window."""

    energy_j: float
    mean_w: float
    peak_w: float
    source: str  # "counter", or why power was integrated instead: "integrated power", "frozen counter"
    sensor_period_s: float | None  # how often the device's sensor changes; None while unknown
    complete: bool  # False where the device did not answer during the whole window


class Measurement:
    """The result of a window.

    Its energies are known some milliseconds after the window's end, when the sensors have shown them; who asks earlier
    waits that long (at most a quarter of a second). Before the end, attributes are NaN or empty.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.time_s = float("nan")
        self.begin_s = float("nan")  # of the monotonic clock, as in EnergyMeter.samples()
        self._devices: dict[str, DeviceEnergy] = {}
        self._read: Callable[[], dict[str, DeviceEnergy]] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        if not self.devices:
            return f"{self.name}: not measured yet"
        parts = ", ".join(f"{label} {device.energy_j:.1f} J" for label, device in self.devices.items())
        return f"{self.name}: {self.time_s:.3f} s, {self.energy_j:.1f} J, {self.mean_w:.1f} W on average ({parts})"

    @property
    def devices(self) -> dict[str, DeviceEnergy]:
        """What each device took, by its label."""
        with self._lock:
            if self._read is not None:
                self._devices, self._read = self._read(), None
            return self._devices

    @property
    def energy_j(self) -> float:
        """Joules of all devices together."""
        return sum(device.energy_j for device in self.devices.values())

    @property
    def mean_w(self) -> float:
        """Watts of all devices together, averaged over the window."""
        return self.energy_j / self.time_s if self.time_s > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For json.dump."""
        return {
            "name": self.name,
            "time_s": self.time_s,
            "energy_j": self.energy_j,
            "devices": {label: dataclasses.asdict(device) for label, device in self.devices.items()},
        }


def _wait_for_gpu_work() -> None:
    """Work that PyTorch has queued belongs to the window in which it was queued."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class EnergyMeter:
    """Samples devices in the background; any number of windows, nested or overlapping, from any thread.

    gpus: indices as the driver counts them; None for all. cpus: processor packages, and their memory, too.
    period_s: how often the counters are read; at the default, less often where that would cost more than 0.1 % of the
    machine. history_s: how much of the trace samples() can reach back.
    synchronize: called at both ends of a window; by default waits for PyTorch's queued CUDA work where PyTorch is in
    use. Raises ValueError for a time that is none, UsageError (a ValueError) for a GPU that is not there, and DeviceError
    when there is nothing that can be measured, and says why.

    Close it, or use it as a context manager; it is also closed when it is garbage.
    """

    def __init__(
        self,
        gpus: Iterable[int] | None = None,
        *,
        cpus: bool = True,
        period_s: float = 0.004,
        history_s: float = 60.0,
        synchronize: Callable[[], None] | None = _wait_for_gpu_work,
    ) -> None:
        for name, seconds, least, most in (
            ("period_s", period_s, _LEAST_PERIOD_S, 60.0),
            ("history_s", history_s, 0.0, 86400.0),
        ):
            if not least <= seconds <= most:  # not so for NaN either
                raise ValueError(f"{name} must be from {least:g} to {most:g} seconds, not {seconds:g}")
        self._native = _native.Meter(None if gpus is None else list(gpus), cpus, period_s, history_s)
        self._synchronize = synchronize or (lambda: None)
        self._unread: collections.deque[Measurement] = collections.deque()

    @property
    def labels(self) -> list[str]:
        """The devices that are measured: "GPU:0", "CPU:0", "DRAM:0"."""
        return self._native.labels()

    @property
    def missing(self) -> list[str]:
        """What cannot be measured here, and why, one sentence each."""
        return self._native.missing()

    @contextmanager
    def measure(self, name: str = "window") -> Iterator[Measurement]:
        """Energy of the with-block, also when it raises. Costs one reading of every counter at each end."""
        self._read_settled()
        result = Measurement(name)
        self._synchronize()
        window, result.begin_s = self._native.open_window()
        try:
            yield result
        finally:
            try:
                self._synchronize()
            finally:
                result.time_s = self._native.end_window(window)
                result._read = lambda: {
                    label: DeviceEnergy(*reading) for label, reading in self._native.close_window(window)
                }
                self._unread.append(result)

    def _read_settled(self, until_s: float | None = None) -> None:
        """Reads old windows that nobody has asked about, so that none stays open for ever."""
        until_s = time.monotonic() - _SETTLED_S if until_s is None else until_s
        while self._unread:
            try:
                oldest = self._unread.popleft()
            except IndexError:  # another thread was faster
                return
            if oldest.begin_s + oldest.time_s > until_s:
                self._unread.appendleft(oldest)
                return
            oldest.devices  # noqa: B018

    def samples(self, label: str, after_s: float = 0.0) -> np.ndarray:
        """The power trace of one device since `after_s` of the monotonic clock, as far as the history reaches.

        A structured array with the fields time_s (time.monotonic()), power_w and energy_j (since the meter began).
        Raises KeyError for a device that is not measured.
        """
        import numpy as np  # here: the command `flyball` need not wait for it

        columns = self._native.samples(label, after_s)
        trace = np.empty(len(columns[0]), dtype=[("time_s", "f8"), ("power_w", "f8"), ("energy_j", "f8")])
        trace["time_s"], trace["power_w"], trace["energy_j"] = columns
        return trace

    def close(self) -> None:
        """Ends the sampling. Windows still open can no longer be measured."""
        self._read_settled(float("inf"))
        self._native.close()

    def __enter__(self) -> EnergyMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_default: EnergyMeter | None = None
_default_lock = threading.Lock()


def _forget_default() -> None:
    """In a forked child, as of a DataLoader: the sampling thread has stayed with the parent."""
    global _default, _default_lock
    _default = None
    _default_lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_default)


def default_meter() -> EnergyMeter:
    """The meter of all devices that flyball.measure() uses; made at its first use, closed with the program."""
    global _default
    with _default_lock:
        if _default is None:
            _default = EnergyMeter()
        return _default


def measure(name: str = "window") -> AbstractContextManager[Measurement]:
    """Energy of a with-block on all devices of this machine:

    with flyball.measure("epoch") as m:
        train()
    print(m.energy_j, m.devices["GPU:0"].mean_w)
    """
    return default_meter().measure(name)
