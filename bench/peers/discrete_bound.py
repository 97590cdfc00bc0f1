"""How close any plan of measured clocks comes to the relaxed optimum: a mixed-integer program, solved by HiGHS.

The relaxed bound (lp_bound.py) lets a computation mix two clocks; no real plan can. This program chooses one
measured option for every computation, and bounds from below what any such plan takes whose iteration is no
longer than the planner's. The difference between the two bounds is the price of clocks that are discrete: no
planner can save it. What is left up to the planner's own plan is the most that a better search could still save.

Options that cannot be part of a plan as good as the planner's are left out first: at the relaxed optimum's
prices, each of them alone costs more than the planner's plan is above that optimum (reduced-cost fixing).

  build/peers-venv/bin/python bench/peers/discrete_bound.py PROFILE --microbatches 12 --seconds 600
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array

import pipeline as pl


@dataclass(frozen=True)
class Choice:
    """An option of a computation: s, and J net of blocking (Perseus eq. 4)."""

    time: float
    net: float


def choices_of(options: list[pl.Option], blocking_power: float) -> list[Choice]:
    """The options that no other one beats in both, fastest first."""
    kept: list[Choice] = []
    by_time = sorted((o.time, o.energy - blocking_power * o.time) for o in options)
    for one in (Choice(*pair) for pair in by_time):
        if not kept or one.net < kept[-1].net:
            kept.append(one)
    return kept


class Rows:
    """The rows of a sparse matrix, with the bounds of each."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, entries: list[tuple[int, float]], low: float, high: float) -> None:
        row = len(self.low)
        self.entries += [(row, column, value) for column, value in entries]
        self.low.append(low)
        self.high.append(high)

    def matrix(self, columns: int) -> coo_array:
        rows, places, values = zip(*self.entries)
        return coo_array((values, (rows, places)), shape=(len(self.low), columns)).tocsr()


class Program:
    """Minimise the energy, J, of a plan whose iteration takes at most `longest`, s. `power` is what all stages draw
    while they wait, W. Columns: an option of a computation is taken or not, in order; then the start of each
    computation, and the time of the iteration."""

    def __init__(self, shape: pl.Pipeline, choices: list[list[Choice]], longest: float, power: float) -> None:
        self.begins = np.cumsum([0] + [len(options) for options in choices])
        self.options = int(self.begins[-1])
        n = len(choices)
        end = self.options + n
        self.costs = np.array([c.net for options in choices for c in options] + [0.0] * n + [power])
        self.highest = np.array([1.0] * self.options + [longest] * (n + 1))
        self.precedence, self.choose = Rows(), Rows()
        has_successor = {other for before in shape.predecessors for other in before}
        takes = [
            [(int(begin) + k, choice.time) for k, choice in enumerate(options)]
            for begin, options in zip(self.begins, choices)
        ]
        for i, before in enumerate(shape.predecessors):
            self.choose.add([(column, 1.0) for column, _ in takes[i]], 1.0, 1.0)
            for other in before:
                starts = [(self.options + other, 1.0), (self.options + i, -1.0)]
                self.precedence.add(starts + takes[other], -np.inf, 0.0)
            if i not in has_successor:
                self.precedence.add([(self.options + i, 1.0), (end, -1.0)] + takes[i], -np.inf, 0.0)

    def relaxed(self) -> tuple[float, list[np.ndarray]]:
        """The optimum where options may be mixed, and by how much each option alone would raise it at least."""
        result = linprog(
            self.costs,
            A_ub=self.precedence.matrix(len(self.costs)),
            b_ub=self.precedence.high,
            A_eq=self.choose.matrix(len(self.costs)),
            b_eq=self.choose.high,
            bounds=np.column_stack([np.zeros(len(self.costs)), self.highest]),
            method="highs",
        )
        if result.status != 0:
            raise pl.InputError(f"no plan takes {self.highest[-1]:.9g} s: {result.message}")
        raised = result.lower.marginals
        return float(result.fun), [raised[a:b] for a, b in zip(self.begins, self.begins[1:])]

    def discrete(self, seconds: float) -> tuple[float, float | None]:
        """A lower bound of the optimum, and the energy of the best plan that was found in `seconds`, if any was."""
        columns = len(self.costs)
        constraints = [
            LinearConstraint(rows.matrix(columns), rows.low, rows.high) for rows in (self.precedence, self.choose)
        ]
        whole = np.zeros(columns)
        whole[: self.options] = 1
        options = {"time_limit": seconds, "mip_rel_gap": 1e-7}
        bounds = Bounds(np.zeros(columns), self.highest)
        result = milp(self.costs, constraints=constraints, bounds=bounds, integrality=whole, options=options)
        if result.mip_dual_bound is None:
            raise pl.InputError(f"HiGHS found no bound: {result.message}")
        return float(result.mip_dual_bound), None if result.x is None else float(result.fun)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("profile", nargs="+", help="CSV stage,instruction,frequency,time,energy (MHz, s, J)")
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--blocking-power", type=float, default=75.0, help="blocking power in W (default 75)")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="longest time of HiGHS for a profile (default 600)"
    )
    parser.add_argument("--program", default="build/flyball", help="the planner (default build/flyball)")
    args = parser.parse_args(argv)
    print("| profile | plan J | above the relaxed bound % | above the discrete bound %, at most | HiGHS s |")
    print("|---|--:|--:|--:|--:|")
    for path in args.profile:
        profile = pl.read_profile(path)
        shape = pl.build_1f1b(pl.count_stages(profile), args.microbatches)
        command = [args.program, "plan", path, "--microbatches", str(args.microbatches), "--planner", "perseus"]
        command += ["--blocking-power", str(args.blocking_power), "--format", "json"]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            raise pl.InputError(run.stderr.strip())
        plan = json.loads(run.stdout)
        ours = plan["selected"]["energy"]
        longest = max(plan["selected"]["time"], plan["baseline"]["time"]) + 1e-6  # HiGHS is exact to so much
        power = args.blocking_power * shape.num_stages
        choices = [
            choices_of(profile[op.stage, op.instruction], args.blocking_power) for op in shape.operations
        ]
        relaxed, raised = Program(shape, choices, longest, power).relaxed()
        room = ours - relaxed + 1e-6
        left = [[c for c, more in zip(options, by) if more <= room] for options, by in zip(choices, raised)]
        begin = time.perf_counter()
        bound, best = Program(shape, left, longest, power).discrete(args.seconds)
        bound = min(bound, ours)  # a plan with an option that was left out takes more than ours
        found = "" if best is None or best >= ours else f" (HiGHS found {best:.2f} J)"
        print(
            f"| {path.rpartition('/')[2]} | {ours:.2f}{found} | {100 * (ours / relaxed - 1):.3f} "
            f"| {100 * (ours / bound - 1):.3f} "
            f"| {time.perf_counter() - begin:.0f} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    pl.run_main(main)
