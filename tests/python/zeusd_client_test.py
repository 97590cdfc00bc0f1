"""Zeus's programs, unmodified, with the agent in place of its daemon."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import simulated

FOLDER = pathlib.Path(__file__).parent


def run_agent_and_script():
    """In the environment of `flyball sim env`: starts the agent, runs the script with it, stops the agent."""
    with tempfile.TemporaryDirectory() as folder:
        socket = os.path.join(folder, "agent.sock")
        log = os.path.join(folder, "log")
        with open(log, "w") as log_file:
            agent = subprocess.Popen(
                [simulated.PROGRAM, "agent", "--socket", socket, "--state-dir", os.path.join(folder, "state")],
                stderr=log_file,
            )
        try:
            script = [sys.executable, "-B", str(FOLDER / "zeusd_client.py")]
            status = subprocess.run(script, env=dict(os.environ, ZEUSD_SOCK_PATH=socket)).returncode
        finally:
            agent.send_signal(signal.SIGTERM)
            left = agent.wait()
        if status != 0 or left != 0:
            sys.stderr.write(open(log).read())
        return status or left


def test_zeus_with_the_agent(tmp_path):
    powercap = tmp_path / "powercap"
    arguments = ["--gpus", "2", "--model", "a100", "--powercap", str(powercap)]
    assert simulated.run(__file__, arguments) == 0


if __name__ == "__main__":
    sys.exit(run_agent_and_script())
