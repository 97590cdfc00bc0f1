#!/usr/bin/env python3
"""Runs real frameworks with Flyball, on simulated GPUs; `make frameworks` makes the environment and calls this.

    run.py [PART]...        parts: see --list; all where none is named

Prints a table of what plans promised and what the boards' counters measured, and whether losses and weights are the
same, bit by bit, without Flyball; build/logs/frameworks-PART.json has when each computation ran. Fails where a part
does not run or where Flyball changes what is computed. A part whose package is not installed is skipped, and said to be. On a busy machine processes get their turn late, and
iterations by plan take longer than promised, or the session gives the plan up: the figures say something where the
share of late sleeps beside them is small.
"""

import argparse
import importlib.util
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FLYBALL_BUILD", SOURCE / "build"))
os.environ.update(FLYBALL_BUILD=str(BUILD), FLYBALL_SOURCE=str(SOURCE), PYTHONDONTWRITEBYTECODE="1",
                  DS_ACCELERATOR="cpu", HF_HUB_OFFLINE="1",
                  CUDA_VISIBLE_DEVICES="")  # of the simulated driver, which PyTorch cannot compute with
sys.path.insert(0, str(SOURCE / "tests" / "python"))
from servers import Standstill, ask, started  # noqa: E402
from simulated import PROGRAM, machine  # noqa: E402

FOLDER = Path(__file__).resolve().parent
RANKS = 4
PIPELINES = {
    "1F1B": ("torch.distributed.pipelining", "pipelining", "1F1B"),
    "interleaved": ("torch.distributed.pipelining", "pipelining", "Interleaved1F1B"),
    "gpipe": ("torch.distributed.pipelining", "pipelining", "GPipe"),
    "deepspeed": ("DeepSpeed", "deepspeed", "1F1B"),
    "megatron": ("Megatron Core", "megatron", "1F1B"),
    "megatron-interleaved": ("Megatron Core", "megatron", "Interleaved1F1B"),
    "megatron-no-overlap": ("Megatron Core", "megatron", "Interleaved1F1B-no-overlap"),
}
TESTS = {"callbacks": ["transformers", "pytorch_lightning"], "loggers": ["tensorboard", "torch", "wandb", "mlflow"],
         "account": ["torch"], "zeus": ["zeus", "torch"]}


class PartFailed(Exception):
    pass


def train(part, environment, folder, *arguments):
    """One training of all ranks. Returns what each reports."""
    _, engine, schedule = PIPELINES[part]
    out = folder / "report.json"
    log = BUILD / "logs" / f"frameworks-{part}.log"
    command = [sys.executable, FOLDER / "trainer.py", "--engine", engine, "--schedule", schedule, "--ranks", str(RANKS),
               "--json", out, *arguments]
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(command, env=environment, stdout=file, stderr=subprocess.STDOUT, timeout=1500)
    if done.returncode != 0:
        raise PartFailed(f"the training ended with {done.returncode}; see {log}")
    return json.loads(out.read_text(encoding="utf-8"))


def run_pipeline(part, folder, time_scale):
    """A row of the table: a training with Flyball, and the same without."""
    (BUILD / "logs").mkdir(exist_ok=True)
    (BUILD / "logs" / f"frameworks-{part}.log").unlink(missing_ok=True)
    agent, server, token = folder / "agent.sock", folder / "server.sock", secrets.token_hex(20)
    with ExitStack() as stack:
        environment = stack.enter_context(machine("--gpus", str(RANKS), "--model", "a100", "--workload", "gpt3-1.3b",
                                                  "--time-scale", str(time_scale)))
        environment = {**environment, "FLYBALL_SERVER": str(server), "FLYBALL_JOB": part, "FLYBALL_TOKEN": token,
                       "FLYBALL_AGENT": str(agent)}
        stack.enter_context(started([PROGRAM, "agent", "--socket", agent, "--state-dir", folder / "agent"], agent,
                                    environment, folder / "agent.log"))
        stack.enter_context(started([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--socket", server, "--in-memory"],
                                    server, environment, folder / "server.log"))
        with Standstill() as standstill:
            reports = train(part, environment, folder)
        frontier = ask(server, f"/v1/jobs/{part}/frontier", token)
    (BUILD / "logs" / f"frameworks-{part}.json").write_text(json.dumps([reports, frontier]), encoding="utf-8")
    # Without GPUs, real and simulated: in no time.
    bare = train(part, dict(os.environ), folder, "--steps", str(len(reports[0]["losses"])))
    same = all(a["losses"] == b["losses"] and a["weights"] == b["weights"] for a, b in zip(reports, bare))
    return figures(part, reports, frontier, same, standstill.share), same, cause(part, reports, frontier)


def cause(part, reports, frontier):
    """Where promise and measurement are more than 1 apart: whether they are so at maximum clocks, too. Else empty."""
    base, planned, promised = (reports[0][name] for name in ("maximum clocks", "planned", "promised"))
    if any(report["promise"] != "kept" for report in reports):
        return f"{part}: the plan was given up, since iterations took longer than at maximum clocks"

    def mean(windows, what):
        return statistics.mean(window[what] for window in windows)

    def beyond(measured, said):
        return 100 * (measured / said - 1)

    by_profile = {"time_s": frontier["max_clock_time_s"], "energy_j": frontier["max_clock_energy_j"]}
    time, energy = (beyond(mean(planned, what), promised[what]) for what in ("time_s", "energy_j"))
    base_time, base_energy = (beyond(mean(base, what), by_profile[what]) for what in ("time_s", "energy_j"))
    saving = 100 * (promised["energy_j"] / by_profile["energy_j"] - mean(planned, "energy_j") / mean(base, "energy_j"))
    if abs(time) <= 1 and abs(saving) <= 1:
        return ""
    where = ("iterations at maximum clocks are off by as much, which the sweep did not see: the machine"
             if abs(time - base_time) < 0.5 and abs(time) > 1 else
             "the windows at maximum clocks were disturbed, against which savings count" if abs(time) <= 1 else
             "iterations by plan alone are off")
    return (f"{part}: measured beyond the profile, by plan {time:+.1f} % of time and {energy:+.1f} % of energy, at maximum"
            f" clocks {base_time:+.1f} % and {base_energy:+.1f} %: {where}")


def figures(part, reports, frontier, same, late):
    def spread(values, digits):
        return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"

    def unsteady(windows):
        """How far single iterations are from each other: standard deviation, per cent of their mean."""
        times = [one["end"] - one["begin"] for window in windows for one in window["iterations"]]
        return 100 * statistics.stdev(times) / statistics.mean(times)

    base, planned, promised = (reports[0][name] for name in ("maximum clocks", "planned", "promised"))
    usual = statistics.mean(window["energy_j"] for window in base)
    name, _, schedule = PIPELINES[part]
    promise = ["given up", "-", "-"]
    if all(report["promise"] == "kept" for report in reports):
        saving = 100 * (1 - promised["energy_j"] / frontier["max_clock_energy_j"])
        promise = [f"{promised['time_s']:.3f}", f"{promised['energy_j']:.1f}", f"{saving:.2f}"]
    return [name, schedule, spread([window["time_s"] for window in base], 3), promise[0],
            spread([window["time_s"] for window in planned], 3), promise[1],
            spread([window["energy_j"] for window in planned], 1), promise[2],
            spread([100 * (1 - window["energy_j"] / usual) for window in planned], 2),
            str(len(reports[0]["losses"])), "identical" if same else "DIFFERENT",
            f"{unsteady(base):.1f}, {unsteady(planned):.1f}", f"{100 * late:.1f}"]


def run_tests(part):
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", FOLDER / f"{part}_test.py"],
                          env={**os.environ, "PYTHONPATH": str(SOURCE / "tests" / "python")}, timeout=900)
    if done.returncode != 0:
        raise PartFailed(f"pytest ended with {done.returncode}")


def print_table(rows):
    head = ["framework", "schedule", "maximum s", "plan s", "measured", "plan J", "measured", "saving %", "measured",
            "iterations", "results", "unsteady %", "late %"]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print("Per iteration: at maximum clocks, what the plan promised, and what three windows of iterations measured (mean\n"
          "± standard deviation); saving: against maximum clocks, as planned, and as measured before the profiling;\n"
          "unsteady: standard deviation of single iterations at maximum clocks, and by plan, in per cent of their mean;\n"
          "late: of sleeps of 10 ms, the share that ended over 5 ms late.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to run (default: everything)")
    parser.add_argument("--list", action="store_true", help="name the parts")
    parser.add_argument("--time-scale", type=float, default=2.0, metavar="N",
                        help="seconds of the GPUs in one second (default 2); a busy machine wants less")
    options = parser.parse_args()
    parts = [*PIPELINES, *TESTS]
    if options.list:
        print("\n".join(parts))
        return 0
    for part in options.parts:
        if part not in parts:
            parser.error(f"there is no part {part}; there are {', '.join(parts)}")
    rows, notes, failed = [], [], False
    for part in options.parts or parts:
        needed = TESTS.get(part) or ["torch", *{"deepspeed": ["deepspeed"], "megatron": ["megatron"]}.get(
            PIPELINES[part][1], [])]
        missing = [name for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            notes.append(f"{part}: skipped, {', '.join(missing)} could not be installed")
            continue
        print(f"--- {part}", flush=True)
        try:
            if part in TESTS:
                run_tests(part)
                notes.append(f"{part}: passed")
                continue
            with tempfile.TemporaryDirectory(prefix="frameworks-") as folder:
                row, same, why = run_pipeline(part, Path(folder), options.time_scale)
            rows.append(row)
            notes += [why] if why else []
            print("  ".join(row), flush=True)
            failed = failed or not same
        except (PartFailed, subprocess.TimeoutExpired) as error:
            notes.append(f"{part}: FAILED, {error}")
            failed = True
    if rows:
        print_table(rows)
    print("\n".join(notes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
