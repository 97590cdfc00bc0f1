"""Runs the published Perseus solver (package `lowtime`) on a profile and replays every plan of its frontier.

The profile is fed as lowtime's own Perseus example feeds it: energy net of blocking at the quantized time,
Pareto filter, exponential cost model, default settings. Only time inside the solver's own code counts as
solve time.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[_name] = "1"  # Before numpy is imported, which reads them once.
os.environ.setdefault("MPLBACKEND", "Agg")

import argparse
import json
import math
import platform
import resource
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import lowtime.solver
import networkx as nx
import numpy as np
from lowtime.cost_model import ExponentialModel
from lowtime.graph_utils import add_sink_node, add_source_node
from lowtime.operation import CandidateExecutionOptions, ExecutionOption, OperationSpec
from lowtime.perseus.instruction import Backward, Forward

import pipeline as pl

SOURCE, SINK = -1, -2


class PythonCutSolver(lowtime.solver.PhillipsDessouky):
    """The peer with its own pure-Python minimum cut in place of the compiled one.

    Release 0.3.0 still contains that method but calls the compiled class by name; `bind_cut` makes what
    that name is bound to for the run. With `every` > 1 only every so-many-th cut is taken in Python as
    well, and timed apart: a sample of what the pure-Python path costs all along the frontier.
    """

    def __init__(self, dag: nx.DiGraph, every: int) -> None:
        super().__init__(dag)
        self.every = every
        self.calls = 0
        self.samples: list[dict] = []

    def format_rust_inputs(self, dag: nx.DiGraph):
        self.current = dag
        return super().format_rust_inputs(dag) if self.every > 1 else (dag.nodes, [])


def bind_cut(solver: PythonCutSolver, compiled):
    """A stand-in for the peer's compiled module that routes cuts through `solver`."""

    class PythonCut:
        def __init__(self, *inputs) -> None:
            self.inputs = inputs

        def find_min_cut(self):
            call, solver.calls = solver.calls, solver.calls + 1
            if solver.every == 1:
                return solver.find_min_cut(solver.current)
            begin = time.process_time()
            cut = compiled.PhillipsDessouky(*self.inputs).find_min_cut()
            middle = time.process_time()
            if call % solver.every == 0:
                in_python = solver.find_min_cut(solver.current)
                sample = {
                    "call": call,
                    "compiled_seconds": middle - begin,
                    "python_seconds": time.process_time() - middle,
                    "same_cut": set(in_python[0]) == set(cut[0]),
                }
                solver.samples.append(sample)
            return cut

    class Module:
        PhillipsDessouky = PythonCut

    return Module


def candidate_options(options: list[pl.Option], unit_time: float, power: float) -> CandidateExecutionOptions:
    """The peer's filtered options, at energy net of blocking at `power` (W) over the quantized time."""
    candidates = CandidateExecutionOptions[int](
        options=[
            ExecutionOption[int](real_time=o.time, unit_time=unit_time, cost=o.energy, knob=o.frequency)
            for o in options
        ]
    )
    for option in candidates.options:
        option.cost -= power * option.quant_time * option.unit_time
    return candidates


def fit(candidates: CandidateExecutionOptions, where: str) -> tuple[ExponentialModel, bool]:
    """The peer's default fit; where its grid of guesses finds none, a guess from the data, as it advises."""
    if len(candidates.options) < 3:
        raise pl.InputError(
            f"{where}: {len(candidates.options)} distinct options left at this unit time, the peer's "
            "exponential needs 3; take a smaller --unit-time"
        )
    try:
        return ExponentialModel(candidates), True
    except (ValueError, RuntimeError):
        slow, fast = candidates.options[0], candidates.options[-1]
        b = -3.0 / (slow.quant_time - fast.quant_time)
        a = (fast.cost - slow.cost) / (math.exp(b * fast.quant_time) - math.exp(b * slow.quant_time))
        guess = (a, b, slow.cost - a * math.exp(b * slow.quant_time))
        return ExponentialModel(candidates, initial_guess=guess), False


def build_dag(shape: pl.Pipeline, specs: dict) -> tuple[nx.DiGraph, list]:
    """The peer's graph, and its operations in the order of `shape.operations`."""
    kinds = {"forward": Forward, "backward": Backward}
    dag = nx.DiGraph()
    nodes = []
    for i, op in enumerate(shape.operations):
        spec = specs[op.stage, op.instruction]
        nodes.append(kinds[op.instruction](spec=spec, stage_id=op.stage, micro_batch_id=op.microbatch))
        dag.add_node(i, op=nodes[-1])
    for i, before in enumerate(shape.predecessors):
        dag.add_edges_from((other, i) for other in before)
    add_source_node(dag, SOURCE)
    add_sink_node(dag, SINK)
    dag.graph["source_node"], dag.graph["sink_node"] = SOURCE, SINK
    return dag, nodes


@dataclass
class Run:
    """What the peer did. Seconds are those inside its code, without the cuts sampled in Python.

    They are processor time, so that a busy machine does not make the peer look slow; wall clock beside it.
    """

    finished: bool = False
    solve_seconds: float = 0.0
    wall_seconds: float = 0.0  # with the cuts sampled in Python
    cuts: int = 0
    plans: list[np.ndarray] = field(default_factory=list)  # clocks (MHz) of all operations, per point
    planned: list[tuple[int, float]] = field(default_factory=list)  # quantized time, fitted net energy (J)
    elapsed: list[float] = field(default_factory=list)
    samples: list[dict] = field(default_factory=list)


def solve(dag: nx.DiGraph, nodes: list, every: int, max_seconds: float | None, expected: int) -> Run:
    """Runs the peer; `every`: 0 compiled cuts, 1 cuts in Python, more: one in so many in Python as well."""
    run = Run()
    compiled = lowtime.solver._lowtime_rs
    begin = begin_processor = 0.0

    def start() -> None:
        nonlocal begin, begin_processor
        begin, begin_processor = time.perf_counter(), time.process_time()

    def stop() -> None:
        run.wall_seconds += time.perf_counter() - begin
        run.solve_seconds += time.process_time() - begin_processor

    start()
    if every:
        solver = PythonCutSolver(dag, every)
        lowtime.solver._lowtime_rs = bind_cut(solver, compiled)
        run.samples = solver.samples
    else:
        solver = lowtime.solver.PhillipsDessouky(dag)
    stop()
    steps = solver.run()
    sampled = 0
    try:
        while max_seconds is None or run.wall_seconds < max_seconds:
            start()
            result = next(steps, None)
            stop()
            run.solve_seconds -= sum(sample["python_seconds"] for sample in run.samples[sampled:])
            sampled = len(run.samples)
            if result is None:
                run.finished = True
                break
            run.plans.append(np.array([node.assigned_knob for node in nodes], dtype=np.int32))
            run.planned.append((result.quant_time, float(result.cost)))
            run.elapsed.append(run.solve_seconds)
            if sys.stderr.isatty() and len(run.plans) % 10 == 0:
                print(
                    f"\r{len(run.plans)}/{expected} points, {run.wall_seconds:.1f} s", end="", file=sys.stderr
                )
    finally:
        lowtime.solver._lowtime_rs = compiled
    run.cuts = getattr(solver, "calls", 0)
    return run


def timing_of(run: Run, expected: int) -> dict:
    """Solve time as measured; of the whole run, where it was stopped; and in pure Python, where sampled."""
    whole = run.solve_seconds
    if not run.finished and run.plans:
        whole = run.solve_seconds / len(run.plans) * expected
    timing: dict = {
        "finished": run.finished,
        "points_done": len(run.plans),
        "points_expected": expected,
        "solve_seconds": run.solve_seconds,
        "wall_seconds": run.wall_seconds,
        "solve_seconds_whole": whole,
        "solve_seconds_extrapolated": not run.finished,
    }
    if run.samples:
        python = sum(sample["python_seconds"] for sample in run.samples) / len(run.samples)
        compiled = sum(sample["compiled_seconds"] for sample in run.samples) / len(run.samples)
        timing["python_sample"] = {
            "samples": len(run.samples),
            "cuts": run.cuts,
            "same_cut": sum(sample["same_cut"] for sample in run.samples),
            "mean_python_cut_seconds": python,
            "mean_compiled_cut_seconds": compiled,
            "estimated_python_seconds": whole + max(expected, run.cuts) * (python - compiled),
        }
    return timing


def points_of(
    run: Run, shape: pl.Pipeline, profile: pl.Profile, power: float, unit_time: float
) -> list[dict]:
    """Every point as planned and as its clocks really give it."""
    if not run.plans:
        return []
    real = pl.replay(shape, profile, np.stack(run.plans, axis=1), power)
    return [
        {
            "planned_time": quant_time * unit_time,
            "planned_net_energy": cost,
            "time": float(real["time"][i]),
            "energy": float(real["energy"][i]),
            "net_energy": float(real["net_energy"][i]),
            "solve_seconds": run.elapsed[i],
        }
        for i, (quant_time, cost) in enumerate(run.planned)
    ]


def inputs_of(args: argparse.Namespace) -> dict:
    return {
        "profile": Path(args.profile).name,
        "profile_sha256": pl.digest(args.profile),
        "schedule": args.schedule,
        "microbatches": args.microbatches,
        "blocking_power_w": args.blocking_power,
        "unit_time_s": args.unit_time,
        "path": "python" if args.python_path else "compiled",
        "python_sample_every": args.sample_python,
        "max_seconds": args.max_seconds,
        "packages": {name: version(name) for name in ("lowtime", "networkx", "numpy", "scipy")},
    }


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def summary(document: dict) -> str:
    inputs = document["inputs"]
    lines = [
        f"{inputs['profile']} M={inputs['microbatches']} {inputs['path']} path: "
        f"{document['points_done']} of {document['points_expected']} points, "
        f"fit {document['fit_seconds']:.2f} s, build {document['build_seconds']:.2f} s, "
        f"solve {document['solve_seconds']:.2f} s"
    ]
    if document["solve_seconds_extrapolated"]:
        lines.append(
            f"  stopped early; by points the whole would take {document['solve_seconds_whole']:.0f} s"
        )
    if "python_sample" in document:
        sample = document["python_sample"]
        lines.append(
            f"  {sample['samples']} of {sample['cuts']} cuts in Python too: "
            f"{sample['mean_python_cut_seconds']:.3f} s each, {sample['same_cut']} of them the same cut; "
            f"pure Python would take about {sample['estimated_python_seconds']:.0f} s"
        )
    if document["points"]:
        fastest = min(document["points"], key=lambda p: (p["time"], p["energy"]))
        worst = max(p["time"] / p["planned_time"] - 1 for p in document["points"])
        lines.append(
            f"  true T_min {document['true_t_min']:.6f} s, fastest realised {fastest['time']:.6f} s at "
            f"{fastest['energy']:.2f} J; realised time exceeds the plan by up to {100 * worst:.2f} %"
        )
    return "\n".join(lines)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profile", help="profile: CSV stage,instruction,frequency,time,energy (MHz, s, J)")
    parser.add_argument("--microbatches", type=int, required=True)
    parser.add_argument("--schedule", choices=["1f1b"], default="1f1b")
    parser.add_argument("--blocking-power", type=float, default=75.0, help="blocking power in W (default 75)")
    parser.add_argument("--unit-time", type=float, default=0.001, help="unit of time in s (default 0.001)")
    parser.add_argument(
        "--python-path", action="store_true", help="pure-Python minimum cut, not the compiled"
    )
    parser.add_argument(
        "--sample-python",
        type=int,
        default=0,
        metavar="K",
        help="and every K-th cut in Python too, timed apart",
    )
    parser.add_argument("--max-seconds", type=float, help="stop at the first point past this wall time, in s")
    parser.add_argument("--reuse", action="store_true", help="keep OUT if it was made from the same inputs")
    parser.add_argument("--out", required=True)
    args = parser.parse_args(argv)
    if args.microbatches < 1 or args.unit_time <= 0 or args.blocking_power < 0:
        parser.error("microbatches and unit time must be positive, blocking power not negative")
    if args.sample_python < 0 or args.sample_python == 1:
        parser.error("--sample-python needs 2 or more")
    if args.python_path and args.sample_python:
        parser.error("--sample-python belongs to the compiled path")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    profile = pl.read_profile(args.profile)
    inputs = inputs_of(args)
    out = Path(args.out)
    if args.reuse and out.is_file():
        kept = json.loads(out.read_text())
        if kept["inputs"] == inputs and "command_seconds_whole" in kept:
            print(f"{out}: kept, made from the same inputs")
            return 0
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    shape = pl.build_1f1b(pl.count_stages(profile), args.microbatches)

    begin = time.perf_counter()
    specs, guessed = {}, []
    for key, options in sorted(profile.items()):
        candidates = candidate_options(options, args.unit_time, args.blocking_power)
        model, by_default = fit(candidates, f"{args.profile}: stage {key[0]} {key[1]}")
        if not by_default:
            guessed.append(f"stage {key[0]} {key[1]}")
        specs[key] = OperationSpec(options=candidates, cost_model=model)
    fit_seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    dag, nodes = build_dag(shape, specs)
    build_seconds = time.perf_counter() - begin

    ends = pl.makespan(shape, np.array([[node.min_duration, node.max_duration] for node in nodes]))
    expected = int(ends[1] - ends[0])
    run = solve(dag, nodes, 1 if args.python_path else args.sample_python, args.max_seconds, expected)
    # What the system accounts to this process so far: starting, packages, fitting and the graph, too.
    command_seconds = time.process_time() - sum(sample["python_seconds"] for sample in run.samples)
    timing = timing_of(run, expected)
    document = {
        "peer": "lowtime",
        "version": version("lowtime"),
        "inputs": inputs,
        "machine": {"python": platform.python_version(), "core": core, "processor": processor_name()},
        "default_fit_failed": guessed,
        "stages": shape.num_stages,
        "operations": len(shape.operations),
        "fit_seconds": fit_seconds,
        "build_seconds": build_seconds,
        **timing,
        "command_seconds_whole": command_seconds - run.solve_seconds + timing["solve_seconds_whole"],
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "true_t_min": pl.fastest_makespan(shape, profile),
        "points": points_of(run, shape, profile, args.blocking_power, args.unit_time),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n")
    print(summary(document))
    return 0


if __name__ == "__main__":
    pl.run_main(main)
