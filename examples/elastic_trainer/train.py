"""A training whose GPUs may change while it trains: data-parallel PyTorch on gloo, with Flyball in it.

Rank 0 reports after every iteration. When it is told to stop, all ranks leave the loop after the same iteration, rank 0
writes a checkpoint, and the program ends; it goes on from there when Slurm starts it again, on however many GPUs. Where the
job is to go on with some of its nodes instead, rank 0 writes their names and the iterations into the file KEPT_NODES, and job.sh starts the
program again there.
"""

import argparse
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn

import flyball

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "pytorch_pipeline"))
from simulated_gpu import SimulatedGpu  # noqa: E402  (real GPUs need none of it)

BATCH = 64  # of all ranks together, so that the training is the same whatever their number


def from_environment(*names: str) -> int:
    """What torchrun says, or srun."""
    for name in names:
        if name in os.environ:
            return int(os.environ[name])
    sys.exit(f"train.py: neither {' nor '.join(names)} is set; start the program by torchrun or srun")


def samples(iteration: int, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
    """This rank's part of the iteration's batch: every rank makes all of it, from the iteration's number."""
    generator = torch.Generator().manual_seed(iteration)
    inputs = torch.randn(BATCH, 8, generator=generator)
    return inputs[rank::ranks], inputs[rank::ranks].square().sum(1, keepdim=True)


def train_one(model: nn.Module, optimizer: torch.optim.Optimizer, iteration: int, rank: int, ranks: int) -> float:
    inputs, targets = samples(iteration, rank, ranks)
    loss = (model(inputs) - targets).square().sum() / BATCH
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return float(total)


def write(path: pathlib.Path, state: dict[str, object]) -> None:
    """A checkpoint is there whole, or the one before it."""
    fresh = path.with_suffix(".new")
    torch.save(state, fresh)
    fresh.replace(path)


def agree(stop: bool) -> bool:
    """What rank 0 was told is told to all."""
    told = torch.tensor([int(stop)])
    dist.broadcast(told, 0)
    return bool(told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--checkpoint", type=pathlib.Path, required=True, help="on a file system that all nodes share")
    parser.add_argument("--gpu-s", type=float, default=0.8,
                        help="what an iteration takes one simulated GPU at its highest clock (default 0.8 s); more GPUs share it")
    options = parser.parse_args()
    rank, ranks = from_environment("RANK", "SLURM_PROCID"), from_environment("WORLD_SIZE", "SLURM_NTASKS")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
    gpu = SimulatedGpu(int(visible[from_environment("LOCAL_RANK", "SLURM_LOCALID") % len(visible)]))

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    first = 0
    if options.checkpoint.exists():
        state = torch.load(options.checkpoint)
        first = state["iteration"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    loss = None
    with flyball.elastic(options.iterations, first=first, gpus=ranks, rank=rank, agree=agree) as job:
        for iteration in job:
            with gpu.computes("backward", options.gpu_s / ranks):
                loss = train_one(model, optimizer, iteration, rank, ranks)
    if rank == 0:
        write(options.checkpoint, {"iteration": job.done, "model": model.state_dict(),
                                   "optimizer": optimizer.state_dict()})
        if job.keeps:
            pathlib.Path(os.environ["KEPT_NODES"]).write_text(f"{','.join(job.keeps)} {job.done}\n")
        print(json.dumps({"first": first, "done": job.done, "ranks": ranks, "stopped": job.stopped, "keeps": job.keeps,
                          "loss": loss}), flush=True)
    dist.barrier()
    dist.destroy_process_group()  # or else its threads may still run when the program ends


if __name__ == "__main__":
    main()
