#!/usr/bin/env python3
"""Sends the planning server what its own OpenAPI document allows and forbids, with schemathesis.

    make openapi-fuzz            # or scripts/openapi_fuzz [--examples N], which installs schemathesis

Fails when an answer has a status of 500 or more, or a status, type or body that the document does not describe. The
server holds a job with all its ranks and a plan, so that requests get past "there is no such job". Event streams and
the schedule of Zeus's interface, which both wait, are left out; deleting the job comes last, by hand.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("FLYBALL_BUILD", SOURCE / "build")) / "flyball"
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=100, help="most examples per operation (default 100)")
    options = parser.parse_args()
    schemathesis = Path(sys.executable).with_name("schemathesis")
    if not schemathesis.exists():
        found = shutil.which("schemathesis")
        if found is None:
            print("skipped: schemathesis is not installed (pip install schemathesis)")
            return 77
        schemathesis = Path(found)
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--database", f"{folder}/server.db", "--rate", "100000"],
            stdout=subprocess.PIPE, text=True,
        )
        try:
            url = server.stdout.readline().split()[-1]
            prepare(url)
            config = Path(folder) / "schemathesis.toml"
            config.write_text('[parameters]\n"path.job" = "fuzz"\n"path.rank" = 0\n"query.wait_s" = 0.01\n')
            ran = subprocess.run(
                [schemathesis, "--config-file", config, "run", SOURCE / "docs/openapi.yaml", "--url", url,
                 "-H", f"Authorization: Bearer {TOKEN}", "-c", CHECKS, "--phases", "examples,coverage,fuzzing",
                 "--max-examples", str(options.examples), "--request-timeout", "20",
                 "--exclude-operation-id", "getEvents", "--exclude-operation-id", "zeusGetSchedule",
                 "--exclude-operation-id", "deleteJob"],
                cwd=folder, check=False,
            )
            ask("DELETE", f"{url}/v1/jobs/fuzz")
            if server.poll() is not None:
                print(f"the server has ended with {server.returncode}")
                return 1
            return ran.returncode
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    sys.exit(main())
