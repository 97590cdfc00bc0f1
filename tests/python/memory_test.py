"""What fits into memory: the arithmetic against figures by hand, a simulated allocator, and Debian's PyTorch on the
processor, whose autograd saves tensors that can be counted by hand. PyTorch is the system's, hence a process of its own.
"""

import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from servers import started
from simulated import PROGRAM, machine

MODULE = Path(os.environ.get("FLYBALL_SOURCE", Path(__file__).parents[2])) / "python" / "flyball" / "_memory.py"
PYTHON = os.path.join(sys.base_prefix, "bin", "python3")

_specification = importlib.util.spec_from_file_location("flyball_memory", MODULE)
memory = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(memory)

GB = 10**9


def test_one_more_microbatch_than_fits_would_reach_the_margin():
    """Of 80 GB, 76 are without the margin and 74 without what others take; fragmentation takes a tenth more than what is
    allocated, so that 67.27 GB may be. 27.27 GB are left beyond the peak, with the four microbatches of 6 GB 51.27: room
    for eight. With eight, 40 + 4 * 6 = 64 GB are allocated and 70.4 held; a ninth would hold 77 and, with others, pass
    76."""
    there = memory.activation_bytes(total=80 * GB, others=2 * GB, peak=40 * GB, reserved=44 * GB, microbatch=6 * GB,
                                    in_flight=4)
    assert there == pytest.approx(51.2727 * GB, rel=1e-5)
    assert there // (6 * GB) == 8
    # Nothing fits beside what is there: 30 GB less than the peak, while its four microbatches take 24.
    assert memory.activation_bytes(total=20 * GB, others=9 * GB, peak=40 * GB, reserved=40 * GB, microbatch=6 * GB,
                                   in_flight=4) == 0


class Allocator:
    """PyTorch's statistics of a GPU of 1000 bytes with 100 of another process."""

    def __init__(self):
        self.now = self.peak = 0
        self.retries = 0
        self.memory_allocated = lambda: self.now
        self.max_memory_allocated = lambda: self.peak
        self.memory_reserved = self.max_memory_reserved = lambda: self.peak
        self.memory_stats = lambda: {"num_alloc_retries": self.retries}
        self.mem_get_info = lambda: (900 - self.peak, 1000)
        self.is_initialized = lambda: True

    def add(self, count):
        self.now += count
        self.peak = max(self.peak, self.now)


def trained(watch, gpu, steps, *, first_keeps=0):
    """Steps of a stage that holds two microbatches: an input of 5 bytes, 30 for the backward, which takes 40 meanwhile.
    The gradient of the input, 5 bytes, is let go after it has been sent. The optimizer keeps `first_keeps` of the first."""
    for step in range(steps):
        watch.step_begin()
        for type in ("forward", "forward", "backward", "forward", "backward", "backward"):
            gpu.add(5 if type == "forward" else 0)
            watch.begin(type)
            if type == "forward":
                gpu.add(30)
            else:
                gpu.add(40)
                gpu.add(5 - 35 - 40)
            watch.end(type)
            gpu.add(-5 if type == "backward" else 0)
        gpu.add(first_keeps if step == 0 else 0)
        watch.step_end()


def test_a_gpu_is_measured_when_its_first_steps_are_over():
    """100 bytes of weights, 50 of an optimizer's state. Two microbatches of 35 are held; with the backward's 40, 260 are
    allocated at most, and nothing is lost to fragmentation. 950 less 100 less 260 are left: 590 and 2 * 35 are there."""
    gpu, told = Allocator(), []
    gpu.add(100)
    watch = memory.MemoryWatch(types.SimpleNamespace(cuda=gpu), lambda *bytes: told.append(bytes))
    trained(watch, gpu, 4, first_keeps=50)
    assert told == []
    trained(watch, gpu, 10)
    assert told == [(35, 660)]
    # Memory has become scarce: no more than the two that were seen to fit.
    gpu.retries += 1
    trained(watch, gpu, 2)
    assert told == [(35, 660), (35, 70)]


def test_less_than_the_gpu_has_may_be_given_and_chunks_are_left_alone():
    gpu, told = Allocator(), []
    gpu.add(150)
    watch = memory.MemoryWatch(types.SimpleNamespace(cuda=gpu), lambda *bytes: told.append(bytes), total_bytes=500)
    trained(watch, gpu, 5)
    assert told == [(35, 185)]  # 475 less 100 less 260, and 2 * 35

    watch = memory.MemoryWatch(types.SimpleNamespace(cuda=gpu), lambda *bytes: told.append(bytes))
    for _ in range(6):
        watch.step_begin()
        watch.begin("forward.1")
        watch.end("forward.1")
        watch.step_end()
    assert len(told) == 1


def test_a_session_measures_by_itself_and_the_server_plans_with_it(tmp_path):
    """The allocator of above stands in for PyTorch's. Of 660 bytes, 18 microbatches of 35 fit; after an allocation that
    had to be tried again, the two that were held. `flyball jobs` says where the number comes from."""
    pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")
    socket, token = tmp_path / "server.sock", tmp_path / "token"
    token.write_text("t" * 32)
    token.chmod(0o600)
    program = f"""
import json, subprocess, sys, time, types
sys.path.insert(0, {str(Path(__file__).parent)!r})
from memory_test import Allocator, trained
gpu = Allocator()
gpu.add(150)
sys.modules["torch"] = types.SimpleNamespace(cuda=gpu)
import flyball

def job():
    words = [{PROGRAM!r}, "jobs", "job", "--server", {str(socket)!r}, "--token-file", {str(token)!r}]
    text = subprocess.run(words, capture_output=True, text=True).stdout
    return text, json.loads(subprocess.run([*words, "--format", "json"], capture_output=True, text=True).stdout)["jobs"][0]

def limit_is(limit):
    deadline = time.monotonic() + 60
    while job()[1]["memory_limit"] != limit and time.monotonic() < deadline:
        time.sleep(0.05)
    return job()

with flyball.Session(server={str(socket)!r}, job="job", token="t" * 32, microbatches=32, executes_order=True,
                     clocks="none", profile=False) as session:
    trained(session, gpu, 5)
    text, status = limit_is([18])
    print(status["memory_limit"], status["memory_limit_from"], status["planner"])
    assert "stages hold at most 18 microbatches in flight, as the ranks have measured" in text, text
    gpu.retries += 1
    trained(session, gpu, 1)
    print(limit_is([2])[1]["memory_limit"])
with flyball.Session(server={str(socket)!r}, job="told", token="t" * 32, microbatches=32, executes_order=True,
                     memory_limit=3, clocks="none", profile=False) as session:
    trained(session, gpu, 5)
    assert session._memory is None
# What PyTorch cannot tell ends no training.
del gpu.memory_allocated
with flyball.Session(server={str(socket)!r}, job="job", token="t" * 32, microbatches=32, executes_order=True,
                     clocks="none", profile=False) as session:
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(session, gpu, 5)
    assert "memory is not measured" in str(caught[0].message) and session.state.steps == 5
"""
    with machine("--gpus", "1", "--model", "a100") as environment, started(
            [PROGRAM, "serve", "--in-memory", "--socket", socket], socket, environment, tmp_path / "log"):
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                              timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[18] measured joint", "[2]"]


def test_pytorch_on_the_processor_saves_what_was_counted_by_hand():
    """Two layers, 64 to 256 to 64 values of 4 bytes, a batch of 32. Saved for the backward are the input, 32 * 64 * 4 =
    8,192 bytes, and the ReLU's result, 32 * 256 * 4 = 32,768, which the second layer saves as well; the square saves what
    it is of, another 8,192. The layers' weights are saved, too, but held once for all microbatches."""
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip(f"{PYTHON} has no PyTorch (Debian: python3-torch)")
    program = f"""
import importlib.util, torch
specification = importlib.util.spec_from_file_location("memory", {str(MODULE)!r})
memory = importlib.util.module_from_spec(specification)
specification.loader.exec_module(memory)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
told = []
watch = memory.MemoryWatch(torch, lambda *bytes: told.append(bytes), total_bytes=1_000_000)
for step in range(6):
    watch.step_begin()
    for _ in range(3):
        received = torch.randn(32, 64).requires_grad_()  # as from the stage before
        watch.begin("forward")
        loss = model(received).square().mean()
        watch.end("forward")
        watch.begin("backward")
        loss.backward()
        watch.end("backward")
    watch.step_end()
    if step == 3: assert told == []
assert received.grad.abs().sum() > 0
print(torch.__version__, *told)
"""
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1)[1].strip() == "(49152, 950000)", done.stdout
