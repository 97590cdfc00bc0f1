#!/usr/bin/env python3
"""A real Slurm of two partitions, one of which has two of the four nodes. A controller of that one gives its job all of
these and touches no other; one without a partition leaves the job there alone, says why, and has the other partition's.
Status 77: it cannot run here.
"""

import sys

import cluster
from cluster import DEMO
from controller_test import HERE, Controller, is_done, lines, starts

HALF = {"n1", "n2"}


def submit(program, site, name, goal, partition):
    site.ask(program, "cluster", "submit", "--kind", name, "--iterations", str(goal), "--max", "16", "--",
             f"--partition={partition}", f"--job-name={name}", "--output=/dev/null", str(HERE / "counting_job.py"),
             str(site.folder), name, str(goal))


def jobs(controller):
    return {one["kind"]: one for one in controller.status()["jobs"]}


def state(site, name):
    """State and reason, as Slurm shows them."""
    return site.ask("squeue", "--noheader", f"--name={name}", "--format=%T %r").strip()


def play(program, site):
    site.ask("scontrol", "create", "PartitionName=half", f"Nodes={','.join(sorted(HALF))}", "State=UP",
             "MaxTime=INFINITE", "DefMemPerNode=500")
    controller = Controller(program, site, "--partition", "half")
    try:
        DEMO.wait_until("the controller", 30, lambda: controller.status().get("nodes"))
        status = controller.status()
        assert status["partition"] == "half" and {one["node"] for one in status["nodes"]} == HALF, status
        submit(program, site, "inside", 4000, "half")
        submit(program, site, "outside", 200, "gpus")
        DEMO.wait_until("all GPUs of both nodes", 90, lambda: jobs(controller).get("inside", {}).get("gpus") == 8)
        assert set(jobs(controller)["inside"]["nodes"]) == HALF
        DEMO.wait_until("the job's own word that it runs", 60, lambda: starts(site, "inside"))
        assert "outside" not in jobs(controller) and state(site, "outside") == "PENDING JobHeldUser", state(site, "outside")
        controller.kill()

        ran = starts(site, "inside")
        controller.options = ()
        controller.start()
        DEMO.wait_until("the other partition's job", 90, lambda: starts(site, "outside"))
        told = jobs(controller)["inside"]
        assert "its partition, half, does not have node n3" in told["why"] and told["gpus"] == 8, told
        DEMO.wait_until("its end", 120, lambda: is_done(site, "outside"))
        assert starts(site, "inside") == ran, lines(site, "inside")
        print(f"inside half: {told['gpus']} GPUs on {', '.join(sorted(told['nodes']))}; then: {told['why']}")
    except BaseException:
        print((site.folder / "controller.log").read_text(), lines(site, "inside"), lines(site, "outside"), sep="\n")
        raise
    finally:
        controller.kill()


if __name__ == "__main__":
    sys.exit(cluster.play(play))
