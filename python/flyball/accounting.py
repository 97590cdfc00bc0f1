"""Joules per tensor, layer and module, from an event trace and a power trace; and power traces that the node's agent
records while a piece of a program runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from flyball import _native

if TYPE_CHECKING:
    import torch

    from flyball.torch.model_account import ModelAccount


Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@dataclass(frozen=True)
class Footprint:
    """What `flyball account --format json` prints (docs/formats/footprint.md).

    pandas.DataFrame(footprint.rows) is the table, most energy first.
    """

    rows: list[dict[str, Any]]  # name, device, phase, energy_j, energy_error_j, busy_s, ...; of some rows group
    devices: list[dict[str, Any]]  # device, measured_j, attributed_j, idle_j, outside_j, ...
    notes: list[str]  # what was done to the traces: offset, gaps, what was left out
    runs: int
    profiled_s: float
    groups: list[dict[str, Any]]  # of rows that always run together: group, device, energy_j, energy_error_j of the sum
    json: str  # all of it, as `flyball account diff` and `quality` read it
    ranks: list[dict[str, Any]]  # rank, energy_j, idle_j, computing_s, communicating_s, ...; empty without ranks=True
    steps: dict[str, Any] | None  # count, step_s, step_j, step_std_j, devices_j, sample_j; None where the trace tells of no steps
    classes: dict[str, dict[str, Any]]  # energy_j and busy_s of compute, communicate, copy, optimize

    def write(self, path: str | os.PathLike[str]) -> None:
        """As JSON, into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.json)


def account(
    events: Paths | torch.nn.Module,
    power: Paths | None = None,
    *,
    jiffies: Paths | None = None,
    method: str | None = None,
    sensor_window_s: float | None = None,
    share: str | None = None,
    clock_offset_s: float | None = None,
    estimate_clock_offset: bool = False,
    event_devices: Mapping[str, str] | None = None,
    power_devices: Mapping[str, str] | None = None,
    counter_ranges_j: Mapping[str, float] | None = None,
    static_powers_w: Mapping[str, float] | None = None,
    chrome_device: str | None = None,
    utc_offset_s: float | None = None,
    row_period_s: float | None = None,
    similar: str | None = None,
    summary: bool = False,
    kernels: bool = False,
    frames: bool = False,
    ranks: bool = False,
    batch: int | None = None,
    steps: int | None = None,
    warmup: int | None = None,
    name: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Footprint | ModelAccount:
    """Gives every joule of a power trace to the operations of an event trace that ran at the time.

    events: of TensorFlow, PyTorch, JAX or Chrome; power: of Flyball, nvidia-smi, Zeus, DCGM, Prometheus; several of
    each are several runs, and the result their mean, or with ranks=True the ranks of one job, and the result their sum.
    `flyball messages AccountOptions` says what the others mean; they are the
    options of `flyball account`. Raises UsageError (a ValueError) for what these arguments may not be, DeviceError
    where a trace cannot be read, both with what is wrong and where. Other threads run meanwhile.

    With a PyTorch model in place of the traces, the account of a few steps of its training:

        with flyball.account(model) as a:
            train()
        print(a)     # the table; in a notebook, a alone shows the page
        a.footprint  # as of two traces

    A step is from one call of the model to the next. The first `warmup` (1) are not profiled, the next `steps` (5) are.
    Names stand below `name`. The traces stay in `folder`, if it is given. Raises UsageError at the block's end where the
    model was not called more than `warmup` times.
    """
    of_model: dict[str, Any] = {"steps": steps, "warmup": warmup, "name": name, "folder": folder}
    of_model = {key: value for key, value in of_model.items() if value is not None}
    if hasattr(events, "register_forward_pre_hook"):
        if power is not None or jiffies is not None or ranks:
            raise _native.UsageError("account: power, jiffies and ranks are for traces, not for a model")
        from flyball.torch.model_account import ModelAccount

        options: dict[str, Any] = {"method": method, "sensor_window_s": sensor_window_s, "share": share,
                   "event_devices": None if event_devices is None else dict(event_devices),
                   "power_devices": None if power_devices is None else dict(power_devices), "similar": similar,
                   "static_powers_w": None if static_powers_w is None else dict(static_powers_w),
                   "summary": summary, "kernels": kernels, "frames": frames, "batch": batch}
        return ModelAccount(events, **of_model, **options)
    if of_model:
        raise _native.UsageError(f"account: {', '.join(of_model)}: for a model, not for traces")
    if power is None:
        raise _native.UsageError("account: give the power trace, too, or a PyTorch model alone")

    def path(given: str | os.PathLike[str]) -> str:
        name = os.fsdecode(given)
        try:
            name.encode()
        except UnicodeEncodeError:
            raise _native.UsageError(f"{name!r}: this file's name is no UTF-8; give it another") from None
        return name

    def paths(given: Paths) -> list[str]:
        return [path(given)] if isinstance(given, (str, os.PathLike)) else [path(one) for one in given]

    of_traces = {
        "events": paths(events),
        "power": paths(power),
        "jiffies": None if jiffies is None else paths(jiffies),
        "method": method,
        "sensor_window_s": sensor_window_s,
        "share": share,
        "clock_offset_s": clock_offset_s,
        "estimate_clock_offset": estimate_clock_offset,
        "event_devices": None if event_devices is None else dict(event_devices),
        "power_devices": None if power_devices is None else dict(power_devices),
        "counter_ranges_j": None if counter_ranges_j is None else dict(counter_ranges_j),
        "static_powers_w": None if static_powers_w is None else dict(static_powers_w),
        "chrome_device": chrome_device,
        "utc_offset_s": utc_offset_s,
        "row_period_s": row_period_s,
        "similar": similar,
        "summary": summary,
        "kernels": kernels,
        "frames": frames,
        "ranks": ranks,
        "batch": batch,
    }
    return footprint_of(_native.footprint(json.dumps(of_traces)))


def footprint_of(text: str) -> Footprint:
    found = json.loads(text)
    return Footprint(found["footprint"], found["devices"], found["notes"], found["runs"], found["profiled_s"],
                     found["groups"], text, found.get("ranks", []), found.get("steps"), found["classes"])


class AccountSession:
    """One recording in the agent, from `with` to its end; its trace stays in the agent for an hour.

    name: one of the user's own, free or of a session that has ended. gpus: indices; None for all. row_period_s: least
    time between two rows of a device; 0 for every change of its sensor. `flyball messages SessionRequest` says what
    these and cpus may be. agent: "/path/to/socket" or "host:port"; None for what FLYBALL_AGENT names, else the usual
    socket.

    Both ends wait for the sensors, half a second at most, so that what runs between is covered. They raise DeviceError
    where there is no agent, or it refuses.
    """

    def __init__(
        self,
        name: str = "default",
        *,
        gpus: Iterable[int] | None = None,
        cpus: bool = True,
        row_period_s: float = 0.0,
        agent: str | os.PathLike[str] | None = None,
    ) -> None:
        self.name = name
        self.state: dict[str, Any] = {}  # what the agent said last: devices, begin_s, length_s, rows, state, ended, failures
        self._options = {
            "name": name,
            "gpus": None if gpus is None else list(gpus),
            "cpus": cpus,
            "row_period_s": row_period_s,
        }
        self._agent = None if agent is None else os.fspath(agent)

    def start(self) -> AccountSession:
        self.state = json.loads(_native.start_session(self._agent, json.dumps(self._options)))
        return self

    def stop(self) -> dict[str, Any]:
        """Ends the recording and returns its state. Again does nothing."""
        self.state = json.loads(_native.stop_session(self._agent, self.name))
        return self.state

    def trace(self) -> str:
        """The power trace so far, as `flyball record` writes it and `flyball account --power` reads it."""
        return _native.session_trace(self._agent, self.name)

    def write(self, path: str | os.PathLike[str]) -> None:
        """The power trace, into a file."""
        trace = self.trace()
        with open(path, "w", encoding="utf-8") as file:
            file.write(trace)

    def drop(self) -> None:
        """Ends the recording and forgets its trace."""
        _native.drop_session(self._agent, self.name)

    def __enter__(self) -> AccountSession:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def account_session(name: str = "default", **options: Any) -> AccountSession:
    """The agent records power while a with-block runs:

    with flyball.account_session("epoch") as s:
        train()  # under the framework's profiler, which writes trace.json
    s.write("power.csv")
    flyball.account("trace.json", "power.csv").rows
    """
    return AccountSession(name, **options)
