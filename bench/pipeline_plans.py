#!/usr/bin/env python3
"""What plans of their own save a job of eight pipelines of which one GPU is 5 % slow, against one plan for all.

    python3 bench/pipeline_plans.py --program build/flyball [PROFILE.csv ...]

A planning server plans each job twice: from the measurements of all ranks, and as if every pipeline had the slow GPU,
which is one plan for all. Both run on the same GPUs in a simulation of this script's own: by the clocks that the server
answers, each computation begins when its stage is free and what it waits for is done, and all pipelines wait for the
slowest. The slow GPU draws what the others do, for longer. Clock changes are free, and waiting draws 75 W. Takes a
minute. Standard library only.
"""

import argparse
import collections
import csv
import json
import re
import subprocess
import time
import urllib.request
from pathlib import Path

PIPELINES, SLOW, BLOCKING_W = 8, 1.05, 75.0
PROFILES = Path(__file__).resolve().parent.parent / "examples" / "profiles"
TOKEN = "pipelines-pipelines-pipelines-pipelines"


def read_profile(path):
    """(stage, instruction, clock) -> (seconds, joules)"""
    with open(path, encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {(int(row["stage"]), row["instruction"], int(float(row["frequency"]))):
                (float(row["time"]), float(row["energy"])) for row in rows}


def slowed(profile, stage):
    return {key: (SLOW * t, SLOW * e) if key[0] == stage else (t, e) for key, (t, e) in profile.items()}


class Server:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", "--in-memory", "--rate", "100000"],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.url = "http://" + re.search(r"127\.0\.0\.1:\d+", self.process.stdout.readline())[0]

    def ask(self, path, body=None):
        request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(),
                                         {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def plan(self, job, profiles, microbatches):
        """The computations of every stage of every pipeline, of which `profiles` has what its ranks measure."""
        stages = 1 + max(stage for stage, _, _ in profiles[0])
        path = "/v1/jobs/" + job
        self.ask("/v1/jobs", {"id": job, "token": TOKEN, "stages": stages, "microbatches": microbatches,
                              "data_parallel": len(profiles), "switch_latency_s": 0, "blocking_power_w": BLOCKING_W})
        ranks = [(p, s) for p in range(len(profiles)) for s in range(stages)]
        for rank, (p, s) in enumerate(ranks):
            self.ask(path + "/ranks", {"rank": rank, "dp_rank": p, "pp_rank": s, "tp_rank": 0})
            measured = [{"instruction": name, "clock_mhz": clock, "time_s": t, "energy_j": e, "samples": 5}
                        for (stage, name, clock), (t, e) in profiles[p].items() if stage == s]
            self.ask(path + "/measurements", {"rank": rank, "sequence": 0, "measurements": measured})
            self.ask(f"{path}/ranks/{rank}/profiled", {})
        while self.ask(path)["state"] != "ready":
            time.sleep(0.1)
        plans = collections.defaultdict(list)
        for rank, (p, _) in enumerate(ranks):
            plans[p].append(self.ask(f"{path}/ranks/{rank}/schedule?wait_s=60")["computations"])
        return [plans[p] for p in range(len(profiles))]


def run(profile, plan):
    """Seconds of one iteration of a pipeline, its joules without waiting, and the seconds for which its GPUs compute."""
    stages = len(plan)
    done, free, place = {}, [0.0] * stages, [0] * stages
    busy = joules = 0.0
    while any(place[s] < len(plan[s]) for s in range(stages)):
        for s in range(stages):
            while place[s] < len(plan[s]):
                name, microbatch, _, clock = plan[s][place[s]]
                before = s - 1 if name == "forward" else s + 1
                if 0 <= before < stages and (name, before, microbatch) not in done:
                    break
                seconds, energy = profile[s, name, clock]
                free[s] = max(free[s], done.get((name, before, microbatch), 0.0)) + seconds
                done[name, s, microbatch] = free[s]
                busy, joules = busy + seconds, joules + energy
                place[s] += 1
    return max(free), joules, busy


def job_figures(profiles, plans):
    runs = [run(profile, plan) for profile, plan in zip(profiles, plans)]
    seconds = max(end for end, _, _ in runs)
    waiting = sum(len(plan) * seconds - busy for plan, (_, _, busy) in zip(plans, runs))
    return seconds, sum(joules for _, joules, _ in runs) + BLOCKING_W * waiting


def at_maximum(plans, profiles):
    highest = {}
    for stage, name, clock in profiles[0]:
        highest[stage, name] = max(clock, highest.get((stage, name), 0))
    return [[[[name, m, c, highest[s, name]] for name, m, c, _ in stage] for s, stage in enumerate(plan)]
            for plan in plans]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/flyball")
    parser.add_argument("--microbatches", type=int, default=32)
    parser.add_argument("profiles", nargs="*", default=[PROFILES / f"{name}.csv" for name in (
        "gpt3-1.3b-a100-4stage", "bloom-3b-a40-8stage", "gpt3-175b-a100-sxm-8stage")])
    options = parser.parse_args()
    server = Server(options.program)
    print("| profile | slow GPUs | maximum clocks s | J | one plan s | J | own plans s | J | saved % | of maximum clocks % "
          "| with own plans % |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for number, path in enumerate(options.profiles):
        usual = read_profile(path)
        stages = 1 + max(stage for stage, _, _ in usual)
        length = [sum(t for (s, _, clock), (t, _) in usual.items() if s == stage and clock == max(k[2] for k in usual))
                  for stage in range(stages)]
        slowest = length.index(max(length))
        other = (slowest + stages // 2) % stages
        for what, slow in ((f"stage {slowest}", {2: slowest}), (f"stage {other}", {2: other}),
                           (f"stages {slowest}, {other} of two pipelines", {2: slowest, 5: other})):
            profiles = [slowed(usual, slow[p]) if p in slow else usual for p in range(PIPELINES)]
            merged = usual
            for stage in set(slow.values()):
                merged = slowed(merged, stage)
            own = server.plan(f"own-{number}-{'-'.join(map(str, slow.values()))}", profiles, options.microbatches)
            one = server.plan(f"one-{number}-{'-'.join(map(str, slow.values()))}", [merged], options.microbatches)
            maximum = job_figures(profiles, at_maximum(own, profiles))
            by_one, by_own = job_figures(profiles, one * PIPELINES), job_figures(profiles, own)
            saved = [100 * (1 - by_own[1] / by_one[1]), 100 * (1 - by_one[1] / maximum[1]),
                     100 * (1 - by_own[1] / maximum[1])]
            print(f"| {Path(path).stem} | {what} | " + " | ".join(
                f"{s:.4f} | {j:.1f}" for s, j in (maximum, by_one, by_own)) + " | " +
                " | ".join(f"{value:.2f}" for value in saved) + " |", flush=True)
    server.process.terminate()


if __name__ == "__main__":
    main()
