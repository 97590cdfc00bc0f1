"""The package `flyball` as it is installed by `pip install .`, on simulated GPUs, in processes of its own."""

import json
import subprocess
import sys
import textwrap

import pytest
from simulated import PROGRAM, machine

pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")


def run(program, environment):
    """What a program prints as JSON."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory):
    powercap = tmp_path_factory.mktemp("powercap")
    with machine("--gpus", "2", "--model", "a100", "--powercap", str(powercap)) as environment:
        yield environment


def test_measures_every_device(two_gpus):
    result = run("""
        import flyball, json, time
        with flyball.measure("pause") as m:
            time.sleep(0.5)
        assert "pause: 0.5" in repr(m), repr(m)
        print(json.dumps(m.as_dict()))
        """, two_gpus)
    assert result["name"] == "pause"
    assert 0.5 <= result["time_s"] < 2.0
    assert set(result["devices"]) == {"GPU:0", "GPU:1", "CPU:0", "DRAM:0"}
    assert result["energy_j"] == pytest.approx(sum(d["energy_j"] for d in result["devices"].values()))
    for device in result["devices"].values():
        assert device["energy_j"] == pytest.approx(device["mean_w"] * result["time_s"], rel=1e-6)
        assert device["source"] == "counter" and device["complete"]


# The same work on one board only, while the other idles, seen by the program's own counter and by ours.
def test_agrees_with_nvml_and_sees_who_works(two_gpus):
    result = run("""
        import flyball, json, subprocess, sys, pynvml
        pynvml.nvmlInit()
        board = pynvml.nvmlDeviceGetHandleByIndex(0)
        meter = flyball.EnergyMeter(cpus=False)
        before = pynvml.nvmlDeviceGetTotalEnergyConsumption(board)
        with meter.measure("work") as m:
            subprocess.run([%r, "sim", "work", "--gpu", "0", "--seconds", "3"], check=True, capture_output=True)
        after = pynvml.nvmlDeviceGetTotalEnergyConsumption(board)
        print(json.dumps({**m.as_dict(), "nvml_j": (after - before) / 1e3}))
        """ % PROGRAM, two_gpus)
    busy, idle = result["devices"]["GPU:0"], result["devices"]["GPU:1"]
    # NVML tells the counter as it last changed, up to 0.1 s and some 30 J ago, of the 800 that three seconds take; the
    # meter waits for its next change.
    assert busy["energy_j"] == pytest.approx(result["nvml_j"], rel=0.05)
    assert busy["mean_w"] > 2 * idle["mean_w"]
    assert busy["peak_w"] > busy["mean_w"]


# Zeus takes the counter as it stands, up to one of its periods (0.1 s) behind, at both ends of the window: with the idle
# power before and after the work, for which the pauses are, it is off by that period's energy at most. Its power monitor
# adds up from the first reading in the window to the last, a period less than the window.
def test_agrees_with_the_monitors_of_zeus_to_one_percent(two_gpus):
    pytest.importorskip("zeus")
    result = run("""
        import flyball, json, subprocess, sys, time
        from zeus.monitor import PowerMonitor, ZeusMonitor

        meter = flyball.EnergyMeter(cpus=False)
        monitor = ZeusMonitor(gpu_indices=[0, 1], cpu_indices=[])
        for tries in range(5):
            try:
                power_monitor = PowerMonitor(gpu_indices=[0, 1], update_period=0.05)
                break
            except RuntimeError as slow:  # it gives its processes 10 s to start
                print(slow, file=sys.stderr)
        time.sleep(2)  # until the sensors' rhythm is known
        begin = time.time()
        monitor.begin_window("work", sync_execution=False)
        with meter.measure("work") as ours:
            time.sleep(0.2)
            subprocess.run([%r, "sim", "work", "--gpu", "0", "--seconds", "4"], check=True, capture_output=True)
            time.sleep(0.3)
        theirs = monitor.end_window("work", sync_execution=False)
        end = time.time()
        time.sleep(0.5)  # its readings come through a queue
        integrated = power_monitor.get_energy(begin, end)
        power_monitor.stop()
        print(json.dumps({"ours": [ours.devices[f"GPU:{i}"].energy_j for i in (0, 1)],
                          "counted": [theirs.gpu_energy[i] for i in (0, 1)],
                          "integrated": [integrated[i] for i in (0, 1)],
                          "our_s": ours.time_s, "counted_s": theirs.time, "integrated_s": end - begin}))
        """ % PROGRAM, two_gpus)
    idle_w = result["ours"][1] / result["our_s"]
    for meter, periods in ("counted", 1), ("integrated", 2):
        # What a busy machine puts between the beginnings and ends of two windows is no difference between the meters.
        between = (result[meter + "_s"] - result["our_s"]) * idle_w
        for ours, theirs in zip(result["ours"], result[meter]):
            assert abs(theirs - between - ours) <= 0.01 * ours + periods * 0.1 * idle_w, (meter, result)


def test_samples_are_a_trace_in_numpy(two_gpus):
    result = run("""
        import flyball, json, time, numpy as np
        with flyball.EnergyMeter(gpus=[1], cpus=False, period_s=0.002) as meter:
            with meter.measure() as m:
                time.sleep(0.4)
            trace = meter.samples("GPU:1", after_s=m.begin_s)
            assert trace.dtype.names == ("time_s", "power_w", "energy_j")
            try:
                meter.samples("GPU:0")
            except KeyError:
                pass
            else:
                raise AssertionError("GPU:0 is not measured")
            print(json.dumps({
                "labels": meter.labels, "count": len(trace), "rising": bool(np.all(np.diff(trace["time_s"]) > 0)),
                "never_falls": bool(np.all(np.diff(trace["energy_j"]) >= 0)),
                "begin": float(trace["time_s"][0] - m.begin_s), "power": float(trace["power_w"].mean()),
                "mean": m.mean_w}))
        """, two_gpus)
    assert result["labels"] == ["GPU:1"]
    assert result["rising"] and result["never_falls"]
    assert result["count"] > 50
    assert 0 <= result["begin"] < 0.1
    assert result["power"] == pytest.approx(result["mean"], rel=0.1)


def test_windows_nest_and_a_raising_block_is_measured(two_gpus):
    result = run("""
        import flyball, json, time
        meter = flyball.EnergyMeter(cpus=False)
        with meter.measure("outer") as outer:
            try:
                with meter.measure("inner") as inner:
                    time.sleep(0.2)
                    raise ValueError
            except ValueError:
                pass
            time.sleep(0.2)
        print(json.dumps([outer.as_dict(), inner.as_dict()]))
        """, two_gpus)
    outer, inner = result
    assert 0 < inner["energy_j"] < outer["energy_j"]
    assert inner["time_s"] < outer["time_s"]


def test_a_forked_child_measures_with_a_meter_of_its_own(two_gpus):
    assert run("""
        import flyball, json, os, sys
        meter = flyball.default_meter()
        child = os.fork()
        if child == 0:
            try:
                meter.labels
            except flyball.DeviceError as error:
                assert "forked" in str(error)
            else:
                os._exit(1)
            with flyball.measure() as m:
                pass
            os._exit(0 if m.devices else 2)
        print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        """, two_gpus) == 0


def test_says_why_there_is_nothing_to_measure(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import flyball; flyball.EnergyMeter()"], capture_output=True,
                          text=True, timeout=60, env={"FLYBALL_POWERCAP_ROOT": str(tmp_path), "FLYBALL_SIM": "nobody",
                                                      "LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 1
    assert "DeviceError: there is nothing to measure on this machine" in done.stderr
    assert "libnvidia-ml.so.1" in done.stderr


def test_a_time_that_is_none_is_a_value_error(two_gpus):
    assert run("""
        import flyball, json
        refused = []
        for wrong in ({"period_s": -1}, {"period_s": 0}, {"period_s": float("nan")}, {"history_s": -1}):
            try:
                flyball.EnergyMeter(**wrong)
            except ValueError as error:
                refused.append(str(error))
        print(json.dumps([len(refused), "period_s must be from 0.0001 to 60 seconds, not -1" in refused]))
        """, two_gpus) == [4, True]


def test_a_gpu_that_is_not_there_is_named(two_gpus):
    assert "7" in run("""
        import flyball, json
        try:
            flyball.EnergyMeter(gpus=[7])
        except flyball.UsageError as error:
            print(json.dumps(str(error)))
        """, two_gpus)


def test_transformers_callback_measures_runs_and_epochs(two_gpus):
    pytest.importorskip("transformers", reason="transformers is not installed in build/python-venv")
    result = run("""
        import json, time
        from types import SimpleNamespace
        import flyball
        from flyball.integrations.transformers import FlyballCallback
        from transformers import TrainerControl, TrainerState, TrainingArguments
        callback = FlyballCallback(flyball.EnergyMeter(cpus=False))
        state, control = TrainerState(), TrainerControl()
        callback.on_train_begin(None, state, control)
        for epoch in range(2):
            state.epoch = float(epoch)
            callback.on_epoch_begin(None, state, control)
            time.sleep(0.15)
            state.global_step += 5
            state.log_history.append({"loss": 1.0})
            logs = {"loss": 1.0}
            callback.on_log(None, state, control, logs=logs)
            callback.on_epoch_end(None, state, control)
        callback.on_train_end(None, state, control)
        print(json.dumps({"history": state.log_history, "epochs": [e.as_dict() for e in callback.epochs],
                          "run": callback.run.as_dict()}))
        """, two_gpus)
    first, second = result["history"]
    assert 0 < first["flyball_energy_j"] < second["flyball_energy_j"]
    assert first["flyball_j_per_step"] == pytest.approx(first["flyball_energy_j"] / 5, rel=1e-3)
    assert [epoch["name"] for epoch in result["epochs"]] == ["epoch 0", "epoch 1"]
    assert result["run"]["energy_j"] == pytest.approx(sum(e["energy_j"] for e in result["epochs"]), rel=0.1)
