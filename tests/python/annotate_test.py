"""flyball.torch.annotate: PyTorch's own profiler writes the trace, and `flyball account` names its rows."""

import copy
import json
import pickle
import subprocess
import sys
import time

import pytest
from simulated import PROGRAM, machine

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's PyTorch, where this Python has none of its own
torch = pytest.importorskip("torch", reason="there is no PyTorch (Debian: python3-torch)")
flyball = pytest.importorskip("flyball", reason="the Python package is not installed")

KINETO = torch.autograd.kineto_available()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query = torch.nn.Linear(8, 8)
        self.out = torch.nn.Linear(8, 8)

    def forward(self, x):
        with torch.autograd.profiler.record_function("mine"):
            return self.out(torch.relu(self.query(x)))


class Model(torch.nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(8, 8)
        self.tied = self.head
        self.checkpointed = checkpointed

    def forward(self, x):
        for layer in self.layers:
            if self.checkpointed:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=self.checkpointed == "reentrant")
            else:
                x = layer(x)
        return self.tied(self.head(x))


def traced(model, folder, steps=1):
    """The trace of some steps, and the names of its account by phase."""
    trace = folder / "trace.json"
    profile = flyball.torch.Profile()
    began = time.time()
    profile.start()
    for _ in range(steps):
        model(torch.ones(4, 8, requires_grad=True)).sum().backward()
    profile.stop()
    profile.write(trace)
    written = json.loads(trace.read_text())
    events = written["traceEvents"]
    base = int(written.get("baseTimeNanoseconds", 0)) / 1e3
    times = [base + float(event["ts"]) for event in events if event.get("ph") == "X"]
    assert began - 0.1 < min(times) / 1e6 <= max(times) / 1e6 < time.time() + 0.1  # Unix time
    (folder / "power.csv").write_text("timestamp,device,power_w\n" + "".join(
        f"{at:.6f},CPU:0,50\n" for at in (min(times) / 1e6 - 1, max(times) / 1e6 + 1)))
    printed = subprocess.run([PROGRAM, "account", "--events", trace, "--power", folder / "power.csv", "--format", "json",
                              "--clock-offset", "0s"], check=True, capture_output=True, text=True).stdout
    found = json.loads(printed)
    names = {}
    for row in found["footprint"]:
        names.setdefault(row["phase"], set()).add(row["name"])
    return [event["name"] for event in events if event.get("ph") == "X"], names, found["notes"]


def below(names, phase, module):
    return any(name.startswith(module + "/aten::") or name.startswith(module + "/Addmm") for name in names.get(phase, ()))


MODULES = ["layers/0/mine/query", "layers/0/mine/out", "layers/1/mine/query", "layers/1/mine/out", "head"]


def test_rows_have_the_modules_paths(tmp_path):
    model = Model()
    with flyball.torch.annotate(model) as annotation:
        assert annotation.modules == 9 and annotation.left_out == []  # model, list, two blocks with two linears, head
        _, names, _ = traced(model, tmp_path)
    for module in MODULES:
        assert below(names, "forward", module), names
        assert below(names, "backward", module), names
    assert not any("flyball.module" in name for of in names.values() for name in of)


def test_without_it_the_account_says_what_to_do(tmp_path):
    _, _, notes = traced(Model(), tmp_path)
    assert any("flyball.torch.annotate" in note for note in notes)
    with flyball.torch.annotate(model := Model()):
        _, _, notes = traced(model, tmp_path)
    assert not any("flyball.torch.annotate" in note for note in notes)


@pytest.mark.parametrize("kind", ["reentrant", "not reentrant"])
def test_checkpointed_modules_keep_their_place(tmp_path, kind):
    import torch.utils.checkpoint  # noqa: F401

    model = Model(checkpointed=kind)
    with flyball.torch.annotate(model, "net"):
        _, names, _ = traced(model, tmp_path)
    for module in MODULES:
        assert below(names, "backward", "net/" + module), names
    assert all(name.count("query") <= 1 for of in names.values() for name in of)


def test_removed_nothing_is_marked(tmp_path):
    model = Model()
    annotation = flyball.torch.annotate(model)
    annotation.remove()
    annotation.remove()
    marks, _, _ = traced(model, tmp_path)
    assert not any(mark.startswith("flyball.module") for mark in marks)
    assert not model._forward_hooks and not model._forward_pre_hooks


def test_twice_is_refused_and_changes_nothing():
    model = Model()
    flyball.torch.annotate(model.layers[1])
    before = len(model._forward_hooks)
    with pytest.raises(flyball.UsageError, match=r"layers\.1 is annotated already"):
        flyball.torch.annotate(model)
    assert len(model._forward_hooks) == before


def test_a_forward_that_raises_leaves_no_range_open(tmp_path):
    model = Model()

    def fail(*_):
        raise ValueError("no")

    with flyball.torch.annotate(model):
        handle = model.layers[1].out.register_forward_pre_hook(fail)
        with torch.autograd.profiler.profile(use_kineto=KINETO):
            with pytest.raises(ValueError, match="no"):
                model(torch.ones(4, 8))
            handle.remove()
            model(torch.ones(4, 8))
    assert sys.modules["flyball.torch.annotation"]._open.stack == []


def void(_):
    """A hook that returns something would replace what the module computed."""


def test_profiling_may_begin_and_end_within_a_forward():
    model = Model()
    profiler = torch.autograd.profiler.profile(use_kineto=KINETO)
    begin = model.layers[0].register_forward_hook(lambda *_: void(profiler.__enter__()))
    end = model.layers[1].out.register_forward_hook(lambda *_: void(profiler.__exit__(None, None, None)))
    with flyball.torch.annotate(model):
        model(torch.ones(4, 8))
    begin.remove()
    end.remove()
    assert sys.modules["flyball.torch.annotation"]._open.stack == []


def test_copies_and_wrappers(tmp_path):
    model = Model()
    flyball.torch.annotate(model)
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(torch.ones(4, 8)), model(torch.ones(4, 8)))
    copy.deepcopy(model)
    wrapped = torch.nn.DataParallel(Model())
    with flyball.torch.annotate(wrapped):
        _, names, _ = traced(wrapped, tmp_path)
    assert below(names, "forward", "head") and not any(name.startswith("module/") for name in names["forward"])


def test_scripted_modules_are_left_out(tmp_path):
    model = Model()
    model.head = torch.jit.script(torch.nn.Linear(8, 8))
    with flyball.torch.annotate(model) as annotation:
        assert any(said.startswith("head is TorchScript") for said in annotation.left_out)
        _, names, _ = traced(model, tmp_path)
    assert below(names, "forward", "layers/0/mine/query")
    assert not any(name.startswith("head/") for name in names["forward"])


def test_gradients_are_the_same():
    torch.manual_seed(1)
    model = Model()
    plain = copy.deepcopy(model)
    with flyball.torch.annotate(model), torch.autograd.profiler.profile(use_kineto=KINETO):
        model(torch.ones(4, 8)).sum().backward()
    plain(torch.ones(4, 8)).sum().backward()
    for mine, other in zip(model.parameters(), plain.parameters()):
        assert torch.equal(mine.grad, other.grad)


ACCOUNT = """
import html, sys, threading
sys.path.append("/usr/lib/python3/dist-packages")
import torch, flyball
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(256, 64)).square().mean().backward()
        optimizer.step()
with flyball.account(model, steps=3, warmup=2, name="net", folder=sys.argv[1]) as a:
    train(9)
print(a)
assert a.footprint.steps["count"] == 3 and str(a).startswith("a step takes"), a.footprint.steps
names = {(row["name"], row["phase"]) for row in a.rows}
assert any(name.startswith("net/0/aten::linear") and phase == "forward" for name, phase in names), names
assert any(name.startswith("net/2/AddmmBackward0") and phase == "backward" for name, phase in names), names
assert sum(row["energy_j"] for row in a.rows if row["device"] == "CPU:0") > 0
assert a._repr_html_().startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in a._repr_html_()
assert html.unescape(a._repr_html_().split('"')[1]) == a.page and "Energy account: net" in a.page
open(sys.argv[1] + "/notebook.html", "w").write("<!doctype html><body>" + a._repr_html_())
sys.modules["flyball.torch.model_account"].LARGEST_PAGE = 1000
assert "<table>" in a._repr_html_() and "<iframe" not in a._repr_html_()
# Processors are divided: what the account has is less than what was measured, and the sum is the whole.
device = next(device for device in a.footprint.devices if device["device"] == "CPU:0")
parts = ("attributed_j", "idle_j", "outside_j", "other_processes_j", "system_j", "monitor_j")
assert abs(sum(device[part] for part in parts) - device["measured_j"]) <= 1e-9 * device["measured_j"], device
assert device["other_processes_j"] + device["system_j"] > 0, device
assert not [thread for thread in threading.enumerate() if thread.name == "flyball-jiffies"]
assert not model._forward_hooks and not model._forward_pre_hooks
for wrong in ({"steps": 0}, {"warmup": -1}, {"power": "p.csv"}):
    try:
        flyball.account(model, **wrong)
    except flyball.UsageError as error:
        print(error)
    else:
        raise AssertionError(wrong)
try:
    with flyball.account(model, warmup=4):
        train(4)
except flyball.UsageError as error:
    assert "was called 4 times" in str(error)
else:
    raise AssertionError("nothing was profiled")
try:
    with flyball.account(model, warmup=0):
        train(1)
        raise KeyError("mine")
except KeyError:
    assert not model._forward_hooks and not model._forward_pre_hooks
"""


def test_one_call_accounts_for_a_training(tmp_path):
    with machine("--gpus", "1", "--powercap", str(tmp_path / "powercap")) as environment:
        ran = subprocess.run([sys.executable, "-c", ACCOUNT, tmp_path / "out"], capture_output=True, text=True,
                             env={**environment, "CUDA_VISIBLE_DEVICES": ""})
    assert ran.returncode == 0, ran.stderr + ran.stdout
    # Three whole steps: each linear's forward ran three times. (An entry of Kineto, and of what is written without it.)
    entries = json.loads((tmp_path / "out" / "trace.json").read_text())["traceEvents"]
    assert sum(entry["name"] == "flyball.module: net.0" and entry["cat"] == "user_annotation" for entry in entries) == 3
    assert sum(entry["name"] == "Optimizer.step#SGD.step" and entry["ph"] == "X" for entry in entries) == 3
