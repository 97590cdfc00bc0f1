#!/usr/bin/env python3
"""The script that was published with Smaragdine and `flyball account` on the same trace: their joules and their time.

  bench/peers/smaragdine_script.py --script tensor_accounting.py [--events 100000] [--program build/flyball]

The script is src/tensor_accounting.py of github.com/project-smaragdine/smaragdine (commit 52be5b9), not kept here.
The trace is a TensorFlow timeline: a BERT-like model on a GPU with two streams and a processor with four threads, and a
power reading of each device every 4 ms.

Energies, on events of which each has a name of its own: in the script an operation that ends still takes part until the
device's next change (another begin or end, or a reading), so flyball is given the same events with their ends moved
there; and once as they are, to show what that habit changes.
Times, on 2,184 operations in step after step, in processor time: of the script reading the JSON and making the
footprint, without imports, and of making the footprint alone; of the program from its start to its end, with printing,
and of its sweep alone (build/bench/bench/attribution_bench; nan where that is not built).
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


def by_flyball(program, timeline, power):
    """Joules by device and name, seconds in all."""
    def processor_time():
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent.ru_utime + spent.ru_stime

    began = processor_time()
    result = subprocess.run([program, "account", "--events", timeline, "--power", power, "--format", "json"],
                            check=True, stdout=subprocess.PIPE).stdout
    seconds = processor_time() - began
    return {(row["device"], row["name"]): row["energy_j"] for row in json.loads(result)["footprint"]}, seconds


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
    ours = by_flyball(options.program, folder / "moved.json", folder / "power.csv")[0]
    plain = by_flyball(options.program, folder / "same.json", folder / "power.csv")[0]
    largest = max(abs(ours.get(key, 0.0) - script.get(key, 0.0)) for key in set(ours) | set(script))
    relative = max(abs(ours.get(key, 0.0) / joules - 1.0) for key, joules in script.items())
    print(f"{len(events)} events of their own names, {sum(script.values()):.6f} J by the script\n"
          f"largest difference, ends moved to the next change: {largest:.3g} J, {relative:.3g} of an operation's own\n"
          f"correlation with the script's, ends as they are: {correlation(plain, script):.6f}")
    return relative


def compare_times(options, module, folder):
    draw = random.Random(2)
    events = make_events(options.events, False, draw)
    power = make_power(events, draw)
    write_power(folder / "power.csv", power)
    write_timeline(folder / "events.json", events)
    _, script_s, footprint_s = by_script(module, folder / "events.json", power)
    _, ours_s = by_flyball(options.program, folder / "events.json", folder / "power.csv")
    sweep_s = sweep_seconds(options.bench, folder / "events.json", folder / "power.csv")
    print(f"{len(events)} events of 2,184 operations, step after step, processor time:\n"
          f"  from the files to the end: script {script_s:.3f} s, flyball {ours_s:.3f} s, {script_s / ours_s:.1f} x\n"
          f"  the footprint alone: script {footprint_s:.3f} s, flyball {sweep_s:.4f} s, {footprint_s / sweep_s:.1f} x")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--script", required=True, type=pathlib.Path)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--program", default=str(ROOT / "build/flyball"))
    parser.add_argument("--bench", default=str(ROOT / "build/bench/bench/attribution_bench"))
    options = parser.parse_args()
    module = load(options.script)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        relative = compare_energies(options, module, folder)
        compare_times(options, module, folder)
    return 0 if relative < 1e-9 else 1


if __name__ == "__main__":
    sys.exit(main())
