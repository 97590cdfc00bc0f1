"""flyball.plan, emulate, partition, forecast, cluster and profile, and the command `flyball` of the installed package."""

import concurrent.futures
import html
import json
import os
import pathlib
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from simulated import PROGRAM

flyball = pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")
from flyball import _command  # noqa: E402

SOURCE = pathlib.Path(os.environ["FLYBALL_SOURCE"])
INSTALLED = pathlib.Path(flyball.__file__).parent
if {path.name: path.read_bytes() for path in SOURCE.joinpath("python/flyball").glob("*.py")} != {
        path.name: path.read_bytes() for path in INSTALLED.glob("*.py")}:
    pytest.skip("the installed package is not of these sources (make python)", allow_module_level=True)

EXAMPLES = SOURCE / "examples"
BERT = EXAMPLES / "profiles/bert-1.3b-a100-4stage.csv"
# One stage and one microbatch: nobody waits, so that times and energies of an iteration are sums.
#   1410 MHz: 1.0 s + 2.0 s = 3.0 s, 300 J + 600 J = 900 J;   1000 MHz: 1.5 s + 3.0 s = 4.5 s, 200 J + 400 J = 600 J
ONE_STAGE = {
    "stage": [0, 0, 0, 0],
    "instruction": ["forward", "forward", "backward", "backward"],
    "frequency": [1410, 1000, 1410, 1000],
    "time": [1.0, 1.5, 2.0, 3.0],
    "energy": [300.0, 200.0, 600.0, 400.0],
}


def test_the_frontier_of_one_stage_is_the_sum_of_its_computations():
    plan = flyball.plan(ONE_STAGE, microbatches=1, switch_latency=0)
    assert plan["baseline"] == {"time": pytest.approx(3.0), "energy": pytest.approx(900.0)}
    assert list(plan.frontier) == ["time_s", "energy_j", "lower_bound_j"]
    ends = plan.frontier.iloc[[0, -1]]
    assert list(ends["time_s"]) == pytest.approx([3.0, 4.5]) and list(ends["energy_j"]) == pytest.approx([900.0, 600.0])
    # Nobody waits for this pipeline in vain: without a deadline the fastest plan is chosen.
    assert plan["selected"]["time"] == pytest.approx(3.0)
    slowest = plan.schedule(point=len(plan.frontier) - 1)
    assert slowest.to_dict("list") == {
        "stage": [0, 0], "instruction": ["forward", "backward"], "microbatch": [0, 0], "chunk": [0, 0],
        "clock_mhz": [1000, 1000], "time_s": [1.5, 3.0], "energy_j": [200.0, 400.0]}
    assert list(plan.clocks["clock_mhz"]) == [1410, 1410]
    assert plan.clocks.equals(plan.schedule(0)) and plan.reduced_json is None


# docs/manual/plan.md: the tables of `flyball plan gpt3-1.3b-a100-4stage.csv --microbatches 128`.
def test_gives_the_documented_figures():
    plan = flyball.plan(EXAMPLES / "profiles/gpt3-1.3b-a100-4stage.csv", microbatches=128)
    assert plan["selected"]["time"] == pytest.approx(60.0203, abs=5e-5)
    assert plan["selected"]["energy"] == pytest.approx(58599.3, abs=0.05)
    landmarks = plan.table("landmarks").set_index("name")
    assert landmarks.loc["least_total", "energy"] == pytest.approx(55437.0, abs=0.05)
    assert landmarks.loc["t_star", "switches"] == 1012
    assert plan["switching"]["reduced"]["switches"] == 9
    # The plan to run is the reduced one: clocks change nine times from a computation of a stage to its next, the change
    # back for the next iteration included.
    changes = sum(int((stage["clock_mhz"] != np.roll(stage["clock_mhz"], 1)).sum())
                  for _, stage in plan.clocks.groupby("stage"))
    assert changes == 9
    assert repr(plan).endswith("0.00 % slower than maximum clocks, saves 12.33 %; with 9 clock changes 11.91 %")


def test_a_plan_is_saved_and_emulated_as_documented(tmp_path):
    plan = flyball.plan(BERT, microbatches=8, target_time=2.0)
    plan.save(tmp_path / "plan.json")
    plan.save(tmp_path / "reduced.json", reduced=True)
    # docs/manual/emulate.md: the reduced plan for 2 s takes 1564.8 J, 12.87 % less than maximum clocks.
    reduced = flyball.emulate(BERT, microbatches=8, plan=tmp_path / "reduced.json")
    assert reduced["planned"]["energy_j"] == pytest.approx(1564.8, abs=0.05)
    assert reduced["saving_pct"] == pytest.approx(12.87, abs=0.005)
    # With clock changes that are free, the chosen plan takes what it says.
    for free in plan, tmp_path / "plan.json":
        emulated = flyball.emulate(BERT, microbatches=8, plan=free)
        assert emulated["planned"]["energy_j"] == pytest.approx(plan["selected"]["energy"])
    assert flyball.emulate(BERT, microbatches=8, plan=plan)["plan"] == "plan.json"
    plan.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    frame = plan._repr_html_()
    assert page.startswith("<!doctype html>") and html.unescape(frame.split('srcdoc="')[1].split('"')[0]) == page


def test_says_what_the_program_says_in_json(tmp_path):
    for ours, words in (
        (flyball.emulate(BERT, microbatches=8, pipelines=4, straggler=[1.1, 1.2]),
         ["emulate", BERT, "--microbatches", "8", "--pipelines", "4", "--straggler", "1.1,1.2"]),
        (flyball.forecast(EXAMPLES / "forecast/two-generations.toml", nodes={"new": 96, "old": 64}),
         ["forecast", EXAMPLES / "forecast/two-generations.toml", "--nodes", "new=96", "--nodes", "old=64"]),
        (flyball.profile.show(BERT), ["profile", "show", BERT]),
    ):
        printed = subprocess.run([PROGRAM, *words, "--format", "json"], check=True, capture_output=True, text=True)
        assert ours.json == printed.stdout and dict(ours) == json.loads(printed.stdout)


def test_forecasts_as_documented():
    # docs/manual/forecast.md: total 60.172 kWh; 90 % interval 54.294 to 69.080 kWh.
    told = flyball.forecast(EXAMPLES / "forecast/two-generations.toml", carbon=380, price=0.25)
    assert told["total_kwh"] == pytest.approx(60.172, abs=5e-4)
    # 512 GPUs: as many GPU hours as 512 times 24 hours a day.
    estimate = flyball.forecast(gpu="h100", gpus=512, params="70B", tokens="2T")
    assert estimate["gpu_hours"]["middle"] == pytest.approx(512 * 24 * estimate["days"]["middle"])


def test_layers_are_split_evenly():
    # 0.1 | 0.5 is 5 to 1, 0.4 | 0.2 is 2 to 1.
    split = flyball.partition({"layer": ["a", "b", "c"], "time": [0.1, 0.3, 0.2]}, stages=2)
    assert split["bounds"] == [0, 2, 3] and split["imbalance"] == pytest.approx(2.0)
    assert list(split.table("stages")["time"]) == pytest.approx([0.4, 0.2])


def test_jobs_of_a_cluster_wait_for_each_other():
    # One GPU: the second job runs after the first. They end after 1000 s and after 1000 + 3000 s.
    jobs = {"submit_time": [0, 0], "num_gpus": [1, 1], "duration": [1000, 3000], "model": ["resnet18", "resnet18"],
            "batch_size": [128, 128]}
    run = flyball.cluster.simulate(jobs, policy="fifo", nodes=1, gpus_per_node=1, no_node_shutdown=True)
    assert run["jobs"] == 2
    assert run["avg_jct_s"] == pytest.approx((1000 + 4000) / 2, rel=1e-3)
    runs = flyball.cluster.compare(jobs, policies=["fifo", "srtf"], nodes=1, gpus_per_node=1).table("runs")
    assert list(runs["policy"]) == ["fifo", "srtf"]


def test_profiles_are_tables_that_can_be_planned():
    profile = flyball.profile.synth(gpu="a40", workload="bloom-3b", stages=2)
    assert list(profile) == ["stage", "instruction", "frequency", "time", "energy"]
    assert set(profile["stage"]) == {0, 1} and profile["time"].dtype == float
    from_frame = flyball.plan(profile, microbatches=2, switch_latency=0)
    as_array = profile.assign(instruction=profile["instruction"].astype("U8")).to_records(index=False)
    assert flyball.plan(np.asarray(as_array), microbatches=2, switch_latency=0).plan_json == from_frame.plan_json
    fitted = flyball.profile.fit(EXAMPLES / "runs/two-stage")
    assert set(fitted.profile["stage"]) == {0, 1} and 'schedule = "1f1b"' in fitted.pipeline


def test_refuses_in_the_words_of_the_program():
    for options, words in (
        ({"microbatchs": 8}, "there is no option --microbatchs=8; did you mean --microbatches?"),
        ({}, "how many microbatches has an iteration?"),
        ({"microbatches": float("nan")}, "--microbatches takes a whole number"),
        ({"microbatches": -1}, "--microbatches takes a whole number"),
        ({"microbatches": 8, "planner": "jiont"}, "--planner takes one of"),
        ({"microbatches": 8, "format": "text"}, "format is json here"),
        ({"microbatches": 8, "help": True}, "prints no result"),
        ({"microbatches": 8, "pipeline": "a\0b"}, "null byte"),
    ):
        with pytest.raises(flyball.UsageError) as refused:
            flyball.plan(ONE_STAGE, **options)
        assert words in str(refused.value)
    with pytest.raises(ValueError, match="must be of one length"):
        flyball.plan({"stage": [0, 1], "time": [1.0]}, microbatches=1)
    with pytest.raises(flyball.InputError, match=r"^profile.csv:2:\d+: frequency is 'x'"):
        flyball.plan({**ONE_STAGE, "frequency": ["x", 1000, 1410, 1000]}, microbatches=1)
    with pytest.raises(flyball.InputError, match="nan"):
        flyball.plan({**ONE_STAGE, "time": [float("nan"), 1.5, 2.0, 3.0]}, microbatches=1)
    with pytest.raises(flyball.InputError, match="no header"):
        flyball.plan({}, microbatches=1)
    for name in "none.csv", "-", "--help", "<b>":
        with pytest.raises(flyball.DeviceError, match="cannot read"):
            flyball.plan(name, microbatches=1)
    with pytest.raises(flyball.DeviceError, match="no plan of perseus ends within 1 s"):
        flyball.plan(ONE_STAGE, microbatches=1, target_time=1)
    plan = flyball.plan(ONE_STAGE, microbatches=1, switch_latency=0)
    with pytest.raises(flyball.UsageError, match="there are 0 to 0"):
        plan.schedule(1)
    with pytest.raises(flyball.UsageError, match="point -1 is not there"):
        plan.schedule(point=-1)
    with pytest.raises(flyball.UsageError, match="changes are free"):
        plan.save("plan.json", reduced=True)
    with pytest.raises(KeyError):
        plan.table("t_min")


def test_a_trace_that_cannot_be_read_is_an_input_error(tmp_path):
    (tmp_path / "events.json").write_text("{")
    (tmp_path / "power.csv").write_text("timestamp,device,power_w\n0,GPU:0,1\n")
    with pytest.raises(flyball.InputError, match="power.csv") as refused:
        flyball.account(tmp_path / "events.json", tmp_path / "power.csv")
    assert isinstance(refused.value, flyball.DeviceError)  # which it was before there was an InputError


def test_warnings_are_warnings_of_the_caller():
    with pytest.warns(UserWarning, match="a GPU that waits is to draw 500 W") as caught:
        flyball.plan(BERT, microbatches=2, blocking_power=500)
    assert {one.filename for one in caught} == {__file__}


def test_threads_plan_at_the_same_time():
    counts = [1, 2, 3, 4]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda count: flyball.plan(BERT, microbatches=count).plan_json, counts))
    assert together == [flyball.plan(BERT, microbatches=count).plan_json for count in counts]


def test_without_pandas_tables_are_arrays():
    done = subprocess.run([sys.executable, "-c", f"""
import sys
sys.modules["pandas"] = None
import flyball
plan = flyball.plan({ONE_STAGE!r}, microbatches=1, switch_latency=0)
print(plan.frontier.dtype.names, plan.frontier["energy_j"][0], plan.clocks["instruction"][1])
print(flyball.plan(flyball.profile.synth(stages=1), microbatches=1).table("landmarks")["name"][0])
"""], capture_output=True, text=True, check=True)
    assert done.stdout == "('time_s', 'energy_j', 'lower_bound_j') 900.0 backward\nfastest\n"


def test_an_interrupt_ends_the_program(tmp_path):
    """Only the interpreter gets the signal, as in a notebook, while the program waits for its profile."""
    pipe = tmp_path / "profile.csv"
    os.mkfifo(pipe)
    waiting = subprocess.Popen([sys.executable, "-c", f"""
import flyball, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    flyball.plan({str(pipe)!r}, microbatches=1)
except KeyboardInterrupt:
    print("interrupted")
"""], stdout=subprocess.PIPE, text=True)
    with open(pipe, "wb", buffering=0) as profile:  # opens when the program does
        profile.write(b"stage,instruction")
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=120)[0] == "interrupted\n"
        with pytest.raises(BrokenPipeError):  # nobody reads it any more
            profile.write(b",frequency")


def test_progress_is_shown_and_messages_are_kept(capsys):
    reading, writing = os.pipe()
    line = "\rplanning [##........]  20 %\x1b[K"
    data = f"{line}\r\x1b[Kflyball: error: é is no clock\r\n".encode()
    told = []
    os.write(writing, data)
    os.close(writing)
    _command._listen(reading, True, told)
    os.close(reading)
    assert told == ["flyball: error: é is no clock\n"]
    assert capsys.readouterr().err.endswith("\r\x1b[K")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not _command._shows_progress()  # pytest captures: no terminal, no notebook


def test_the_command_is_the_program():
    command = pathlib.Path(sys.executable).parent / "flyball"
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert version == f"flyball {flyball.__version__}\n"
    assert subprocess.run([sys.executable, "-m", "flyball", "--version"], capture_output=True, text=True).stdout == version
    assert subprocess.run([command, "plan"], capture_output=True).returncode == 2
    name = f"python-{os.getpid()}-command"
    subprocess.run([command, "sim", "up", "--name", name], capture_output=True, check=True)
    try:
        lines = subprocess.run([command, "sim", "env", "--name", name], capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run([command, "sim", "down", "--name", name], capture_output=True, check=True)
    libraries = INSTALLED / "_program/lib/flyball/sim"
    assert str(libraries) in lines and (libraries / "libnvidia-ml.so.1").is_file()
