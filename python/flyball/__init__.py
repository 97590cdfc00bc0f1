"""Flyball: what GPUs and processors take while your program runs.

    import flyball

    with flyball.measure("epoch") as m:
        train_one_epoch()
    print(m)                     # epoch: 12.3 s, 4210.5 J, 342.3 W on average (GPU:0 ..., CPU:0 ...)
    m.devices["GPU:0"].energy_j  # joules

Everything is in SI units: joules, watts, seconds. Nothing is ever set: measuring changes no clock.
"""

from flyball._native import DeviceError, __version__
from flyball.meter import DeviceEnergy, EnergyMeter, Measurement, default_meter, measure

__all__ = [
    "DeviceEnergy",
    "DeviceError",
    "EnergyMeter",
    "Measurement",
    "__version__",
    "default_meter",
    "measure",
]
