"""flyball.account_session as it is installed, with the agent on simulated GPUs."""

import subprocess
import time

import pytest
from simulated import PROGRAM, machine

flyball = pytest.importorskip("flyball", reason="the Python package is not installed in build/python-venv (make python)")
if not hasattr(flyball, "account_session"):
    pytest.skip("the installed package is older than account_session (make python)", allow_module_level=True)


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    socket = folder / "agent.sock"
    with machine("--gpus", "2", "--model", "a100") as environment:
        with open(folder / "log", "w") as log:
            process = subprocess.Popen([PROGRAM, "agent", "--socket", socket, "--state-dir", folder / "state"],
                                       env=environment, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not socket.exists():
                assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
                time.sleep(0.01)
            yield socket
        finally:
            process.terminate()
            process.wait()


def test_records_what_runs_in_the_block(agent, tmp_path):
    with flyball.account_session("epoch", gpus=[1], cpus=False, agent=agent) as session:
        assert session.state["state"] == "recording"
        begin = time.time()
        time.sleep(0.3)
        end = time.time()
    assert session.state["state"] == "stopped" and session.state["devices"] == ["GPU:1"]
    session.write(tmp_path / "power.csv")
    text = (tmp_path / "power.csv").read_text()
    assert text == session.trace() and text.startswith("# flyball power trace, version 1\n")
    times = [float(line.split(",")[0]) for line in text.splitlines() if ",GPU:1," in line]
    assert times[0] <= begin and times[-1] >= end
    session.drop()
    with pytest.raises(flyball.DeviceError, match="you have no session 'epoch'"):
        session.trace()


def test_says_what_is_wrong(agent, tmp_path):
    with flyball.account_session("twice", agent=agent):
        with pytest.raises(flyball.DeviceError, match="records already"):
            flyball.account_session("twice", agent=agent).start()
    with pytest.raises(flyball.DeviceError, match="you have no session 'unknown'"):
        flyball.account_session("unknown", agent=agent).trace()
    with pytest.raises(flyball.UsageError, match="row_period_s: is -0.5, out of range"):
        flyball.account_session(row_period_s=-0.5, agent=agent).start()
    with pytest.raises(flyball.UsageError, match="name: consists of dots alone"):
        flyball.account_session("..", agent=agent).start()
    with pytest.raises(flyball.DeviceError, match="no-agent.sock"):
        flyball.account_session(agent=tmp_path / "no-agent.sock").start()
