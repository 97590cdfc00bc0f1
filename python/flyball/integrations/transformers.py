"""Energy of a Hugging Face Trainer's run, epochs and steps.

    from flyball.integrations.transformers import FlyballCallback
    trainer = Trainer(..., callbacks=[FlyballCallback()])
    trainer.train()

Adds to every line that the Trainer logs: flyball_energy_j (since training began), flyball_mean_w and
flyball_j_per_step (since the line before). `epochs` holds a Measurement per epoch, `run` one of the whole training.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from transformers import TrainerCallback

from flyball.meter import EnergyMeter, Measurement, default_meter


class FlyballCallback(TrainerCallback):  # type: ignore[misc]  # of type Any where transformers is not there
    """`meter`: what to measure with; flyball.default_meter() where none is given.

    Measures on the process that runs it: with several processes on one node, give it to local rank 0 only, or restrict
    each one's meter to its GPU.
    """

    def __init__(self, meter: EnergyMeter | None = None) -> None:
        self.meter = meter or default_meter()
        self.run: Measurement | None = None
        self.epochs: list[Measurement] = []
        self._open: dict[str, tuple[ExitStack, Measurement]] = {}
        self._logged_step = 0
        self._energy_j = 0.0

    def _begin(self, what: str, name: str) -> Measurement:
        self._end(what)
        stack = ExitStack()
        measurement: Measurement = stack.enter_context(self.meter.measure(name))
        self._open[what] = (stack, measurement)
        return measurement

    def _end(self, what: str) -> Measurement | None:
        if what not in self._open:
            return None
        stack, measurement = self._open.pop(what)
        stack.close()
        return measurement

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.epochs = []
        self._energy_j = 0.0
        self._logged_step = state.global_step
        self.run = self._begin("run", "train")
        self._begin("log", "log")

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._begin("epoch", f"epoch {int(state.epoch or 0)}")

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        measured = self._end("epoch")
        if measured is not None:
            self.epochs.append(measured)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        measured = self._end("log")
        if measured is None or logs is None:
            return
        self._energy_j += measured.energy_j
        steps = state.global_step - self._logged_step
        self._logged_step = state.global_step
        figures = {"flyball_energy_j": round(self._energy_j, 3), "flyball_mean_w": round(measured.mean_w, 3)}
        if steps > 0:
            figures["flyball_j_per_step"] = round(measured.energy_j / steps, 3)
        logs.update(figures)
        # The Trainer has copied the line into its history before it calls.
        if state.log_history:
            state.log_history[-1].update(figures)
        self._begin("log", "log")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for what in ("log", "epoch", "run"):
            self._end(what)
