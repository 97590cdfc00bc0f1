"""PyTorch's profiler, also where it was built without Kineto, as Debian's was; and its trace, which `flyball account`
reads with backward tied to forward and in Unix time."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import torch
from torch.autograd import profiler

_MARK = "flyball.begin"
_USER_SCOPE = 7  # of at::RecordScope: a record_function of the program


class Profile:
    """Profiles from start() to stop()."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self._begin_us = 0.0  # Unix time of the mark, where the profiler counts from its own start

    def start(self) -> None:
        if torch.autograd.kineto_available():
            activities = [torch.profiler.ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self._profiler = torch.profiler.profile(activities=activities)
            self._profiler.start()
            return
        self._profiler = profiler.profile(use_kineto=False)
        self._profiler.__enter__()
        self._begin_us = time.time() * 1e6
        with profiler.record_function(_MARK):
            pass

    def stop(self) -> None:
        """GPU work that is queued is waited for, so that it is in the trace."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        if torch.autograd.kineto_available():
            self._profiler.stop()
        else:
            self._profiler.__exit__(None, None, None)

    def write(self, path: str | os.PathLike[str]) -> None:
        if torch.autograd.kineto_available():
            self._profiler.export_chrome_trace(os.fspath(path))
            return
        events = self._profiler.function_events
        shift = self._begin_us - next(event.time_range.start for event in events if event.name == _MARK)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "traceEvents": [_entry(event, shift) for event in events
                                                           if event.name != _MARK]}, file)


def _entry(event: Any, shift_us: float) -> dict[str, Any]:
    """As Kineto writes it. The older profiler's own file has no sequence numbers, by which backward is tied."""
    arguments = {}
    if event.sequence_nr >= 0:
        arguments = {"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread or 0}
    return {
        "ph": "X",
        "cat": "user_annotation" if event.scope == _USER_SCOPE else "cpu_op",
        "name": event.name,
        "pid": os.getpid(),
        "tid": event.thread,
        "ts": round(event.time_range.start + shift_us, 3),
        "dur": round(event.time_range.end - event.time_range.start, 3),
        "args": arguments,
    }
