#!/usr/bin/env python3
"""The controller on a real Slurm: three elastic jobs on four nodes. One ends, and another grows. The controller is
killed with SIGKILL in the middle of that and started again. Clocks follow the budget, also one of a file, and are capped
when the controller has ended. Status 77: it cannot run here.
"""

import json
import pathlib
import signal
import subprocess
import sys
import time

import cluster
from cluster import DEMO

HERE = pathlib.Path(__file__).resolve().parent
GOALS = {"short": 60, "middle": 600, "long": 600}


class Controller:
    """`flyball cluster run` as a process that can be killed."""

    def __init__(self, program, site, *options, policy="powerflow", stop_within="10s"):
        self.program, self.site, self.options = program, site, options
        self.policy, self.stop_within = policy, stop_within
        self.socket = site.folder / "controller.sock"
        self.site.environment["FLYBALL_CLUSTER"] = f"unix:{self.socket}"
        self.start()

    def start(self):
        log = (self.site.folder / "controller.log").open("ab")
        self.process = subprocess.Popen(
            [self.program, "cluster", "run", "--budget", "20kW", "--policy", self.policy, "--socket", self.socket,
             "--agent", f"{self.site.folder}/agent-{{node}}.sock", "--period", "500ms", "--restart", "5s",
             "--stop-within", self.stop_within, "--database", self.site.folder / "controller.db", *self.options],
            env=self.site.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def status(self):
        told = self.site.ask(self.program, "cluster", "status", "--format", "json", check=False)
        return json.loads(told) if told.startswith("{") else {"jobs": []}


def submit(program, site, name, goal, most=8):
    site.ask(program, "cluster", "submit", "--kind", name, "--iterations", str(goal), "--max", str(most), "--",
             "--output=/dev/null", str(HERE / "counting_job.py"), str(site.folder), name, str(goal))


def boards(site):
    """What the agents of all nodes tell of their boards."""
    told = []
    for node in DEMO.NODES:
        connection = DEMO.UnixConnection(site.agent(node))
        connection.request("GET", "/v1/devices")
        told += json.loads(connection.getresponse().read())["gpus"]
        connection.close()
    return told


def clocks(site):
    """The highest clocks that leases let boards have."""
    held = {board["lease"]["id"]: board["lease"]["settings"] for board in boards(site) if board["lease"]}
    bounds = [setting["sm_clocks_mhz"] for settings in held.values() for setting in settings]
    return [bound["maximum"] for bound in bounds if bound]


def check_clocks(program, site, controller):
    """A lower budget is kept by clocks first."""
    DEMO.wait_until("clocks that are set", 30, lambda: clocks(site))
    DEMO.wait_until("watts that are measured", 30, lambda: any(one["measured_w"] for one in controller.status()["jobs"]))
    before, counted = max(clocks(site)), controller.status()["power_w"]
    site.ask(program, "cluster", "budget", f"{0.7 * counted:.0f}W")
    begin = time.monotonic()
    DEMO.wait_until("lower clocks", 30, lambda: clocks(site) and max(clocks(site)) < before)
    print(f"at 0.7 times the watts, clocks went from {before:.0f} to {max(clocks(site)):.0f} MHz within "
          f"{time.monotonic() - begin:.2f} s")
    site.ask(program, "cluster", "budget", "20kW")


def check_periods(program, site, controller):
    """A lower budget of a file is kept when it begins, by clocks or fewer GPUs, and no longer than its period."""
    # The job itself does nothing on its boards, of which no clock could lower the watts.
    load = [subprocess.Popen([program, "sim", "work", "--name", f"{site.sim}-{node}", "--gpu", str(gpu), "--seconds", "300"],
                             stdout=subprocess.DEVNULL) for node in DEMO.NODES for gpu in range(DEMO.GPUS)]
    try:
        check_periods_at_work(program, site, controller)
    finally:
        for process in load:
            process.kill()
            process.wait()


def check_periods_at_work(program, site, controller):
    submit(program, site, "day", 2000)
    DEMO.wait_until("a job that runs", 60, lambda: clocks(site) and any(
        one["state"] == "running" and one["measured_w"] for one in controller.status()["jobs"]))
    before, status = max(clocks(site)), controller.status()
    begin_s = int(time.time()) + 21
    row = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in (begin_s, begin_s + 3)]
    budget_w = 0.92 * (status["power_w"] + status["others_w"])
    file = site.folder / "budget.csv"
    file.write_text(f"from,until,power_w\n{row[0]},{row[1]},{budget_w:.0f}\n")
    site.ask(program, "cluster", "budget", "--file", str(file))
    time.sleep(max(0, begin_s - 17 - time.time()))  # 5 s ahead and, where jobs have to stop, --stop-within
    assert max(clocks(site)) == before, "clocks went down long before the period"
    time.sleep(max(0, begin_s - time.time()))
    status = controller.status()
    measured_w = sum(one["measured_w"] or 0 for one in status["jobs"])
    assert measured_w + status["others_w"] <= budget_w, status
    print(f"when {budget_w:.0f} W began to be the budget, {measured_w + status['others_w']:.0f} W were drawn, at "
          f"{max(clocks(site), default=0):.0f} MHz")
    DEMO.wait_until("the budget before", 10, lambda: controller.status().get("budget_w") == 20000)
    DEMO.wait_until("higher clocks after the period", 60, lambda: max(clocks(site), default=0) == before)
    DEMO.wait_until("the end of the job", 120, lambda: is_done(site, "day"))


def lines(site, name):
    path = site.folder / f"{name}.log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def starts(site, name):
    return sum(line[0] == "start" for line in lines(site, name))


def is_done(site, name):
    return any(line[0] == "done" for line in lines(site, name))


def check_log(site, name):
    """Every start goes on where the last run ended, and there is one end for each start."""
    count, running = 0, False
    for what, done, _ in lines(site, name):
        if what == "start":
            assert not running, f"{name} was started while it ran: {lines(site, name)}"
            assert int(done) == count, f"{name} lost iterations: {lines(site, name)}"
        else:
            assert running, f"{name} ended twice: {lines(site, name)}"
            count = int(done)
        running = what == "start"
    assert not running and count == GOALS[name], f"{name}: {lines(site, name)}"


def play(program, site):
    dry = site.ask(program, "cluster", "run", "--budget", "20kW", "--dry-run")
    assert dry == "nothing is to be changed\n", dry
    controller = Controller(program, site)
    try:
        DEMO.wait_until("the controller", 30, lambda: controller.socket.exists())
        for name, goal in GOALS.items():
            submit(program, site, name, goal)
        DEMO.wait_until("three jobs that run", 60, lambda: all(starts(site, name) for name in GOALS))
        check_clocks(program, site, controller)
        DEMO.wait_until("the end of the short job", 60, lambda: is_done(site, "short"))
        # One of the others is to grow. The controller is killed as soon as it has begun with that.
        grows = lambda: [one for one in controller.status()["jobs"] if one["to_gpus"] > one["gpus"] > 0]
        DEMO.wait_until("a job that is to grow", 30, grows)
        controller.kill()
        DEMO.wait_until("caps", 30, lambda: any(board["cap"] for board in boards(site)))
        controller.start()
        DEMO.wait_until("the end of all jobs", 120, lambda: all(is_done(site, name) for name in GOALS))
        DEMO.wait_until("no jobs", 30, lambda: not controller.status()["jobs"])
        check_periods(program, site, controller)
    except BaseException:
        print((site.folder / "controller.log").read_text(), *(lines(site, name) for name in GOALS), sep="\n")
        raise
    finally:
        controller.kill()
    for name in GOALS:
        check_log(site, name)
    grown = [name for name in GOALS if int(lines(site, name)[-1][2]) > int(lines(site, name)[0][2])]
    assert grown, "no job has grown"
    print(f"grown: {', '.join(grown)};", *(f"{name} ran {starts(site, name)} times;" for name in GOALS))


if __name__ == "__main__":
    sys.exit(cluster.play(play))
