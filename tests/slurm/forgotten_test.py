#!/usr/bin/env python3
"""A real Slurm whose slurmctld is killed with SIGKILL after it has taken a job, and before it has saved it: the job that
was submitted with --until-saved is submitted again and does all its iterations, once. Status 77: it cannot run here.
"""

import json
import subprocess
import sys
import time

import cluster
from cluster import DEMO
from controller_test import HERE, Controller, is_done, starts

TRIES = 10
ITERATIONS = 40


def submit(program, site, name):
    """What the submission said on standard error, after slurmctld was killed as soon as it knew the job."""
    # slurmctld saves at once where it has not for five seconds. After this one it waits.
    site.ask("sbatch", "--hold", "--output=/dev/null", f"--job-name=before-{name}", str(HERE / "counting_job.py"),
             str(site.folder), "never", "1")
    time.sleep(1)
    command = [program, "cluster", "submit", "--until-saved", "--kind", "count", "--iterations", str(ITERATIONS), "--format",
               "json", "--", "--output=/dev/null", f"--job-name={name}", str(HERE / "counting_job.py"), str(site.folder), name,
               str(ITERATIONS)]
    with subprocess.Popen(command, env=site.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        DEMO.wait_until("the job", 60, lambda: site.ask("squeue", "-h", f"--name={name}", check=False).strip())
        site.kill("slurmctld")
        time.sleep(1)
        site.start_again("slurmctld")
        told, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
        assert json.loads(told)["job"] > 0
    return said


def play(program, site):
    controller, forgotten, names = Controller(program, site), 0, []
    try:
        DEMO.wait_until("the controller", 30, lambda: controller.socket.exists())
        while forgotten == 0 and len(names) < TRIES:
            names.append(f"job{len(names)}")
            said = submit(program, site, names[-1])
            print(said, end="", flush=True)
            forgotten += said.count("has forgotten job")
        DEMO.wait_until("the end of all jobs", 120, lambda: all(is_done(site, name) for name in names))
        assert forgotten, f"Slurm has forgotten none of {len(names)} jobs: nothing was tested"
        assert all(starts(site, name) == 1 for name in names), "a job has run twice"
    except BaseException:
        print((site.folder / "controller.log").read_text(), site.ask("squeue", check=False), sep="\n")
        raise
    finally:
        controller.kill()
    print(f"of {len(names)} jobs Slurm had forgotten {forgotten}; all have done their {ITERATIONS} iterations")


if __name__ == "__main__":
    sys.exit(cluster.play(play))
