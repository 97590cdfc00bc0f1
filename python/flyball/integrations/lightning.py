"""Energy of a PyTorch Lightning training: of the whole run, of every epoch, and per step.

    from flyball.integrations.lightning import FlyballCallback
    callback = FlyballCallback()
    trainer = lightning.Trainer(..., callbacks=[callback])
    trainer.fit(model)

Logs flyball_energy_j (since training began), flyball_mean_w and flyball_j_per_step of every epoch, beside what the
model logs. `epochs` holds a Measurement per epoch, `run` one of the whole training.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from flyball.meter import EnergyMeter, Measurement, default_meter

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback


class FlyballCallback(Callback):  # type: ignore[misc]  # of type Any where Lightning is not there
    """`meter`: what to measure with; flyball.default_meter() where none is given.

    Measures on the process that runs it: with several processes on one node, restrict each one's meter to its GPU.
    """

    def __init__(self, meter: EnergyMeter | None = None) -> None:
        super().__init__()
        self.meter = meter or default_meter()
        self.run: Measurement | None = None
        self.epochs: list[Measurement] = []
        self._run = ExitStack()
        self._epoch = ExitStack()
        self._energy_j = 0.0
        self._steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.epochs = []
        self._energy_j = 0.0
        self.run = self._run.enter_context(self.meter.measure("train"))

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._steps = trainer.global_step
        self.epochs.append(self._epoch.enter_context(self.meter.measure(f"epoch {trainer.current_epoch}")))

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self._epoch.close()
        measured, steps = self.epochs[-1], trainer.global_step - self._steps
        self._energy_j += measured.energy_j
        figures = {"flyball_energy_j": self._energy_j, "flyball_mean_w": measured.mean_w}
        if steps > 0:
            figures["flyball_j_per_step"] = measured.energy_j / steps
        pl_module.log_dict(figures, rank_zero_only=True)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._run.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._epoch.close()
        self._run.close()
