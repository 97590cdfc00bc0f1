#!/usr/bin/env python3
"""What Perseus's authors measured on A100s and A40s (SOSP'24), predicted by the model of an iteration.

    python3 bench/real_runs.py --program build/flyball                           # print all tables
    python3 bench/real_runs.py --program build/flyball --write docs/real-runs.md # rewrite them in place
    python3 bench/real_runs.py --program build/flyball --check docs/real-runs.md # fail where they differ

The measurements do not ship with Flyball: they are read from perseus-sosp24 below the folder that --data or
FLYBALL_SHARED_DATA names, else below ../shared/data beside the checkout. Everything comes from
`flyball ... --format json` and the plans it writes. Takes about a minute. Standard library only.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

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


def parts(flyball: Flyball) -> str:
    names = ("computing", "loading", "transfers", "once", "switching", "operations", "rest")
    rows = []
    for workload, name in WORKLOADS.items():
        points = against(flyball, "perseus", workload)["points"]
        shares = [[100 * point["parts"][part] / point["measured_time"] for part in names]
                  + [100 * point["waiting_energy"] / point["measured_energy"]] for point in points]
        rows.append([name, *(fixed(sum(column) / len(column), 2) for column in zip(*shares))])
    return markdown(["workload", *(f"{part} %" for part in names), "energy of waiting %"], rows)


def fitted(flyball: Flyball) -> str:
    rows = []
    for workload, name in WORKLOADS.items():
        found = flyball.run_once("profile", "fit", runs("perseus", workload))["fitted"]

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
            off = [100 * (point[f"predicted_{what}"] / point[f"measured_{what}"] - 1) for what in ("time", "energy")]
            rows.append([name, "maximum clocks" if point["point"] < 2 else "EnvPipe", fixed(point["measured_time"], 3),
                         f"{off[0]:+.2f}", fixed(point["measured_energy"], 0), f"{off[1]:+.2f}"])
    return markdown(["workload", "plan", "measured s", "predicted, % off", "measured J", "predicted, % off"], rows, 2)


def clocks_of(plan: dict) -> dict[tuple, float]:
    clocks = list(plan["points"][0]["clocks_mhz"])
    for point in plan["points"][1:plan["selected"] + 1]:
        for operation, clock in point["edits"]:
            clocks[operation] = clock
    keys = ((one["stage"], one["instruction"], one.get("microbatch")) for one in plan["operations"])
    return dict(zip(keys, clocks))


def replayed(plan: dict, clocks: dict[tuple, float] | None) -> float:
    """Longest path of the plan's iteration; at the highest clocks where none are given."""
    options = {(one["stage"], one["instruction"]): one["options"] for one in plan["types"]}
    finish: list[float] = []
    for one in plan["operations"]:
        choices = options[one["stage"], one["instruction"]]
        clock = clocks.get((one["stage"], one["instruction"], one.get("microbatch"))) if clocks else None
        chosen = next((option for option in choices if option["clock_mhz"] == clock), choices[0])
        finish.append(max((finish[before] for before in one["after"]), default=0.0) + chosen["time_s"])
    return max(finish)


def fit(flyball: Flyball, workload: str) -> Path:
    """The folder of the profile and the pipeline that all recorded runs of Perseus's plans are fitted by."""
    folder = flyball.folder / workload
    flyball.run_once("profile", "fit", runs("perseus", workload), "--out", str(folder))
    return folder


def promises(flyball: Flyball) -> str:
    """The fastest plan, made with and without transfers, replayed with them."""
    rows = []
    for workload, name in WORKLOADS.items():
        folder = fit(flyball, workload)
        pipeline = (folder / "pipeline.toml").read_text(encoding="utf-8")
        without = re.sub(r"\n\[p2p\]\n(?:[^\[\n].*\n)*", "\n", pipeline)
        (folder / "without.toml").write_text(without, encoding="utf-8")
        plans = {}
        for kind in ("pipeline", "without"):
            flyball.run("plan", str(folder / "profile.csv"), "--pipeline", str(folder / f"{kind}.toml"), "--planner",
                        "perseus", "--clocks-asked", "at-begin", "--out", str(folder / kind))
            plans[kind] = json.loads((folder / kind / "plan.json").read_text(encoding="utf-8"))
        real = plans["pipeline"]
        slowest = replayed(real, None)
        slower = [100 * (replayed(real, clocks_of(plans[kind])) / slowest - 1) for kind in ("without", "pipeline")]
        promised = plans["without"]["points"][plans["without"]["selected"]]["time_s"] / replayed(plans["without"], None)
        rows.append([name, fixed(100 * (promised - 1), 2), fixed(slower[0], 2), fixed(slower[1], 2)])
    return markdown(["workload", "promised without transfers, %", "takes, %", "made with them, takes, %"], rows)


TABLES = {"held-out": held_out, "parts": parts, "fitted": fitted, "other-plans": other_plans, "promises": promises}

if __name__ == "__main__":
    paper_tables.main(__doc__, "make real-runs", TABLES, measured=True)
