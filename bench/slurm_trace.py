#!/usr/bin/env python3
"""A trace of jobs on a real Slurm, under several policies at one budget of watts, beside what the simulator says of it.

    make slurm-trace                                            # all runs of the published table, 45 minutes
    bench/slurm_trace.py --jobs 6 --policies joule-price        # a small one

The cluster is that of scripts/slurm_demo: four nodes of four simulated A100s, one agent each. The jobs
(slurm_trace_job.py) let the boards work, so that clocks decide how fast they are and what they draw; they come by a
Poisson process. Runs:

  joule-price, powerflow  `flyball cluster run` with elastic jobs of 1 to 16 GPUs. What kinds cost at each size and
                          clock is in its database before, as if they had run before.
  afs                     the same; all jobs have the highest clock at which 16 GPUs of the hungriest kind take 95 %
                          of the budget, since meters are a few per cent off
  slurm                   Slurm alone: jobs of the size that they ask for, at the highest clock, backfilled by time
                          limits: the first full minute that is 15 s beyond the job's time. As many nodes as fit at that
                          clock are used, the others are drained and idle.

With --orders, another budget of 0.6 to 1 times the first is ordered now and then, which the simulator is not told.

Energy is that of the boards' counters, idle boards included, from the first submission to the last end; power over
one second is what truly flows, read four times a second from the simulated boards. `flyball cluster simulate` is given
the same jobs, what the same boards take at each size and clock, and what was measured in the same run: by the
controller, in the mean of all kinds, how long GPUs take to change hands and what a restart costs, with the changeover
in the place of the job's own stop; and the least time from submission to start, since most jobs wait for GPUs of
others. Slurm alone is simulated as EASY backfilling by the jobs' true times. The simulator knows one cost for all kinds
and takes no idle boards' watts off the budget.
"""
import argparse
import bisect
import ctypes
import itertools
import json
import math
import os
import pathlib
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "slurm"), str(ROOT / "bench")]
import cluster  # noqa: E402
import slurm_trace_job as application  # noqa: E402
from cluster import DEMO  # noqa: E402

SIZES = [1, 2, 4, 8, 16]
CLOCKS = list(range(1020, 1411, 30))  # MHz, those of the controller and the simulator for an A100
BATCH = 65536  # samples of an iteration: as the controller takes for all kinds, so that models are fitted alike
IDLE_W = 45.0  # data/devices/a100-pcie.toml
NODES, GPUS = len(DEMO.NODES), DEMO.GPUS
TICK_S = 0.25
SETTLED_S = 3.0
ORDER_S = 2.0
POLICIES = ["joule-price", "powerflow", "afs", "slurm"]


def say(text, end="\n"):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end=end, file=sys.stderr, flush=True)
    elif end:
        print(text, end=end, file=sys.stderr, flush=True)


# ---- what iterations take, measured on boards like those of the cluster


def profile_node(build, number, scale, pipe):
    """Writes what each board of a node takes for each kind, size and clock: (s, J) of an iteration."""
    name = f"slurm-trace-{os.getpid()}"
    subprocess.run([build / "flyball", "sim", "up", "--name", name, "--gpus", str(GPUS), "--model", "a100",
                    "--workload", "gpt3-1.3b", "--time-scale", str(scale), "--seed", str(number)],
                   check=True, capture_output=True)
    try:
        os.environ["FLYBALL_SIM"] = name
        library = application.load_boards(build)
        handles = [ctypes.c_void_p() for _ in range(GPUS)]
        library.nvmlInit_v2()
        for gpu, handle in enumerate(handles):
            library.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(handle))
        taken = []
        for clock in CLOCKS:
            for handle in handles:
                library.nvmlDeviceSetGpuLockedClocks(handle, 210, clock)
            for kind, gpus in itertools.product(application.KINDS, SIZES):
                seconds, activity = application.iteration_of(kind, gpus)
                application.work(library, range(GPUS), activity, 1.0)  # the clock takes hold, the chip warms
                count = 6.0 / seconds
                runs = application.work(library, range(GPUS), activity, count * seconds)
                taken.append([[(run.end_s - run.begin_s) / count, run.energy_j / count] for run in runs])
        pipe.write(json.dumps(taken))
    finally:
        subprocess.run([build / "flyball", "sim", "down", "--name", name], capture_output=True)


def profile(build, scale=50):
    """By (kind, GPUs, clock): seconds and joules of an iteration, which ends when the slowest board is done."""
    say(f"measuring what iterations take, on {NODES * GPUS} boards ...")
    reads = []
    for number in range(1, NODES + 1):
        read, write = os.pipe()
        reads.append((os.fork(), read))
        if reads[-1][0] == 0:
            status = 1
            try:
                with open(write, "w") as pipe:
                    profile_node(build, number, scale, pipe)
                status = 0
            finally:
                os._exit(status)
        os.close(write)
    nodes = []
    for pid, read in reads:
        with open(read) as pipe:
            nodes.append(json.loads(pipe.read() or "[]"))
        os.waitpid(pid, 0)
    costs = {}
    for index, (clock, (kind, gpus)) in enumerate(
            itertools.product(CLOCKS, itertools.product(application.KINDS, SIZES))):
        boards = [board for node in nodes for board in node[index]]
        groups = [boards[first:first + gpus] for first in range(0, len(boards), gpus)]
        slowest = [max(board[0] for board in group) for group in groups]
        energy = [sum(board[1] + IDLE_W * (most - board[0]) for board in group) for group, most in zip(groups, slowest)]
        costs[kind, gpus, clock] = statistics.mean(slowest), statistics.mean(energy)
    return costs


def nodes_for(gpus):
    return max(1, gpus // GPUS)


def write_table(costs, path):
    rows = [f"{kind},{gpus},{nodes_for(gpus)},{BATCH},{clock},{time_s:.6f},{energy_j:.4f}"
            for (kind, gpus, clock), (time_s, energy_j) in costs.items()]
    path.write_text("\n".join(["model,gpus,nodes,batch_size,clock_mhz,step_time_s,step_energy_j", *rows, ""]))


def watts(costs, kind, clock):
    return costs[kind, 1, clock][1] / costs[kind, 1, clock][0]


# ---- the trace


def make_trace(costs, count, seed, apart_s, work_s):
    """Jobs of `work_s` seconds in the mean on the GPUs that they ask for, `apart_s` apart in the mean."""
    chance, now, jobs = random.Random(seed), 0.0, []
    for number in range(count):
        kind = chance.choice(list(application.KINDS))
        gpus = chance.choices([1, 2, 4, 8], [40, 30, 20, 10])[0]
        seconds = work_s * min(3.0, max(0.3, chance.lognormvariate(-0.2, 0.63)))
        step = costs[kind, gpus, CLOCKS[-1]][0]
        iterations = max(1, round(seconds / step))
        jobs.append({"name": f"{kind}-{number}", "kind": kind, "gpus": gpus, "submit_s": now, "iterations": iterations,
                     "duration_s": iterations * step})
        now += chance.expovariate(1.0 / apart_s)
    return jobs


def write_trace(jobs, path):
    rows = [f"{job['submit_s']:.3f},{job['gpus']},{job['duration_s']:.4f},{job['kind']},{BATCH}" for job in jobs]
    path.write_text("\n".join(["submit_time,num_gpus,duration,model,batch_size", *rows, ""]))


class Setting:
    """What all runs share."""

    def __init__(self, options, folder):
        self.build, self.folder = pathlib.Path(options.build).resolve(), folder
        self.program = self.build / "flyball"
        self.costs = profile(self.build)
        self.jobs = make_trace(self.costs, options.jobs, options.seed, options.apart, options.work)
        top = [watts(self.costs, kind, CLOCKS[-1]) for kind in application.KINDS]
        self.p_max = statistics.mean(top)  # as the simulator takes it
        self.full_nodes = options.full_nodes
        self.budget = math.ceil((GPUS * (self.full_nodes * max(top) + (NODES - self.full_nodes) * IDLE_W)) / 50) * 50
        # The highest at which all GPUs may work at the hungriest kind, with what meters may be off.
        most = 0.95 * self.budget / (NODES * GPUS)
        self.clock = max(clock for clock in CLOCKS
                         if all(watts(self.costs, kind, clock) <= most for kind in application.KINDS))
        chance = random.Random(options.seed)
        self.orders = [(60.0 * number, round(self.budget * chance.uniform(0.6, 1.0), -1))
                       for number in range(1, options.orders + 1)]
        self.table, self.trace = folder / "table.csv", folder / "trace.csv"
        write_table(self.costs, self.table)
        write_trace(self.jobs, self.trace)

    def simulate(self, policy, restart_s, changeover_s, start_s):
        nodes = self.full_nodes if policy == "slurm" else NODES
        words = ["--policy", {"slurm": "backfill"}.get(policy, policy), "--nodes", nodes, "--gpus-per-node", GPUS,
                 "--gpu", "a100", "--table", self.table, "--trace", self.trace, "--no-node-shutdown",
                 "--start", f"{start_s:.3f}s", "--format", "json"]
        if policy in ("joule-price", "powerflow"):
            words += ["--knowledge", "fitted", "--eta", f"{self.budget / (NODES * GPUS * self.p_max):.4f}"]
        if policy != "slurm":
            words += ["--restart", f"{restart_s:.3f}s", "--changeover", f"{changeover_s:.3f}s"]
        if policy == "afs":
            words += ["--clock", self.clock]
        told = subprocess.run(list(map(str, [self.program, "cluster", "simulate", *words])), check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        result = json.loads(told)
        idle_j = (NODES - nodes) * GPUS * IDLE_W * result["makespan_s"]
        energy_j = result["energy_j"] + idle_j
        return {"avg_jct_s": result["avg_jct_s"], "makespan_s": result["makespan_s"], "energy_kj": energy_j / 1000,
                "mean_w": energy_j / result["makespan_s"], "resizes": result["migrations"]}


# ---- a run on the cluster


class Meter:
    """The true energy of all boards over time."""

    def __init__(self, setting, site):
        self.library, self.site = application.load_boards(setting.build), site
        self.offsets, self.points = {}, []

    def read(self):
        total, when = 0.0, []
        for node in DEMO.NODES:
            os.environ["FLYBALL_SIM"] = f"{self.site.sim}-{node}"
            for gpu in range(GPUS):
                joules, seconds = ctypes.c_double(), ctypes.c_double()
                self.library.flyball_sim_true_energy(gpu, ctypes.byref(joules), ctypes.byref(seconds))
                total += joules.value
                when.append(time.time())
        self.points.append((statistics.mean(when), total))

    def energy_at(self, when):
        place = min(max(bisect.bisect(self.points, (when, math.inf)), 1), len(self.points) - 1)
        (begin, low), (end, high) = self.points[place - 1:place + 1]
        return low + (high - low) * (when - begin) / (end - begin)

    def windows(self, begin, end):
        """Begin and mean watts of each second, four of them a second."""
        when = begin
        while when + 1.0 <= end:
            yield when, self.energy_at(when + 1.0) - self.energy_at(when)
            when += TICK_S


class Live:
    def __init__(self, setting, policy, site):
        self.setting, self.policy, self.site = setting, policy, site
        self.jobs_folder = site.folder / "trace"
        self.jobs_folder.mkdir()
        self.socket = site.folder / "controller.sock"
        self.controller = None
        self.changes = []  # times of decisions, starts and ends
        self.last_seen, self.status = None, {}
        self.budgets = [(0.0, setting.budget)]  # since when which counts

    def start_controller(self):
        """Starts it twice: what kinds cost is put into its database while it is down."""
        self.site.environment["FLYBALL_CLUSTER"] = f"unix:{self.socket}"
        database, log = self.site.folder / "controller.db", self.site.folder / "log" / "controller.log"
        words = ["--budget", f"{self.setting.budget}W", "--policy", self.policy, "--socket", self.socket,
                 "--agent", f"{self.site.folder}/agent-{{node}}.sock", "--period", "500ms", "--restart", "7s",
                 "--database", database]
        if self.policy == "afs":
            words += ["--clock", self.setting.clock]
        for is_seeded in (False, True):
            with log.open("ab") as out:
                self.controller = subprocess.Popen([self.setting.program, "cluster", "run", *map(str, words)],
                                                   stdout=out, stderr=out, env=self.site.environment,
                                                   stdin=subprocess.DEVNULL)
            DEMO.wait_until("the controller", 30, lambda: self.socket.exists() or self.controller.poll() is not None)
            if self.controller.poll() is not None:
                raise RuntimeError(log.read_text())
            if is_seeded:
                break
            self.stop()
            with sqlite3.connect(database) as store:
                store.executemany("INSERT INTO costs VALUES(?, ?, ?, ?, ?, ?)",
                                  [(kind, gpus, nodes_for(gpus), clock, *cost)
                                   for (kind, gpus, clock), cost in self.setting.costs.items()])
            store.close()

    def submit(self, job):
        words = ["--job-name", job["name"], f"--output={self.site.folder}/log/{job['name']}.out", "--open-mode=append"]
        script = [str(ROOT / "bench" / "slurm_trace_job.py"), str(self.jobs_folder), str(self.setting.build),
                  job["name"], job["kind"], str(job["iterations"])]
        if self.policy == "slurm":
            nodes = nodes_for(job["gpus"])
            minutes = math.ceil((job["duration_s"] + 15) / 60)
            command = ["sbatch", f"--nodes={nodes}", f"--ntasks={nodes}", f"--gpus-per-node={job['gpus'] // nodes}",
                       f"--time={minutes}", "--no-requeue", *words, *script]
        else:
            command = [str(self.setting.program), "cluster", "submit", "--kind", job["kind"], "--iterations",
                       str(job["iterations"]), "--max", str(SIZES[-1]), "--", *words, *script]
        job["submitted"] = time.time()
        self.site.ask(*command)

    def lines(self, job):
        path = self.jobs_folder / f"{job['name']}.log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def look(self):
        """What the controller shows; a change of it is the time of a decision or its consequence."""
        if self.controller is None:
            return
        connection = DEMO.UnixConnection(self.socket)
        connection.request("GET", "/v1/cluster/status")
        self.status = json.loads(connection.getresponse().read())
        connection.close()
        seen = [(job["job"], job["gpus"], job["to_gpus"], job.get("clock_mhz")) for job in self.status["jobs"]]
        if seen != self.last_seen:
            self.changes.append(time.time())
        self.last_seen = seen

    def follow(self, meter):
        jobs, begin, looked = [dict(job) for job in self.setting.jobs], time.time(), 0.0
        waiting, tick, orders = list(jobs), time.monotonic(), list(self.setting.orders)
        energies, ran = DEMO.node_energies(self.site), begin
        while True:
            meter.read()
            now = time.time()
            while waiting and now - begin >= waiting[0]["submit_s"]:
                self.submit(waiting.pop(0))
            if orders and now - begin >= orders[0][0]:
                self.budgets.append((time.time(), orders.pop(0)[1]))
                self.changes.append(self.budgets[-1][0])
                self.site.ask(str(self.setting.program), "cluster", "budget", f"{self.budgets[-1][1]:.0f}W")
            if now - looked >= 1.0:
                looked = now
                self.look()
                ends = [self.lines(job)[-1:] for job in jobs]
                done = sum(end[0][0] == "done" for end in ends if end)
                running = sum(end[0][0] == "start" for end in ends if end)
                recent = meter.energy_at(now) - meter.energy_at(now - 1.0) if len(meter.points) > 8 else 0.0
                say(f"{self.policy}: {now - begin:4.0f} s, {done} of {len(jobs)} jobs done, {running} run, "
                    f"{recent:.0f} W", end="" if done < len(jobs) else "\n")
                if done == len(jobs):
                    break
                if running > 0 or waiting:
                    ran = now
                self.check(now - ran)
            tick = max(tick + TICK_S, time.monotonic())
            time.sleep(max(0.0, tick - time.monotonic()))
        after = DEMO.node_energies(self.site)
        meter.read()
        counters = sum(after[node][1] - energies[node][1] for node in energies)
        return jobs, counters

    def check(self, idle_s):
        if self.controller is not None and self.controller.poll() is not None:
            raise RuntimeError("the controller has ended:\n" +
                               (self.site.folder / "log" / "controller.log").read_text()[-2000:])
        if idle_s > 120:
            raise RuntimeError(f"no job has run for {idle_s:.0f} s:\n{self.site.ask('squeue', '-a')}")

    def measure(self):
        if self.policy == "slurm":
            for node in DEMO.NODES[self.setting.full_nodes:]:
                self.site.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=budget")
        else:
            self.start_controller()
        meter = Meter(self.setting, self.site)
        jobs, counters = self.follow(meter)
        self.look()
        lines = {job["name"]: self.lines(job) for job in jobs}
        ends = {name: float(told[-1][1]) for name, told in lines.items()}
        first, last = min(job["submitted"] for job in jobs), max(ends.values())
        self.changes += [float(line[1]) for told in lines.values() for line in told]
        self.changes.sort()
        windows = list(meter.windows(meter.points[0][0], last))
        settled = [power - self.budget_in(begin) for begin, power in windows if self.is_settled(begin)]
        over = [(begin - first, power) for begin, power in windows if power > self.budget_in(begin)]
        gaps = [float(next_line[1]) - float(line[1]) for told in lines.values()
                for line, next_line in zip(told, told[1:]) if next_line[0] == "start"]

        def measured(what):
            return {one["kind"]: {"mean_s": one[what + "_s"], "measured": one[what + "s_measured"]}
                    for one in self.status.get("kinds", [])}

        return {
            "avg_jct_s": statistics.mean(ends[job["name"]] - job["submitted"] for job in jobs),
            "makespan_s": last - first,
            "energy_kj": counters / 1000,
            "true_energy_kj": (meter.energy_at(last) - meter.energy_at(first)) / 1000,
            "mean_w": counters / (last - first),
            "highest_window_w": max(power for _, power in windows),
            "highest_over_w": max(power - self.budget_in(begin) for begin, power in windows),
            "highest_settled_over_w": max(settled, default=None),
            "windows": len(windows), "settled_windows": len(settled), "over": over,
            "settled_over": sum(power > 0 for power in settled),
            "changes_s": [when - first for when in self.changes],
            "orders": [{"at_s": when - first, "budget_w": watts, "within_s": self.time_until(meter, when, watts)}
                       for when, watts in self.budgets[1:]],
            "resizes": sum(len([line for line in told if line[0] == "start"]) - 1 for told in lines.values()),
            "stop_to_start_s": statistics.median(gaps) if gaps else None,
            "start_s": min(float(lines[job["name"]][0][1]) - job["submitted"] for job in jobs),
            "restarts": measured("restart"),
            "stops": measured("stop"),
            "changeovers": measured("changeover"),
            "jobs": [{"name": job["name"], "submitted_s": job["submitted"] - first, "jct_s": ends[job["name"]] -
                      job["submitted"], "log": lines[job["name"]]} for job in jobs],
        }

    def budget_in(self, begin):
        """The highest that counted in the second that begins then, or in the two before: so long may an order take."""
        last = bisect.bisect(self.budgets, (begin + 1.0, 0.0))
        first = max(1, bisect.bisect(self.budgets, (begin - ORDER_S, math.inf)))
        return max(watts for _, watts in self.budgets[first - 1:last])

    @staticmethod
    def time_until(meter, when, watts):
        """From an order until a quarter of a second's power is within it."""
        late = TICK_S
        while (meter.energy_at(when + late) - meter.energy_at(when + late - TICK_S)) / TICK_S > watts and late < 60.0:
            late += 0.05
        return round(late, 2)

    def is_settled(self, begin):
        place = bisect.bisect(self.changes, begin - SETTLED_S)
        return place == len(self.changes) or self.changes[place] > begin + 1.0

    def stop(self):
        if self.controller is not None and self.controller.poll() is None:
            self.controller.send_signal(signal.SIGTERM)
            try:
                self.controller.wait(20)
            except subprocess.TimeoutExpired:
                self.controller.kill()
                self.controller.wait()


def run_live(setting, policy, keep):
    say(f"{policy}: starting Slurm ...", end="")
    folder = setting.folder / policy
    site = cluster.up(folder)
    live = Live(setting, policy, site)
    try:
        return live.measure()
    finally:
        live.stop()
        if keep:
            subprocess.run(["cp", "-r", f"{folder}/log", f"{folder}/trace", keep], check=False)
        if not site.stop():
            raise RuntimeError("something of the cluster is left")


def mean_of(kinds, default_s):
    count = sum(one["measured"] for one in kinds.values())
    return sum(one["mean_s"] * one["measured"] for one in kinds.values()) / count if count else default_s


# ---- what is printed


def print_table(setting, results):
    print(f"{len(setting.jobs)} jobs, budget {setting.budget} W on {NODES} nodes of {GPUS} A100s (simulated boards)\n")
    print(f"{'':33} {'JCT s':>8} {'makespan s':>11} {'energy kJ':>10} {'mean W':>7} {'resizes':>8} {'settled W':>10} "
          f"{'any W':>7} {'seconds over':>13}")
    for policy, result in results.items():
        live = result["live"]
        for name, key in (("", "live"), (" simulated", "simulated")):
            one = result[key]
            row = (f"{policy + name:33} {one['avg_jct_s']:8.1f} {one['makespan_s']:11.1f} {one['energy_kj']:10.1f} "
                   f"{one['mean_w']:7.0f} {one['resizes']:8}")
            if one is live:
                over = f"{len(one['over'])}/{one['windows']}"
                row += f" {one['highest_settled_over_w']:+10.0f} {one['highest_over_w']:+7.0f} {over:>13}"
            print(row)
            if one is not live:
                off = [100 * (live[key] / one[key] - 1) for key in ("avg_jct_s", "makespan_s", "energy_kj", "mean_w")]
                print(f"{'   live over that, %':33} {off[0]:+8.1f} {off[1]:+11.1f} {off[2]:+10.1f} {off[3]:+7.1f}")
        for name in ("restarts", "stops", "changeovers"):
            costs = ", ".join(f"{kind} {one['mean_s']:.1f} s ({one['measured']})" for kind, one in live[name].items())
            print(f" {name}: {costs or 'none'}")
        gap = f"; from stop to start: {live['stop_to_start_s']:.1f} s" if live["stop_to_start_s"] else ""
        print(f" from submission to start, at least: {live['start_s']:.1f} s{gap}")
        for order in live["orders"]:
            print(f" {order['budget_w']:.0f} W were ordered at {order['at_s']:.0f} s, and kept after "
                  f"{order['within_s']:.2f} s")
        print()
    print(f"settled W, any W: the highest second over the budget, of those in which nothing had changed for "
          f"{SETTLED_S:g} s, and of all;\nfour are looked at that begin within each second. After an order the budget "
          f"before it counts for {ORDER_S:g} s more.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", help="folder of the programs (default build/)")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--apart", type=float, default=9.0, help="mean seconds between two jobs (default %(default)s)")
    parser.add_argument("--work", type=float, default=70.0,
                        help="mean seconds of a job on the GPUs that it asks for (default %(default)s)")
    parser.add_argument("--full-nodes", type=int, default=3, choices=range(1, NODES + 1),
                        help="nodes that fit into the budget at the highest clock, beside idle ones (default 3)")
    parser.add_argument("--orders", type=int, default=0, help="orders of other budgets, one a minute (default 0)")
    parser.add_argument("--policies", nargs="+", default=POLICIES, choices=POLICIES)
    parser.add_argument("--simulate-only", action="store_true",
                        help="run nothing on Slurm; restarts take 7 s, changes of hands 2 s, starts no time")
    parser.add_argument("--keep", help="folder for the logs of all runs")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    options = parser.parse_args()
    cluster.BUILD = pathlib.Path(options.build).resolve()
    if missing := cluster.missing():
        print(f"slurm_trace: {missing}", file=sys.stderr)
        return 1

    def interrupted(signum, frame):
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    with tempfile.TemporaryDirectory(prefix="flyball-trace-") as scratch:
        setting, results = Setting(options, pathlib.Path(scratch)), {}
        os.chmod(scratch, 0o755)
        say(f"budget {setting.budget} W, P_max {setting.p_max:.0f} W, one clock {setting.clock} MHz")
        for policy in options.policies:
            if options.simulate_only:
                print(policy, json.dumps(setting.simulate(policy, 7.0, 2.0, 0.0)))
                continue
            keep = None
            if options.keep:
                keep = pathlib.Path(options.keep) / policy
                keep.mkdir(parents=True, exist_ok=True)
            live = run_live(setting, policy, keep)
            restart_s, stop_s, changeover_s = (mean_of(live[name], default_s) for name, default_s in (
                ("restarts", 7.0), ("stops", 0.0), ("changeovers", 0.0)))
            # What the controller charges counts from the order to stop, and leaves out the wait for others.
            simulated = setting.simulate(policy, restart_s - stop_s + changeover_s, changeover_s, live["start_s"])
            results[policy] = {"live": live, "simulated": simulated}
            if keep:
                (keep / "result.json").write_text(json.dumps(results[policy], indent=1))
    if options.format == "json":
        print(json.dumps({"budget_w": setting.budget, "jobs": setting.jobs, "results": results}, indent=1))
    elif results:
        print_table(setting, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
