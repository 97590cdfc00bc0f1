#!/usr/bin/env python3
"""Tables 3, 4 and 6 of Perseus (SOSP'24) and EnvPipe's rows in them, from what their authors measured.

    python3 bench/measured_tables.py --program build/flyball                                 # print all tables
    python3 bench/measured_tables.py --program build/flyball --write docs/measured-tables.md # rewrite them in place
    python3 bench/measured_tables.py --program build/flyball --check docs/measured-tables.md # fail where they differ

Beside print stands what the recorded runs say, what the model of an iteration predicts of them, and what is planned on
profiles that were measured, or fitted to the runs. The measurements are found as bench/real_runs.py finds them; exit
status 77 where they are not. Takes some ten seconds. Standard library only.
"""

from __future__ import annotations

import csv
import tomllib
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import paper_tables
import real_runs
from order_tables import MEASURED
from paper_tables import (DEGREES, MICROBATCHES, POTENTIAL, PROFILES, ROOT, TABLE_3, TABLE_4, TABLE_6, Flyball, fixed,
                          markdown)
from real_runs import WORKLOADS

# The shipped profile of the same row of print.
SHIPPED = {
    "a100-gpt3-xl-pp4-dp1-tp1": "gpt3-1.3b-a100-4stage",
    "a100-bert-huge-uncased-pp4-dp1-tp1": "bert-1.3b-a100-4stage",
    "a40-bert-huge-uncased-pp8-dp1-tp1": "bert-1.3b-a40-8stage",
    "a40-bloom-3b-pp8-dp1-tp1": "bloom-3b-a40-8stage",
    "a40-wide-resnet101_8-pp8-dp1-tp1": "wide-resnet101-1.5b-a40-8stage",
}
# Measured stages of models too large to run, by the shipped profile of the same row: file, and its name in the
# authors' emulated results of EnvPipe. Those are ten times as long, and their energies are of all 8 GPUs of a stage.
STAGES = {"gpt3-175b-a40-8stage": ("gpt3-175b+a40_bf16.csv", "gpt3-175b", "a40"),
          "bloom-176b-a100-sxm-8stage": ("bloom+a100_sxm_bf16.csv", "bloom", "a100_sxm")}
EMULATED_TIMES, TENSOR_PARALLEL = 10, 8
WATTS = {title.split(", ")[1]: watts for title, _, watts in MEASURED}  # blocking, as the authors state it
ROUNDING = 0.05  # of a printed per cent


class Point(NamedTuple):
    time: float  # s
    energy: float  # J of all stages


class Frontier(NamedTuple):
    base: Point  # maximum clocks
    points: list[Point]  # from the fastest plan to T*; predicted times need not rise

    def saving(self) -> float:
        return 100 * (1 - self.points[0].energy / self.base.energy)

    def slowdown(self) -> float:
        return 100 * (self.points[0].time / self.base.time - 1)


def waited(point: Point, until: float, watts: float) -> float:
    """Energy until then, at `watts` of all stages from the end of the iteration on."""
    return point.energy + watts * (until - point.time)


def with_straggler(frontier: Frontier, degree: float, watts: float, *, as_printed: bool = False) -> float:
    """Saving in per cent beside a straggler that takes `degree` times as long as maximum clocks. A plan that takes
    longer than the straggler saves the energy of waiting in print, and here it does not."""
    until = frontier.base.time * degree
    in_time = [point for point in frontier.points if point.time <= until]
    chosen = max(in_time, default=frontier.points[0])
    spent = waited(chosen, until if as_printed else max(until, chosen.time), watts)
    return 100 * (1 - spent / waited(frontier.base, until, watts))


def off(value: float, of: float, digits: int) -> str:
    text = f"{100 * (value / of - 1):+.{digits}f}"
    return text if text.strip("+-0.") else text[1:]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def frontier_of(points: list[tuple[bool, Point]]) -> Frontier:
    """Of points as they are recorded, from T* to the fastest plan, with whether they are at maximum clocks."""
    return Frontier([point for top, point in points if top][-1], [point for top, point in points[::-1] if not top])


@lru_cache(maxsize=None)
def recorded(system: str, workload: str) -> Frontier:
    rows = rows_of(real_runs.data() / system / workload / "points.csv")
    return frontier_of([(row["max_clock"] == "1", Point(float(row["iteration_time_s"]),
                                                        float(row["iteration_energy_j"]))) for row in rows])


def predicted(flyball: Flyball, system: str, workload: str, *fitted_to: str) -> Frontier:
    """The recorded points as the model has them: fitted to the half they are not of, or to other runs."""
    points = real_runs.against(flyball, system, workload, *fitted_to)["points"]
    # Point 0 warms up; what follows it at maximum clocks is point 1.
    return frontier_of([(one["point"] == 1, Point(one["predicted_time"], one["predicted_energy"])) for one in points])


def to_all(workload: str) -> tuple[str, str]:
    return "--fitted-to", real_runs.runs("perseus", workload)


def planned(flyball: Flyball, workload: str, planner: str, *more: str) -> Frontier:
    """On the profile fitted to all runs, of Perseus's plans and of EnvPipe's."""
    folder = real_runs.fit(flyball, workload)[0]
    plan = flyball.run_once("plan", str(folder / "profile.csv"), "--pipeline", str(folder / "pipeline.toml"),
                            "--planner", planner, "--clocks-asked", "at-begin", *more)  # as Zeus's client, which ran
    points = [Point(one["time"], one["energy"]) for one in (plan["selected"], *plan["frontier"])]
    base = Point(plan["baseline"]["time"], plan["baseline"]["energy"])
    return Frontier(base, [point for point in points if point.time >= points[0].time])


def printed(workload: str) -> tuple[float, ...]:
    """Saving % of Perseus and EnvPipe, slowdown % of Perseus and EnvPipe."""
    return next(row[2:] for rows in TABLE_3.values() for row in rows if row[0] == SHIPPED[workload])


def blocking(workload: str) -> float:
    """W of all stages."""
    stages = workload.split("-pp")[1].split("-")[0]
    return WATTS[workload.split("-")[0].upper()] * int(stages)


def table_3(flyball: Flyball, figure) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        saving, _, slowdown, _ = printed(workload)
        frontiers = (recorded("perseus", workload), predicted(flyball, "perseus", workload),
                     predicted(flyball, "perseus", workload, *to_all(workload)), planned(flyball, workload, "perseus"))
        rows.append([name, fixed(saving if figure is Frontier.saving else slowdown),
                     *(fixed(figure(frontier), 2) for frontier in frontiers)])
    what = "saving" if figure is Frontier.saving else "slowdown"
    return markdown([f"Perseus: {what} %", "printed", "recorded", "predicted, held out", "predicted, fitted to it",
                     "planned here"], rows)


def table_3_envpipe(flyball: Flyball) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        frontiers = (recorded("envpipe", workload), predicted(flyball, "envpipe", workload, *to_all(workload)),
                     planned(flyball, workload, "envpipe"))
        row = [name]
        for print_, figure in zip(printed(workload)[1::2], (Frontier.saving, Frontier.slowdown)):
            row += [fixed(print_), *(fixed(figure(frontier), 2) for frontier in frontiers)]
        rows.append(row)
    heads = ["printed", "recorded", "predicted", "planned here"]
    return markdown(["EnvPipe", *(f"{what} %, {head}" for what in ("saving", "slowdown") for head in heads)], rows)


def levels(flyball: Flyball) -> str:
    """Planned energies beside recorded ones; at maximum clocks also with one power of waiting for all clocks, the mean
    of what is fitted for the highest and the lowest."""
    rows = []
    for workload, name in WORKLOADS.items():
        fitted = real_runs.fit(flyball, workload)[1]["fitted"]
        mean = sum(one["value"] for one in fitted if one["what"] == "waiting") / 2
        ours, real = planned(flyball, workload, "perseus"), recorded("perseus", workload)
        constant = planned(flyball, workload, "perseus", "--blocking-power", f"{mean:.2f}")
        pairs = ((ours.base, real.base), (constant.base, real.base), (ours.points[0], real.points[0]),
                 (max(ours.points), max(real.points)))
        rows.append([name, *(off(mine.energy, measured.energy, 1) for mine, measured in pairs)])
    return markdown(["planned J beside recorded, % off", "maximum clocks", "the same, waiting at one power",
                     "fastest plan", "T\\*"], rows)


def implied(workload: str) -> list[list[tuple[float, float]]]:
    """Of energy and of time: from where to where the baseline may lie by each printed figure."""
    perseus, envpipe = (recorded(system, workload).points[0] for system in ("perseus", "envpipe"))
    saving, saving_env, slowdown, slowdown_env = printed(workload)
    energies = [tuple(point.energy / (1 - (figure + side) / 100) for side in (-ROUNDING, ROUNDING))
                for point, figure in ((perseus, saving), (envpipe, saving_env))]
    times = [tuple(point.time / (1 + (figure + side) / 100) for side in (ROUNDING, -ROUNDING))
             for point, figure in ((perseus, slowdown), (envpipe, slowdown_env))]
    return [energies, times]


def both(ranges: list[tuple[float, float]]) -> float:
    """The middle of what two ranges have in common."""
    return (max(low for low, _ in ranges) + min(high for _, high in ranges)) / 2


def baselines(_: Flyball) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        bases = [recorded(system, workload).base for system in ("perseus", "envpipe")]
        for unit, digits, ranges in zip(("J", "s"), (0, 3), implied(workload)):
            figures = [base.energy if unit == "J" else base.time for base in bases]
            rows.append([name, unit, *(f"{fixed(low, digits)} to {fixed(high, digits)}" for low, high in ranges),
                         *(fixed(figure, digits) for figure in figures),
                         *(off(figure, both(ranges), 2) for figure in figures)])
            name = ""
    return markdown(["an iteration at maximum clocks", "unit", "by Perseus's printed row", "by EnvPipe's",
                     "recorded with Perseus's plans", "with EnvPipe's", "the former is off %", "the latter %"], rows, 2)


def table_4(flyball: Flyball) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        perseus, envpipe = TABLE_4[SHIPPED[workload]]
        fitted = to_all(workload)
        lines = (("Perseus, printed", perseus), ("recorded", recorded("perseus", workload)),
                 ("predicted, held out", predicted(flyball, "perseus", workload)),
                 ("predicted, fitted to it", predicted(flyball, "perseus", workload, *fitted)),
                 ("planned here", planned(flyball, workload, "perseus")),
                 ("EnvPipe, printed", envpipe), ("recorded", recorded("envpipe", workload)),
                 ("predicted", predicted(flyball, "envpipe", workload, *fitted)),
                 ("planned here", planned(flyball, workload, "envpipe")))
        for label, line in lines:
            values = line if not isinstance(line, Frontier) else \
                [with_straggler(line, degree, blocking(workload)) for degree in DEGREES]
            rows.append([name, label, *(fixed(value) for value in values)])
            name = ""
    return markdown(["saving %, T'/T:", "", *(f"{degree:g}" for degree in DEGREES)], rows, 2)


def table_4_again(_: Flyball) -> str:
    """Print, from the recorded points and the baseline that table 3 implies."""
    rows = []
    for workload, name in WORKLOADS.items():
        energies, times = implied(workload)
        base = Point(both(times), both(energies))
        row = [name]
        for system, figures in zip(("perseus", "envpipe"), TABLE_4[SHIPPED[workload]]):
            frontier = Frontier(base, recorded(system, workload).points)
            off = [abs(with_straggler(frontier, degree, blocking(workload), as_printed=True) - figure)
                   for degree, figure in zip(DEGREES, figures)]
            row += [fixed(mean(off), 2), fixed(max(off), 2)]
        rows.append(row)
    return markdown(["points of saving off print", "Perseus: mean", "worst", "EnvPipe: mean", "worst"], rows)


def stages_plan(flyball: Flyball, profile: str, microbatches: int, planner: str) -> dict:
    """On measured stages, in 1F1B's own order."""
    name = STAGES[profile][0]
    watts = next(watts for _, file, watts in MEASURED if file == name)
    return flyball.run_once("plan", str(real_runs.data() / "emulation" / name), "--microbatches", str(microbatches),
                            "--blocking-power", str(watts), "--planner", planner, "--memory-limit", "8,7,6,5,4,3,2,1")


@lru_cache(maxsize=None)
def emulated_envpipe(model: str, gpu: str, microbatches: int) -> Point:
    """What the authors' emulator has for EnvPipe, in the scale of the measured stages, one GPU per stage."""
    row = next(row for row in rows_of(real_runs.data() / "emulation" / "envpipe_result.csv")
               if (row["model"], row["device"], int(row["num_microbatches"])) == (model, gpu, microbatches))
    return Point(float(row["iteration_time"]) / EMULATED_TIMES,
                 float(row["energy"]) / EMULATED_TIMES / TENSOR_PARALLEL)


def table_6(flyball: Flyball) -> str:
    rows = []
    for profile, model, gpu, paper in TABLE_6:
        if profile not in STAGES:
            continue
        plans = [stages_plan(flyball, profile, n, "perseus") for n in MICROBATCHES]
        envpipe = [stages_plan(flyball, profile, n, "envpipe") for n in MICROBATCHES]
        theirs = [emulated_envpipe(*STAGES[profile][1:], n) for n in MICROBATCHES]
        base = [plan["baseline"]["energy"] for plan in plans]
        lines = (("Perseus, printed", paper),
                 ("planned here, measured stages", [plan["selected"]["saving_pct"] for plan in plans]),
                 ("no plan can save more", [100 * (1 - plan["selected"]["lower_bound"] / most)
                                            for plan, most in zip(plans, base)]),
                 ("planned here, shipped synthetic profile", [flyball.saving(profile, "perseus", n)
                                                              for n in MICROBATCHES]),
                 ("EnvPipe, the authors' emulator", [100 * (1 - point.energy / most)
                                                     for point, most in zip(theirs, base)]),
                 ("EnvPipe, planned here, measured stages", [plan["selected"]["saving_pct"] for plan in envpipe]))
        title = f"{model}, {gpu}"
        for label, values in lines:
            rows.append([title, label, *(fixed(value, 2) for value in values)])
            title = ""
    return markdown(["saving %, microbatches:", "", *map(str, MICROBATCHES)], rows, 2)


def emulators(flyball: Flyball) -> str:
    rows = []
    for profile, model, gpu, _ in TABLE_6:
        if profile not in STAGES:
            continue
        for microbatches in MICROBATCHES:
            theirs = emulated_envpipe(*STAGES[profile][1:], microbatches)
            ours = stages_plan(flyball, profile, microbatches, "envpipe")["selected"]
            rows.append([f"{model}, {gpu}", str(microbatches), fixed(theirs.time, 4), fixed(ours["time"], 4),
                         fixed(theirs.energy), fixed(ours["energy"]), off(ours["energy"], theirs.energy, 3)])
    return markdown(["EnvPipe's plan, emulated", "microbatches", "theirs, s", "here, s", "theirs, J", "here, J",
                     "energy off %"], rows)


def made_of(flyball: Flyball, profile: str) -> tuple[str, str, dict]:
    """GPU and workload of a shipped profile, and what the workload's file has on that GPU."""
    gpu, workload = (flyball.header(profile, rf"^# Made by: .* --{what} (\S+)") for what in ("gpu", "workload"))
    text = (ROOT / "data" / "workloads" / f"{workload}.toml").read_text(encoding="utf-8")
    return gpu, workload, tomllib.loads(text)["on"].get(gpu, {})


def calibrated(flyball: Flyball, profile: str) -> list[str]:
    """What times, ratios and energies of a shipped profile were set to; docs/profiles.md has it at length."""
    gpu, workload, on = made_of(flyball, profile)
    stages = int(flyball.header(profile, r"one GPU of each of (\d+) stages"))
    device = tomllib.loads((ROOT / "data" / "devices" / f"{gpu}.toml").read_text(encoding="utf-8"))
    ratio = next((str(part["imbalance"]) for part in on.get("partitions", ())
                  if len(part["bounds"]) == stages + 1 and "imbalance" in part), "")
    if "layer_time_s" in on:
        return ["seven published points", ratio, "the same points, J"]
    measured = "measured" in on
    times = f"FLOP at {(on if measured else device['compute'])['sustained_tflops']:g} TFLOP/s" + \
        (", to a measured iteration" if measured else "")
    if "forward" not in on:
        return [times, ratio, "the GPU's: clock of least energy, 20 to 25 % longer there"]
    if profile in (row[0] for row in TABLE_6):
        return [times, ratio, "by hand" + ("; the last stage moved towards table 6" if workload == "gpt3-175b" else "")]
    averaged = next((group for group, rows in TABLE_3.items() if profile in (row[0] for row in rows)), None)
    near = ", near the seven points" if workload in ("gpt3-2.7b", "gpt3-6.7b") else ""
    mean_saving = f", to a mean saving of {POTENTIAL[averaged][0]} %" if averaged else ""
    scaled = f"; all powers x {on['power_scale']:g}, to a measured iteration" if measured else ""
    return [times, ratio, f"by hand{near}{mean_saving}{scaled}"]


def fitted_numbers(flyball: Flyball) -> str:
    """What was fitted to measured iterations, beside what fits exactly: times are as many times longer as the rate is
    lower, and what operations take is in proportion to the scale, while waiting is not."""
    rows = []
    for workload, profile in SHIPPED.items():
        run, on = recorded("perseus", workload).base, made_of(flyball, profile)[2]
        microbatches = flyball.header(profile, r"^# Published run: (\d+) microbatches")
        shipped = flyball.plan(profile, "max")["baseline"]
        computing = flyball.run_once("plan", str(PROFILES / f"{profile}.csv"), "--microbatches", microbatches,
                                     "--blocking-power", "0", "--planner", "max")["baseline"]["energy"]
        longer = run.time / shipped["time"]
        waiting = shipped["energy"] - computing
        scale = (run.energy - longer * waiting) / (longer * computing)
        rows.append([profile, "sustained TFLOP/s", f"{on['sustained_tflops']:g}",
                     f"{on['sustained_tflops'] / longer:.4g}", f"{run.time:.3f} s",
                     off(shipped["time"], run.time, 2)])
        rows.append(["", "scale of power", f"{on['power_scale']:g}", f"{on['power_scale'] * scale:.4g}",
                     f"{run.energy:.0f} J", off(shipped["energy"], run.energy, 2)])
    return markdown(["shipped profile", "fitted number", "value", "fits exactly", "fitted to: an iteration at maximum "
                     "clocks", "shipped, % off"], rows, 2)


def what_to_what(flyball: Flyball) -> str:
    rows = []
    for path in sorted(PROFILES.glob("*.csv")):
        base = flyball.plan(path.stem, "max")["baseline"]
        rows.append([path.stem, *calibrated(flyball, path.stem), fixed(base["time"], 2), fixed(base["energy"], 0)])
    return markdown(["shipped profile", "times set to", "longest / shortest stage set to", "energies set to",
                     "iteration at maximum clocks, s", "J of all stages"], rows, 4)


def stage_figures(flyball: Flyball, profile: Path) -> list[str]:
    """Longest over shortest stage; W of a GPU that computes as fast as it can; at the clocks of least energy: how much
    longer computations take and how much they save, means of stages and instructions in %."""
    shown = flyball.run_once("profile", "show", str(profile))
    kinds = [one for one in shown["operations"] if one["instruction"] in ("forward", "backward")]
    watts = sum(one["fastest_energy"] for one in kinds) / sum(one["fastest_time"] for one in kinds)
    return [fixed(shown["forward_imbalance"], 2), fixed(watts, 0),
            *(fixed(mean(one[figure] for one in kinds)) for figure in ("slowdown_pct", "saving_pct"))]


def stages_beside_real(flyball: Flyball) -> str:
    real = {SHIPPED[workload]: real_runs.fit(flyball, workload)[0] / "profile.csv" for workload in WORKLOADS}
    real.update({profile: real_runs.data() / "emulation" / STAGES[profile][0] for profile in STAGES})
    rows = []
    for profile, measured in real.items():
        theirs = stage_figures(flyball, measured)
        if profile not in STAGES:  # a fit need not know how a stage's energy divides, nor has it all clocks
            theirs[2:] = ["", ""]
        rows.append([profile, *(figure for pair in zip(stage_figures(flyball, PROFILES / f"{profile}.csv"), theirs)
                                for figure in pair)])
    figures = ("longest / shortest stage", "W of a GPU that computes", "slower at least energy, %", "saved there, %")
    return markdown(["stages", *(f"{figure}: {kind}" for figure in figures for kind in ("shipped", "real"))], rows)


def iterations_beside_real(flyball: Flyball) -> str:
    sizes = {row["folder"]: int(row["microbatch_size"])
             for row in rows_of(real_runs.data() / "perseus" / "workloads.csv")}
    rows = []
    for workload, profile in SHIPPED.items():
        base, run = flyball.plan(profile, "max")["baseline"], recorded("perseus", workload).base
        samples = int(flyball.header(profile, r"^# Published run: \d+ microbatches of (\d+) samples"))
        row = [profile, str(samples), str(sizes[workload])]
        for shipped, figure, digits in ((base["time"], run.time, 1), (base["energy"], run.energy, 0)):
            row += [fixed(shipped, digits), fixed(figure, digits),
                    fixed(figure / shipped * samples / sizes[workload], 2)]
        rows.append(row)
    return markdown(["an iteration at maximum clocks", "samples of a microbatch: shipped", "real", "s: shipped", "real",
                     "real / shipped, per sample", "J: shipped", "real", "real / shipped, per sample"], rows)


TABLES: paper_tables.Tables = {
    "3-saving": lambda flyball: table_3(flyball, Frontier.saving),
    "3-slowdown": lambda flyball: table_3(flyball, Frontier.slowdown),
    "3-envpipe": table_3_envpipe,
    "levels": levels,
    "baselines": baselines,
    "4": table_4,
    "4-again": table_4_again,
    "6": table_6,
    "emulators": emulators,
    "fitted-numbers": fitted_numbers,
    "what-to-what": what_to_what,
    "stages-beside-real": stages_beside_real,
    "iterations-beside-real": iterations_beside_real,
}

if __name__ == "__main__":
    paper_tables.main(__doc__, "make measured-tables", TABLES, measured=True)
