"""The code of docs/manual/hooking-*.md, as it stands there, against stand-ins that make the same calls as the engines."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from simulated import PROGRAM, machine

pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")

MANUAL = Path(os.environ["FLYBALL_SOURCE"]) / "docs" / "manual"

# A session that says what it is asked, with a GPU but neither server nor clocks.
RECORDING = '''
import json, os, sys, types
os.environ.update(FLYBALL_SERVER="planner:4940", FLYBALL_JOB="job", FLYBALL_TOKEN="t" * 40, LOCAL_RANK="0")
import flyball

calls, options = [], {}

class RecordingSession(flyball.Session):
    def __init__(self, **given):
        options.update(given)
        super().__init__(**{**given, "server": "", "clocks": "none", "profile": False, "required": True})
    def step_begin(self):
        calls.append("step")
        super().step_begin()
    def step_end(self):
        super().step_end()
        calls.append("end")
    def begin(self, type):
        calls.append(type)
        super().begin(type)
    def set_next_speed(self):
        calls.append("next")
        super().set_next_speed()

flyball.Session = RecordingSession

def module(name, **contents):
    """A stand-in for a module, and for the packages around it."""
    made = types.ModuleType(name)
    made.__dict__.update(contents)
    sys.modules[name] = made
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules.get(package) or module(package), last, made)
    return made
'''

MEGATRON = '''
from types import SimpleNamespace
module("megatron.core.parallel_state", **{
    "get_pipeline_model_parallel_world_size": lambda: 4, "get_pipeline_model_parallel_rank": lambda: 2,
    "get_data_parallel_world_size": lambda: 2, "get_data_parallel_rank": lambda: 1,
    "get_tensor_model_parallel_world_size": lambda: 1, "get_tensor_model_parallel_rank": lambda: 0,
    "get_virtual_pipeline_model_parallel_world_size": lambda: CHUNKS})
module("megatron.core.num_microbatches_calculator", get_num_microbatches=lambda: 2 if CHUNKS is None else 4)
schedules = module("megatron.core.pipeline_parallel.schedules")
exec("""
def forward_step(forward_step_func, data_iterator, model, num_microbatches, input_tensor, forward_data_store, config):
    return forward_step_func(data_iterator, model), 0
def backward_step(input_tensor, output_tensor, output_tensor_grad, model_type, config):
    return -output_tensor
def forward_backward(microbatches, forward_only=False, config=None):
    gradients = []
    for i in range(microbatches):
        output, _ = forward_step(lambda data, model: next(data), iter([i]), None, microbatches, None, [], None)
        if not forward_only:
            gradients.append(backward_step(None, output, None, None, None))
    if config is not None:
        config.finalize_model_grads_func(None)
    return gradients
""", schedules.__dict__)
training = module("megatron.training.training")
training.schedules = schedules
exec("""
def train_step(forward_step_func, microbatches, model, optimizer, scheduler, config, forward_backward_func=None):
    gradients = schedules.forward_backward(microbatches, config=config)
    return gradients, optimizer.step()
def train(steps, microbatches=2):
    config = SimpleNamespace(finalize_model_grads_func=lambda model: None, overlap_p2p_comm=False)
    optimizer = SimpleNamespace(step=lambda: "stepped")
    return [train_step(None, microbatches, None, optimizer, None, config, forward_backward_func=None)
            for _ in range(steps)]
""", training.__dict__)
training.SimpleNamespace = SimpleNamespace
sys.modules["megatron.training"].get_args = lambda: SimpleNamespace(rank=6, local_rank=0)
'''

DEEPSPEED = '''
from types import MethodType, SimpleNamespace
class ForwardPass:
    kwargs = {"buffer_id": 1}
class BackwardPass(ForwardPass):
    pass
class OptimizerStep:
    kwargs = {}
class ReduceGrads(OptimizerStep):
    pass
module("deepspeed.runtime.pipe.schedule", ForwardPass=ForwardPass, BackwardPass=BackwardPass,
       ReduceGrads=ReduceGrads, OptimizerStep=OptimizerStep)
class PipelineEngine:
    num_stages, micro_batches, stage_id, global_rank, local_rank = 4, 2, 2, 6, 0
    grid = SimpleNamespace(get_data_parallel_world_size=lambda: 2, get_data_parallel_rank=lambda: 1,
                           get_slice_parallel_world_size=lambda: 1, get_slice_parallel_rank=lambda: 0)
    done = []
    def _exec_forward_pass(self, buffer_id):
        self.done.append(("forward", buffer_id))
    def _exec_backward_pass(self, buffer_id):
        self.done.append(("backward", buffer_id))
    def _exec_optimizer_step(self):
        self.done.append("optimizer")
    def _exec_reduce_grads(self):
        self.done.append("gradients")
    _INSTRUCTION_MAP = {ForwardPass: _exec_forward_pass, BackwardPass: _exec_backward_pass,
                        ReduceGrads: _exec_reduce_grads, OptimizerStep: _exec_optimizer_step}
    def _exec_schedule(self, commands):
        for command in commands:
            MethodType(self._INSTRUCTION_MAP[type(command)], self)(**command.kwargs)
    def train_batch(self, data_iter=None):
        self._exec_schedule([ForwardPass(), BackwardPass(), ForwardPass(), BackwardPass(), ReduceGrads(),
                             OptimizerStep()])
        return 1.5
    def eval_batch(self, data_iter):
        self._exec_schedule([ForwardPass()])
'''

PIPELINING = '''
from types import SimpleNamespace
module("torch.distributed", get_rank=lambda: 6, get_world_size=lambda: 8)
class PipelineStage:
    num_stages, stage_index, is_last = 4, 2, LAST
    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None, save_forward_output=True):
        return fwd_chunk_id
    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        return -bwd_chunk_id
    def perform_reduce_grad(self, grad_scale_factor):
        self.scaled_by = grad_scale_factor
class Schedule1F1B:
    def __init__(self, stage, loss_fn):
        self._stage, self._loss_fn = stage, loss_fn
    def step(self, *args, target=None, losses=None):
        results = []
        for i in range(2):
            results.append(self._stage.forward_one_chunk(i, args, None))
            if self._stage.is_last:
                losses.append(self._loss_fn(results[-1], target))
            results.append(self._stage.backward_one_chunk(i, loss=None, last_backward=i == 1))
        self._stage.perform_reduce_grad(2)
        return results
class Optimizer:
    def __init__(self):
        self.before, self.after = [], []
        self.register_step_pre_hook, self.register_step_post_hook = self.before.append, self.after.append
    def step(self):
        for hook in self.before + self.after:
            hook(self, (), {})
'''

PIPELINING_RUN = '''
def loss_fn(output, target):
    calls.append("loss")
    return output - target
stage, optimizer = PipelineStage(), Optimizer()
schedule = Schedule1F1B(stage, loss_fn)
with hook_flyball([stage], schedule, optimizer, microbatches=2) as session:
    @session.hook_step
    def train_step():
        losses = []
        assert schedule.step(target=5, losses=losses) == [0, 0, 1, -1]
        optimizer.step()
        return losses
    losses = train_step()
    assert not stage.is_last or schedule._loss_fn(2, 1) == 1  # outside of a step
assert stage.scaled_by == 2 and stage.forward_one_chunk(5, ()) == 5
steps = 1
'''

ENGINES = {
    "megatron": ("CHUNKS = None\n" + MEGATRON, """
        result = training.train(2)
        assert result == [([0, -1], "stepped"), ([0, -1], "stepped")], result
        assert schedules.forward_backward(1, forward_only=True) == []
        steps = 2
        """),
    "deepspeed": (DEEPSPEED, """
        engine = PipelineEngine()
        with hook_flyball(engine):
            assert engine.train_batch(data_iter=None) == 1.5
            engine.eval_batch(None)
        passes = [("forward", 1), ("backward", 1)]
        assert engine.done == 2 * passes + ["gradients", "optimizer", ("forward", 1)], engine.done
        assert PipelineEngine._INSTRUCTION_MAP[ForwardPass] is PipelineEngine._exec_forward_pass
        steps = 1
        """),
    "pipelining": ("LAST = False\n" + PIPELINING, PIPELINING_RUN),
}


@pytest.fixture(scope="module")
def one_gpu():
    with machine("--gpus", "1", "--model", "a100") as environment:
        yield environment


def page_code(engine):
    page = (MANUAL / f"hooking-{engine}.md").read_text()
    return re.findall(r"```python\n(.*?)```", page, re.S)[0]


def recorded(engine, stand_in, run, environment):
    """What a session is asked by the page's code while `run` goes on, and the options that it was opened with."""
    program = "\n".join([RECORDING, stand_in, page_code(engine), textwrap.dedent(run),
                         "print(json.dumps([calls, options, steps]))"])
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_code_to_paste_hooks_every_computation(engine, one_gpu):
    calls, options, steps = recorded(engine, *ENGINES[engine], one_gpu)
    one_step = ["step", "next", *2 * ["forward", "next", "backward", "next"], "gradient_sync", "optimizer_step", "end"]
    assert calls == steps * one_step
    shape = {"stages": 4, "microbatches": 2, "data_parallel": 2, "rank": 6, "pp_rank": 2, "dp_rank": 1, "gpu": 0}
    assert {name: options[name] for name in shape} == shape
    assert options["token"] == "t" * 40 and not options["required"]


# The client's clock for the backward is asked for when the loss is done.
def test_pytorchs_loss_is_part_of_the_last_forward(one_gpu):
    calls, *_ = recorded("pipelining", "LAST = True\n" + PIPELINING, PIPELINING_RUN, one_gpu)
    computations = 2 * ["forward", "loss", "next", "backward", "next"]
    assert calls == ["step", "next", *computations, "gradient_sync", "optimizer_step", "end", "loss"]


# Four stages of two chunks and four microbatches: all of one chunk, then all of the other, backwards the other way round.
def test_megatrons_chunks_are_told_apart_by_their_order(one_gpu):
    calls, options, _ = recorded("megatron", "CHUNKS = 2\n" + MEGATRON, """
        for _ in range(2):
            training.train(1, 8)
            schedules.forward_backward(8, forward_only=True)
        steps = 2
        """, one_gpu)
    kinds = [call for call in calls if "ward" in call]
    assert kinds == 2 * (4 * ["forward", "backward.1"] + 4 * ["forward.1", "backward"])
    assert (options["schedule"], options["stages"], options["chunks"]) == ("interleaved-1f1b", 4, 2)
    assert options["transfers_occupy_both"]


# Two ranks of a pipeline with two chunks each, in one process, one after the other.
INTERLEAVED = '''
import ctypes, json, os, time
from types import ModuleType, SimpleNamespace
import sys
dist = ModuleType("torch.distributed")
torch = ModuleType("torch")
torch.distributed = dist
torch.cuda = None
sys.modules.update({"torch": torch, "torch.distributed": dist})
dist.get_world_size = lambda: 2
import flyball
sim = ctypes.CDLL("libnvidia-ml.so.1")
OpenSession = flyball.Session

def quick(**given):
    return OpenSession(**{**given, "required": True, "clocks": "device", "time_scale": 10, "sampling_s": 0.001,
                          "settle_s": 0, "clock_poll_s": 0.0001, "clock_stride": 20, "steps_per_clock": 2,
                          "synchronize": None})

flyball.Session = quick
RANKS, CHUNKS, MICROBATCHES = 2, 2, 4

class PipelineStage:
    num_stages = RANKS * CHUNKS
    def __init__(self, rank, chunk):
        self.stage_index, self.gpu, self.chunk, self.ran = chunk * RANKS + rank, rank, chunk, []
        self.is_last = False
    def work(self, kind, seconds):
        sim.flyball_sim_work(self.gpu, kind.encode(), ctypes.c_double(seconds), None)
    # The second chunk takes longer.
    def forward_one_chunk(self, fwd_chunk_id):
        self.work("forward", 0.05 + 0.02 * self.chunk)
        ran.append(["forward", fwd_chunk_id, self.chunk])
    def backward_one_chunk(self, bwd_chunk_id):
        self.work("backward", 0.1 + 0.04 * self.chunk)
        ran.append(["backward", bwd_chunk_id, self.chunk])

class ScheduleInterleaved1F1B:
    def __init__(self, stages):
        self.stages, self.rank = stages, stages[0].stage_index
    def step(self):
        total, group = MICROBATCHES * CHUNKS, RANKS * CHUNKS
        warm_up = min((CHUNKS - 1) * RANKS + 2 * (RANKS - 1 - self.rank), total)
        def forward(k):
            self.stages[k % group // RANKS].forward_one_chunk(k // group * RANKS + k % RANKS)
        def backward(k):
            self.stages[CHUNKS - 1 - k % group // RANKS].backward_one_chunk(k // group * RANKS + k % RANKS)
        for k in range(warm_up):
            forward(k)
        for k in range(total):
            if k + warm_up < total:
                forward(k + warm_up)
            backward(k)
'''

INTERLEAVED_RUN = '''
ranks = []
for rank in range(RANKS):
    dist.get_rank = lambda: rank
    os.environ["LOCAL_RANK"] = str(rank)
    stages = [PipelineStage(rank, chunk) for chunk in range(CHUNKS)]
    schedule = ScheduleInterleaved1F1B(stages)
    optimizer = SimpleNamespace(register_step_pre_hook=bool, register_step_post_hook=bool)
    session = hook_flyball(stages, schedule, optimizer, microbatches=MICROBATCHES)
    schedule.step = session.hook_step(schedule.step)
    ranks.append((session, schedule))
ran = []
deadline = time.monotonic() + 90
while any(session.state.phase != "running a schedule" for session, _ in ranks) and time.monotonic() < deadline:
    for _, schedule in ranks:
        schedule.step()
seen = []
for session, schedule in ranks:
    schedule.step()  # adopts what has come
    ran.clear()
    schedule.step()
    seen.append([session.schedule, list(ran), session.state.phase, session.profile_csv])
    session.close()
print(json.dumps(seen))
'''


def test_an_interleaved_pipeline_is_measured_and_planned_by_chunk(tmp_path):
    server_socket = str(tmp_path / "server.sock")
    with machine("--gpus", "2", "--model", "a100", "--time-scale", "10") as environment:
        environment = {**environment, "FLYBALL_SIM_PRIVILEGED": "1", "FLYBALL_SERVER": server_socket,
                       "FLYBALL_JOB": "interleaved", "FLYBALL_TOKEN": "t" * 40}
        server = subprocess.Popen([PROGRAM, "serve", "--in-memory", "--socket", server_socket],
                                  stdout=subprocess.DEVNULL)
        try:
            program = "\n".join([INTERLEAVED, page_code("pipelining"), INTERLEAVED_RUN])
            done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True,
                                  timeout=200)
        finally:
            server.terminate()
            server.wait(60)
    assert done.returncode == 0, done.stderr
    for schedule, ran, phase, csv in json.loads(done.stdout):
        assert phase == "running a schedule"
        # The plan's order is the engine's: what is set next is set for what runs next.
        assert [entry[:3] for entry in schedule] == ran
        times = {}
        for line in csv.splitlines()[1:]:
            _, instruction, _, time_s, _ = line.split(",")
            times.setdefault(instruction, []).append(float(time_s))
        computations = {"forward", "forward.1", "backward", "backward.1"}
        apart = {f"{name}.{end}" for name in computations for end in ("first", "last")}
        assert set(times) - apart - {"waiting", "clock_change"} == computations
        assert min(times["forward.1"]) > min(times["forward"])
        assert all(entry[3] > 0 for entry in schedule)
