"""What the comparison scripts share: profile, pipeline order, replay with measured options, convex hulls.

Written apart from the C++ program on purpose, so that the two check each other. Units: s, J, W, MHz.
"""

from __future__ import annotations

import csv
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

INSTRUCTIONS = ("forward", "backward")


class InputError(Exception):
    """A bad input file or argument; the text says where and what to do."""


@dataclass(frozen=True)
class Option:
    """One measured way to run a computation: clock in MHz, time in s, energy in J."""

    frequency: int
    time: float
    energy: float


@dataclass(frozen=True)
class Operation:
    """One computation of the pipeline."""

    stage: int
    instruction: str
    microbatch: int


@dataclass(frozen=True)
class Pipeline:
    """Operations, every predecessor before its successors, and the predecessors of each (indices)."""

    num_stages: int
    num_microbatches: int
    operations: list[Operation]
    predecessors: list[list[int]]


Profile = dict[tuple[int, str], list[Option]]


def read_profile(path: str | Path) -> Profile:
    """Reads `stage,instruction,frequency,time,energy` rows; lines that start with '#' are skipped."""
    columns = ("stage", "instruction", "frequency", "time", "energy")
    profile: Profile = {}
    try:
        with open(path, newline="", encoding="utf-8") as stream:
            numbered = [
                (n, text) for n, text in enumerate(stream, 1) if text.strip() and not text.startswith("#")
            ]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not numbered:
        raise InputError(f"{path}: no header; expected {','.join(columns)}")
    rows = csv.DictReader(text for _, text in numbered)
    missing = [name for name in columns if name not in (rows.fieldnames or [])]
    if missing:
        raise InputError(f"{path}:{numbered[0][0]}: the header lacks {', '.join(missing)}")
    for (line, _), row in zip(numbered[1:], rows):
        instruction = row["instruction"]
        if instruction not in INSTRUCTIONS:
            raise InputError(
                f"{path}:{line}: instruction '{instruction}'; this comparison knows {INSTRUCTIONS}"
            )
        try:
            key = (int(row["stage"]), instruction)
            option = Option(int(float(row["frequency"])), float(row["time"]), float(row["energy"]))
        except (TypeError, ValueError) as error:
            raise InputError(f"{path}:{line}: {error}") from error
        options = profile.setdefault(key, [])
        if any(other.frequency == option.frequency for other in options):
            raise InputError(f"{path}:{line}: stage {key[0]} {instruction} has {option.frequency} MHz twice")
        options.append(option)
    stages = count_stages(profile)
    for stage in range(stages):
        for instruction in INSTRUCTIONS:
            if (stage, instruction) not in profile:
                raise InputError(f"{path}: stage {stage} has no {instruction} rows")
    return profile


def count_stages(profile: Profile) -> int:
    return 1 + max(stage for stage, _ in profile)


def digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def stage_order_1f1b(stage: int, num_stages: int, num_microbatches: int) -> list[tuple[str, int]]:
    """1F1B on one stage: warm-up forwards, then one forward, one backward in turn, then what is left."""
    warm_up = min(num_stages - stage - 1, num_microbatches)
    order = [("forward", m) for m in range(warm_up)]
    for m in range(num_microbatches - warm_up):
        order += [("forward", warm_up + m), ("backward", m)]
    order += [("backward", m) for m in range(num_microbatches - warm_up, num_microbatches)]
    return order


def build_1f1b(num_stages: int, num_microbatches: int) -> Pipeline:
    """The computation DAG of 1F1B: order within a stage, F(s,m) before F(s+1,m), B(s+1,m) before B(s,m)."""
    waiting: dict[tuple[int, str, int], list[tuple[int, str, int]]] = {}
    for stage in range(num_stages):
        previous = None
        for instruction, microbatch in stage_order_1f1b(stage, num_stages, num_microbatches):
            key = (stage, instruction, microbatch)
            before = [previous] if previous is not None else []
            neighbour = stage - 1 if instruction == "forward" else stage + 1
            if 0 <= neighbour < num_stages:
                before.append((neighbour, instruction, microbatch))
            waiting[key] = before
            previous = key
    successors: dict[tuple[int, str, int], list[tuple[int, str, int]]] = {key: [] for key in waiting}
    for key, before in waiting.items():
        for other in before:
            successors[other].append(key)
    open_count = {key: len(before) for key, before in waiting.items()}
    ready = [key for key, count in open_count.items() if count == 0]
    index: dict[tuple[int, str, int], int] = {}
    while ready:
        key = ready.pop()
        index[key] = len(index)
        for other in successors[key]:
            open_count[other] -= 1
            if open_count[other] == 0:
                ready.append(other)
    if len(index) != len(waiting):
        raise InputError("the schedule contains a cycle")
    return Pipeline(
        num_stages,
        num_microbatches,
        [Operation(*key) for key in index],
        [[index[other] for other in waiting[key]] for key in index],
    )


def makespan(pipeline: Pipeline, durations: np.ndarray) -> np.ndarray:
    """Longest path. `durations` has one row per operation; its columns are independent plans."""
    finish = np.zeros_like(durations)
    for i, before in enumerate(pipeline.predecessors):
        start = 0
        for other in before:
            start = np.maximum(start, finish[other])
        finish[i] = start + durations[i]
    return finish.max(axis=0)


def fastest_makespan(pipeline: Pipeline, profile: Profile) -> float:
    """True T_min in s: every computation at the option of least time."""
    least = {key: min(option.time for option in options) for key, options in profile.items()}
    times = np.array([[least[op.stage, op.instruction]] for op in pipeline.operations])
    return float(makespan(pipeline, times)[0])


def replay(
    pipeline: Pipeline, profile: Profile, clocks: np.ndarray, blocking_power: float
) -> dict[str, np.ndarray]:
    """What plans really give when every computation runs at its clock, with the measured time and energy.

    `clocks` has one row per operation (MHz), one column per plan. `energy` is Perseus eq. 3 with T' = T,
    `net_energy` is eq. 4: the same without the constant blocking_power * stages * T.
    """
    times = np.empty(clocks.shape)
    net = np.zeros(clocks.shape[1])
    tables = {}
    for key, options in profile.items():
        ordered = sorted(options, key=lambda option: option.frequency)
        tables[key] = (
            np.array([option.frequency for option in ordered]),
            np.array([option.time for option in ordered]),
            np.array([option.energy for option in ordered]),
        )
    for i, op in enumerate(pipeline.operations):
        frequencies, option_times, option_energies = tables[op.stage, op.instruction]
        at = np.searchsorted(frequencies, clocks[i])
        assert np.array_equal(frequencies[at], clocks[i]), "a plan names a clock that was not measured"
        times[i] = option_times[at]
        net += option_energies[at] - blocking_power * option_times[at]
    total = makespan(pipeline, times)
    return {"time": total, "net_energy": net, "energy": net + blocking_power * pipeline.num_stages * total}


def lower_hull(options: list[Option], blocking_power: float) -> list[tuple[float, float]]:
    """Lower convex hull of (t, e - P t) from the fastest option to the one of least net energy."""
    points = sorted((option.time, option.energy - blocking_power * option.time) for option in options)
    hull: list[tuple[float, float]] = []
    for t, e in points:
        if hull and e >= hull[-1][1]:
            continue  # Slower and no better; also drops a repeated time.
        while len(hull) >= 2:
            (t0, e0), (t1, e1) = hull[-2], hull[-1]
            if (e1 - e0) * (t - t1) < (e - e1) * (t1 - t0):
                break
            hull.pop()
        hull.append((t, e))
    return hull


def run_main(main) -> None:
    """Runs `main`, turning InputError into one line and exit status 3."""
    try:
        sys.exit(main())
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3)
