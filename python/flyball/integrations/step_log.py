"""Joules and savings of the steps of any training loop in TensorBoard, Weights & Biases or MLflow.

    from flyball.integrations.step_log import StepLog, to_tensorboard
    with StepLog(to_tensorboard(SummaryWriter()), session=session, every=10) as log:
        for batch in data:
            train(batch)
            log.step()

A line has flyball_energy_j (since the log began), flyball_mean_w, flyball_j_per_step and flyball_step_s (of the steps
since the line before); with a session by plan also flyball_saved_j and flyball_saved_error_j (this rank's GPU against
maximum clocks, so far, and the standard error), flyball_planned_step_s, and flyball_promise_kept, 1 or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from flyball.meter import EnergyMeter, Measurement, default_meter

Write = Callable[[Mapping[str, float], int], None]


def to_tensorboard(writer: Any) -> Write:
    """`writer`: a SummaryWriter, of PyTorch or of tensorboardX."""

    def write(figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)

    return write


def to_wandb(run: Any) -> Write:
    """`run`: what wandb.init() returns. Figures are shown over flyball_step: W&B takes no line of an earlier step than
    the training has logged by then."""
    run.define_metric("flyball_step", hidden=True)
    run.define_metric("flyball_*", step_metric="flyball_step")
    return lambda figures, step: run.log({**figures, "flyball_step": step})


def to_mlflow(run_id: str | None = None) -> Write:
    """`run_id`: None is the active run."""
    import mlflow

    return lambda figures, step: mlflow.log_metrics(dict(figures), step=step, run_id=run_id)


class StepLog:
    """Writes a line for every `every` steps.

    A line is written when the next one is full, or at the end: by then the meter knows its energy, and the training
    waits for nothing. `meter`: flyball.default_meter() where none is given; it measures on the process that runs it,
    so that of several processes on one node one has a log, or each has a meter of its GPU.
    """

    def __init__(self, write: Write, *, session: Any = None, meter: EnergyMeter | None = None, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every is {every}, it must be at least 1")
        self._write = write
        self._session = session
        self._meter = meter or default_meter()
        self._every = every
        self._step = 0  # the number of the last one
        self._steps = 0  # of the line
        self._energy_j = 0.0
        self._line = ExitStack()
        self._measured: Measurement | None = None
        # The line that is full and not written: its last step, its number of steps, and what is known of it.
        self._full: tuple[int, int, Measurement, dict[str, float]] | None = None

    def __enter__(self) -> StepLog:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._steps > 0:
            self._end()
        else:
            self._line.close()
        self._write_full()

    def step(self, number: int | None = None) -> None:
        """Call it after each step. `number`: the step's, where the loop counts otherwise than 1, 2, 3, ..."""
        self._step = self._step + 1 if number is None else number
        self._steps += 1
        if self._steps < self._every:
            return
        self._end()
        self._begin()

    def _begin(self) -> None:
        self._steps = 0
        self._measured = self._line.enter_context(self._meter.measure("steps"))

    def _end(self) -> None:
        self._line.close()
        self._write_full()
        assert self._measured is not None
        self._full = (self._step, self._steps, self._measured, self._promised())

    def _write_full(self) -> None:
        if self._full is None:
            return
        step, steps, measured, promised = self._full
        self._full = None
        self._energy_j += measured.energy_j
        self._write({"flyball_energy_j": self._energy_j, "flyball_mean_w": measured.mean_w,
                     "flyball_j_per_step": measured.energy_j / steps, "flyball_step_s": measured.time_s / steps,
                     **promised}, step)

    def _promised(self) -> dict[str, float]:
        if self._session is None:
            return {}
        state = self._session.state
        figures = {}
        if state.compared_iterations > 0:
            figures["flyball_saved_j"] = state.compared_energy_at_maximum_j - state.compared_energy_j
            figures["flyball_saved_error_j"] = state.compared_energy_error_j
        if state.planned_time_s > 0:
            figures["flyball_planned_step_s"] = state.planned_time_s
        if state.promise != "unknown":
            figures["flyball_promise_kept"] = 1.0 if state.promise == "kept" else 0.0
        return figures
