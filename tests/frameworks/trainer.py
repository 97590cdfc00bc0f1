#!/usr/bin/env python3
"""Trains a small model in a real framework's pipeline, hooked by the code of docs/manual/hooking-*.md as it stands
there: real forwards, backwards and gradients over gloo on the processor, clocks and joules on simulated GPUs.

    trainer.py --engine pipelining --schedule 1F1B --json FILE     with Flyball: FLYBALL_SERVER, FLYBALL_AGENT, ...
    trainer.py --engine deepspeed --json FILE --steps N            N iterations without it, and without GPUs

Writes to FILE what the boards' counters say of iterations at maximum clocks and by plan, what the plan promises, every
loss, a hash of each rank's weights, and of each measured iteration its seconds and when its computations ran (seconds
of the machine's clock, the same on all ranks).
"""

import argparse
import hashlib
import importlib
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "examples" / "pytorch_pipeline"))
from simulated_gpu import SimulatedGpu  # noqa: E402

# Of a microbatch at the highest clock, in the GPU's seconds: GPT-3 1.3B in four stages on A100 PCIe. The models of the
# engines are far smaller; a simulated board does this work beside each of their computations.
FORWARD_S = [0.0444, 0.0444, 0.0518, 0.0474]
BACKWARD_S = [0.1162, 0.1162, 0.1356, 0.1239]
LOSS_S = 0.004
OPTIMIZER_S = 0.020
WIDTH, BATCH = 32, 4
ENGINES = ("pipelining", "deepspeed", "megatron")


class Board:
    """This rank's simulated GPU, or none."""

    def __init__(self, rank, there):
        self.rank = rank
        self.trace = []  # of this iteration: function, begin, end
        self.simulated = SimulatedGpu(rank) if there else None

    def computes(self, kind, seconds, function):
        """`function`, while which the GPU is at work, as a real one is by itself."""

        def computed(*args, **kwargs):
            begin = time.monotonic()
            try:
                with self.simulated.computes(kind, seconds):
                    return function(*args, **kwargs)
            finally:
                self.trace.append((function.__name__, begin, time.monotonic()))

        return computed if self.simulated else function

    def forward(self, function, chunks=1):
        return self.computes("forward", FORWARD_S[self.rank % 4] / chunks, function)

    def backward(self, function, chunks=1):
        return self.computes("backward", BACKWARD_S[self.rank % 4] / chunks, function)

    def loss(self, function):
        return self.computes("forward", LOSS_S, function)

    def work_of_optimizer(self, *_):
        if self.simulated:
            self.simulated.work("forward", OPTIMIZER_S)


def layers(index):
    """Of one of the pipeline's stages."""
    torch.manual_seed(1234 + index)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH),
                               torch.nn.LayerNorm(WIDTH))


def batch_of(step, microbatches):
    """The whole batch of one iteration and what is to be learnt of it, the same on all ranks."""
    batch = torch.randn(microbatches * BATCH, WIDTH, generator=torch.Generator().manual_seed(step))
    return batch, batch.roll(1, dims=1)


def manual_code(page):
    """What the code that the page tells users to paste defines."""
    text = (SOURCE / "docs" / "manual" / page).read_text(encoding="utf-8")
    defined = {}
    exec(re.search(r"```python\n(.*?)```", text, re.S).group(1), defined)
    return defined


def all_are(done):
    """Whether all ranks say so."""
    said = torch.tensor([int(done)])
    dist.all_reduce(said, op=dist.ReduceOp.MIN)
    return bool(said)


class Trainer:
    """An engine has `parameters`, iterate(step, done), which runs one iteration, and returns this rank's losses and
    whether all ranks are done, and hook(), which puts Flyball into it."""

    def __init__(self, options):
        self.options, self.rank = options, dist.get_rank()
        self.board = Board(self.rank, there=options.steps == 0)
        module = importlib.import_module(f"{options.engine}_engine")
        self.engine = module.Engine(options, self.board)
        self.losses, self.iterations = [], []

    def quick_sessions(self):
        """The page's session, with what only the tests need."""
        import flyball

        usual, scale = flyball.Session, self.board.simulated.time_scale
        opened = []

        def session(**given):
            opened.append(usual(**{
                **given, "required": True, "profile": False, "clocks": os.environ["FLYBALL_AGENT"],
                "clock_stride": self.options.clock_stride, "steps_per_clock": self.options.steps_per_clock,
                # Milliseconds of simulated GPUs are shorter than this machine's.
                "time_scale": scale, "sampling_s": max(0.001, 0.004 / scale),
                "clock_poll_s": max(0.0001, 0.0005 / scale),
                "notice": lambda words: print(f"rank {self.rank}: {words}", file=sys.stderr, flush=True)}))
            return opened[0]

        flyball.Session = session
        return opened

    def iterate(self, done=False):
        self.board.trace, begin = [], time.monotonic()
        losses, all_done = self.engine.iterate(len(self.losses), done)
        self.iterations.append({"begin": begin, "end": time.monotonic(), "trace": self.board.trace})
        self.losses.append(losses)
        return all_done

    def iterate_until(self, done):
        for _ in range(1000):
            if self.iterate(done()):
                return
        raise RuntimeError(f"rank {self.rank} waits in vain: {self.session.state}")

    def measure(self):
        """Windows of iterations: seconds of this rank's GPU per iteration, and joules of all GPUs."""
        windows, count = [], self.options.window
        for _ in range(self.options.windows):
            dist.barrier()
            with self.session.window() as window:
                for _ in range(count):
                    self.iterate()
            joules = torch.tensor([window.energy_j], dtype=torch.float64)
            dist.all_reduce(joules)
            windows.append({"time_s": window.time_s / count, "energy_j": joules.item() / count,
                            "iterations": self.iterations[-count:]})
        return windows

    def train_with_flyball(self):
        report, opened = {}, self.quick_sessions()
        self.engine.hook()
        self.iterate()  # some engines are hooked at their first iteration
        self.session = opened[0]
        with self.session:
            report["maximum clocks"] = self.measure()
            self.session.profile_again()
            self.iterate_until(lambda: self.session.state.phase != "profiling")
            report["profile"] = self.session.profile_csv
            self.iterate_until(lambda: self.session.state.promise != "unknown")
            report["planned"] = self.measure()
            state = self.session.state
            report["promised"] = {"time_s": state.planned_time_s, "energy_j": state.planned_energy_j}
            report["promise"], report["clocks_refused"] = state.promise, state.clocks_refused
        return report

    def train(self):
        report = {}
        if self.options.steps == 0:
            report = self.train_with_flyball()
        else:
            for _ in range(self.options.steps):
                self.iterate()
        report["losses"] = self.losses
        digest = hashlib.sha256()
        for parameter in self.engine.parameters:
            digest.update(parameter.detach().numpy().tobytes())
        report["weights"] = digest.hexdigest()
        return report


def run(rank, options, folder):
    torch.set_num_threads(1)
    os.environ["LOCAL_RANK"] = str(rank)
    meeting_point = os.path.join(folder, "meeting-point")
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=options.ranks)
    report = Trainer(options).train()
    reports = [None] * options.ranks
    dist.all_gather_object(reports, report)
    dist.destroy_process_group()
    if rank == 0:
        Path(options.json).write_text(json.dumps(reports), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--schedule", choices=("1F1B", "GPipe", "Interleaved1F1B", "Interleaved1F1B-no-overlap"),
                        default="1F1B")
    parser.add_argument("--ranks", type=int, default=4, help="processes, one GPU each (default 4)")
    parser.add_argument("--microbatches", type=int, default=8, help="microbatches per iteration (default 8)")
    parser.add_argument("--clock-stride", type=int, default=12, help="N: profile every N-th clock (default 12)")
    parser.add_argument("--steps-per-clock", type=int, default=4, help="iterations at each of them (default 4)")
    parser.add_argument("--windows", type=int, default=3, help="windows of each kind that are measured (default 3)")
    parser.add_argument("--window", type=int, default=4, help="iterations of a window (default 4)")
    parser.add_argument("--steps", type=int, default=0, help="N: train without Flyball and GPUs, N iterations")
    parser.add_argument("--json", required=True, help="file for the reports of all ranks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="frameworks-") as folder:
        torch.multiprocessing.spawn(run, (options, folder), nprocs=options.ranks)


if __name__ == "__main__":
    main()
