#!/usr/bin/env python3
"""What a cycle of the controller costs on a large cluster: its processor time, and how long a cycle takes.

    bench/controller_load.py [--jobs 1000] [--nodes 256] [--seconds 60] [--program build/flyball]

The controller runs as an operator would start it. Slurm is stood in for: `squeue`, `sinfo` and `scontrol` are small
programs that print what Debian's Slurm 22.05 printed for a job and a node of each state (tests/controller/slurm_22_05),
as many times as asked, and do what the controller orders: a job that is released runs a second later on the nodes that
it asks for, one that is put back waits. Running jobs report once a second over the Unix socket, an elastic one may be
told to stop, and ends half a second later. What Slurm's own programs and daemon take is not in the figures.

Who reports does not sleep until the answer comes: the controller would be charged with waking it, for a third of what a
report takes on a virtual machine, and jobs are on other machines. For comparison the time is measured that Python's
json takes to read the list of jobs once a second, which is part of what the controller does.
"""
import argparse
import copy
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests" / "controller" / "slurm_22_05"
GPUS = 4  # of a node
TICKS = os.sysconf("SC_CLK_TCK")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        self.sock.connect(str(self.path))


class Slurm:
    """Its jobs and nodes. Orders come through a file, to which scontrol appends; lists go out through files that are
    replaced whole."""

    def __init__(self, folder, jobs, nodes):
        self.folder = folder
        self.orders = folder / "orders"
        self.orders.touch()
        self.read = 0
        recorded = json.loads((RECORDED / "squeue.json").read_text())
        self.meta = {key: value for key, value in recorded.items() if key != "jobs"}
        running = next(job for job in recorded["jobs"] if job["job_state"] == "RUNNING")
        nodes_of = json.loads((RECORDED / "sinfo.json").read_text())
        self.node = nodes_of["nodes"][0]
        self.nodes = [f"n{number:03d}" for number in range(1, nodes + 1)]
        self.jobs, self.resources, self.acts = {}, running["job_resources"]["allocated_nodes"][0], 0
        kinds = [("bert", 4), ("gpt3", 8), ("resnet", 2), ("bloom", 16)]
        for number in range(1, jobs + 1):
            kind, most = kinds[number % len(kinds)]
            job = copy.deepcopy(running)
            job.update(job_id=number, name=f"{kind}-{number}", user_id=os.getuid(), tasks=1, cpus=2, priority=0,
                       comment=f"flyball:elastic,kind={kind},iterations={2000 + 37 * number},min=1,max={most};flyball:held",
                       admin_comment="", submit_time=int(time.time()) - number)
            self.jobs[number] = job
            self.stop(job)
        head = {key: value for key, value in nodes_of.items() if key != "nodes"}
        self.write("nodes.json", {**head, "nodes": [dict(self.node, name=name, gres=f"gpu:a100:{GPUS}", state="idle")
                                                    for name in self.nodes]})
        for name, text in (("squeue", f"exec cat {folder}/jobs.json"), ("sinfo", f"exec cat {folder}/nodes.json"),
                           ("scontrol", f'echo "$*" >> {self.orders}')):
            program = folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\n{text}\n")
            program.chmod(0o755)
        self.show()

    def write(self, name, what):
        new = self.folder / (name + ".new")
        new.write_text(json.dumps(what, indent=2))
        new.rename(self.folder / name)

    def show(self):
        self.write("jobs.json", {**self.meta, "jobs": list(self.jobs.values())})

    @staticmethod
    def stop(job):
        job.update(job_state="PENDING", nodes="", gres_detail=[], batch_host="", tres_per_node="gres:gpu:1",
                   state_reason="JobHeldUser" if job["priority"] == 0 else "None",
                   job_resources={"nodes": "", "allocated_cores": 0, "allocated_hosts": 0, "allocated_nodes": []})

    def run(self, job):
        names = job["required_nodes"].split(",")
        gpus = int(job["tres_per_node"].rsplit(":", 1)[1])
        job.update(job_state="RUNNING", nodes=",".join(names), state_reason="None", batch_host=names[0],
                   gres_detail=[f"gpu:a100:{gpus}(IDX:0-{gpus - 1})"] * len(names),
                   job_resources={"nodes": ",".join(names), "allocated_cores": len(names), "allocated_hosts": len(names),
                                  "allocated_nodes": [dict(self.resources, nodename=name) for name in names]})

    def end(self, number):
        self.jobs[number].update(job_state="COMPLETED", nodes="", gres_detail=[])

    def obey(self):
        for job in self.jobs.values():  # those that were released before the last look
            if job["job_state"] == "PENDING" and job["priority"] > 0 and job["required_nodes"]:
                self.run(job)
        with open(self.orders) as orders:
            orders.seek(self.read)
            text = orders.read()
            lines = text[:text.rfind("\n") + 1]
            self.read += len(lines)
        for line in lines.splitlines():
            self.acts += 1
            words = line.split()
            if words[0] == "update":
                values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
                job = self.jobs[int(values["JobId"])]
                if "AdminComment" in values:
                    job["admin_comment"] = line.split("AdminComment=", 1)[1]
                if "TresPerNode" in values:
                    job.update(tasks=int(values["NumTasks"]), cpus=int(values["NumCPUs"]),
                               tres_per_node=values["TresPerNode"], required_nodes=values["ReqNodeList"])
                continue
            job = self.jobs[int(re.sub(r"\D", "", words[1]))]
            if words[0] == "release":
                job["priority"] = 1000
            elif words[0] == "hold":
                job["priority"] = 0
            elif words[0] == "requeuehold":
                shape = job["tres_per_node"]
                job["priority"] = 0
                job["restart_cnt"] += 1
                self.stop(job)
                job["tres_per_node"] = shape
        self.show()


class Reports:
    """Running jobs, which tell once a second how far they are."""

    def __init__(self, slurm, path):
        self.slurm = slurm
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(path))
        self.socket.setblocking(False)
        self.done, self.sent, self.stops, self.refused, self.why = {}, 0, 0, 0, ""

    def ask(self, path, body):
        """Posts a body and returns status and body of the answer, without sleeping."""
        text = json.dumps(body)
        self.socket.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                            f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
        answer, late = b"", time.monotonic() + 20
        while True:
            head, end, rest = answer.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            if end and length and len(rest) >= int(length[1]):
                return int(head.split(None, 2)[1]), rest
            try:
                more = self.socket.recv(65536)
                if not more:
                    raise ConnectionError("the controller has closed the connection")
                answer += more
            except BlockingIOError:
                if time.monotonic() > late:
                    raise TimeoutError("the controller did not answer a report in 20 s") from None

    def send(self):
        for number, job in list(self.slurm.jobs.items()):
            if job["job_state"] != "RUNNING":
                continue
            gpus = len(job["nodes"].split(",")) * int(job["tres_per_node"].rsplit(":", 1)[1])
            step = 2.0 / gpus ** 0.9
            done = self.done[number] = self.done.get(number, 0) + max(1, round(1 / step))
            body = {"iteration": done, "iterations": 2000 + 37 * number, "step_s": step, "gpus": gpus}
            status, text = self.ask(f"/v1/cluster/jobs/{number}/report", body)
            self.sent += 1
            if status != 200:
                self.refused += 1
                self.why = text.decode()
            elif json.loads(text).get("stop"):
                self.stops += 1
                self.slurm.end(number)


def processor_time(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS, (int(fields[13]) + int(fields[14])) / TICKS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "flyball")
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--budget", default="", help="default: three quarters of what all GPUs could draw")
    options = parser.parse_args()
    budget = options.budget or f"{options.nodes * GPUS * 300}W"
    with tempfile.TemporaryDirectory(prefix="flyball-controller-") as scratch:
        folder = pathlib.Path(scratch)
        slurm = Slurm(folder, options.jobs, options.nodes)
        environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")
        log = open(folder / "log", "w")
        controller = subprocess.Popen([options.program, "cluster", "run", "--budget", budget, "--socket",
                                       folder / "s", "--database", folder / "db"], env=environment, stdout=log,
                                      stderr=subprocess.STDOUT)
        try:
            while not (folder / "s").exists():
                if controller.poll() is not None:
                    return 1  # its log is printed below
                time.sleep(0.05)
            reports, status_of = Reports(slurm, folder / "s"), UnixConnection(folder / "s")
            print(f"{options.jobs} jobs, {options.nodes} nodes of {GPUS} GPUs, {budget}; jobs.json has "
                  f"{(folder / 'jobs.json').stat().st_size / 1e6:.1f} MB", flush=True)
            print(f"{'time s':>7} {'running':>8} {'acts':>6} {'reports':>8} {'cycle s':>8} {'own core %':>11} "
                  f"{'children %':>11}", flush=True)
            begin = last = looked = time.monotonic()
            before, cycles, shares, readings = processor_time(controller.pid), [], [], []
            while time.monotonic() - begin < options.seconds:
                time.sleep(1.0)
                slurm.obey()
                reports.send()
                now = time.monotonic()
                if now - looked >= 3:
                    looked = now
                    status_of.request("GET", "/v1/cluster/status")
                    status = json.loads(status_of.getresponse().read())
                    if status.get("trouble"):
                        print("trouble:", status["trouble"])
                    cycles.append(status["cycle_s"])
                    before_reading = time.thread_time()
                    json.loads((folder / "jobs.json").read_bytes())
                    readings.append(time.thread_time() - before_reading)
                if now - last >= 10:
                    used = processor_time(controller.pid)
                    own, children = (100 * (a - b) / (now - last) for a, b in zip(used, before))
                    shares.append((own, children))
                    running = sum(job["job_state"] == "RUNNING" for job in slurm.jobs.values())
                    print(f"{now - begin:7.1f} {running:8} {slurm.acts:6} {reports.sent:8} "
                          f"{statistics.median(cycles[-3:]):8.3f} {own:11.1f} {children:11.1f}", flush=True)
                    last, before = now, used
            print(f"cycle: median {statistics.median(cycles):.3f} s, longest {max(cycles):.3f} s; reports refused: "
                  f"{reports.refused} {reports.why}, jobs told to stop: {reports.stops}")
            own = statistics.median(share[0] for share in shares)
            print(f"the controller took {own:.1f} % of a core in the middle of {len(shares)} stretches of ten seconds; "
                  f"Python's json would take {100 * statistics.median(readings):.1f} % to read the list once a second")
        finally:
            controller.send_signal(signal.SIGTERM)
            try:
                controller.wait(20)
            except subprocess.TimeoutExpired:
                controller.kill()
            if controller.returncode != 0:
                print((folder / "log").read_text()[-3000:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
