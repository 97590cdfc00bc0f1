"""flyball account -- CMD with a current PyTorch, whose profiler is Kineto, in one process and under torchrun, on simulated
devices. The trainings run on the processor."""

import json
import os
import subprocess
import sys

import pytest
from simulated import PROGRAM, machine

MODEL = """
import os, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(256, 512)
        self.narrow = torch.nn.Linear(512, 256)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))

def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(256, 256)).square().mean().backward()
        optimizer.step()
"""
ALONE = MODEL + "train(Net(), 20)\nprint('trained')\n"
TOGETHER = MODEL + """
import torch.distributed as dist
dist.init_process_group("gloo")
train(torch.nn.parallel.DistributedDataParallel(Net()), 20)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with machine("--gpus", "1", "--powercap", str(tmp_path_factory.mktemp("sim") / "powercap")) as environment:
        environment.pop("PYTHONPATH", None)
        yield {**environment, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def account(environment, folder, script, *launcher):
    program = folder / "train.py"
    program.write_text(script)
    found = folder / "account.json"
    ran = subprocess.run([PROGRAM, "account", "--steps", "5", "--json", found, "--", *launcher, program], env=environment,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return ran, json.loads(found.read_text())


def check_sums(told):
    for device in told["devices"]:
        parts = [device[key] for key in ("attributed_j", "idle_j", "outside_j", "other_processes_j", "system_j", "monitor_j")]
        assert sum(part or 0 for part in parts) == pytest.approx(device["measured_j"], rel=1e-9)


def test_modules_of_a_training_have_their_names_forward_and_backward(environment, tmp_path):
    ran, told = account(environment, tmp_path, ALONE, sys.executable)
    assert ran.stdout == "trained\n", "standard output is the program's"
    assert told["steps"]["count"] == 5
    check_sums(told)
    passes = {(row["name"].split("/")[0], row["phase"]) for row in told["footprint"]}
    for module in ("wide", "narrow"):
        assert {(module, "forward"), (module, "backward")} <= passes, passes


def test_processes_of_torchrun_are_ranks_of_one_job(environment, tmp_path):
    launcher = os.path.join(os.path.dirname(sys.executable), "torchrun")
    _, told = account(environment, tmp_path, TOGETHER, launcher, "--nproc-per-node", "2")
    assert [rank["rank"] for rank in told["ranks"]] == [0, 1]
    assert told["steps"]["count"] == 5
    check_sums(told)
    assert any("allreduce" in row["name"] for row in told["footprint"])
