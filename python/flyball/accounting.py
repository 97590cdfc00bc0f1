"""Power traces that the node's agent records while a piece of a program runs, for `flyball account`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from flyball import _native


class AccountSession:
    """One recording in the agent, from `with` to its end; its trace stays in the agent for an hour.

    name: 1 to 64 letters, digits, '.', '_', '-'; one of the user's own, free or of a session that has ended.
    gpus: indices; None for all. cpus: processor packages, and their memory, too. period_s: at most one row of a device
    in this time; 0 for every change of its sensor. agent: "/path/to/socket" or "host:port"; None for what FLYBALL_AGENT
    names, else the usual socket.

    Both ends wait for the sensors, half a second at most, so that what runs between is covered. They raise DeviceError
    where there is no agent, or it refuses.
    """

    def __init__(
        self,
        name: str = "default",
        *,
        gpus: Iterable[int] | None = None,
        cpus: bool = True,
        period_s: float = 0.0,
        agent: str | os.PathLike | None = None,
    ) -> None:
        self.name = name
        self.state: dict = {}  # what the agent said last: devices, begin_s, length_s, rows, state, ended, failures
        self._gpus = None if gpus is None else list(gpus)
        self._cpus = cpus
        self._period_s = period_s
        self._agent = None if agent is None else os.fspath(agent)

    def start(self) -> AccountSession:
        self.state = json.loads(
            _native.start_session(self._agent, self.name, self._gpus, self._cpus, float(self._period_s))
        )
        return self

    def stop(self) -> dict:
        """Ends the recording and returns its state. Again does nothing."""
        self.state = json.loads(_native.stop_session(self._agent, self.name))
        return self.state

    def trace(self) -> str:
        """The power trace so far, as `flyball record` writes it and `flyball account --power` reads it."""
        return _native.session_trace(self._agent, self.name)

    def write(self, path: str | os.PathLike) -> None:
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


def account_session(name: str = "default", **options) -> AccountSession:
    """The agent records power while a with-block runs:

    with flyball.account_session("epoch") as s:
        train()  # under the framework's profiler, which writes trace.json
    s.write("power.csv")  # flyball account --events trace.json --power power.csv
    """
    return AccountSession(name, **options)
