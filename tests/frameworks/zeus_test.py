"""Zeus's own PipelineFrequencyOptimizer with the real torch.distributed, one process per rank, on simulated GPUs: with
the server's plan file it sets the plan's clocks, and without one it is refused with the reason."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from simulated import PROGRAM, machine

PROFILE = Path(os.environ["FLYBALL_SOURCE"]) / "examples" / "profiles" / "gpt3-1.3b-a100-4stage.csv"
STAGES, MICROBATCHES = 4, 4

TRAINER = """
import json, os, sys
import torch, torch.distributed as dist
torch.cuda.set_device = lambda device: None  # there is none
rank, url, meeting_point = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + meeting_point, rank=rank, world_size=4)
from zeus.optimizer.pipeline_frequency import optimizer
import zeus.optimizer.pipeline_frequency.frequency_controller as controller
optimizer.sync_execution = lambda *_, **__: None  # waits for CUDA
asked = []
set_frequency = controller.FrequencyController.set_frequency
def recorded(self, frequency):
    asked.append(frequency)
    set_frequency(self, frequency)
controller.FrequencyController.set_frequency = recorded
pfo = optimizer.PipelineFrequencyOptimizer(
    rank=rank, dp_rank=0, pp_rank=rank, tp_rank=0, device_id=rank, dp_degree=1, pp_degree=4, tp_degree=1, world_size=4,
    server_url=url, job_metadata=os.environ.get("METADATA"))
warm_up = min(4 - rank - 1, 4)
order = ["forward"] * warm_up + ["forward", "backward"] * (4 - warm_up) + ["backward"] * warm_up
for _ in range(2):
    pfo.on_step_begin()
    for name in order:
        pfo.on_instruction_begin(name)
        pfo.on_instruction_end(name)
    pfo.on_step_end()
print("REPORT", json.dumps([order, asked]), flush=True)
os._exit(0)  # the process that sets its clocks would be waited for
"""


def start(tmp_path, script, rank, url, environment):
    """In a group of its own, since each rank starts a process that sets its clocks and outlives it."""
    with (tmp_path / f"rank{rank}.log").open("w") as log:
        return subprocess.Popen([sys.executable, script, str(rank), url, tmp_path / "meeting-point"], env=environment,
                                stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def train(tmp_path, metadata, *arguments):
    """What the ranks have printed, up to the first that failed."""
    with machine("--gpus", str(STAGES), "--model", "a100") as environment:
        environment = {**environment, "FLYBALL_SIM_PRIVILEGED": "1", "METADATA": metadata}
        environment.pop("CUDA_VISIBLE_DEVICES", None)  # by which Zeus numbers boards
        server = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--in-memory", *arguments],
                                  stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().split()[-1]
            script = tmp_path / "trainer.py"
            script.write_text(TRAINER)
            ranks = [start(tmp_path, script, rank, url, environment) for rank in range(STAGES)]
            try:
                said = []
                for number, rank in enumerate(ranks):
                    status = rank.wait(240)
                    said.append((tmp_path / f"rank{number}.log").read_text())
                    if status != 0:
                        break  # the others wait for it, until their launcher ends them
                return said
            finally:
                for rank in ranks:
                    with suppress(ProcessLookupError):
                        os.killpg(rank.pid, signal.SIGKILL)
                    rank.wait()
        finally:
            server.terminate()
            server.wait(60)


def test_zeus_runs_the_plan_file(tmp_path):
    subprocess.run([PROGRAM, "plan", PROFILE, "--microbatches", str(MICROBATCHES), "--out", tmp_path / "plan"],
                   check=True, capture_output=True)
    plan = next((tmp_path / "plan").glob("**/plan.json"))
    clocks = set()
    said = train(tmp_path, "", "--zeus-plan", plan)
    assert len(said) == STAGES
    for words in said:
        assert "REPORT" in words, words
        order, asked = json.loads(re.search("REPORT (.*)", words).group(1))
        assert len(asked) == 2 * len(order) and asked[:len(order)] == asked[len(order):]
        clocks.update(asked)
    assert len(clocks) > 1


@pytest.mark.parametrize("metadata", ["", "my run", "microbatches=4"])
def test_zeus_is_told_that_it_needs_one(tmp_path, metadata):
    said = train(tmp_path, metadata)
    assert len(said) == 1
    assert "RuntimeError: PFO server returned status code 422" in said[0]
    assert "start the server with such a plan (flyball serve --zeus-plan)" in said[0]
