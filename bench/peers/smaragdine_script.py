#!/usr/bin/env python3
"""The script that was published with Smaragdine and `flyball account` on the same trace: their joules and their time.

  bench/peers/smaragdine_script.py --script tensor_accounting.py [--events 100000] [--sizes 300000]

The script is src/tensor_accounting.py of github.com/project-smaragdine/smaragdine (commit 52be5b9), not kept here.
The trace is a TensorFlow timeline: a BERT-like model on a GPU with two streams and a processor with four threads, and a
power reading of each device every 4 ms.

Energies, on events of which each has a name of its own: in the script an operation that ends still takes part until the
device's next change (another begin or end, or a reading), so flyball is given the same events with their ends moved
there; and once as they are, to show what that habit changes.
Times, on 2,184 operations in step after step, on traces of --sizes events: of both as processes, from start to end,
with reading the two files and printing the joules, in processor time and on the clock, the best of --rounds in turns;
of the script without the interpreter's start and end (the JSON and the footprint alone, in processor time); and on the
last trace of both footprints alone (ours by build/bench/bench/attribution_bench; nan where that is not built). The
script imports numpy, pandas and tqdm for its own input files; where they are not installed, that costs it nothing.
"""
import argparse
import bisect
import importlib.util
import json
import math
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import time
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN_US = 1_700_000_000_000_000
READING_US = 4000


def load(path):
    for name in ("numpy", "pandas", "tqdm"):  # imported at its top, for its input files, and not used by its accounting
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].tqdm = iter
    spec = importlib.util.spec_from_file_location("published", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_events(count, distinct, draw):
    """(device, thread, name, begin, end): each thread one after the other, now and then with a pause."""
    events = []
    threads = [("GPU:0", 0), ("GPU:0", 1), ("CPU:0", 0), ("CPU:0", 1), ("CPU:0", 2), ("CPU:0", 3)]
    for device, thread in threads:
        at = BEGIN_US + 8000
        for i in range(count // len(threads)):
            length = draw.randrange(1, 900)  # one without a length is entered anew at each reading by the script
            name = f"bert/encoder/layer_{i % 364 // 30}/{device[:3]}{thread}_{i % 364}"
            if distinct:
                name = f"step_{i // 364}/{name}"
            events.append((device, thread, name, at, at + length))
            at += length + (draw.randrange(0, 300) if draw.random() < 0.2 else 0)
    return events


def make_power(events, draw):
    last = max(end for *_, end in events)
    return {device: {ts: draw.uniform(60, 380) for ts in range(BEGIN_US, last + 3 * READING_US, READING_US)}
            for device in ("GPU:0", "CPU:0")}


def moved_to_next_change(events, power):
    changes = {device: set(power[device]) for device in power}
    last = dict.fromkeys(power, 0)
    for device, _, _, begin, end in events:
        changes[device].update((begin, end))
        last[device] = max(last[device], end)
    changes = {device: sorted(times) for device, times in changes.items()}
    return [(device, thread, name, begin,
             end if end == last[device] else changes[device][bisect.bisect_right(changes[device], end)])
            for device, thread, name, begin, end in events]


def write_timeline(path, events):
    pids = {"GPU:0": 1, "CPU:0": 2}
    entries = [{"ph": "M", "name": "process_name", "pid": pid,
                "args": {"name": f"/job:localhost/replica:0/task:0/device:{device} Compute"}}
               for device, pid in pids.items()]
    for device, thread, name, begin, end in events:
        entries.append({"ph": "X", "cat": "Op", "name": "MatMul", "pid": pids[device], "tid": thread, "ts": begin,
                        "dur": end - begin, "args": {"name": name, "op": "MatMul"}})
    path.write_text(json.dumps({"traceEvents": entries}))


def write_power(path, power):
    rows = sorted((ts, device, watts) for device, readings in power.items() for ts, watts in readings.items())
    path.write_text("timestamp,device,power_w\n" +
                    "".join(f"{ts // 1000000}.{ts % 1000000:06},{device},{watts!r}\n" for ts, device, watts in rows))


def by_script(module, timeline, power):
    """Joules by device and name, seconds in all, seconds of the footprint."""
    began = time.process_time()
    traces = module.get_traces(json.loads(timeline.read_text()))
    read = time.process_time()
    segments = module.trace_to_segments(traces)
    joules = {}
    for device in power:
        for name, energy in module.generate_footprint(segments[device], power[device])["energy"].items():
            joules[device, name] = energy
    return joules, time.process_time() - began, time.process_time() - read


def read_power(path):
    power = {}
    for line in path.read_text().splitlines()[1:]:
        stamp, device, watts = line.split(",")
        power.setdefault(device, {})[int(stamp.replace(".", ""))] = float(watts)
    return power


def run_script(path, timeline, power):
    """What the process of the script does."""
    joules, _, _ = by_script(load(path), timeline, read_power(power))
    rows = [{"device": device, "name": name, "energy_j": energy} for (device, name), energy in joules.items()]
    print(json.dumps({"footprint": rows}))


def spent(command):
    """Joules by device and name that the command prints, and its processor and elapsed seconds from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    elapsed = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    joules = {(row["device"], row["name"]): row["energy_j"] for row in json.loads(result)["footprint"]}
    return joules, processor, elapsed


def flyball_command(program, timeline, power):
    return [program, "account", "--events", timeline, "--power", power, "--format", "json"]


def sweep_seconds(bench, timeline, power):
    if not pathlib.Path(bench).exists():
        return math.nan
    result = subprocess.run([bench, "--benchmark_filter=sweep_of_files", "--benchmark_format=json"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            env={**os.environ, "FLYBALL_EVENTS": str(timeline), "FLYBALL_POWER": str(power)}).stdout
    return json.loads(result)["benchmarks"][0]["cpu_time"] / 1e3


def correlation(a, b):
    names = sorted(set(a) | set(b))
    x, y = [a.get(name, 0.0) for name in names], [b.get(name, 0.0) for name in names]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    return sum((p - mx) * (q - my) for p, q in zip(x, y)) / math.sqrt(
        sum((p - mx) ** 2 for p in x) * sum((q - my) ** 2 for q in y))


def compare_energies(options, module, folder):
    draw = random.Random(1)
    events = make_events(options.events, True, draw)
    power = make_power(events, draw)
    write_power(folder / "power.csv", power)
    write_timeline(folder / "same.json", events)
    write_timeline(folder / "moved.json", moved_to_next_change(events, power))
    script = by_script(module, folder / "same.json", power)[0]
    ours = spent(flyball_command(options.program, folder / "moved.json", folder / "power.csv"))[0]
    plain = spent(flyball_command(options.program, folder / "same.json", folder / "power.csv"))[0]
    largest = max(abs(ours.get(key, 0.0) - script.get(key, 0.0)) for key in set(ours) | set(script))
    relative = max(abs(ours.get(key, 0.0) / joules - 1.0) for key, joules in script.items())
    print(f"{len(events)} events of their own names, {sum(script.values()):.6f} J by the script\n"
          f"largest difference, ends moved to the next change: {largest:.3g} J, {relative:.3g} of an operation's own\n"
          f"correlation with the script's, ends as they are: {correlation(plain, script):.6f}")
    return relative


def compare_times(options, module, folder):
    timeline, power_file = folder / "events.json", folder / "power.csv"
    commands = {"script": [sys.executable, __file__, "--script", options.script, "--account", timeline, power_file],
                "flyball": flyball_command(options.program, timeline, power_file)}
    print("2,184 operations, step after step; s of processor time and elapsed, from a process's start to its end:")
    print(f"{'events':>10} {'script':>16} {'without start':>14} {'flyball':>16} {'times faster':>14}")
    for size in options.sizes:
        draw = random.Random(2)
        events = make_events(size, False, draw)
        power = make_power(events, draw)
        write_power(power_file, power)
        write_timeline(timeline, events)
        best = {}
        for _ in range(options.rounds):
            for name, command in commands.items():
                best[name] = [min(pair) for pair in zip(best.get(name, (math.inf, math.inf)), spent(command)[1:])]
            _, *inner = by_script(module, timeline, power)
            best["inner"] = [min(pair) for pair in zip(best.get("inner", (math.inf, math.inf)), inner)]
        (script_cpu, script_s), (ours_cpu, ours_s) = best["script"], best["flyball"]
        print(f"{len(events):>10,} {script_cpu:>8.3f} {script_s:>7.3f} {best['inner'][0]:>14.3f} {ours_cpu:>8.4f} "
              f"{ours_s:>7.4f} {script_cpu / ours_cpu:>8.1f} {script_s / ours_s:>5.1f}")
    sweep_s = sweep_seconds(options.bench, timeline, power_file)
    print(f"the footprint alone, of the last: script {best['inner'][1]:.3f} s, flyball {sweep_s:.4f} s, "
          f"{best['inner'][1] / sweep_s:.1f} x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", required=True, type=pathlib.Path)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[3000, 30_000, 300_000, 3_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--account", nargs=2, type=pathlib.Path, help=argparse.SUPPRESS)  # be the script's process
    parser.add_argument("--program", default=str(ROOT / "build/flyball"))
    parser.add_argument("--bench", default=str(ROOT / "build/bench/bench/attribution_bench"))
    options = parser.parse_args()
    if options.account:
        run_script(options.script, *options.account)
        return 0
    module = load(options.script)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        relative = compare_energies(options, module, folder)
        compare_times(options, module, folder)
    return 0 if relative < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
