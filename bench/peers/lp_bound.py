"""The relaxed optimum at given iteration times as a linear program, solved by HiGHS (through scipy).

Every computation may take any time between its fastest and its least-energy option and costs what the lower
convex hull of its measured (t, e - P t) says. No plan of measured clocks, nor any mix of them, needs less
energy in that iteration time: an independent check of the planner's certified lower bound, and the time one
T takes as an LP.

Variables per computation: its start, and how far it is stretched along each hull segment (the hull is
convex, so an optimum fills the steepest first by itself). Constraints: precedence and the deadline.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import scipy
from scipy.optimize import linprog
from scipy.sparse import coo_array

import pipeline as pl


class RelaxedProgram:
    """The linear program of one pipeline; only the deadline changes from one iteration time to the next."""

    def __init__(self, shape: pl.Pipeline, profile: pl.Profile, blocking_power: float) -> None:
        self.shape, self.blocking_power = shape, blocking_power
        hulls = {key: pl.lower_hull(options, blocking_power) for key, options in profile.items()}
        n = len(shape.operations)
        self.least_time = np.empty(n)
        self.constant = 0.0
        costs, lengths, stretches = [0.0] * n, [], []
        for i, op in enumerate(shape.operations):
            hull = hulls[op.stage, op.instruction]
            self.least_time[i], energy = hull[0]
            self.constant += energy
            columns = []
            for (t0, e0), (t1, e1) in zip(hull, hull[1:]):
                columns.append(len(costs))
                costs.append((e1 - e0) / (t1 - t0))
                lengths.append(t1 - t0)
            stretches.append(columns)
        self.costs = np.array(costs)
        rows: list[tuple[list[tuple[int, float]], float, bool]] = []
        has_successor = np.zeros(n, dtype=bool)
        for i, before in enumerate(shape.predecessors):
            for other in before:  # start[other] + duration[other] - start[i] <= 0
                has_successor[other] = True
                entries = [(other, 1.0), (i, -1.0)] + [(c, 1.0) for c in stretches[other]]
                rows.append((entries, -self.least_time[other], False))
        for i in np.flatnonzero(~has_successor):  # start[i] + duration[i] <= T
            entries = [(int(i), 1.0)] + [(c, 1.0) for c in stretches[i]]
            rows.append((entries, -self.least_time[i], True))
        at = [(r, column, value) for r, (entries, _, _) in enumerate(rows) for column, value in entries]
        self.matrix = coo_array(
            ([value for _, _, value in at], ([r for r, _, _ in at], [c for _, c, _ in at])),
            shape=(len(rows), len(costs)),
        ).tocsr()
        self.limits = np.array([limit for _, limit, _ in rows])
        self.is_deadline = np.array([deadline for _, _, deadline in rows])
        self.bounds = np.array([(0.0, np.inf)] * n + [(0.0, length) for length in lengths])

    def solve(self, iteration_time: float) -> dict:
        """Net energy (Perseus eq. 4) and energy with blocking (eq. 3, T' = T), J; HiGHS' time, s."""
        limits = np.where(self.is_deadline, self.limits + iteration_time, self.limits)
        begin = time.perf_counter()
        result = linprog(self.costs, A_ub=self.matrix, b_ub=limits, bounds=self.bounds, method="highs")
        seconds = time.perf_counter() - begin
        if result.status != 0:
            raise pl.InputError(f"no plan takes {iteration_time:.9g} s: {result.message}")
        net = self.constant + float(result.fun)
        blocking = self.blocking_power * self.shape.num_stages * iteration_time
        return {"time": iteration_time, "net_energy": net, "energy": net + blocking, "seconds": seconds}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profile", help="profile: CSV stage,instruction,frequency,time,energy (MHz, s, J)")
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--blocking-power", type=float, default=75.0, help="blocking power in W (default 75)")
    parser.add_argument(
        "--time", type=float, action="append", default=[], help="iteration time, s; may be repeated"
    )
    parser.add_argument(
        "--stretch",
        type=float,
        action="append",
        default=[],
        help="iteration time as a multiple of T_min; may be repeated (default 1, 1.05, 1.1, 1.2)",
    )
    parser.add_argument("--out", help="write the results as JSON too")
    args = parser.parse_args(argv)
    profile = pl.read_profile(args.profile)
    shape = pl.build_1f1b(pl.count_stages(profile), args.microbatches)
    t_min = pl.fastest_makespan(shape, profile)
    begin = time.perf_counter()
    program = RelaxedProgram(shape, profile, args.blocking_power)
    build_seconds = time.perf_counter() - begin
    stretches = args.stretch or ([] if args.time else [1.0, 1.05, 1.1, 1.2])
    # A hair above T_min itself: the sum of the same times in another order may differ in the last digit.
    times = args.time + [t_min * max(s, 1.0 + 1e-12) for s in stretches]
    print(
        f"{len(shape.operations)} computations, {program.matrix.shape[0]} rows, "
        f"{program.matrix.shape[1]} columns, "
        f"built in {build_seconds:.3f} s; scipy {scipy.__version__}; T_min {t_min:.9f} s"
    )
    print("time_s       bound_j        net_bound_j    seconds")
    results = []
    for t in times:
        results.append(program.solve(t))
        r = results[-1]
        print(f"{r['time']:<12.9g} {r['energy']:<14.10g} {r['net_energy']:<14.10g} {r['seconds']:.4f}")
    if args.out:
        Path(args.out).write_text(
            json.dumps({"t_min": t_min, "build_seconds": build_seconds, "bounds": results}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    pl.run_main(main)
