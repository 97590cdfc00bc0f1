"""flyball account -- CMD: trainings by PyTorch that know nothing of it, on simulated devices. PyTorch is Debian's, hence
the system's Python."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from simulated import PROGRAM, machine

PYTHON = os.path.join(sys.base_prefix, "bin", "python3")
if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
    pytest.skip(f"{PYTHON} has no PyTorch (Debian: python3-torch)", allow_module_level=True)

TRAIN = """
import os, signal, sys, time
import torch

torch.set_num_threads(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = torch.nn.Linear(128, 256)
        self.narrow = torch.nn.Linear(256, 128)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))

model = Net()
optimizer = torch.optim.Adam(model.parameters())

def train(steps, after=lambda: None):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(256, 128)).square().mean().backward()
        optimizer.step()
        after()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    with machine("--gpus", "2", "--powercap", str(tmp_path_factory.mktemp("sim") / "powercap")) as environment:
        environment.pop("PYTHONPATH", None)
        yield {**environment, "CUDA_VISIBLE_DEVICES": ""}


def account(environment, folder, script, *arguments, given="", python=()):
    program = folder / "train.py"
    program.write_text(TRAIN + script)
    command = [PROGRAM, "account", "--folder", folder / "out", "--json", folder / "account.json", *arguments, "--", PYTHON,
               *python, program]
    ran = subprocess.run(command, input=given, capture_output=True, text=True, env=environment)
    found = folder / "account.json"
    return ran, json.loads(found.read_text()) if found.exists() else None


def names(footprint, phase):
    return {row["name"] for row in footprint["footprint"] if row["phase"] == phase}


# What a process has run since the last sample of jiffies is not known when it ends: they are taken four times a second.
def test_names_modules_and_counts_whole_steps(environment, tmp_path):
    script = "train(20); time.sleep(1); print(sys.stdin.read()); sys.exit(3)"
    ran, footprint = account(environment, tmp_path, script, "--steps", "6", "--warmup", "2", given="input")
    assert ran.returncode == 3, ran.stderr  # the program's own
    assert ran.stdout == "input\n"
    assert footprint["steps"]["count"] == 6
    assert any(name.startswith("wide/aten::linear") for name in names(footprint, "forward"))
    assert any(name.startswith("narrow/AddmmBackward0") for name in names(footprint, "backward"))
    assert {device["device"] for device in footprint["devices"]} == {"CPU:0", "DRAM:0", "GPU:0", "GPU:1"}
    # Of the program's time only, and all of it is somewhere.
    parts = sum(footprint[part] for part in ("attributed_j", "idle_j", "outside_j", "elsewhere_j"))
    assert parts == pytest.approx(footprint["measured_j"], rel=1e-9)
    assert footprint["attributed_j"] > 0 and footprint["elsewhere_j"] > 0
    assert "profiled 6 steps of 20" in ran.stderr and "without the profiler" in ran.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"power.csv", "jiffies.csv"}


def test_a_short_training_has_the_steps_that_it_has(environment, tmp_path):
    ran, footprint = account(environment, tmp_path, "train(5); model(torch.ones(4, 128))", "--warmup", "1")
    assert ran.returncode == 0, ran.stderr
    # The first is not profiled, and what runs after the last is no step.
    assert footprint["steps"]["count"] == 4


@pytest.mark.parametrize("script, said", [
    ("train(3)", "the program made 3 steps, of which the first 3 are to warm up"),
    ("model(torch.ones(4, 128))", "no optimizer of torch.optim made a step"),
])
def test_says_why_nothing_was_profiled_and_what_was_drawn(environment, tmp_path, script, said):
    ran, footprint = account(environment, tmp_path, script)
    assert ran.returncode == 1 and footprint is None
    assert said in ran.stderr
    assert re.search(r"train.py: \d+\.\d{3} s, \d+\.\d J \(GPU:0 ", ran.stderr)


def test_isolated_pythons_are_not_reached(environment, tmp_path):
    ran, footprint = account(environment, tmp_path, "train(30)", python=["-I"])
    assert ran.returncode == 1 and footprint is None
    assert "no Python of the program imported PyTorch and could be told" in ran.stderr


def test_the_programs_failure_is_its_own(environment, tmp_path):
    ran, footprint = account(environment, tmp_path, "train(30); raise KeyError('mine')")
    assert ran.returncode == 1 and "KeyError: 'mine'" in ran.stderr
    assert footprint["steps"]["count"] == 20


SELF = """
from torch.profiler import profile, schedule
with torch.autograd.profiler.profile(use_kineto=torch.autograd.kineto_available()) as mine:
    train({profiled})
assert any(event.key == "aten::addmm" for event in mine.key_averages())
train({rest})
"""


def test_a_program_that_profiles_itself_keeps_its_profile(environment, tmp_path):
    ran, footprint = account(environment, tmp_path, SELF.format(profiled=8, rest=0))
    assert ran.returncode == 1 and footprint is None
    assert "the program profiled itself" in ran.stderr and "AssertionError" not in ran.stderr
    # When it has ended, there is time for ours.
    ran, footprint = account(environment, tmp_path, SELF.format(profiled=8, rest=10), "--steps", "5")
    assert ran.returncode == 0, ran.stderr
    assert footprint["steps"]["count"] == 5
    # Ours is under way, and gives way: steps 4 and 5 were profiled.
    ran, footprint = account(environment, tmp_path, "train(5)" + SELF.format(profiled=4, rest=0))
    assert ran.returncode == 0, ran.stderr
    assert footprint["steps"]["count"] == 2 and "began to profile itself" in ran.stderr


def test_steps_in_steps_count_once(environment, tmp_path):
    ran, footprint = account(environment, tmp_path, """
class Mine(torch.optim.Adam):
    def step(self, closure=None):
        return super().step(closure)
optimizer = Mine(model.parameters())
other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
train(12, other.step)
""", "--steps", "5", "--warmup", "1")
    assert ran.returncode == 0, ran.stderr
    assert footprint["steps"]["count"] == 5 and "profiled 5 steps of 12" in ran.stderr


def test_the_programs_own_sitecustomize_runs(environment, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.OWN = 'own'\n")
    script = "train(6); print(OWN, sys.modules['sitecustomize'].__file__, [p for p in sys.path if 'flyball' in p])"
    ran, footprint = account({**environment, "PYTHONPATH": str(own)}, tmp_path, script)
    assert ran.stdout == f"own {own}/sitecustomize.py []\n", ran.stderr
    assert footprint["steps"]["count"] == 3


def test_processes_of_a_job_are_ranks(environment, tmp_path):
    # As torchrun starts them: with RANK, and each waits for the other in its steps. The processes of multiprocessing are
    # forked, and end without atexit.
    script = """
import torch.multiprocessing
def rank(index, together):
    os.environ["RANK"] = str(index)
    train(8, together.wait)
    train(index)
    time.sleep(1)
if __name__ == "__main__":
    fork = torch.multiprocessing.get_context("fork")
    together = fork.Barrier(2)
    ranks = [fork.Process(target=rank, args=(index, together)) for index in (1, 0)]
    for one in ranks: one.start()
    for one in ranks: one.join()
"""
    ran, footprint = account(environment, tmp_path, script, "--steps", "7", "--warmup", "1")
    assert ran.returncode == 0, ran.stderr
    assert [rank["rank"] for rank in footprint["ranks"]] == [0, 1]
    assert all(rank["energy_j"] > 0 for rank in footprint["ranks"])
    assert (tmp_path / "out" / "trace-0.json").exists() and (tmp_path / "out" / "trace-1.json").exists()


def test_an_interrupt_goes_to_the_program_and_the_account_is_told(environment, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN + """
train(8)
try:
    print("trained", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(5)
""")
    command = [PROGRAM, "account", "--steps", "4", "--json", tmp_path / "account.json", "--", PYTHON, tmp_path / "train.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "trained\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 5, told
    assert json.loads((tmp_path / "account.json").read_text())["steps"]["count"] == 4


@pytest.mark.parametrize("arguments, said", [
    (["--events", "t.json"], "--events, --power and --jiffies are for traces that are there"),
    (["--ranks"], "all processes that train are ranks"),
    (["--warmup", "0"], "--warmup takes a whole number from 1"),
    (["--csv", "/nonexistent/account.csv"], "cannot write /nonexistent/account.csv"),
    (["--method", "sweep", "--sensor-window", "1s"], "--sensor-window is for the methods auto and regress"),
])
def test_what_cannot_be_is_refused_before_the_program_runs(environment, arguments, said):
    ran = subprocess.run([PROGRAM, "account", *arguments, "--", "echo", "ran"], capture_output=True, text=True,
                         env=environment)
    assert ran.returncode != 0 and ran.stdout == "" and said in ran.stderr


def test_without_dashes_a_word_is_a_mistyped_command():
    ran = subprocess.run([PROGRAM, "account", "dif", "a.json", "b.json"], capture_output=True, text=True)
    assert ran.returncode != 0 and "unexpected dif; did you mean diff?" in ran.stderr
    ran = subprocess.run([PROGRAM, "account", "--steps", "3"], capture_output=True, text=True)
    assert ran.returncode != 0 and "are for a program" in ran.stderr
