#!/usr/bin/env python3
"""The tables of Perseus (SOSP'24), EnvPipe (ATC'23) and PowerFlow (2023), emulated on the shipped profiles and job
traces, beside the printed figures.

    python3 bench/paper_tables.py --program build/flyball                                # print all tables
    python3 bench/paper_tables.py --program build/flyball --write docs/paper-tables.md   # rewrite them in place
    python3 bench/paper_tables.py --program build/flyball --check docs/paper-tables.md   # fail where they differ

Everything comes from `flyball ... --format json`; nothing but the printed figures is stored here. In the document a
table stands between `<!-- table: NAME -->` and `<!-- end of table -->`, and only what is between is rewritten. Takes
about two minutes; same program, same bytes. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from statistics import mean
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT / "examples" / "profiles"
PARTITIONS = ROOT / "examples" / "partition"
CLUSTER = ROOT / "data" / "cluster"
DAY = ROOT / "examples" / "cluster" / "day.csv"

# Perseus table 3: profile, printed name, saving % of Perseus and EnvPipe, slowdown % of Perseus and EnvPipe.
TABLE_3 = {
    "A100, 4 stages": [
        ("gpt3-1.3b-a100-4stage", "GPT-3 1.3B", 13.2, 8.8, 0.1, 0.1),
        ("bert-1.3b-a100-4stage", "BERT 1.3B", 12.9, 8.0, 0.5, 0.0),
        ("t5-3b-a100-4stage", "T5 3B", 10.6, 7.4, 1.3, 3.4),
        ("bloom-3b-a100-4stage", "Bloom 3B", 11.7, 8.9, 0.2, 0.2),
        ("wide-resnet101-1.5b-a100-4stage", "Wide-ResNet 1.5B", 3.2, 3.7, 2.3, 4.1),
    ],
    "A40, 8 stages": [
        ("gpt3-2.7b-a40-8stage", "GPT-3 2.7B", 21.1, 21.7, 0.2, 5.6),
        ("bert-1.3b-a40-8stage", "BERT 1.3B", 15.7, 16.5, 0.0, 9.7),
        ("t5-3b-a40-8stage", "T5 3B", 28.5, 19.3, 0.0, 0.0),
        ("bloom-3b-a40-8stage", "Bloom 3B", 22.4, 19.9, 0.0, 0.0),
        ("wide-resnet101-1.5b-a40-8stage", "Wide-ResNet 1.5B", 20.4, 16.5, 0.2, 0.5),
    ],
}

# Perseus table 4: saving % at T'/T, Perseus and EnvPipe.
DEGREES = (1.05, 1.1, 1.2, 1.3, 1.4, 1.5)
TABLE_4 = {
    "gpt3-1.3b-a100-4stage": ((14.7, 15.9, 15.5, 15.0, 14.6, 14.3), (8.7, 8.5, 8.3, 8.1, 7.9, 7.7)),
    "bloom-3b-a100-4stage": ((13.6, 15.6, 15.2, 14.7, 14.3, 14.0), (8.8, 8.7, 8.4, 8.2, 8.0, 7.8)),
    "bert-1.3b-a100-4stage": ((14.9, 16.9, 16.4, 15.9, 15.5, 15.0), (7.9, 7.8, 7.5, 7.3, 7.1, 6.9)),
    "t5-3b-a100-4stage": ((15.3, 18.0, 17.9, 17.4, 16.9, 16.5), (8.4, 8.2, 8.0, 7.8, 7.6, 7.4)),
    "wide-resnet101-1.5b-a100-4stage": ((9.4, 12.7, 12.6, 12.3, 12.0, 11.6), (4.9, 4.8, 4.7, 4.5, 4.4, 4.3)),
    "gpt3-2.7b-a40-8stage": ((24.5, 26.0, 25.9, 25.2, 24.6, 24.0), (22.9, 22.6, 22.0, 21.4, 20.9, 20.4)),
    "bloom-3b-a40-8stage": ((25.5, 26.4, 25.9, 25.2, 24.6, 24.0), (19.6, 19.3, 18.8, 18.3, 17.8, 17.4)),
    "bert-1.3b-a40-8stage": ((20.0, 22.6, 24.1, 23.4, 22.8, 22.2), (19.2, 18.9, 18.3, 17.8, 17.4, 16.9)),
    "t5-3b-a40-8stage": ((27.9, 27.3, 26.2, 25.2, 24.3, 23.4), (18.4, 18.0, 17.3, 16.6, 16.0, 15.4)),
    "wide-resnet101-1.5b-a40-8stage": ((24.3, 26.2, 26.3, 25.7, 25.0, 24.4), (16.4, 16.2, 15.8, 15.4, 15.0, 14.6)),
}

# Perseus table 6: saving % without stragglers by microbatches.
MICROBATCHES = (12, 24, 48, 96)
TABLE_6 = [
    ("gpt3-175b-a100-sxm-8stage", "GPT-3 175B", "A100 SXM", (15.20, 14.19, 13.62, 13.32)),
    ("gpt3-175b-a40-8stage", "GPT-3 175B", "A40", (11.81, 10.22, 9.34, 8.88)),
    ("bloom-176b-a100-sxm-8stage", "Bloom 176B", "A100 SXM", (10.47, 7.06, 5.23, 4.28)),
    ("bloom-176b-a40-8stage", "Bloom 176B", "A40", (6.97, 4.49, 3.12, 2.41)),
]

# Perseus section 2.4 (average saving %) and 6.2.3 (average share of it realised without slowdown, %).
POTENTIAL = {"A100, 4 stages": (16, 74), "A40, 8 stages": (27, 89)}

# PowerFlow table 2, mean absolute percentage errors of the fitted models (time, energy), and section 6.2: how many times
# longer jobs take than under PowerFlow with the same energy, "at most". Figure 7 itself prints curves and no numbers.
POWERFLOW_2 = {"resnet18": ("ResNet18", 6.1, 6.9), "vgg16": ("VGG16", 3.8, 6.0),
               "inception_v3": ("Inception V3", 2.6, 4.5), "gpt2": ("GPT2", 2.1, 6.8),
               "deepspeech2": ("Deep Speech 2", 4.5, 3.5)}
POWERFLOW_7 = {"gandiva": 3.39, "tiresias": 1.73, "gandiva+zeus": 2.90, "tiresias+zeus": 1.62, "afs": 1.57}

# Perseus table 7: workload, GPU, then ratio and layer indices of 4 and of 8 stages.
TABLE_7 = """
gpt3-1.3b           a100 1.17 0,6,12,19,25  1.33 0,4,7,10,13,16,19,22,25
gpt3-2.7b           a100 1.13 0,8,16,25,33  1.25 0,5,9,13,17,21,25,29,33
gpt3-6.7b           a100 1.11 0,8,16,24,33  1.23 0,4,8,12,16,20,24,28,33
gpt3-13b            a100 1.08 0,10,20,30,41 1.17 0,5,10,15,20,25,30,35,41
gpt3-175b           a100 1.02 0,24,48,72,97 1.03 0,12,24,36,48,60,72,84,97
bloom-3b            a100 1.13 0,9,17,25,31  1.25 0,6,11,16,22,28,31
bloom-7b            a100 1.13 0,9,17,25,31  1.25 0,6,11,16,22,28,31
bloom-176b          a100 1.05 0,18,36,54,71 1.10 0,9,18,27,36,45,54,63,71
bert-0.1b           a100 1.33 0,4,7,10,13   2.00 0,2,3,4,6,8,10,12,13
bert-0.3b           a100 1.17 0,7,13,19,25  1.33 0,3,6,9,12,15,18,22,25
bert-1.3b           a100 1.17 0,7,13,19,25  1.33 0,4,7,10,13,16,19,22,25
t5-0.2b             a100 1.19 0,9,15,20,25  1.50 0,5,9,13,15,17,19,22,25
t5-0.7b             a100 1.05 0,16,29,39,49 1.11 0,8,16,24,29,34,39,44,49
t5-3b               a100 1.06 0,15,28,38,49 1.16 0,7,15,23,28,33,38,43,49
wide-resnet50-0.8b  a100 1.23 0,5,9,14,18   1.46 0,3,5,7,9,11,13,15,18
wide-resnet101-1.5b a100 1.09 0,8,17,26,35  1.25 0,4,8,12,16,21,26,31,35
gpt3-1.3b           a40  1.15 0,6,12,18,25  1.31 0,3,6,9,12,15,18,21,25
gpt3-2.7b           a40  1.11 0,8,16,24,33  1.21 0,4,8,12,16,20,24,28,33
gpt3-6.7b           a40  1.08 0,8,16,24,33  1.17 0,4,8,12,16,20,24,28,33
gpt3-13b            a40  1.07 0,10,20,30,41 1.14 0,5,10,15,20,25,30,35,41
gpt3-175b           a40  1.01 0,24,48,72,97 1.02 0,12,24,36,48,60,72,84,97
bloom-3b            a40  1.13 0,9,17,25,31  1.25 0,5,9,13,17,21,25,29,31
bloom-7b            a40  1.13 0,9,17,25,31  1.25 0,5,9,13,17,21,25,29,31
bloom-176b          a40  1.03 0,18,36,54,71 1.06 0,9,18,27,36,45,54,63,71
bert-0.1b           a40  1.33 0,4,7,10,13   2.00 0,1,2,4,6,8,10,12,13
bert-0.3b           a40  1.17 0,7,13,19,25  1.33 0,4,7,10,13,16,19,22,25
bert-1.3b           a40  1.17 0,7,13,19,25  1.33 0,3,6,9,12,15,18,22,25
t5-0.2b             a40  1.20 0,9,15,20,25  1.50 0,5,9,13,15,17,19,22,25
t5-0.7b             a40  1.06 0,16,29,39,49 1.12 0,8,16,24,29,34,39,44,49
t5-3b               a40  1.07 0,15,28,38,49 1.17 0,8,15,23,28,33,38,43,49
wide-resnet50-0.8b  a40  1.13 0,5,9,14,18   1.72 0,3,5,7,9,11,13,15,18
wide-resnet101-1.5b a40  1.08 0,8,17,26,35  1.25 0,4,8,12,16,21,26,31,35
"""

# EnvPipe, section 6.2: what the text states beside figures 10 to 13 (the figures themselves print no numbers).
FIGURE_10 = [
    ("V100", "mean 18.6, 12.1 to 25.2", ["bert-336m-v100-4stage", "gpt-125m-v100-4stage",
                                         "megatron-125m-v100-4stage", "resnet-152-v100-4stage"]),
    ("RTX 3090", "mean 12.8, 8.1 to 19.4", ["bert-1.3b-envpipe-rtx3090-4stage", "bert-3.9b-rtx3090-4stage",
                                            "gpt-350m-rtx3090-4stage", "megatron-350m-rtx3090-4stage",
                                            "megatron-760m-rtx3090-4stage"]),
    ("V100, figure 13", "19.4 (DP4+PP4)", ["megatron-1.3b-v100-4stage"]),
    ("V100, figure 13", "28.4 (DP2+PP8)", ["megatron-1.3b-v100-8stage"]),
]
FIGURE_11 = [("bert-1.3b-envpipe-rtx3090-4stage", "BERT-1.3B"), ("gpt-350m-rtx3090-4stage", "GPT-350M")]
FIGURE_12 = [
    ("bert-336m-v100-4stage", "BERT-336M", "5.2 to 8.9"),
    ("gpt-125m-v100-4stage", "GPT-125M", "5.2 to 8.9"),
    ("megatron-125m-v100-4stage", "Megatron-125M", "insignificant"),
    ("resnet-152-v100-4stage", "ResNet-152", "5.2 to 8.9"),
]


class Flyball:
    """The program, on the shipped profiles with the microbatches and blocking power that their headers name."""

    def __init__(self, program: Path, folder: Path):
        self.program = program
        self.folder = folder  # for changed profiles
        # Several tables need the same frontier.
        self.run_once = lru_cache(maxsize=None)(self.run)

    def run(self, *arguments: str) -> dict:
        try:
            done = subprocess.run([self.program, *arguments, "--format", "json"], capture_output=True, text=True)
        except OSError as error:
            sys.exit(f"{self.program} does not start: {error.strerror}; build it with make build, or name another "
                     "with --program")
        if done.returncode != 0:
            sys.exit(f"{self.program} {' '.join(arguments)}\nended with status {done.returncode}:\n{done.stderr}")
        return json.loads(done.stdout)

    def header(self, profile: str, pattern: str) -> str:
        path = PROFILES / f"{profile}.csv"
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if found := re.search(pattern, line):
                    return found.group(1)
        sys.exit(f"{path}: no line matches '{pattern}'; make the profile anew with flyball profile synth")

    def shape(self, profile: str, microbatches: int | None, kept: bool) -> list[str]:
        """The pipeline's part of a command line. `kept`: memory for what 1F1B itself holds, N microbatches on the first
        of N stages down to 1 on the last, so that no forward may be moved."""
        microbatches = microbatches or int(self.header(profile, r"^# Published run: (\d+) microbatches"))
        blocking = self.header(profile, r"^# Blocking power: ([\d.]+) W")
        shape = [str(PROFILES / f"{profile}.csv"), "--microbatches", str(microbatches), "--blocking-power", blocking]
        if not kept:
            return shape
        stages = int(self.header(profile, r"one GPU of each of (\d+) stages"))
        return [*shape, "--memory-limit", ",".join(map(str, range(stages, 0, -1)))]

    def plan(self, profile: str, planner: str, microbatches: int | None = None, kept: bool = False) -> dict:
        return self.run_once("plan", *self.shape(profile, microbatches, kept), "--planner", planner)

    def saving(self, profile: str, planner: str, microbatches: int | None = None, kept: bool = False) -> float:
        return self.plan(profile, planner, microbatches, kept)["selected"]["saving_pct"]

    def slowdown(self, profile: str, planner: str, kept: bool = False) -> float:
        return self.plan(profile, planner, None, kept)["selected"]["slowdown_pct"]

    def emulate(self, profile: str, planner: str, degrees: tuple[float, ...], *more: str, kept: bool = False) -> list:
        stragglers = ",".join(f"{degree:g}" for degree in degrees)
        shape = self.shape(profile, None, kept)
        return self.run("emulate", *shape, "--planner", planner, "--straggler", stragglers, *more)["emulations"]

    def partition(self, workload: str, gpu: str, stages: int) -> dict:
        return self.run("partition", str(PARTITIONS / f"{workload}-{gpu}.csv"), "--stages", str(stages))


def fixed(value: float, digits: int = 1) -> str:
    text = f"{value:.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text  # no "-0.0"


def markdown(heads: list[str], rows: list[list[str]], text_columns: int = 1) -> str:
    align = ["---" if column < text_columns else "--:" for column in range(len(heads))]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, align, *rows])


def with_mean(rows: list[list[float]], names: list[str], digits: int = 1) -> list[list[str]]:
    lines = [[name, *(fixed(value, digits) for value in row)] for name, row in zip(names, rows)]
    return [*lines, ["mean", *(fixed(mean(column), digits) for column in zip(*rows))]]


def table_3(flyball: Flyball, group: str, slowdown: bool) -> str:
    """One half of table 3: savings or slowdowns of one group."""
    rows = []
    figure = flyball.slowdown if slowdown else flyball.saving
    for profile, _, perseus, envpipe, perseus_slow, envpipe_slow in TABLE_3[group]:
        paper = (perseus_slow, envpipe_slow) if slowdown else (perseus, envpipe)
        rows.append([paper[0], figure(profile, "perseus"), paper[1], figure(profile, "envpipe"),
                     figure(profile, "envpipe", kept=True)])
    what = "slowdown" if slowdown else "saving"
    heads = [f"{group}: {what} %", "Perseus, paper", "here", "EnvPipe, paper", "here", "here, order kept"]
    return markdown(heads, with_mean(rows, [row[1] for row in TABLE_3[group]]))


def table_4(flyball: Flyball, group: str) -> str:
    rows = []
    for profile, name, *_ in TABLE_3[group]:
        def emulated(planner: str, kept: bool = False) -> list[float]:
            return [e["pipeline"]["saving_pct"] for e in flyball.emulate(profile, planner, DEGREES, kept=kept)]

        perseus, envpipe = TABLE_4[profile]
        for label, values in (("Perseus, paper", perseus), ("Perseus, here", emulated("perseus")),
                              ("EnvPipe, paper", envpipe), ("EnvPipe, here", emulated("envpipe")),
                              ("EnvPipe, here, order kept", emulated("envpipe", kept=True))):
            rows.append([name, label, *(fixed(value) for value in values)])
            name = ""
    return markdown([f"{group}: saving %", "", *(f"{degree:g}" for degree in DEGREES)], rows, text_columns=2)


def table_6(flyball: Flyball) -> str:
    rows = []
    for profile, model, gpu, paper in TABLE_6:
        rows.append([model, gpu, "paper", *(fixed(value, 2) for value in paper)])
        rows.append(["", "", "here", *(fixed(flyball.saving(profile, "perseus", n), 2) for n in MICROBATCHES)])
    return markdown(["Saving %", "GPU", "microbatches", *map(str, MICROBATCHES)], rows, text_columns=3)


def table_7(flyball: Flyball) -> str:
    rows = []
    for line in TABLE_7.split("\n")[1:-1]:
        workload, gpu, *printed = line.split()
        row = [workload, gpu.upper()]
        for stages, ratio, bounds in ((4, *printed[:2]), (8, *printed[2:])):
            found = flyball.partition(workload, gpu, stages)
            ours = ",".join(map(str, found["bounds"]))
            row += [ratio, fixed(found["imbalance"], 3), ours if ours == bounds else f"{ours} (printed: {bounds})"]
        rows.append(row)
    heads = ["Model", "GPU", "4 stages: ratio, paper", "here", "layers, here", "8 stages: ratio, paper", "here",
             "layers, here"]
    return markdown(heads, rows, text_columns=2)


def potential(flyball: Flyball) -> str:
    rows = []
    for group, models in TABLE_3.items():
        saved, shares = [], []
        for profile, name, *_ in models:
            saved.append(flyball.saving(profile, "uniform"))
            shares.append(100 * flyball.saving(profile, "perseus") / saved[-1])
            rows.append([name, group, "", fixed(saved[-1]), fixed(flyball.slowdown(profile, "uniform")), "",
                         fixed(shares[-1], 0)])
        paper, share = POTENTIAL[group]
        rows.append(["mean", group, str(paper), fixed(mean(saved)), "", str(share), fixed(mean(shares), 0)])
    heads = ["Model", "", "all at least energy: saving %, paper", "here", "slower %, here",
             "Perseus' share of it, paper %", "here %"]
    return markdown(heads, rows, text_columns=2)


def figure_7(flyball: Flyball) -> str:
    rows = []
    for profile, model, gpu, _ in TABLE_6:
        for label, planner, kept in (("Perseus", "perseus", False), ("EnvPipe", "envpipe", False),
                                     ("EnvPipe, order kept", "envpipe", True)):
            job = ("--pipelines", "16", "--tensor-parallel", "8")
            (emulation,) = flyball.emulate(profile, planner, (1.2,), *job, kept=kept)
            one, whole = emulation["pipeline"], emulation["job"]
            rows.append([model, gpu, label, fixed(100 * one["intrinsic"] / one["baseline"]),
                         fixed(100 * one["extrinsic"] / one["baseline"]), fixed(one["saving_pct"]),
                         fixed(whole["saving_pct"])])
    heads = ["Model", "GPU", "planner", "intrinsic %", "extrinsic %", "one pipeline: saving %", "all 16: saving %"]
    return markdown(heads, rows, text_columns=3)


def figure_10(flyball: Flyball) -> str:
    rows = []
    for gpu, paper, profiles in FIGURE_10:
        for profile in profiles:
            rows.append([profile, gpu, paper if len(profiles) == 1 else "",
                         *(fixed(figure(profile, "envpipe", kept=kept)) for kept in (False, True)
                           for figure in (flyball.saving, flyball.slowdown))])
        if len(profiles) > 1:
            rows.append([f"mean, {gpu}", "", paper, *(
                fixed(mean(figure(profile, "envpipe", kept=kept) for profile in profiles)) for kept in (False, True)
                for figure in (flyball.saving, flyball.slowdown))])
    heads = ["Profile", "GPU", "saving %, paper", "here", "slower %", "order kept: saving %", "slower %"]
    return markdown(heads, rows, text_columns=2)


def figure_11(flyball: Flyball) -> str:
    rows = []
    for profile, name in FIGURE_11:
        for label, planner in (("Uniform", "uniform"), ("NoRecfg", "envpipe-no-reconfigure"),
                               ("EnvPipe, greedy", "envpipe-greedy"), ("EnvPipe, balanced", "envpipe")):
            row = [name, label]
            for kept in (False, True):
                plan = flyball.plan(profile, planner, None, kept)
                base, chosen = plan["baseline"], plan["selected"]
                row += [fixed(100 * base["time"] / chosen["time"]), fixed(100 * chosen["energy"] / base["energy"])]
            rows.append(row)
            name = ""
    heads = ["% of all-maximum clocks", "", "throughput", "energy", "order kept: throughput", "energy"]
    return markdown(heads, rows, text_columns=2)


def figure_12(flyball: Flyball) -> str:
    rows = []
    for profile, name, paper in FIGURE_12:
        row = [name, paper]
        for kept in (False, True):
            balanced, greedy = (flyball.saving(profile, p, kept=kept) for p in ("envpipe", "envpipe-greedy"))
            row += [fixed(balanced), fixed(greedy), fixed(balanced - greedy)]
        rows.append(row)
    heads = ["Model (V100)", "balanced over greedy, paper", "balanced: saving %", "greedy: saving %", "points between",
             "order kept: balanced", "greedy", "points between"]
    return markdown(heads, rows)


def profiles(flyball: Flyball) -> str:
    rows = []
    fastest_gaps, gaps = [], []
    for path in sorted(PROFILES.glob("*.csv")):
        plan = flyball.plan(path.stem, "perseus")
        base, chosen, fastest = plan["baseline"], plan["selected"], plan["frontier"][0]
        best = next(point for point in plan["frontier"] if point["time"] == plan["t_least_total"])
        fastest_gaps.append(100 * (fastest["energy"] / fastest["lower_bound"] - 1))
        gaps.append(chosen["gap_pct"])
        rows.append([path.stem, flyball.header(path.stem, r"^# Published run: (\d+) microbatches"),
                     *(fixed(plan[key], 3) for key in ("t_min", "t_least_total", "t_star")),
                     fixed(chosen["saving_pct"]), fixed(100 * (1 - best["energy"] / base["energy"])),
                     fixed(100 * (best["time"] / base["time"] - 1)), fixed(fastest_gaps[-1], 3), fixed(gaps[-1], 3)])
    rows.append([f"mean of {len(rows)}", *[""] * 7, fixed(mean(fastest_gaps), 3), fixed(mean(gaps), 3)])
    heads = ["Profile", "microbatches", "T_min s", "least total s", "T\\* s", "chosen plan: saving %", "at least total %",
             "slower there %", "gap at T_min %", "gap of the chosen plan %"]
    return markdown(heads, rows)


def powerflow_2(flyball: Flyball) -> str:
    fits = {}
    for gpu in ("v100", "a100-pcie"):
        models = flyball.run("cluster", "fit", str(CLUSTER / f"{gpu}.csv"), "--gpu", gpu)["models"]
        fits[gpu] = {fit["model"]: fit for fit in models}
    rows = []
    for model, (name, time, energy) in POWERFLOW_2.items():
        errors = [[fixed(100 * fits[gpu][model][kind]) for gpu in fits] for kind in ("mape_time", "mape_energy")]
        rows.append([name, fixed(time), *errors[0], fixed(energy), *errors[1]])
    return markdown(["Model", "time %, paper (V100)", "V100, here", "A100, here", "energy %, paper (V100)", "V100, here",
                     "A100, here"], rows)


def powerflow_7(flyball: Flyball) -> str:
    """Against our own scheduler, which is the reference of a comparison, and against algorithm 1 as published."""
    def compared(policies: str) -> dict:
        return flyball.run("cluster", "compare", "--trace", str(DAY), "--sweep", "energy", "--policies", policies)

    every = compared("all")
    own = every["reference"]
    names = [run["policy"] for run in every["runs"]]
    published = next(name for name in names if name.startswith("powerflow") and name != own)
    against = {own: every, published: compared(",".join([published, *POWERFLOW_7]))}
    rows = []
    for policy, printed in {**POWERFLOW_7, published: None, own: None}.items():
        row = [policy, "" if printed is None else fixed(printed, 2)]
        for reference, comparison in against.items():
            runs = [run["jct_ratio_at_equal_energy"] for run in comparison["runs"] if run["policy"] == policy]
            ratios = [ratio for ratio in runs if ratio is not None]
            if not runs or policy == reference:
                row += [""] * 3
            else:
                row += [fixed(max(ratios), 2), fixed(min(ratios), 2)] if ratios else [""] * 2
                row.append(f"{len(ratios)} of {len(runs)}")
        rows.append(row)
    heads = ["times as long, at equal energy", "over PowerFlow, paper: at most"]
    for reference in against:
        heads += [f"over {reference}, here: at most", "at least", "runs with such energy"]
    return markdown(heads, rows[:-1])


# A program of BERT's shape: kernels of a layer, forward, with microseconds and watts (as in
# tests/support/simulated_truth.h); backward takes as long again.
SMARAGDINE_LAYER = (
    ("attention/self/query/MatMul", 180, 290), ("attention/self/key/MatMul", 180, 290),
    ("attention/self/value/MatMul", 180, 290), ("attention/self/scores/BatchMatMul", 130, 240),
    ("attention/self/Softmax", 150, 120), ("attention/self/Dropout", 90, 105),
    ("attention/self/context/BatchMatMul", 130, 235), ("attention/output/dense/MatMul", 180, 295),
    ("attention/output/LayerNorm", 120, 125), ("intermediate/dense/MatMul", 420, 330), ("intermediate/Gelu", 260, 140),
    ("output/dense/MatMul", 420, 335), ("output/LayerNorm", 120, 125))
SMARAGDINE_READING_S = 0.004  # a counter read every 4 ms, as the paper's
SMARAGDINE_IDLE_W = 60.0


def smaragdine_run(folder: Path, seed: int) -> Path:
    """Events and readings of 20 steps in which every kernel takes as long as usual, give or take a tenth."""
    drawn = random.Random(seed)
    events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}}]
    now, joules, taken = 0.0, 0.0, []  # taken: moments and the joules until then, between which energy runs straight
    for _ in range(20):
        for prefix in ("", "gradients/"):
            for layer in range(12):
                for name, microseconds, watts in SMARAGDINE_LAYER:
                    seconds = 1e-6 * microseconds * drawn.gauss(1.0, 0.1)
                    events.append({"ph": "X", "name": f"{prefix}bert/encoder/layer_{layer}/{name}", "pid": 1, "tid": 1,
                                   "ts": 1e6 * now, "dur": 1e6 * seconds})
                    now, joules = now + seconds, joules + watts * seconds
                    taken.append((now, joules))
        pause = drawn.uniform(0.002, 0.008)
        now, joules = now + pause, joules + SMARAGDINE_IDLE_W * pause
        taken.append((now, joules))
    readings, moment, before = ["timestamp,device,energy_j"], 0.0, (0.0, 0.0)
    for after in taken:
        while moment <= after[0]:
            part = (moment - before[0]) / max(after[0] - before[0], 1e-12)
            readings.append(f"{moment:.6f},CPU:0,{before[1] + part * (after[1] - before[1]):.4f}")
            moment += SMARAGDINE_READING_S
        before = after
    place = folder / f"run{seed}"
    place.mkdir()
    (place / "events.json").write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    (place / "power.csv").write_text("\n".join(readings) + "\n", encoding="utf-8")
    return place


def smaragdine(flyball: Flyball) -> str:
    """An experiment is five runs. ASSW: of the first with that of 10, 15, 20 and 25 runs; stability: of nine experiments."""
    folder = flyball.folder
    runs = [smaragdine_run(folder, seed) for seed in range(45)]

    def footprint(name: str, some: list[Path]) -> Path:
        path = folder / f"{name}.json"
        traces = [word for run in some for word in ("--events", run / "events.json", "--power", run / "power.csv")]
        flyball.run("account", *map(str, traces), "--summary", "--json", str(path))
        return path

    def similarity(a: Path, b: Path) -> float:
        return flyball.run("account", "diff", str(a), str(b))["energy_correlation"]

    experiments = [footprint(f"experiment{i}", runs[5 * i:5 * i + 5]) for i in range(9)]
    asss = {at["every"]: at["similarity"] for at in flyball.run("account", "quality", *map(str, runs[:5]))["asss"]}
    assw = {count: similarity(experiments[0], footprint(f"first{count}", runs[:count])) for count in (10, 15, 20, 25)}
    stability = [similarity(a, b) for i, a in enumerate(experiments) for b in experiments[i + 1:]]
    rows = [["ASSS, a reading every 8, 16 and 40 ms", "0.90 to 0.94",
             ", ".join(fixed(asss[every], 4) for every in (2, 4, 10))],
            ["ASSW, 10, 15, 20 and 25 runs beside 5", "0.97 to 0.99",
             ", ".join(fixed(value, 4) for value in assw.values())],
            ["stability, nine experiments with each other", "above 0.7 (\"strong\")",
             f"{fixed(min(stability), 4)} to {fixed(max(stability), 4)}"]]
    return markdown(["", "paper, BERT on its machine", "here, simulated"], rows, text_columns=3)


Tables = dict[str, Callable[[Flyball], str]]
TABLES: Tables = {
    "perseus-3-a100-saving": lambda f: table_3(f, "A100, 4 stages", slowdown=False),
    "perseus-3-a100-slowdown": lambda f: table_3(f, "A100, 4 stages", slowdown=True),
    "perseus-3-a40-saving": lambda f: table_3(f, "A40, 8 stages", slowdown=False),
    "perseus-3-a40-slowdown": lambda f: table_3(f, "A40, 8 stages", slowdown=True),
    "perseus-4-a100": lambda f: table_4(f, "A100, 4 stages"),
    "perseus-4-a40": lambda f: table_4(f, "A40, 8 stages"),
    "perseus-6": table_6,
    "perseus-7": table_7,
    "perseus-2.4": potential,
    "perseus-figure-7": figure_7,
    "envpipe-10": figure_10,
    "envpipe-11": figure_11,
    "envpipe-12": figure_12,
    "powerflow-2": powerflow_2,
    "powerflow-7": powerflow_7,
    "smaragdine-5.4": smaragdine,
    "profiles": profiles,
}

PLACE = re.compile(r"(?P<start><!-- table: (?P<name>\S+) -->\n)(?:(?!<!--).)*(?P<end><!-- end of table -->)", re.DOTALL)


def filled(document: str, path: Path, flyball: Flyball, tables: Tables) -> str:
    names = [place["name"] for place in PLACE.finditer(document)]
    for name in names:
        if name not in tables:
            sys.exit(f"{path}: there is no table '{name}'; tables are {', '.join(tables)}")
    for name in tables:
        if names.count(name) != 1:
            sys.exit(f"{path}: table '{name}' stands {names.count(name)} times, it must stand once: "
                     f"<!-- table: {name} --> and, on a line of its own, <!-- end of table -->")
    return PLACE.sub(lambda place: f"{place['start']}\n{tables[place['name']](flyball)}\n\n{place['end']}", document)


def main(description: str | None = __doc__, mend: str = "make paper-tables", tables: Tables = TABLES,
         measured: bool = False) -> None:
    """`tables` with their names; `measured`: they are of measurements, whose folder an option may name."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("build/flyball"), help="default: build/flyball")
    if measured:
        parser.add_argument("--data", metavar="FOLDER", help="folder above perseus-sosp24, as FLYBALL_SHARED_DATA")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--write", type=Path, metavar="FILE", help="rewrite the tables of this document")
    target.add_argument("--check", type=Path, metavar="FILE", help="exit 1 when this document's tables differ")
    options = parser.parse_args()
    if measured and options.data:
        os.environ["FLYBALL_SHARED_DATA"] = options.data
    program = options.program.resolve()
    if not program.is_file():
        sys.exit(f"{options.program}: no such program; build it with make build, or name it with --program")
    with tempfile.TemporaryDirectory() as folder:
        flyball = Flyball(program, Path(folder))
        path = options.write or options.check
        if not path:
            for name, table in tables.items():
                print(f"{name}\n\n{table(flyball)}\n")
            return
        document = path.read_text(encoding="utf-8")
        made = filled(document, path, flyball, tables)
        if options.write and made != document:
            path.write_text(made, encoding="utf-8")
        if options.check and made != document:
            sys.exit(f"{path}: its tables are out of date; run {mend}")


if __name__ == "__main__":
    main()
