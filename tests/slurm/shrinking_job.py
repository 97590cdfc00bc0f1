#!/usr/bin/env python3
"""An elastic job that can give nodes back while it runs: `shrinking_job.py FOLDER NAME ITERATIONS BUILD`. The script
counts 5 iterations a second on each GPU and reports by the C library; on each of its nodes it has a worker that does
nothing. Where it is to go on with some of its nodes, it ends the workers, starts others on these, and says so. It writes
a line with its process id for each start, each move and each end.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

folder, name, goal, build = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
per_node = int(os.environ["SLURM_GPUS_ON_NODE"])
gpus = int(os.environ["SLURM_JOB_NUM_NODES"]) * per_node
checkpoint = folder / f"{name}.checkpoint"
done = int(checkpoint.read_text()) if checkpoint.exists() else 0
library = ctypes.CDLL(f"{build}/lib/libflyball.so")
library.flyball_elastic_open.restype = ctypes.c_void_p
library.flyball_elastic_report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double]
library.flyball_elastic_keeps.argtypes = [ctypes.c_void_p]
library.flyball_elastic_keeps.restype = ctypes.c_char_p
library.flyball_elastic_go_on.argtypes = [ctypes.c_void_p, ctypes.c_int]
library.flyball_elastic_close.argtypes = [ctypes.c_void_p]


def note(what):
    with (folder / f"{name}.log").open("a") as log:
        log.write(f"{what} {done} {gpus} {os.getpid()} {time.time():.3f}\n")


def workers(nodes):
    """A worker on each node, by a step of Slurm. The environment's counts are those of the job's start."""
    names = nodes or os.environ["SLURM_JOB_NODELIST"]
    count = gpus // per_node
    return subprocess.Popen(["srun", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={names}",
                             "sh", "-c", f"echo $SLURMD_NODENAME $$ >>{folder}/{name}.workers; exec sleep 1000"])


def end(step):
    step.send_signal(signal.SIGTERM)  # which srun hands on
    step.wait(30)


def on_term(*_):
    note("terminated")
    sys.exit(0)


signal.signal(signal.SIGTERM, on_term)
note("start")
step = workers("")
job = library.flyball_elastic_open(gpus, None, None)
while done < goal:
    time.sleep(0.2)
    assert step.poll() is None, f"the workers have ended: {step.returncode}"
    done = min(goal, done + gpus)
    partial = checkpoint.with_suffix(".partial")
    partial.write_text(str(done))
    partial.rename(checkpoint)
    if not library.flyball_elastic_report(job, done, goal, 0.2 / gpus) or done == goal:
        continue
    keeps = library.flyball_elastic_keeps(job).decode()
    end(step)
    if not keeps:
        note("stopped")
        sys.exit(0)
    gpus = len(keeps.split(",")) * per_node
    step = workers(keeps)
    note("keeps")
    library.flyball_elastic_go_on(job, gpus)
end(step)
note("done")
