"""examples/pytorch_pipeline: a torch.distributed pipeline with the training client, on simulated GPUs, with agent and
planning server, each a process of its own. PyTorch is Debian's, hence the system's Python; Flyball is the installed one.
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import Standstill, started
from simulated import PROGRAM, machine

flyball = pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")

TRAIN = Path(os.environ["FLYBALL_SOURCE"]) / "examples" / "pytorch_pipeline" / "train.py"
PYTHON = os.path.join(sys.base_prefix, "bin", "python3")
STAGES = 3
MICROBATCHES = 4
BLOCKING_W = 75.0  # of a simulated A100 that waits

if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
    pytest.skip(f"{PYTHON} has no PyTorch (Debian: python3-torch)", allow_module_level=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two trainings of the same length, with Flyball and without; and what the boards say in between."""
    folder = tmp_path_factory.mktemp("pytorch")
    # The installed package alone: the NumPy beside it is too new for Debian's PyTorch.
    packages = folder / "packages"
    packages.mkdir()
    (packages / "flyball").symlink_to(Path(flyball.__file__).parent)
    agent, server = folder / "agent.sock", folder / "server.sock"

    def boards(time_scale):
        return machine("--gpus", str(STAGES), "--model", "a100", "--workload", "gpt3-1.3b", "--time-scale", time_scale)

    def train(environment, *arguments):
        out = folder / "report.json"
        done = subprocess.run([PYTHON, TRAIN, "--stages", str(STAGES), "--microbatches", str(MICROBATCHES),
                               "--clock-stride", "8", "--steps-per-clock", "2", "--window", "4", "--json", out,
                               *arguments], env={**environment, "PYTHONPATH": str(packages)}, capture_output=True,
                              text=True, timeout=280)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(out.read_text())

    with boards("2") as environment:
        with started([PROGRAM, "agent", "--socket", agent, "--state-dir", folder / "agent"], agent, environment,
                     folder / "agent.log"), \
             started([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--socket", server, "--database", folder / "db"],
                     server, environment, folder / "server.log"):
            with Standstill() as standstill:
                with_flyball = train(environment, "--server", server, "--token", "t" * 40, "--clocks", agent)
            status = subprocess.run([PROGRAM, "sim", "status", "--format", "json"], env=environment, check=True,
                                    capture_output=True, text=True).stdout
    # Its times and energies are asked by no test.
    with boards("50") as environment:
        without = train(environment, "--no-flyball", "--steps", str(len(with_flyball[0]["losses"])))
    return with_flyball, without, json.loads(status)["gpus"], standstill.share


def test_nothing_about_the_training_changes(trained):
    with_flyball, without, *_ = trained
    for stage in range(STAGES):
        assert with_flyball[stage]["weights"] == without[stage]["weights"]
    assert with_flyball[0]["losses"] == without[0]["losses"]


# The training above was by an order that 1F1B's memory would not do for, and within what it was allowed.
def test_the_planned_order_is_run(trained):
    orders = {report["order"] for report in trained[0]}
    assert len(orders) == 1 and orders != {0}
    held = [report["most_held"] for report in trained[0]]
    of_1f1b = [min(MICROBATCHES, STAGES - stage) for stage in range(STAGES)]
    assert held != of_1f1b
    assert all(stage <= min(MICROBATCHES, usual + 1) for stage, usual in zip(held, of_1f1b))


# A guess among 64 tokens costs ln 64 = 4.16.
def test_the_loss_falls(trained):
    losses = trained[0][0]["losses"]
    assert losses[0] == pytest.approx(4.16, abs=0.5)
    assert losses[-1] < 0.75 * losses[0]


def test_the_plan_is_fetched_and_set(trained):
    for stage, report in enumerate(trained[0]):
        rows = list(csv.DictReader(report["profile"].splitlines()))
        # Stages of a pipeline wait for each other; what they draw then may be there, too.
        rows = [row for row in rows if row["instruction"] not in ("waiting", "clock_change")]
        # What first and last microbatches take is measured apart, too.
        apart = {f"{name}.{end}" for name in ("forward", "backward") for end in ("first", "last")}
        # The optimizer's step takes the same time in every iteration; plans count with it.
        assert {row["instruction"] for row in rows} - apart == {"forward", "backward", "optimizer_step"}
        assert {row["stage"] for row in rows} == {str(stage)}
        kinds = sorted(entry[0] for entry in report["schedule"])
        assert kinds == MICROBATCHES * ["backward"] + MICROBATCHES * ["forward"]
        measured = {int(row["frequency"]) for row in rows if row["instruction"] != "optimizer_step"}
        assert {entry[3] for entry in report["schedule"]} <= measured
        # At least once each in the sweep.
        assert report["clocks_set"] >= len(measured)
    planned = {entry[3] for report in trained[0] for entry in report["schedule"]}
    assert len(planned) > 1


# By the boards' counters. What a busy machine adds to an iteration, and with it the joules of waiting, differs from window
# to window; what the computations take beyond that does not. A clock that comes late because nothing of this ran for a
# while is no fault of Flyball's: where that happens more than now and then, the joules say nothing.
def test_energy_falls(trained):
    def net(figures):
        return figures["energy_j"] - BLOCKING_W * STAGES * figures["time_s"]

    if trained[3] > 0.03:
        pytest.skip(f"this machine does not keep time: {trained[3]:.0%} of sleeps of 10 ms ended over 5 ms late")
    report = trained[0][0]
    base, planned, promised = (net(report[name]) for name in ("maximum clocks", "planned", "promised"))
    assert planned < 0.96 * base
    assert planned == pytest.approx(promised, rel=0.15)  # a late clock is a wrong one


def test_clocks_are_at_their_default_afterwards(trained):
    assert [gpu["locked"] for gpu in trained[2]] == STAGES * [""]
