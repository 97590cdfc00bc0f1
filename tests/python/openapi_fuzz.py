#!/usr/bin/env python3
"""Sends the planning server and the agent what their own OpenAPI documents allow and forbid, with schemathesis.

    make openapi-fuzz            # or scripts/openapi_fuzz [--examples N], which installs schemathesis

Fails when an answer has a status of 500 or more that the document does not name, or a status, type or body that it does
not describe, and when none of the bodies sent has registered a job or taken a lease. The server holds a job with all its
ranks and a plan, the agent simulated GPUs and a lease, so that requests get past "there is no such job". Event streams
and the schedule of Zeus's interface, which all wait, are left out; deleting the job comes last, by hand.
"""

import argparse
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
os.environ.setdefault("FLYBALL_BUILD", str(SOURCE / "build"))
sys.path.insert(0, str(Path(__file__).parent))
from simulated import machine  # noqa: E402  (wants FLYBALL_BUILD)

PROGRAM = Path(os.environ["FLYBALL_BUILD"]) / "flyball"
TOKEN = "0123456789abcdef0123456789abcdef"
CHECKS = "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance"


def ask(method, url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {TOKEN}"}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
        return json.loads(text) if text else None


def prepare(url):
    """A job of two stages with a plan, and one of Zeus's."""
    ask("POST", f"{url}/v1/jobs", {"id": "fuzz", "token": TOKEN, "stages": 2, "microbatches": 4})
    job = f"{url}/v1/jobs/fuzz"
    for rank in range(2):
        ask("POST", f"{job}/ranks", {"rank": rank, "dp_rank": 0, "pp_rank": rank, "tp_rank": 0})
        measurements = [
            {"instruction": name, "clock_mhz": clock, "time_s": time * 1410 / clock, "energy_j": 300 * time * clock / 1410}
            for name, time in (("forward", 0.010 + 0.001 * rank), ("backward", 0.020))
            for clock in (1410, 1305, 1200)
        ]
        ask("POST", f"{job}/measurements", {"rank": rank, "sequence": 0, "measurements": measurements})
        ask("POST", f"{job}/ranks/{rank}/profiled", {})
    assert ask("GET", f"{job}/ranks/0/schedule?wait_s=30")["version"] == 1


def fuzz(schemathesis, folder, document, url, parameters, left_out, examples):
    """schemathesis's exit status. `parameters` are path and query parameters that it is not to make up."""
    config = Path(folder) / "schemathesis.toml"
    config.write_text("[parameters]\n" + "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in parameters.items()))
    command = [schemathesis, "--config-file", config, "run", SOURCE / document, "--url", url, "-H",
               f"Authorization: Bearer {TOKEN}", "-c", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples",
               str(examples), "--request-timeout", "20"]
    for operation in left_out:
        command += ["--exclude-operation-id", operation]
    return subprocess.run(command, cwd=folder, check=False).returncode


def fuzz_server(schemathesis, folder, examples):
    agents = Path(folder) / "agents"
    agents.write_text(f"n1 {folder}/none.sock\n")  # a silent node
    server = subprocess.Popen(
        [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--database", f"{folder}/server.db", "--agents", agents, "--rate",
         "100000"],
        stdout=subprocess.PIPE, text=True,
    )
    try:
        url = server.stdout.readline().split()[-1]
        prepare(url)
        status = fuzz(schemathesis, folder, "docs/openapi.yaml", url,
                      {"path.job": "fuzz", "path.rank": 0, "path.node": "n1", "query.wait_s": 0.01},
                      ["getEvents", "getFleetEvents", "zeusGetSchedule", "deleteJob"], examples)
        if server.poll() is not None:
            print(f"the server has ended with {server.returncode}")
            return 1
        jobs = len(ask("GET", f"{url}/v1/jobs")["jobs"])
        ask("DELETE", f"{url}/v1/jobs/fuzz")
        print(f"{jobs - 1} jobs were registered")
        return status or (0 if jobs > 1 else 1)
    finally:
        server.terminate()
        server.wait(30)


def fuzz_agent(schemathesis, folder, examples):
    token = Path(folder) / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    with machine("--gpus", "2") as environment:
        environment["FLYBALL_SIM_PRIVILEGED"] = "1"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = Path(folder) / "agent.toml"
        config.write_text(f'socket = "{folder}/agent.sock"\nstate_dir = "{folder}/agent"\ntcp = "127.0.0.1:{port}"\n'
                          f'token_file = "{token}"\nzeusd_remote_hold = "30s"\n')
        agent = subprocess.Popen([PROGRAM, "agent", "--config", config], env=environment,
                                 stderr=open(f"{folder}/agent.log", "w"))
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + 60
            while True:
                try:
                    ask("GET", f"{url}/v1/leases")
                    break
                except OSError:
                    if agent.poll() is not None or time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
            # Of GPU 1 and of this connection, until it is closed: others may look at it, and change nothing.
            holder = http.client.HTTPConnection("127.0.0.1", port)
            holder.request("POST", "/v1/leases", json.dumps({"gpus": [1], "heartbeat_timeout_s": 60}),
                           {"Authorization": f"Bearer {TOKEN}"})
            answer = json.loads(holder.getresponse().read())
            lease = answer.get("id")
            if lease is None:
                print(f"the agent grants no lease: {answer}")
                return 1
            ended = threading.Event()
            missed = []

            def beat():  # however long the fuzzing takes on this machine
                try:
                    while not ended.wait(10):
                        holder.request("POST", f"/v1/leases/{lease}/heartbeat", None, {"Authorization": f"Bearer {TOKEN}"})
                        answer = holder.getresponse()
                        text = answer.read()
                        if answer.status != 200:
                            missed.append(f"{answer.status} {text}")
                except (OSError, http.client.HTTPException) as error:
                    missed.append(repr(error))

            beating = threading.Thread(target=beat)
            beating.start()
            try:
                status = fuzz(schemathesis, folder, "docs/openapi-agent.yaml", url, {"path.lease": lease, "path.gpu": 0, "query.gpu_ids": "0"},
                              ["streamPower", "zeusdStreamGpuPower", "zeusdStreamCpuPower"], examples)
            finally:
                ended.set()
                beating.join()
            if agent.poll() is not None:
                print(f"the agent has ended with {agent.returncode}: {Path(folder, 'agent.log').read_text()[-2000:]}")
                return 1
            if missed:
                print(f"{len(missed)} heartbeats of the lease failed, the first with {missed[0]}")
                return 1
            holder.request("DELETE", f"/v1/leases/{lease}", None, {"Authorization": f"Bearer {TOKEN}"})
            if holder.getresponse().status != 200:
                print("the lease that was held meanwhile is no longer there")
                return 1
            holder.close()
            granted = Path(folder, "agent.log").read_text().count("event=lease_granted")
            print(f"{granted - 1} leases were granted")
            return status or (0 if granted > 1 else 1)
        finally:
            agent.terminate()
            agent.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=100, help="most examples per operation (default 100)")
    parser.add_argument("--only", choices=["server", "agent"], help="one of the two")
    options = parser.parse_args()
    schemathesis = Path(sys.executable).with_name("schemathesis")
    if not schemathesis.exists():
        found = shutil.which("schemathesis")
        if found is None:
            print("skipped: schemathesis is not installed (pip install schemathesis)")
            return 77
        schemathesis = Path(found)
    status = 0
    for name, subject in (("server", fuzz_server), ("agent", fuzz_agent)):
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                status = subject(schemathesis, folder, options.examples) or status
    return status


if __name__ == "__main__":
    sys.exit(main())
