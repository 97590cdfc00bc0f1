"""flyball.account as it is installed."""

import inspect
import json
import os
import pathlib
import subprocess

import pytest
from simulated import PROGRAM

flyball = pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")
source = pathlib.Path(os.environ["FLYBALL_SOURCE"], "python", "flyball")
installed = pathlib.Path(flyball.__file__).parent
if {path.relative_to(source): path.read_bytes() for path in source.rglob("*.py")} != {
        path.relative_to(installed): path.read_bytes() for path in installed.rglob("*.py")}:
    pytest.skip("the installed package is not of these sources (make python)", allow_module_level=True)

EVENTS = {"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}},
    {"ph": "X", "name": "m/layer_0/MatMul", "pid": 1, "tid": 1, "ts": 1000000, "dur": 200000},
    {"ph": "X", "name": "m/layer_1/MatMul", "pid": 1, "tid": 2, "ts": 1100000, "dur": 300000},
]}


@pytest.fixture
def traces(tmp_path):
    (tmp_path / "events.json").write_text(json.dumps(EVENTS))
    (tmp_path / "power.csv").write_text(
        "timestamp,device,power_w\n0.9,CPU:0,100\n1.1,CPU:0,100\n1.3,CPU:0,200\n1.5,CPU:0,200\n")
    return tmp_path / "events.json", tmp_path / "power.csv"


def test_rows_are_for_tables(traces):
    footprint = flyball.account(*traces)
    # Layer 0: 0.1 s alone at 100 W and half of 0.1 s. Layer 1: half of 0.1 s, 0.1 s alone, 0.1 s at 200 W.
    assert [(row["name"], round(row["energy_j"], 6)) for row in footprint.rows] == [
        ("m/layer_1/MatMul", 35.0), ("m/layer_0/MatMul", 15.0)]
    assert footprint.devices[0]["device"] == "CPU:0" and footprint.runs == 1
    assert footprint.profiled_s == pytest.approx(0.4)
    assert {"name", "device", "phase", "energy_j", "busy_s", "powered_s", "mean_power_w"} <= set(footprint.rows[0])


def test_it_is_the_commands_footprint(traces, tmp_path):
    events, power = traces
    footprint = flyball.account([events, events], [power, power], summary=True, share="events",
                                static_powers_w={"CPU:0": 50})
    footprint.write(tmp_path / "footprint.json")
    command = [PROGRAM, "account", "--events", events, events, "--power", power, power, "--summary", "--share", "events",
               "--static-power", "CPU:0=50W", "--format", "json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert (tmp_path / "footprint.json").read_text() == printed
    assert footprint.runs == 2


def test_its_arguments_are_the_described_options():
    described = json.loads(subprocess.run([PROGRAM, "messages", "AccountOptions", "--format", "json"], check=True,
                                          capture_output=True, text=True).stdout)
    of_models = ["steps", "warmup", "name", "folder"]  # tests/python/annotate_test.py
    assert list(inspect.signature(flyball.account).parameters) == list(described["properties"]) + of_models


def test_says_what_is_wrong(traces, tmp_path):
    events, power = traces
    with pytest.raises(flyball.UsageError, match="sensor_window_s is for the methods auto and regress"):
        flyball.account(events, power, method="sweep", sensor_window_s=0.1)
    with pytest.raises(flyball.UsageError, match="give one of: auto, sweep, regress, both"):
        flyball.account(events, power, method="guess")
    with pytest.raises(flyball.UsageError, match="events"):
        flyball.account([], [])
    with pytest.raises(flyball.UsageError, match=r"trace\\udcff.json': this file's name is no UTF-8"):
        flyball.account(os.fsdecode(b"trace\xff.json"), power)
    with pytest.raises(flyball.DeviceError, match="none.csv"):
        flyball.account(events, tmp_path / "none.csv")
    with pytest.raises(TypeError, match="methode"):
        flyball.account(events, power, methode="sweep")


def test_names_its_own_arguments_in_notes(traces):
    footprint = flyball.account(*traces, event_devices={"GPU:9": "GPU:0"})
    assert any(note.startswith("event_devices GPU:9=... changes nothing") for note in footprint.notes)
