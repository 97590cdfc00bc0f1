#!/usr/bin/env python3
"""What Perseus's authors measured on A100s and A40s (SOSP'24), predicted by the model of an iteration.

    python3 bench/real_runs.py --program build/flyball                           # print all tables
    python3 bench/real_runs.py --program build/flyball --write docs/real-runs.md # rewrite them in place
    python3 bench/real_runs.py --program build/flyball --check docs/real-runs.md # fail where they differ

The measurements do not ship with Flyball: they are read from perseus-sosp24 below the folder that --data or
FLYBALL_SHARED_DATA names, else below ../shared/data beside the checkout. Everything comes from
`flyball ... --format json` and the plans it writes. Takes about a minute and a half of one core. Standard library only.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import linear_regression, median

import paper_tables
from paper_tables import ROOT, Flyball, fixed, markdown

WORKLOADS = {
    "a100-gpt3-xl-pp4-dp1-tp1": "A100, GPT-3 1.3B, 4 stages",
    "a100-bert-huge-uncased-pp4-dp1-tp1": "A100, BERT 1.3B, 4 stages",
    "a40-bert-huge-uncased-pp8-dp1-tp1": "A40, BERT 1.3B, 8 stages",
    "a40-bloom-3b-pp8-dp1-tp1": "A40, Bloom 3B, 8 stages",
    "a40-wide-resnet101_8-pp8-dp1-tp1": "A40, Wide-ResNet 1.5B, 8 stages",
}
NO_DATA = 77  # exit status where the measurements are not: skipped, as a test
AGREEMENT = ("mean_time_off_pct", "worst_time_off_pct", "mean_energy_off_pct", "worst_energy_off_pct")


def data() -> Path:
    named = os.environ.get("FLYBALL_SHARED_DATA")
    folder = (Path(named) if named else ROOT.parent / "shared" / "data") / "perseus-sosp24"
    if not folder.is_dir():
        print(f"{folder}: no such folder; name the one above it with --data or FLYBALL_SHARED_DATA", file=sys.stderr)
        sys.exit(NO_DATA)
    return folder


def runs(system: str, workload: str) -> str:
    return str(data() / system / workload)


def against(flyball: Flyball, system: str, workload: str, *more: str) -> dict:
    return flyball.run_once("emulate", "--against", runs(system, workload), *more)


def held_out(flyball: Flyball) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        judged = against(flyball, "perseus", workload)
        rows.append([name, str(len(judged["points"])), *(fixed(judged["judged"][key], 2) for key in AGREEMENT),
                     fixed(judged["judged"]["mean_rest_pct"], 2), fixed(judged["judged"]["worst_rest_pct"], 2)])
    return markdown(["workload", "points", "time, mean %", "worst %", "energy, mean %", "worst %",
                     "own operations: time, mean %", "worst %"], rows)


def signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}"
    return text if text.strip("+-0.") else text[1:]


def off(point: dict) -> list[str]:
    """Of time and energy: the predicted one beside the measured one, in per cent."""
    ratios = (point[f"predicted_{what}"] / point[f"measured_{what}"] for what in ("time", "energy"))
    return [signed(100 * (ratio - 1), 2) for ratio in ratios]


def parts(flyball: Flyball) -> str:
    names = ("computing", "loading", "transfers", "once", "switching", "operations", "rest")
    rows = []
    for workload, name in WORKLOADS.items():
        points = against(flyball, "perseus", workload)["points"]
        shares = [[100 * point["parts"][part] / point["measured_time"] for part in names]
                  + [100 * point["waiting_energy"] / point["measured_energy"]] for point in points]
        rows.append([name, *(fixed(sum(column) / len(column), 2) for column in zip(*shares))])
    return markdown(["workload", *(f"{part} %" for part in names), "energy of waiting %"], rows)


def together(flyball: Flyball) -> str:
    """The runs of Perseus's plans, held out as above, where EnvPipe's runs are fitted to as well; and what is then said
    of EnvPipe's plan, which is fitted to it."""
    rows = []
    for workload, name in WORKLOADS.items():
        judged = against(flyball, "perseus", workload, "--also-fitted-to", runs("envpipe", workload))
        both = (word for system in ("perseus", "envpipe") for word in ("--fitted-to", runs(system, workload)))
        envpipe = against(flyball, "envpipe", workload, *both)["points"][-1]
        rows.append([name, *(fixed(judged["judged"][key], 2) for key in AGREEMENT), *off(envpipe)])
    return markdown(["workload", "held out: time, mean %", "worst %", "energy, mean %", "worst %",
                     "EnvPipe's plan, fitted to it: time % off", "energy % off"], rows)


def fitted(flyball: Flyball) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        found = fit(flyball, workload)[1]["fitted"]

        def of(what: str, digits: int = 1) -> str:
            return ", ".join(fixed(one["value"], digits) for one in found if one["what"] == what)

        rows.append([name, of("transfer"), of("loading"), of("once per iteration", 0), of("a clock takes hold after"),
                     of("power limit", 0), of("waiting", 0)])
    return markdown(["workload", "transfers, ms", "loading, ms", "once, ms", "a clock takes hold after, ms",
                     "power limit, W", "waiting at the highest and lowest clock, W"], rows)


def other_plans(flyball: Flyball) -> str:
    """EnvPipe's plans on the same machines, predicted by what was fitted to the runs of Perseus's plans."""
    rows = []
    for workload, name in WORKLOADS.items():
        for point in against(flyball, "envpipe", workload, "--fitted-to", runs("perseus", workload))["points"]:
            time, energy = off(point)
            rows.append([name, "maximum clocks" if point["point"] < 2 else "EnvPipe", fixed(point["measured_time"], 3),
                         time, fixed(point["measured_energy"], 0), energy])
    return markdown(["workload", "plan", "measured s", "predicted, % off", "measured J", "predicted, % off"], rows, 2)


def key_of(operation: dict) -> tuple:
    """What an operation is in every plan, whether or not its first and last microbatches are kept apart there."""
    return operation["stage"], re.sub(r"\.(first|last)$", "", operation["instruction"]), operation.get("microbatch")


def clocks_of(plan: dict) -> dict[tuple, float]:
    clocks = list(plan["points"][0]["clocks_mhz"])
    for point in plan["points"][1:plan["selected"] + 1]:
        for operation, clock in point["edits"]:
            clocks[operation] = clock
    return dict(zip(map(key_of, plan["operations"]), clocks))


def time_at(options: list[dict], clock: float | None) -> float:
    """Linear in 1 / clock between the options, highest clock first; beyond them the nearest. At the highest without a
    clock."""
    if clock is None or clock >= options[0]["clock_mhz"]:
        return options[0]["time_s"]
    for high, low in zip(options, options[1:]):
        if clock >= low["clock_mhz"]:
            share = (1 / clock - 1 / high["clock_mhz"]) / (1 / low["clock_mhz"] - 1 / high["clock_mhz"])
            return high["time_s"] + share * (low["time_s"] - high["time_s"])
    return options[-1]["time_s"]


def replayed(plan: dict, clocks: dict[tuple, float] | None) -> float:
    """Longest path of the plan's iteration; at the highest clocks where none are given."""
    options = {(one["stage"], one["instruction"]): one["options"] for one in plan["types"]}
    finish: list[float] = []
    for one in plan["operations"]:
        clock = clocks.get(key_of(one)) if clocks else None
        begin = max((finish[before] for before in one["after"]), default=0.0)
        finish.append(begin + time_at(options[one["stage"], one["instruction"]], clock))
    return max(finish)


def fit(flyball: Flyball, workload: str, *folders: str) -> tuple[Path, dict]:
    """The folder of the profile and the pipeline that recorded runs are fitted by, and what was fitted. Without folders
    all runs are fitted to, those of Perseus's plans and of EnvPipe's."""
    folders = folders or tuple(runs(system, workload) for system in ("perseus", "envpipe"))
    name = " and ".join(Path(one).parent.name for one in folders)
    folder = flyball.folder / workload / name
    return folder, flyball.run_once("profile", "fit", *folders, "--out", str(folder))


def half(flyball: Flyball, workload: str, which: int) -> str:
    """A folder with every other recorded point of Perseus's plans, of those that do not warm up."""
    source = Path(runs("perseus", workload))
    folder = flyball.folder / f"half-{which}" / workload
    folder.mkdir(parents=True, exist_ok=True)
    with (source / "points.csv").open(encoding="utf-8") as lines:
        points = [line.split(",")[0] for line in lines][1:]
    kept = set(points[1:][which::2])  # the first one warms up
    for name, opened in (("points.csv", open), ("runs.csv", open), ("operations.csv.gz", gzip.open)):
        with opened(source / name, "rt", encoding="utf-8") as lines:
            (folder / name.removesuffix(".gz")).write_text(
                "".join(line for k, line in enumerate(lines) if k == 0 or line.split(",")[0] in kept), encoding="utf-8")
    return str(folder)


def fastest_plan(flyball: Flyball, folder: Path, pipeline: Path | None = None, *, transfers: bool = True) -> dict:
    """The fastest plan by the profile that was fitted, and by the pipeline that was fitted with it or by another one;
    with its transfers, or as if there were none."""
    text = (pipeline or folder / "pipeline.toml").read_text(encoding="utf-8")
    if not transfers:
        text = re.sub(r"\n\[p2p\]\n(?:[^\[\n].*\n)*", "\n", text)
    used, out = folder / "used.toml", folder / "plan"
    used.write_text(text, encoding="utf-8")
    flyball.run("plan", str(folder / "profile.csv"), "--pipeline", str(used), "--planner", "perseus", "--clocks-asked",
                "at-begin", "--out", str(out))
    return json.loads((out / "plan.json").read_text(encoding="utf-8"))


def slower(plan: dict, by: dict) -> str:
    """By how many per cent the plan takes longer than maximum clocks, in the iteration of the plan `by`."""
    return fixed(100 * (replayed(by, clocks_of(plan)) / replayed(by, None) - 1), 2)


def promises(flyball: Flyball) -> str:
    """The fastest plan, made with and without transfers, replayed with them; and made without EnvPipe's runs."""
    rows = []
    for workload, name in WORKLOADS.items():
        folder = fit(flyball, workload)[0]
        real, without = fastest_plan(flyball, folder), fastest_plan(flyball, folder, transfers=False)
        perseus = fastest_plan(flyball, fit(flyball, workload, runs("perseus", workload))[0])
        rows.append([name, slower(without, without), slower(without, real), slower(real, real), slower(perseus, real)])
    return markdown(["workload", "promised without transfers, %", "takes, %", "made with them, takes, %",
                     "made without EnvPipe's runs, takes, %"], rows)


def halves(flyball: Flyball) -> str:
    """The fastest plan by one half of Perseus's runs, replayed with what the other half says: of the transfers and the
    part once per iteration, and of operations and loading, too."""
    rows = []
    for workload, name in WORKLOADS.items():
        folders = [fit(flyball, workload, half(flyball, workload, which), runs("envpipe", workload))[0]
                   for which in (0, 1)]
        plans = [fastest_plan(flyball, folder) for folder in folders]
        row = [name]
        for mine, other in ((0, 1), (1, 0)):
            by = fastest_plan(flyball, folders[mine], pipeline=folders[other] / "pipeline.toml")
            row += [slower(plans[mine], by), slower(plans[mine], plans[other])]
        rows.append(row)
    columns = [f"{made}, with the other's {what}, %" for made in ("made by one half", "by the other")
               for what in ("transfers", "times, too")]
    return markdown(["workload", *columns], rows)


def ends(_: Flyball) -> str:
    """By how much operations of the first and of the last microbatch take longer than those at the same clock of
    others, eight or more from either end: of stages the medians over points, lowest and highest."""
    rows = []
    for workload, name in WORKLOADS.items():
        with gzip.open(Path(runs("perseus", workload)) / "operations.csv.gz", "rt", encoding="utf-8") as lines:
            operations = [row for row in csv.DictReader(lines) if row["instruction"] != "load" and row["point"] != "0"]
        last = max(int(row["microbatch"]) for row in operations)
        times: dict[tuple, dict[int, list[float]]] = {}
        for row in operations:
            kind = row["instruction"], row["rank"], row["clock_mhz"]
            times.setdefault(kind, {}).setdefault(int(row["microbatch"]), []).append(float(row["time_s"]))
        apart: dict[tuple, list[float]] = {}
        for (instruction, rank, _), of in times.items():
            others = [time for microbatch in range(8, last - 7) for time in of.get(microbatch, ())]
            for microbatch in (0, last) if others else ():
                apart.setdefault((microbatch, instruction, rank), []).extend(
                    100 * (time / median(others) - 1) for time in of.get(microbatch, ()))
        row = [name]
        for end in (0, last):
            for instruction in ("forward", "backward"):
                stages = [median(found) for (m, i, _), found in apart.items() if (m, i) == (end, instruction) and found]
                row.append(f"{signed(min(stages), 1)} to {signed(max(stages), 1)}")
        rows.append(row)
    return markdown(["off others, %", "first forward", "first backward", "last forward", "last backward"], rows)


# Real stages and the synthetic ones of the same model on the same GPU: profile of the emulation or workload of the
# runs, GPU, workload, stages, and the limit in W of the board's data sheet.
BESIDE = {"GPT-3 175B, A40": ("gpt3-175b+a40_bf16.csv", "a40", "gpt3-175b", 8, 300),
          "Bloom 176B, A100 SXM": ("bloom+a100_sxm_bf16.csv", "a100-sxm", "bloom-176b", 8, 400),
          "GPT-3 1.3B, A100": ("a100-gpt3-xl-pp4-dp1-tp1", "a100", "gpt3-1.3b", 4, 300),
          "BERT 1.3B, A100": ("a100-bert-huge-uncased-pp4-dp1-tp1", "a100", "bert-1.3b", 4, 300),
          "BERT 1.3B, A40": ("a40-bert-huge-uncased-pp8-dp1-tp1", "a40", "bert-1.3b", 8, 300),
          "Bloom 3B, A40": ("a40-bloom-3b-pp8-dp1-tp1", "a40", "bloom-3b", 8, 300),
          "Wide-ResNet 1.5B, A40": ("a40-wide-resnet101_8-pp8-dp1-tp1", "a40", "wide-resnet101-1.5b", 8, 300)}


def knee(path: Path) -> list[float]:
    """Of forward and backward: the clock above which time no longer falls, where the line through the times of slower
    clocks over 1 / clock meets the time at the highest ones; and the mean power at the highest clock. Medians over
    stages that ran at three slower clocks or more."""
    curves: dict[tuple, list] = {}
    for row in csv.DictReader(line for line in path.read_text(encoding="utf-8").splitlines() if line[0] != "#"):
        if row["instruction"] in ("forward", "backward"):
            curves.setdefault((row["instruction"], row["stage"]), []).append(
                (float(row["frequency"]), float(row["time"]), float(row["energy"])))
    found: dict[str, list] = {"forward": [], "backward": []}
    for (instruction, _), curve in curves.items():
        curve.sort(reverse=True)
        near = 1.02 * curve[0][1]
        top = median(time for _, time, _ in curve if time <= near)
        slower = [(1 / clock, time) for clock, time, _ in curve if time > near]
        if len(slower) < 3:
            continue
        slope, rest = linear_regression(*zip(*slower))
        found[instruction].append((min(slope / (top - rest), curve[0][0]), curve[0][2] / curve[0][1]))
    return [median(one[k] for one in found[instruction]) for k in (0, 1) for instruction in ("forward", "backward")]


def knees(flyball: Flyball) -> str:
    rows = []
    for name, (real, gpu, workload, stages, limit) in BESIDE.items():
        measured = real.endswith(".csv")
        paths = [data() / "emulation" / real if measured else fit(flyball, real)[0] / "profile.csv"]
        for more in ([], ["--power-limit", str(limit)]):
            paths.append(flyball.folder / f"{workload}-{gpu}{''.join(more)}.csv")
            subprocess.run([flyball.program, "profile", "synth", "--gpu", gpu, "--workload", workload, "--stages",
                            str(stages), "--noise", "0", "--out", paths[-1], *more], check=True, capture_output=True)
        figures = [[fixed(one, 0) for one in knee(path)] for path in paths]
        rows.append([name + ("" if measured else ", fitted"),
                     *(", ".join(one[k:k + 2]) for k in (0, 2) for one in figures)])
    columns = [f"{what}: {kind}" for what in ("knee, MHz", "W at the highest clock")
               for kind in ("real", "synthetic", "with the data sheet's limit")]
    return markdown(["stages", *columns], rows)


TABLES = {"held-out": held_out, "parts": parts, "fitted": fitted, "other-plans": other_plans, "together": together,
          "promises": promises, "halves": halves, "ends": ends, "knees": knees}

if __name__ == "__main__":
    paper_tables.main(__doc__, "make real-runs", TABLES, measured=True)
