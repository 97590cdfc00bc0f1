"""What a log of steps writes, and when; that loggers keep it is tested with these (tests/frameworks/loggers_test.py)."""

import json
import subprocess
import sys
import textwrap

import pytest
from simulated import machine

PROGRAM = """
import json, time, types
import flyball
from flyball.integrations.step_log import StepLog
from flyball.session import SessionState

meter = flyball.EnergyMeter(gpus=[0], cpus=False, synchronize=None)
session = types.SimpleNamespace(state=SessionState())
lines = []
write = lambda figures, step: lines.append([step, figures])
with StepLog(write, session=session, meter=meter, every=2) as log:
    for number in (10, 20, 30, 40, 50):
        time.sleep(0.02)
        log.step(number)
        if number == 20:
            before_the_next_is_full = len(lines)
            session.state = SessionState(planned_time_s=1.5, promise="slower", compared_iterations=20,
                                         compared_energy_j=80.0, compared_energy_at_maximum_j=100.0,
                                         compared_energy_error_j=2.0)
with StepLog(write, meter=meter):
    pass  # no step, no line
try:
    with StepLog(write, meter=meter, every=10) as log:
        log.step()
        raise KeyError
except KeyError:
    pass
try:
    StepLog(write, meter=meter, every=0)
except ValueError as error:
    refused = str(error)
print("REPORT", json.dumps([before_the_next_is_full, lines, refused]))
"""


@pytest.fixture(scope="module")
def report():
    with machine("--gpus", "1", "--model", "a100") as environment:
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], env=environment, capture_output=True,
                              text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("REPORT ")[2])


def test_a_line_is_written_when_the_next_is_full_and_at_the_end(report):
    before_the_next_is_full, lines, _ = report
    assert before_the_next_is_full == 0
    assert [step for step, _ in lines] == [20, 40, 50, 1]  # the last is of the log that an error has ended
    energy_j = 0.0
    for (_, figures), steps in zip(lines[:3], (2, 2, 1)):
        assert figures["flyball_step_s"] >= 0.02
        energy_j += steps * figures["flyball_j_per_step"]
        assert figures["flyball_energy_j"] == pytest.approx(energy_j)


def test_savings_are_told_once_they_are_known(report):
    _, lines, _ = report
    assert "flyball_saved_j" not in lines[0][1]
    assert "flyball_promise_kept" not in lines[0][1]
    figures = lines[1][1]
    # 100 J at maximum clocks less 80 J by plan.
    assert figures["flyball_saved_j"] == 20.0
    assert figures["flyball_saved_error_j"] == 2.0
    assert figures["flyball_planned_step_s"] == 1.5
    assert figures["flyball_promise_kept"] == 0.0


def test_a_line_has_at_least_one_step(report):
    assert report[2] == "every is 0, it must be at least 1"
