"""Joules of a training loop in TensorBoard, Weights & Biases and MLflow themselves, read back from what they keep. The
joules are those of an idle simulated GPU."""

import json
import subprocess
import sys
import textwrap

import pytest
from simulated import machine

STEPS, EVERY, PAUSE_S = 7, 3, 0.05

LOOP = f"""
import json, sys, time
import flyball
from flyball.integrations import step_log

meter = flyball.EnergyMeter(gpus=[0], cpus=False, synchronize=None)

def train(write):
    with meter.measure("all") as all, step_log.StepLog(write, meter=meter, every={EVERY}) as log:
        for _ in range({STEPS}):
            time.sleep({PAUSE_S})
            log.step()
    return all
"""

TENSORBOARD = LOOP + """
from torch.utils.tensorboard import SummaryWriter
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

writer = SummaryWriter(sys.argv[1])
all = train(step_log.to_tensorboard(writer))
writer.close()
events = EventAccumulator(sys.argv[1]).Reload()
told = {name: [[event.step, event.value] for event in events.Scalars(name)] for name in events.Tags()["scalars"]}
"""

WANDB = LOOP + """
import glob, pathlib, struct
import wandb
from wandb.proto import wandb_internal_pb2

def records(path):
    # What an offline run has kept, in the format of LevelDB's log: blocks of 32 KiB after a header, of whole records
    # (kind 1) or parts of them (2, 3, and 4 for the last).
    data, at, whole = pathlib.Path(path).read_bytes(), 7, b""
    while at + 7 <= len(data):
        room = 32768 - at % 32768
        if room < 7:
            at += room
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        whole = (b"" if kind in (1, 2) else whole) + data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield wandb_internal_pb2.Record.FromString(whole)

run = wandb.init(project="flyball", mode="offline", dir=sys.argv[1], settings=wandb.Settings(silent=True))
wandb.log({"loss": 1.0}, step=100)  # the training has counted further than the lines that follow
all = train(step_log.to_wandb(run))
run.finish()
wandb.teardown()  # only now its service has written all
told = {}
for record in records(glob.glob(sys.argv[1] + "/wandb/offline-run-*/*.wandb")[0]):
    row = {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in record.history.item}
    for name, value in row.items():
        if name.startswith("flyball_") and name != "flyball_step":
            told.setdefault(name, []).append([row["flyball_step"], value])
"""

MLFLOW = LOOP + """
import os

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # the database of runs wants all of MLflow; what is logged is the same
import mlflow

mlflow.set_tracking_uri("file:" + sys.argv[1])
mlflow.set_experiment("flyball")
with mlflow.start_run() as run:
    all = train(step_log.to_mlflow())
client = mlflow.MlflowClient()
told = {name: sorted([metric.step, metric.value] for metric in client.get_metric_history(run.info.run_id, name))
        for name in client.get_run(run.info.run_id).data.metrics}
"""

REPORT = """
print("REPORT", json.dumps({"told": told, "energy_j": all.energy_j, "time_s": all.time_s}))
"""


@pytest.fixture(scope="module")
def one_gpu():
    with machine("--gpus", "1", "--model", "a100") as environment:
        yield environment


@pytest.mark.parametrize("program", [TENSORBOARD, WANDB, MLFLOW], ids=["tensorboard", "wandb", "mlflow"])
def test_a_logger_keeps_the_joules_of_each_line(program, one_gpu, tmp_path):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program + REPORT), tmp_path], env=one_gpu,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.rpartition("REPORT ")[2])
    told = report["told"]
    assert sorted(told) == ["flyball_energy_j", "flyball_j_per_step", "flyball_mean_w", "flyball_step_s"]
    for name, points in told.items():
        assert [step for step, _ in points] == [3, 6, 7], name
    # The lines are all steps of the loop, which draws what an idle A100 does.
    idle_w = report["energy_j"] / report["time_s"]
    assert 20 < idle_w < 100
    lines = [steps * energy_j for steps, (_, energy_j) in zip([3, 3, 1], told["flyball_j_per_step"])]
    assert told["flyball_energy_j"][-1][1] == pytest.approx(sum(lines), rel=1e-6)
    assert 0.05 * STEPS * idle_w < sum(lines) <= report["energy_j"]
    for (_, energy_j), (_, step_s), (_, mean_w) in zip(told["flyball_j_per_step"], told["flyball_step_s"],
                                                       told["flyball_mean_w"]):
        assert step_s >= PAUSE_S
        assert mean_w == pytest.approx(idle_w, rel=0.1)
        assert energy_j == pytest.approx(mean_w * step_s, rel=0.02)
