#!/usr/bin/env python3
"""Kills with SIGKILL on a real Slurm, while elastic jobs run, grow and shrink: the controller, an agent, a slurmd and
slurmctld, each KILLS times at random moments, one at a time, and each started again some seconds later.

    tests/slurm/kills_test.py [--kills 50] [--seed N]

Afterwards every job must have done all its iterations, each start must have gone on at the count of the end before it,
and no job may have run twice at a time. A job whose end came from a kill (its node was taken for dead) goes on at its
checkpoint. Jobs are submitted with --until-saved, also at the moment of a kill. Status 77: it cannot run here. Takes
some ten seconds for each kill.
"""

import argparse
import json
import random
import re
import subprocess
import sys
import threading
import time

import cluster
from cluster import DEMO
from controller_test import HERE, Controller, is_done, lines

JOBS = 4          # at a time
ITERATIONS = 600  # of each: with 5 a second on a GPU, a minute on two
VICTIMS = ["controller", "agent", "slurmd", "slurmctld"]


class Jobs:
    """Keeps some jobs in the queue until it is told to stop. Each is submitted by a thread of its own, which waits until
    Slurm has saved it: also then daemons are killed."""

    def __init__(self, program, site):
        self.program, self.site, self.names = program, site, []
        self.numbers = {}  # Slurm's, of those that are saved
        self.threads, self.said, self.failures = [], [], []

    def left(self):
        return [name for name in self.names if not is_done(self.site, name)]

    def submit(self, name):
        command = [self.program, "cluster", "submit", "--until-saved", "--kind", "count", "--iterations", str(ITERATIONS),
                   "--max", "8", "--format", "json", "--", "--output=/dev/null", f"--job-name={name}",
                   str(HERE / "counting_job.py"), str(self.site.folder), name, str(ITERATIONS)]
        ended = subprocess.run(command, env=self.site.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.said += [f"{name}: {line}" for line in ended.stderr.splitlines()]
        if ended.returncode:
            self.failures.append(f"{name}: {ended.stderr}")
        else:
            self.numbers[name] = json.loads(ended.stdout)["job"]

    def fill(self):
        assert not self.failures, self.failures
        while len(self.left()) < JOBS:
            name = f"job{len(self.names)}"
            self.names.append(name)
            self.threads.append(threading.Thread(target=self.submit, args=(name,)))
            self.threads[-1].start()

    def wait(self):
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures


def check(site, name):
    """The count of a start is that of the end before it. A run that was killed has no end; its checkpoint may be newer
    than what it told, and never older."""
    count, running = 0, False
    for what, done, _ in lines(site, name):
        if what == "start":
            assert int(done) >= count, f"{name} has lost iterations: {lines(site, name)}"
        else:
            assert running or what == "done", f"{name} ended twice: {lines(site, name)}"
        count, running = int(done), what == "start"
    assert count == ITERATIONS, f"{name}: {lines(site, name)}"


def running_twice(site, names):
    """Those of the jobs of which two processes exist now. Slurm runs a copy of the script, called slurm_script."""
    commands = site.ask("ps", "-eo", "args", "--no-headers").splitlines()
    return [name for name in names
            if sum(f"/slurm_script {site.folder} {name} " in command for command in commands) > 1]


def kill(site, controller, victim, chance):
    """Kills one process and starts another in its place. Returns what was killed."""
    if victim == "controller":
        controller.kill()
        time.sleep(chance.uniform(0, 3))
        controller.start()
        return victim
    name = victim if victim == "slurmctld" else f"{victim}-{chance.choice(DEMO.NODES)}"
    site.kill(name)
    time.sleep(chance.uniform(0, 4))
    site.start_again(name)
    return name


def play(program, site, kills, chance):
    controller, jobs = Controller(program, site), Jobs(program, site)
    order = [victim for victim in VICTIMS for _ in range(kills)]
    chance.shuffle(order)
    try:
        DEMO.wait_until("the controller", 30, lambda: controller.socket.exists())
        for number, victim in enumerate(order, 1):
            jobs.fill()
            time.sleep(chance.uniform(4, 10))
            name = kill(site, controller, victim, chance)
            twice = running_twice(site, jobs.left())
            assert not twice, f"they run twice after the kill of {name}: {twice}"
            print(f"kill {number} of {len(order)}: {name}; {len(jobs.names)} jobs, {len(jobs.left())} of them not done",
                  flush=True)
        jobs.wait()
        DEMO.wait_until("the end of all jobs", 300, lambda: not jobs.left())
        # Slurm may have forgotten that a job has ended, and shows that it runs until the job's node next registers.
        DEMO.wait_until("no jobs", 300, lambda: not controller.status()["jobs"])
    except BaseException:
        log = (site.folder / "controller.log").read_text()
        print(log[-6000:], controller.status(), site.ask("squeue", check=False),
              site.ask("scontrol", "show", "job", check=False)[-6000:], *((name, lines(site, name)) for name in jobs.left()),
              sep="\n")
        of_jobs = [re.compile(rf"\b{jobs.numbers.get(name)}\b") for name in jobs.left()]
        print("what was said of these jobs:", *(line for line in log.splitlines()
                                                if any(number.search(line) for number in of_jobs)), sep="\n")
        raise
    finally:
        controller.kill()
    for name in jobs.names:
        check(site, name)
    states = site.ask("sinfo", "-h", "-N", "-o", "%t").split()
    assert all(state in ("idle", "mix", "alloc") for state in states), f"nodes were left {states}"
    print(*jobs.said, sep="\n")
    forgotten = sum("has forgotten" in line for line in jobs.said)
    print(f"{len(order)} kills; {len(jobs.names)} jobs have done all of their {ITERATIONS} iterations; Slurm had forgotten "
          f"{forgotten} of them, which were submitted again")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=3, help="of each of the four kinds of process (default 3)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the random moments")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    return cluster.play(lambda program, site: play(program, site, options.kills, chance))


if __name__ == "__main__":
    sys.exit(main())
