#!/usr/bin/env python3
"""Nodes that the controller has a real Slurm switch off and on: their slurmd, agent and boards end and begin. A job that
comes wakes one, also when the controller is killed meanwhile; Slurm wakes one itself for a job that is not elastic; and a
node that does not come back is left out. Status 77: it cannot run here.
"""

import re
import sys

import cluster
from cluster import DEMO
from controller_test import Controller, is_done, starts, submit

BOOT_S = 3  # that a node takes at least to come back


def slow(site):
    """Nodes take a while to boot, and one for which there is a file `broken-NODE` never does."""
    power = site.folder / "node_power"
    power.rename(site.folder / "node_power_at_once")
    site._write("node_power", f"""#!/bin/sh
[ "$1" = off ] || sleep {BOOT_S}
[ "$1" = off ] || [ ! -e {site.folder}/broken-$2 ] || exit 0
exec {site.folder}/node_power_at_once "$@"
""", 0o755)


def nodes(controller):
    return {one["node"]: one for one in controller.status().get("nodes", [])}


def are_off(controller):
    told = nodes(controller)
    return told and all(one["off"] for one in told.values())


def alive(site):
    return [one["name"] for one in site.read_notes()
            if re.match("(slurmd|agent)-", one["name"]) and DEMO.start_of(one["pid"]) == one["start"]]


def play(program, site):
    slow(site)
    controller = Controller(program, site, "--nodes-off", "2s", "--nodes-kept", "0", "--wake", "2s")
    try:
        DEMO.wait_until("the controller", 30, lambda: nodes(controller))
        idle_w = controller.status()["others_w"] / 16
        DEMO.wait_until("nodes that are off", 60, lambda: are_off(controller))
        assert not alive(site), alive(site)
        # What one job could leave idle on the node that it wakes: three GPUs.
        DEMO.wait_until("watts of three GPUs", 10, lambda: abs(controller.status()["others_w"] / idle_w - 3) < 0.01)

        submit(program, site, "killed", 60, most=4)
        DEMO.wait_until("a node that wakes", 30,
                        lambda: any("power" in one["state"] and "up" in one["state"] for one in nodes(controller).values()))
        controller.kill()
        controller.start()
        DEMO.wait_until("the job on it", 60, lambda: is_done(site, "killed"))
        assert starts(site, "killed") == 1

        DEMO.wait_until("nodes that are off", 60, lambda: are_off(controller))
        submit(program, site, "measured", 60, most=4)
        DEMO.wait_until("the second job", 60, lambda: is_done(site, "measured"))
        woken = [one for one in nodes(controller).values() if one["wakes_measured"]]
        assert woken and all(BOOT_S < one["wake_s"] < 30 for one in woken), woken
        print(f"{woken[0]['node']} was there {woken[0]['wake_s']:.1f} s after the order, with a boot of {BOOT_S} s")

        DEMO.wait_until("nodes that are off", 60, lambda: are_off(controller))
        site.ask("sbatch", "--wait", "--gpus-per-node=1", "--output=/dev/null", "--wrap", "true", seconds=60)
        print("Slurm woke a node by itself for a job that is not elastic")

        DEMO.wait_until("nodes that are off", 60, lambda: are_off(controller))
        (site.folder / "broken-n1").touch()
        submit(program, site, "moved", 60, most=4)
        DEMO.wait_until("the job on another node", 120, lambda: is_done(site, "moved"))
        told = nodes(controller)
        assert told["n1"]["wakes_failed"] == 1 and "down" in told["n1"]["state"], told["n1"]
        assert starts(site, "moved") == 1
        print("a node that did not come back is down, and its job ran on another one")
        print(site.ask(program, "cluster", "status"))
    except BaseException:
        print((site.folder / "controller.log").read_text(), (site.folder / "log" / "power.out").read_text(), sep="\n")
        raise
    finally:
        controller.kill()
    # As the manual takes it out.
    (site.folder / "broken-n1").unlink()
    site.ask("scontrol", "update", "NodeName=n1", "State=RESUME")
    site.ask("scontrol", "update", "NodeName=ALL", "State=POWER_UP")
    DEMO.wait_until("all nodes", 60, lambda: site.ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 4)


if __name__ == "__main__":
    sys.exit(cluster.play(play))
