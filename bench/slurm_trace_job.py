#!/usr/bin/python3 -S
"""A job of bench/slurm_trace.py: `slurm_trace_job.py FOLDER BUILD NAME KIND ITERATIONS`. It lets the simulated boards
of its GPUs work, in pieces of about half a second, which take as long as the boards' clocks make them. It reports by
flyball_elastic where a controller listens, keeps its count after every piece, and writes a line for each start and end.

Slurm runs a copy of this file, which therefore imports nothing from beside it.
"""
import ctypes
import math
import os
import pathlib
import re
import signal
import sys
import threading
import time

GPUS_OF_NODE = 4
PIECE_S = 0.5

# By kind. `seconds`: of an iteration on one GPU at its highest clock, of which `clocked_share` follows the clock.
# `compute_w`, `memory_w`: of both parts, beside what any work draws. `exchange_s`: what each doubling of the GPUs adds
# to an iteration for the exchange of gradients; `nodes_s`: what several nodes add.
KINDS = {
    "vision": {"seconds": 0.4, "clocked_share": 0.8, "compute_w": 65, "memory_w": 40,
               "exchange_s": 0.006, "nodes_s": 0.015},
    "language": {"seconds": 0.6, "clocked_share": 0.6, "compute_w": 45, "memory_w": 55,
               "exchange_s": 0.015, "nodes_s": 0.03},
    "ranking": {"seconds": 0.3, "clocked_share": 0.4, "compute_w": 30, "memory_w": 65,
               "exchange_s": 0.018, "nodes_s": 0.04},
}
EXCHANGE_W = 35  # of the board's memory and links while gradients are exchanged, beside what any work draws


class Activity(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("clocked_share", "compute_w", "memory_w")]


class Run(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("begin_s", "end_s", "energy_j")]


def iteration_of(kind, gpus):
    """Seconds of an iteration at the highest clock, and what it asks of each board."""
    one = KINDS[kind]
    own = one["seconds"] / gpus
    exchange = math.log2(gpus) * one["exchange_s"] + (one["nodes_s"] if gpus > GPUS_OF_NODE else 0.0)
    share = own / (own + exchange)
    memory_w = one["memory_w"] * share + EXCHANGE_W * (1 - share)
    return own + exchange, Activity(one["clocked_share"] * share, one["compute_w"] * share, memory_w)


def load_boards(build):
    library = ctypes.CDLL(f"{build}/sim/libnvidia-ml.so.1")
    library.flyball_sim_work_like.argtypes = [ctypes.c_uint, ctypes.POINTER(Activity), ctypes.c_double,
                                              ctypes.POINTER(Run)]
    library.flyball_sim_true_energy.argtypes = [ctypes.c_uint] + [ctypes.POINTER(ctypes.c_double)] * 2
    return library


def work(library, gpus, activity, seconds):
    """Lets boards of this process's machine work at once. Returns what each of them took."""
    runs = [Run() for _ in gpus]

    def work_on(index):
        result = library.flyball_sim_work_like(gpus[index], ctypes.byref(activity), seconds, ctypes.byref(runs[index]))
        if result != 0:
            print(f"slurm_trace_job: board {gpus[index]}: error {result}", file=sys.stderr)
            os._exit(1)

    threads = [threading.Thread(target=work_on, args=(index,)) for index in range(1, len(gpus))]
    for thread in threads:
        thread.start()
    work_on(0)
    for thread in threads:
        thread.join()
    return runs


class OtherNode:
    """A process that works on the boards of another node of the job, since a process sees one machine."""

    def __init__(self, machine, library, gpus, activity):
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        if os.fork() > 0:
            os.close(orders)
            os.close(answers)
            return
        os.close(self.orders)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.environ["FLYBALL_SIM"] = machine
        while order := os.read(orders, 64):
            work(library, gpus, activity, float(order))
            os.write(answers, b"1")
        os._exit(0)

    def begin(self, seconds):
        os.write(self.orders, f"{seconds:.6f}".encode())

    def wait(self):
        if not os.read(self.answers, 1):
            os._exit(1)


def names_in(nodes):
    """The nodes of a list such as n1,n3 or n[1-2,4]."""
    match = re.fullmatch(r"n\[([\d,-]+)\]", nodes)
    if not match:
        return nodes.split(",")
    bounds = [part.split("-") for part in match[1].split(",")]
    return [f"n{number}" for part in bounds for number in range(int(part[0]), int(part[-1]) + 1)]


def main():
    folder, build, name, kind, goal = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
    nodes = names_in(os.environ["SLURM_JOB_NODELIST"])
    here = [int(gpu) for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
    gpus = len(nodes) * len(here)
    checkpoint = folder / f"{name}.checkpoint"
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0

    def note(what):
        with (folder / f"{name}.log").open("a") as log:
            log.write(f"{what} {time.time():.3f} {done} {gpus}\n")

    def on_term(*_):
        note("terminated")
        os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
    note("start")
    boards = load_boards(build)
    seconds, activity = iteration_of(kind, gpus)
    own = os.environ["SLURMD_NODENAME"]
    machine = os.environ["FLYBALL_SIM"].removesuffix(own)
    others = [OtherNode(machine + node, boards, here, activity) for node in nodes if node != own]
    library = ctypes.CDLL(f"{build}/lib/libflyball.so")
    library.flyball_elastic_open.restype = ctypes.c_void_p
    library.flyball_elastic_report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double]
    library.flyball_elastic_close.argtypes = [ctypes.c_void_p]
    elastic = library.flyball_elastic_open(gpus, None, None) if "FLYBALL_CLUSTER" in os.environ else None
    stop = False
    while done < goal and not stop:
        count = min(goal - done, max(1, round(PIECE_S / seconds)))
        begin = time.monotonic()
        for other in others:
            other.begin(count * seconds)
        work(boards, here, activity, count * seconds)
        for other in others:
            other.wait()
        done += count
        partial = checkpoint.with_suffix(".partial")
        partial.write_text(str(done))
        partial.rename(checkpoint)
        if elastic:
            stop = library.flyball_elastic_report(elastic, done, goal, (time.monotonic() - begin) / count) != 0
    note("done" if done == goal else "stopped")
    library.flyball_elastic_close(elastic)


if __name__ == "__main__":
    main()
