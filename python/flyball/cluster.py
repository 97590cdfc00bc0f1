"""A cluster's jobs under a power budget, simulated: `flyball cluster` (docs/manual/cluster.md). Options and errors are as in
flyball.planning; energies in joules, times in seconds."""

from __future__ import annotations

from typing import Any

from flyball.planning import Result, _result

__all__ = ["compare", "simulate"]


def simulate(trace: Any, **options: Any) -> Result:
    """Runs a trace of jobs under one policy.

        flyball.cluster.simulate("day.csv", policy="joule-price", eta=0.7)["avg_jct_s"]

    trace: a file or a table with the columns submit_time (s), num_gpus, duration (s), and more (docs/formats/job-trace.md).
    out: a folder for report and tables.
    """
    return _result("cluster simulate", {}, {"trace": trace, **options})


def compare(trace: Any, **options: Any) -> Result:
    """Runs a trace of jobs under several policies.

        flyball.cluster.compare("day.csv", policies=["fifo", "joule-price"], eta=0.7).table("runs")

    trace, out: as for simulate().
    """
    return _result("cluster compare", {}, {"trace": trace, **options})
