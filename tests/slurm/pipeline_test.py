#!/usr/bin/env python3
"""A pipeline job on a real Slurm: the example trainer, which a planning server plans, is moved along its frontier by the
controller while the budget falls and rises, and is never put back into the queue. The controller is killed with SIGKILL
while the job is slowed down, and the job goes back to its own pace. Status 77: it cannot run here.
"""

import json
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import cluster
from cluster import DEMO

PACE_LASTS_S = 15
JOB = """#!/bin/sh
exec {build}/pipeline_trainer --clocks "$FLYBALL_AGENT" --server {server} --job slurm-$SLURM_JOB_ID --token {token} \\
  --microbatches 4 --steps 2 --windows 100000 --clock-stride 24 --steps-per-clock 1 --straggler 1 --json {folder}/windows
"""


class Run:
    def __init__(self, program, site):
        self.program, self.site = program, site
        self.server = site.folder / "plan.sock"
        self.socket = site.folder / "controller.sock"
        site.environment["FLYBALL_CLUSTER"] = f"unix:{self.socket}"
        self.planner = self.begin("serve", "serve", "--socket", self.server, "--database", site.folder / "plan.db")
        DEMO.wait_until("the planning server", 30, self.server.exists)
        self.controller = None

    def begin(self, name, *words):
        log = (self.site.folder / f"{name}.log").open("ab")
        return subprocess.Popen([self.program, *words], env=self.site.environment, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=log)

    def control(self):
        self.controller = self.begin(
            "controller", "cluster", "run", "--budget", "20kW", "--socket", self.socket, "--agent",
            f"{self.site.folder}/agent-{{node}}.sock", "--plan-server", f"unix:{self.server}", "--pace-lasts",
            f"{PACE_LASTS_S}s", "--period", "500ms", "--database", self.site.folder / "controller.db")

    def status(self):
        told = self.site.ask(self.program, "cluster", "status", "--format", "json", check=False)
        return json.loads(told) if told.startswith("{") else {"jobs": [], "others_w": 0}

    def job(self):
        """What the controller says of the job; nothing where it is not moved along a frontier."""
        return next((one for one in self.status()["jobs"] if one["state"] == "running"), None)

    def order(self, watts):
        self.site.ask(self.program, "cluster", "budget", f"{watts:.0f}W")

    def plan(self, number, what=""):
        connection = DEMO.UnixConnection(self.server)
        connection.request("GET", f"/v1/jobs/slurm-{number}{what}")
        told = json.loads(connection.getresponse().read())
        connection.close()
        return told

    def degree(self, number):
        """How much slower than its own pace the server lets the job run."""
        return max((one["degree"] for one in self.plan(number)["stragglers"]), default=1.0)

    def windows(self):
        path = self.site.folder / "windows"
        return [one for one in map(json.loads, path.read_text().splitlines()) if one.get("window") == "planned"]

    def stop(self):
        for process in (self.controller, self.planner):
            if process is not None:
                process.kill()
                process.wait()


def measured(run):
    """Seconds and watts of the iterations that begin from now on, by the boards' counters."""
    before = len(run.windows())
    # On a machine that stalls the ranks may give the plan up, and try it again after 100 iterations.
    DEMO.wait_until("iterations", 300, lambda: len(run.windows()) >= before + 4)
    new = run.windows()[before + 1:]  # the first may have begun before
    return (statistics.mean(one["iteration_s"] for one in new),
            statistics.mean(one["iteration_j"] / one["iteration_s"] for one in new))


def settled(run, holds):
    """Waits until the controller's status is so three times in a row, and returns it."""
    seen = []

    def is_so():
        seen.append(run.job())
        return len(seen) > 2 and all(one and holds(one) for one in seen[-3:])
    try:
        DEMO.wait_until("a pace that has settled", 60, is_so)
    except RuntimeError:
        print(*seen[-5:], sep="\n")
        raise
    return seen[-1]


def play(program, site):
    run = Run(program, site)
    table = site.folder / "log" / "jobs.csv"
    script = site.folder / "job.sh"
    script.write_text(JOB.format(build=cluster.BUILD, server=f"unix:{run.server}", token="t" * 32, folder=site.folder))
    try:
        run.control()
        DEMO.wait_until("the controller", 30, run.socket.exists)
        told = site.ask(program, "cluster", "submit", "--pipeline", "--kind", "gpt3", "--iterations", "100000",
                        "--format", "json", "--", "--gpus-per-node=4", f"--output={site.folder}/job.log", str(script))
        number = json.loads(told)["job"]
        DEMO.wait_until("a frontier", 180, run.job)
        own = settled(run, lambda one: one["measured_w"])
        own_s, own_w = measured(run)
        print(f"at its own pace: {own['step_s']:.3f} s an iteration planned, {own_s:.3f} s and {own_w:.0f} W measured")

        others = run.status()["others_w"]
        limit = 0.85 * own_w
        begin = time.monotonic()
        run.order(others + limit)
        DEMO.wait_until("a slower pace", 30, lambda: run.degree(number) > 1.0)
        taken = time.monotonic() - begin
        slow = settled(run, lambda one: one["power_w"] <= limit * 1.001)
        slow_s, slow_w = measured(run)
        print(f"with {limit:.0f} W: {slow['step_s']:.3f} s planned, {slow_s:.3f} s and {slow_w:.0f} W measured; the server "
              f"had it after {taken:.2f} s")
        assert slow_s > own_s * 1.02 and slow_w < limit * 1.01, (own_s, slow_s, slow_w, limit)

        run.order(20000)
        DEMO.wait_until("its own pace", 30, lambda: run.degree(number) == 1.0)
        fast_s, fast_w = measured(run)
        print(f"with 20 kW again: {fast_s:.3f} s and {fast_w:.0f} W measured")
        assert fast_s < own_s * 1.02, (own_s, fast_s)

        run.order(others + limit)
        DEMO.wait_until("a slower pace", 30, lambda: run.degree(number) > 1.0)
        run.controller.send_signal(signal.SIGKILL)
        run.controller.wait()
        begin = time.monotonic()
        time.sleep(1)
        assert run.degree(number) > 1.0, "the job went back at once"
        DEMO.wait_until("its own pace after the controller was lost", 3 * PACE_LASTS_S, lambda: run.degree(number) == 1.0)
        print(f"it went back to its own pace {time.monotonic() - begin:.1f} s after the controller was killed")

        run.control()
        DEMO.wait_until("a slower pace by the next controller", 30, lambda: run.degree(number) > 1.0)
        shown = site.ask("scontrol", "show", "job", str(number))
        assert "Restarts=0" in shown and "JobState=RUNNING" in shown, shown
        print(site.ask(program, "cluster", "status"))
        site.ask("scancel", str(number))
        DEMO.wait_until("its joules", 30, lambda: table.exists() and "gpt3" in table.read_text())
        print(site.ask(program, "cluster", "report", str(table)))
    except BaseException:
        for name in ("controller.log", "serve.log", "job.log"):
            path = site.folder / name
            print(name, path.read_text()[-3000:] if path.exists() else "is not there", sep="\n")
        raise
    finally:
        run.stop()


if __name__ == "__main__":
    sys.exit(cluster.play(play))
