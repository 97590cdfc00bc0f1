"""Where the joules of a model's training steps go, by one with-block around the training."""

from __future__ import annotations

import html
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler

from flyball import _native
from flyball._native import UsageError
from flyball._notebook import LARGEST_PAGE, framed
from flyball.accounting import Footprint, footprint_of
from flyball.meter import EnergyMeter
from flyball.torch.annotation import annotate
from flyball.torch.profiling import Profile

_MARGIN_S = 0.5  # of power before and after the profile
_JIFFIES_S = 0.25  # between two samples of the processors' time


class _Jiffies(threading.Thread):
    """Samples what ran on the processors: the last second while nothing is profiled, then all until the end."""

    def __init__(self) -> None:
        super().__init__(name="flyball-jiffies", daemon=True)
        self._recorder = _native.JiffiesRecorder()
        self._samples: list[str] = []
        self._keeps = False
        self._ends = threading.Event()
        self.start()

    def run(self) -> None:
        self._sample()
        while not self._ends.wait(_JIFFIES_S):
            self._sample()

    def _sample(self) -> None:
        if not self._keeps:
            del self._samples[:-4]
        self._samples.append(self._recorder.sample(time.time_ns()))

    def keep(self) -> None:
        self._keeps = True

    def end(self) -> str:
        """Returns the trace (docs/formats/jiffies-trace.md). Again returns the same."""
        if not self._ends.is_set():
            self._ends.set()
            self.join()
            self._sample()
        return self._recorder.header() + "".join(self._samples)


class ModelAccount:
    """Annotates a model, profiles a few steps, records power meanwhile, and accounts for it when the block ends.

    A step is from one call of the model to the next, so that it has the forward, the backward and the optimizer. The
    first `warmup` steps are not profiled, the `steps` after them are, or what there is of them.
    """

    def __init__(self, model: torch.nn.Module, *, steps: int = 5, warmup: int = 1, name: str = "",
                 folder: str | os.PathLike[str] | None = None, **options: Any) -> None:
        if steps < 1 or warmup < 0:
            raise UsageError(f"account: steps must be 1 or more and warmup 0 or more, not {steps} and {warmup}")
        self.footprint: Footprint | None = None
        self.notes: list[str] = []  # what was left out, and what the account says of its traces
        self.page = ""  # what `flyball account --html` writes, once the block has ended
        self._model, self._steps, self._warmup, self._name, self._options = model, steps, warmup, name, options
        self._folder = folder
        self._calls = 0
        self._profile: Profile | None = None
        self._step: Any = None  # PyTorch's mark of the one that runs
        self._running = False
        self._begin_s = self._end_s = 0.0  # of the monotonic clock

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The footprint's rows, most energy first, once the block has ended."""
        return [] if self.footprint is None else self.footprint.rows

    def __enter__(self) -> ModelAccount:
        self._annotation = annotate(self._model, self._name)
        try:
            self._meter = EnergyMeter(history_s=3600.0)
        except BaseException:
            self._annotation.remove()
            raise
        self._jiffies = _Jiffies()
        self._hook = self._model.register_forward_pre_hook(self._before_step)
        return self

    def _before_step(self, *_: Any) -> None:
        self._calls += 1
        if self._running:
            self._step.__exit__(None, None, None)
        if self._calls == self._warmup + 1:
            self._profile = Profile()
            self._begin_s = time.monotonic()
            self._jiffies.keep()
            self._profile.start()
            self._running = True
        elif self._running and self._calls == self._warmup + self._steps + 1:
            self._stop()
        if self._running:  # as PyTorch's own schedules mark their steps
            self._step = profiler.record_function(f"ProfilerStep#{self._calls}")
            self._step.__enter__()

    def _stop(self) -> None:
        self._running = False
        assert self._profile is not None
        self._profile.stop()
        self._end_s = time.monotonic()

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self._hook.remove()
            self._annotation.remove()
            if self._running:
                self._step.__exit__(None, None, None)
                self._stop()
            if kind is None:
                self._account()
        finally:
            self._jiffies.end()
            self._meter.close()

    def _account(self) -> None:
        if self._profile is None:
            raise UsageError(f"account: the model was called {self._calls} times, and the first {self._warmup} are not "
                             "profiled; train longer, or give a smaller warmup")
        # The sensors show what flowed until the end only some time later.
        time.sleep(max(0.0, self._end_s + _MARGIN_S - time.monotonic()))
        with tempfile.TemporaryDirectory() as own:
            folder = Path(own if self._folder is None else self._folder)
            folder.mkdir(parents=True, exist_ok=True)
            self._profile.write(folder / "trace.json")
            (folder / "power.csv").write_text(self._power(), encoding="utf-8")
            options = {**self._options, "events": str(folder / "trace.json"), "power": str(folder / "power.csv")}
            # Where sensors are given other sockets, jiffies would divide by the wrong ones.
            if not self._options.get("power_devices"):
                (folder / "jiffies.csv").write_text(self._jiffies.end(), encoding="utf-8")
                options["jiffies"] = str(folder / "jiffies.csv")
            title = f"Energy account: {self._name or type(self._model).__name__}"
            text, self.page = _native.footprint_and_page(json.dumps(options), title)
            self.footprint = footprint_of(text)
        self._profile = None
        self.notes = [*self._annotation.left_out, *self.footprint.notes]

    def _power(self) -> str:
        to_unix = time.time() - time.monotonic()
        lines = []
        for label in self._meter.labels:
            before = None
            for row in self._meter.samples(label, self._begin_s - _MARGIN_S):
                if row["energy_j"] != before:  # the file has a row for each change of the sensor
                    lines.append((row["time_s"] + to_unix, label, before := row["energy_j"]))
        rows = "".join(f"{at:.6f},{label},{energy:.6f}\n" for at, label, energy in sorted(lines))
        return "timestamp,device,energy_j\n" + rows

    def _table(self, most: int = 20) -> list[tuple[str, ...]]:
        attributed = sum(row["energy_j"] for row in self.rows) or 1.0
        return [(f"{row['energy_j']:.3f}", f"{100 * row['energy_j'] / attributed:.1f}", f"{row['mean_power_w']:.1f}",
                 row["phase"], row["device"], row["name"]) for row in self.rows[:most]]

    def _of_steps(self) -> list[str]:
        steps = None if self.footprint is None else self.footprint.steps
        if not steps:
            return []
        return [f"a step takes {steps['step_j']:.4g} J +- {steps['step_std_j']:.2g} J in {steps['step_s']:.4g} s, "
                f"mean of {steps['count']}", ""]

    def __str__(self) -> str:
        if self.footprint is None:
            return "not accounted yet"
        table = [("energy (J)", "share (%)", "power (W)", "pass", "device", "name"), *self._table()]
        widths = [max(len(row[i]) for row in table) for i in range(6)]
        lines = ["  ".join(cell.rjust(width) if i < 3 else cell.ljust(width)
                           for i, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in table]
        return "\n".join([*self._of_steps(), *lines, "", *self.notes])

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own, or the table where the page is too large for that."""
        if self.footprint is None:
            return html.escape(str(self))
        if len(self.page) <= LARGEST_PAGE:
            return framed(self.page, "energy account")
        head = "".join(f"<th>{name}</th>" for name in ("J", "%", "W", "pass", "device", "name"))
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                       for row in self._table())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in [*self._of_steps(), *self.notes] if note)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"
