#!/usr/bin/env python3
"""Compares the program with that of another revision: processor time and memory of whole commands, in turn.

  make build && bench/against_revision.py --revision 6eea9ce

It builds the other revision's program in a work tree under build/revisions/ (minutes, once), runs each command in turn,
one of each program, and prints the medians and the median of the ratios from pair to pair. Other work on the machine
disturbs both alike, more or less: a ratio is trusted only as far as its quarters, which are printed too, agree. Less
memory than this script's own, some 15 MiB, is not seen.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
PROFILES = SOURCE / "examples/profiles"


def write_traces(folder: pathlib.Path, operations: int) -> None:
    """Writes layers that take turns on one processor, two of them at any time, at a power that is told each 0.1 s."""
    with open(folder / "trace.json", "w", encoding="ascii") as out:
        out.write('{"traceEvents": [\n')
        out.write('{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}}')
        for i in range(operations):
            out.write(f',\n{{"ph": "X", "name": "m/layer_{i % 48}/dense/MatMul", "pid": 1, "tid": {i % 2}, '
                      f'"ts": {1000 * i}, "dur": 1900}}')
        out.write("\n]}\n")
    with open(folder / "power.csv", "w", encoding="ascii") as out:
        out.write("timestamp,device,power_w\n")
        for i in range(operations // 100 + 2):
            out.write(f"{i / 10},CPU:0,{100 + i % 7}\n")


def commands(folder: pathlib.Path) -> dict[str, list[str]]:
    plan = ["plan", "--planner", "perseus", "--blocking-power", "75"]
    day = ["cluster", "simulate", "--trace", str(SOURCE / "examples/cluster/day.csv"), "--policy"]
    return {
        "plan, BERT 1.3B, 32 microbatches":
            plan + [str(PROFILES / "bert-1.3b-a100-4stage.csv"), "--microbatches", "32"],
        "plan, GPT-3 1.3B, 128 microbatches":
            plan + [str(PROFILES / "gpt3-1.3b-a100-4stage.csv"), "--microbatches", "128"],
        "plan, GPT-3 175B, 96 microbatches":
            plan + [str(PROFILES / "gpt3-175b-a100-sxm-8stage.csv"), "--microbatches", "96"],
        "account, 300,000 operations":
            ["account", "--events", str(folder / "trace.json"), "--power", str(folder / "power.csv")],
        "forecast, two generations": ["forecast", str(SOURCE / "examples/forecast/two-generations.toml")],
        "cluster simulate, a day, Gandiva": day + ["gandiva"],
        "cluster simulate, a day, joule-price": day + ["joule-price", "--eta", "0.7"],
        "cluster simulate, a day, PowerFlow": day + ["powerflow", "--eta", "0.7"],
        "profile synth": ["profile", "synth", "--gpu", "a100-sxm", "--workload", "gpt3-175b", "--stages", "16"],
        "version": ["--version"],
    }


def built(revision: str) -> pathlib.Path:
    """Returns the other revision's program, which it builds where it is not there."""
    tree = SOURCE / "build/revisions" / revision
    if not tree.exists():
        subprocess.run(["git", "-C", SOURCE, "worktree", "add", "--detach", tree, revision], check=True)
    environment = os.environ | {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}
    for command in (["cmake", "--preset", "release"],
                    ["cmake", "--build", "build", "-j", str(os.cpu_count()), "--target", "flyball"]):
        subprocess.run(command, cwd=tree, env=environment, check=True, stdout=sys.stderr)
    return tree / "build/flyball"


def cost(program: pathlib.Path, words: list[str]) -> tuple[float, float]:
    """Runs the command; returns its processor time in seconds and its most memory in MiB."""
    with subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        told = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{program} {' '.join(words)} ended with {process.returncode}:\n{told}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--revision", required=True, help="of git: what to compare with")
    parser.add_argument("--other", type=pathlib.Path, help="its program, where it is built already")
    parser.add_argument("--program", type=pathlib.Path, default=SOURCE / "build/flyball", help="default build/flyball")
    parser.add_argument("--runs", type=int, default=9, help="of each command and program (default 9)")
    options = parser.parse_args()
    other = options.other or built(options.revision)
    folder = SOURCE / "build/revisions"
    folder.mkdir(parents=True, exist_ok=True)
    write_traces(folder, 300_000)
    print(f"| command | {options.revision}: s | now: s | ratio (quarters) | {options.revision}: MiB | now: MiB |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, words in commands(folder).items():
        pairs = [(cost(other, words), cost(options.program, words)) for _ in range(options.runs + 1)][1:]
        ratios = statistics.quantiles([now[0] / before[0] for before, now in pairs], n=4)
        before_s, before_mib = (statistics.median(pair[0][k] for pair in pairs) for k in (0, 1))
        now_s, now_mib = (statistics.median(pair[1][k] for pair in pairs) for k in (0, 1))
        print(f"| {name} | {before_s:.3f} | {now_s:.3f} | {ratios[1]:.2f} ({ratios[0]:.2f} to {ratios[2]:.2f}) "
              f"| {before_mib:.0f} | {now_mib:.0f} |", flush=True)


if __name__ == "__main__":
    main()
