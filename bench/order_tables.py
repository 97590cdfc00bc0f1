#!/usr/bin/env python3
"""What another order of forwards and backwards saves, and its memory: the tables of docs/manual/order-savings.md.

    python3 bench/order_tables.py --program build/flyball                                  # print
    python3 bench/order_tables.py --program build/flyball --write docs/manual/order-savings.md     # rewrite in place
    python3 bench/order_tables.py --program build/flyball --data ../shared/data            # measured profiles, too

The tables `split` and `measured-split` are of backwards in two parts, `fitted` is of profiles and transfers that `flyball profile
fit` makes of recorded runs. Every row is one pipeline. Columns are planners and the memory of the stages: what 1F1B holds, one microbatch more on
each, two more, and no limit. In the document a table stands between `<!-- table NAME -->` and `<!-- end of table -->`; tables whose
profiles are not here stay as they are. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from real_runs import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ROOT / "examples" / "profiles"
SHIPPED = [("gpt3-175b-a100-sxm-8stage", 32), ("gpt3-175b-a40-8stage", 32), ("bloom-176b-a100-sxm-8stage", 32),
           ("gpt3-1.3b-a100-4stage", 32), ("bert-1.3b-a100-4stage", 32), ("t5-3b-a100-4stage", 32)]
# File of the published measurements, GPU's blocking power as their authors state it (W), stages of the slice.
MEASURED = [("GPT-3 175B, A40", "gpt3-175b+a40_bf16.csv", 70.38), ("Bloom 176B, A100", "bloom+a100_sxm_bf16.csv", 83.64)]

FITTED_MICROBATCHES = (16, 32)


def stages_of(profile: Path) -> int:
    rows = [line for line in profile.read_text().splitlines() if line[:1].isdigit()]
    return 1 + max(int(row.split(",")[0]) for row in rows)


def blocking_of(profile: Path) -> str:
    found = re.search(r"^# Blocking power: ([\d.]+) W", profile.read_text(), re.MULTILINE)
    return found.group(1) if found else "75"


def limits(profile: Path, microbatches: int, extra: int) -> list[int]:
    """What 1F1B holds on each stage, and so much more."""
    stages = stages_of(profile)
    return [min(microbatches, stages - stage + extra) for stage in range(stages)]


def plan(program: Path, profile: Path, microbatches: int, blocking: str | None, planner: str, limit: list[int] | None,
         *more: str) -> dict:
    command = [str(program), "plan", str(profile), "--microbatches", str(microbatches), "--planner", planner, "--format",
               "json", *more]
    if blocking is not None:
        command += ["--blocking-power", blocking]
    if limit is not None:
        command += ["--memory-limit", ",".join(map(str, limit))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def cell(result: dict) -> str:
    return f"{result['selected']['saving_pct']:.1f}"


def table(program: Path, pipelines: list[tuple[str, Path, int, str]]) -> str:
    heads = ["pipeline", "microbatches", "Perseus", "EnvPipe +1", "joint +1", "EnvPipe +2", "joint +2",
             "EnvPipe, no limit", "joint, no limit", "held then"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --: |" * (len(heads) - 1)]
    for title, profile, microbatches, blocking in pipelines:
        def run(planner, extra):
            limit = None if extra is None else limits(profile, microbatches, extra)
            return plan(program, profile, microbatches, blocking, planner, limit)

        free = run("joint", None)
        row = [title, str(microbatches), cell(run("perseus", 0))]
        for extra in (1, 2):
            row += [cell(run("envpipe", extra)), cell(run("joint", extra))]
        row += [cell(run("envpipe", None)), cell(free), str(max(free["in_flight"]))]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def split_table(program: Path, pipelines: list[tuple[str, Path, int, str]]) -> str:
    """Savings of 1F1B's energy with whole backwards at maximum clocks, in its time."""
    heads = ["pipeline", "microbatches", "joint, whole, +1", "ZB-H1, Perseus", "joint, 1F1B's memory", "joint, +1",
             "joint, ZB-H1's memory", "joint, no limit", "held then"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --: |" * (len(heads) - 1)]
    for title, profile, microbatches, blocking in pipelines:
        whole = plan(program, profile, microbatches, blocking, "joint", limits(profile, microbatches, 1))
        time, energy = whole["baseline"]["time"], whole["baseline"]["energy"]

        def run(planner, limit):
            return plan(program, profile, microbatches, blocking, planner, limit, "--schedule", "zb-h1",
                        "--split-backward", "0.5", "--target-time", str(time))

        def saving(result):
            return f"{100 * (1 - result['selected']['energy'] / energy):.1f}"

        stages = stages_of(profile)
        free = run("joint", None)
        cells = [run("perseus", None), run("joint", limits(profile, microbatches, 0)),
                 run("joint", limits(profile, microbatches, 1)), run("joint", [min(stages, microbatches)] * stages), free]
        row = [title, str(microbatches), cell(whole), *map(saving, cells), str(max(free["in_flight"]))]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def fitted_table(program: Path, data: Path) -> str:
    heads = ["runs", "microbatches", "transfers, ms", "Perseus", "EnvPipe +1", "joint +1", "EnvPipe +2", "joint +2"]
    lines = ["| " + " | ".join(heads) + " |", "| --- |" + " --: |" * (len(heads) - 1)]
    for workload, title in WORKLOADS.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([str(program), "profile", "fit", *(str(data / planner / workload) for planner in
                            ("perseus", "envpipe")), "--out", folder], check=True, capture_output=True)
            profile, pipeline = Path(folder) / "profile.csv", Path(folder) / "pipeline.toml"
            times = [1e3 * time for time in tomllib.loads(pipeline.read_text())["p2p"]["time"]]
            for microbatches in FITTED_MICROBATCHES:
                def run(planner, extra):
                    return cell(plan(program, profile, microbatches, None, planner, limits(profile, microbatches, extra),
                                     "--pipeline", str(pipeline)))

                row = [title, str(microbatches), f"{min(times):.1f} to {max(times):.1f}", run("perseus", 0)]
                for extra in (1, 2):
                    row += [run("envpipe", extra), run("joint", extra)]
                lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "build" / "flyball")
    parser.add_argument("--data", type=Path,
                        help="folder of the published measurements; see docs/manual/order-savings.md")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into this page")
    options = parser.parse_args()
    shipped = [(name, PROFILES / f"{name}.csv", microbatches, blocking_of(PROFILES / f"{name}.csv"))
               for name, microbatches in SHIPPED]
    tables = {"shipped": table(options.program, shipped), "split": split_table(options.program, shipped)}
    if options.data:
        folder = options.data / "perseus-sosp24" / "emulation"
        measured = [(title, folder / name, 12, str(watts)) for title, name, watts in MEASURED]
        tables["measured"] = table(options.program, measured)
        tables["measured-split"] = split_table(options.program, measured)
        tables["fitted"] = fitted_table(options.program, options.data / "perseus-sosp24")
    if not options.write:
        for name, text in tables.items():
            print(f"{name}\n{text}")
        return
    page = options.write.read_text()
    for name, text in tables.items():
        page, count = re.subn(rf"(<!-- table {name} -->\n).*?(<!-- end of table -->)", lambda m: m[1] + text + m[2], page,
                              flags=re.DOTALL)
        if count != 1:
            sys.exit(f"{options.write}: there is no place for the table '{name}'")
    options.write.write_text(page)


if __name__ == "__main__":
    main()
