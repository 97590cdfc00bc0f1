#!/usr/bin/env python3
"""An elastic job that counts: `counting_job.py FOLDER NAME ITERATIONS`. It makes 5 iterations a second on each of its
GPUs, keeps its count in a file after every step, and writes a line for each start and each end.
"""

import http.client
import json
import os
import pathlib
import signal
import socket
import sys
import time

folder, name, goal = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
gpus = int(os.environ["SLURM_JOB_NUM_NODES"]) * int(os.environ["SLURM_GPUS_ON_NODE"])
checkpoint = folder / f"{name}.checkpoint"
done = int(checkpoint.read_text()) if checkpoint.exists() else 0


def note(what):
    with (folder / f"{name}.log").open("a") as log:
        log.write(f"{what} {done} {gpus}\n")


def on_term(*_):
    note("terminated")
    sys.exit(0)


def report():
    """Says how far it is; returns whether it is to stop. A controller that is away changes nothing."""
    connection = http.client.HTTPConnection("controller", timeout=5)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(os.environ["FLYBALL_CLUSTER"].removeprefix("unix:"))
        message = {"iteration": done, "iterations": goal, "step_s": 0.2 / gpus, "gpus": gpus}
        connection.request("POST", f"/v1/cluster/jobs/{os.environ['SLURM_JOB_ID']}/report", json.dumps(message),
                           {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read()).get("stop", False)
    except (OSError, ValueError):
        return False
    finally:
        connection.close()


signal.signal(signal.SIGTERM, on_term)
note("start")
while done < goal:
    time.sleep(0.2)
    done = min(goal, done + gpus)
    partial = checkpoint.with_suffix(".partial")
    partial.write_text(str(done))
    partial.rename(checkpoint)
    if report() and done < goal:
        note("stopped")
        sys.exit(0)
note("done")
