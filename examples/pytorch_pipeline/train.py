#!/usr/bin/env python3
"""Trains a small transformer in a pipeline of processes: real gradients over gloo on the processor, the clocks and the
energy on simulated GPUs. See README.md.

    train.py --clocks AGENT --server SERVER --job NAME --token SECRET     with Flyball
    train.py --no-flyball --steps N                                       the same training without
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pipeline import Pipeline, Stage  # noqa: E402
from simulated_gpu import SimulatedGpu  # noqa: E402

if TYPE_CHECKING:
    from flyball import Session, SessionState

# Of a microbatch at the highest clock, in the GPU's seconds: GPT-3 1.3B in four stages on A100 PCIe.
FORWARD_S = [0.0444, 0.0444, 0.0518, 0.0474]
BACKWARD_S = [0.1162, 0.1162, 0.1356, 0.1239]
OPTIMIZER_S = 0.02


def tokens(step: int, microbatches: int, batch: int = 4, length: int = 17,
           vocabulary: int = 64) -> tuple[Tensor, Tensor]:
    """Sequences that go on by a rule, each from a random token: there is something to learn."""
    generator = torch.Generator().manual_seed(step)
    token = torch.randint(vocabulary, (microbatches, batch, 1), generator=generator)
    sequence = [token]
    while len(sequence) < length:
        sequence.append((5 * sequence[-1] + 3) % vocabulary)
    whole = torch.cat(sequence, dim=2)
    return whole[:, :, :-1], whole[:, :, 1:]


class Trainer:
    def __init__(self, options: argparse.Namespace, rank: int) -> None:
        self.options, self.rank = options, rank
        self.gpu = SimulatedGpu(rank)
        self.session = None if options.no_flyball else self.open_session()
        self.model = Stage(rank, options.stages)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=3e-3)
        self.pipeline = Pipeline(self.model, options.microbatches, self.session, self.computes)
        self.losses: list[float] = []

    def open_session(self) -> Session:
        import flyball

        options, scale = self.options, self.gpu.time_scale
        return flyball.Session(
            server=options.server, job=options.job, token=options.token, clocks=options.clocks,
            planner=options.planner, stages=options.stages, microbatches=options.microbatches,
            # The engine runs what is planned, as long as no stage holds more microbatches than this.
            executes_order=True, memory_limit=self.memory_limit(),
            rank=self.rank, pp_rank=self.rank, gpu=self.rank,
            profile=False,  # later, after the comparison
            clock_stride=options.clock_stride, steps_per_clock=options.steps_per_clock,
            # Simulated GPUs only: their milliseconds are shorter than this machine's.
            time_scale=scale, sampling_s=max(0.001, 0.004 / scale), clock_poll_s=max(0.0001, 0.0005 / scale),
            notice=lambda words: print(f"stage {self.rank}: {words}", file=sys.stderr, flush=True))

    def memory_limit(self) -> list[int]:
        """What 1F1B holds at a time, and so many microbatches more."""
        options = self.options
        return [min(options.microbatches, options.stages - stage + options.more_memory)
                for stage in range(options.stages)]

    def computes(self, kind: str) -> AbstractContextManager[None]:
        seconds = (FORWARD_S if kind == "forward" else BACKWARD_S)[self.rank % len(FORWARD_S)]
        return self.gpu.computes(kind, seconds)

    def iterate(self, phase: int = 0) -> int:
        """One iteration of all stages. `phase` is this rank's; returns the lowest of all ranks'."""
        self.pipeline.agree_on_order()
        if self.session:
            self.session.step_begin()
        inputs, targets = tokens(len(self.losses), self.options.microbatches)
        loss = self.pipeline.step(inputs, targets)
        with self.session.instruction("optimizer_step") if self.session else nullcontext():
            self.optimizer.step()
            self.gpu.work("forward", OPTIMIZER_S)
        self.optimizer.zero_grad()
        known = torch.tensor([loss, -float(phase)], dtype=torch.float64)
        dist.all_reduce(known, op=dist.ReduceOp.MAX)
        self.losses.append(known[0].item())
        if self.session:
            self.session.step_end()
        return int(-known[1].item())

    def measure(self, session: Session, name: str) -> dict[str, float]:
        """The mean iteration of a window of them, by the GPUs' energy counters."""
        with session.window() as window:
            for _ in range(self.options.window):
                self.iterate()
        joules = torch.tensor([window.energy_j], dtype=torch.float64)
        dist.all_reduce(joules)
        figures = {"time_s": window.time_s / self.options.window, "energy_j": joules.item() / self.options.window}
        if self.rank == 0:
            print(f"{name:16} {figures['time_s']:.4f} s  {figures['energy_j']:.1f} J per iteration", flush=True)
        return figures

    def iterate_until(self, session: Session, done: Callable[[SessionState], bool]) -> None:
        for _ in range(2000):
            if self.iterate(done(session.state)) == 1:
                return
        raise RuntimeError(f"stage {self.rank} waits in vain: {session.state}")

    def train_with_flyball(self, session: Session) -> dict[str, Any]:
        self.iterate()
        report: dict[str, Any] = {"maximum clocks": self.measure(session, "maximum clocks")}
        session.profile_again()
        self.iterate_until(session, lambda state: state.phase != "profiling")
        report["profile"] = session.profile_csv
        self.iterate_until(session, lambda state: state.schedule_version > 0 and not state.reconfiguring)
        self.iterate()
        report["planned"] = self.measure(session, "planned")
        state = session.state
        report["promised"] = {"time_s": state.planned_time_s, "energy_j": state.planned_energy_j}
        report["clocks_set"] = state.clocks_set
        report["order"], report["most_held"] = state.order, self.pipeline.most_held
        report["schedule"] = session.schedule
        return report

    def train(self) -> dict[str, Any]:
        report: dict[str, Any] = {}
        if self.session:
            with self.session as session:
                report = self.train_with_flyball(session)
        else:
            while len(self.losses) < self.options.steps:
                self.iterate()
        report["losses"] = self.losses
        digest = hashlib.sha256()
        for name, weights in sorted(self.model.state_dict().items()):
            digest.update(name.encode() + weights.numpy().tobytes())
        report["weights"] = digest.hexdigest()
        return report


def run(rank: int, options: argparse.Namespace, meeting_point: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=options.stages)
    reports: list[dict[str, Any]] = [{}] * options.stages
    dist.all_gather_object(reports, Trainer(options, rank).train())
    dist.destroy_process_group()
    if rank != 0:
        return
    losses = reports[0]["losses"]
    print(f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {len(losses)} iterations", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(reports, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", type=int, default=4, help="processes, one GPU each (default 4)")
    parser.add_argument("--microbatches", type=int, default=6, help="microbatches per iteration (default 6)")
    parser.add_argument("--server", default="", help="address of flyball serve")
    parser.add_argument("--job", default="pytorch-pipeline", help="the job's id at the server")
    parser.add_argument("--token", default="", help="the job's secret, at least 32 characters")
    parser.add_argument("--clocks", default="", help='the agent\'s address, "device" or "none"')
    parser.add_argument("--planner", help="planner: joint (default), perseus, envpipe, ...")
    parser.add_argument("--more-memory", type=int, default=1,
                        help="microbatches that a stage may hold beyond those of 1F1B (default 1)")
    parser.add_argument("--clock-stride", type=int, default=4, help="N: profile every N-th clock (default 4)")
    parser.add_argument("--steps-per-clock", type=int, default=3, help="steps measured at each clock (default 3)")
    parser.add_argument("--window", type=int, default=8, help="iterations that are measured (default 8)")
    parser.add_argument("--no-flyball", action="store_true", help="train without Flyball")
    parser.add_argument("--steps", type=int, default=100, help="iterations of a training without Flyball (default 100)")
    parser.add_argument("--json", help="file for the measurements of all stages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pytorch-pipeline-") as folder:
        torch.multiprocessing.spawn(run, (options, os.path.join(folder, "meeting-point")), nprocs=options.stages)


if __name__ == "__main__":
    main()
