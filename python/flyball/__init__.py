"""Flyball: what GPUs and processors take while your program runs, and the clocks that give some of it back.

    import flyball

    with flyball.measure("epoch") as m:
        train_one_epoch()
    print(m)                     # epoch: 12.3 s, 4210.5 J, 342.3 W on average (GPU:0 ..., CPU:0 ...)
    m.devices["GPU:0"].energy_j  # joules

Everything is in SI units: joules, watts, seconds; clocks in MHz. Measuring changes no clock; a flyball.Session, for
pipeline-parallel training, does. flyball.plan() says beforehand which clocks, and what they save (flyball.planning).
"""

from __future__ import annotations

from typing import Any

from flyball import cluster, profile
from flyball._native import VERSION as __version__
from flyball._native import DeviceError, InputError, UsageError
from flyball.accounting import AccountSession, Footprint, account, account_session
from flyball.elastic_job import ElasticJob, elastic
from flyball.meter import DeviceEnergy, EnergyMeter, Measurement, default_meter, measure
from flyball.planning import Plan, Result, emulate, forecast, partition, plan
from flyball.session import Computation, Session, SessionState, Window

__all__ = [
    "AccountSession",
    "Computation",
    "DeviceEnergy",
    "DeviceError",
    "ElasticJob",
    "EnergyMeter",
    "Footprint",
    "InputError",
    "Measurement",
    "Plan",
    "Result",
    "Session",
    "SessionState",
    "UsageError",
    "Window",
    "__version__",
    "account",
    "account_session",
    "cluster",
    "default_meter",
    "elastic",
    "emulate",
    "forecast",
    "measure",
    "partition",
    "plan",
    "profile",
]


def __getattr__(name: str) -> Any:
    """flyball.torch is imported at its first use, and PyTorch with it."""
    if name == "torch":
        import importlib

        return importlib.import_module("flyball.torch")
    raise AttributeError(f"module 'flyball' has no attribute '{name}'")
