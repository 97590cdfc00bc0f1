#!/usr/bin/env python3
"""An elastic job that reports over TLS by the C library until it finds a file: `reporting_job.py FOLDER BUILD`. With the
number of another job as a third argument it tries to report for that one instead, and writes how that went.
"""

import ctypes
import http.client
import json
import os
import pathlib
import ssl
import sys
import time

folder, build = pathlib.Path(sys.argv[1]), sys.argv[2]
own, token = os.environ["SLURM_JOB_ID"], os.environ["FLYBALL_JOB_TOKEN"]


def report(job, shown):
    trust = ssl.create_default_context(cafile=os.environ["FLYBALL_CLUSTER_CA"])
    connection = http.client.HTTPSConnection(os.environ["FLYBALL_CLUSTER"].removeprefix("https://"), timeout=20, context=trust)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {shown}"} if shown else {})}
    connection.request("POST", f"/v1/cluster/jobs/{job}/report", json.dumps({"iteration": 900, "gpus": 1}), headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def readable(path):
    try:
        return len(path.read_bytes()) > 0
    except OSError:
        return False


if len(sys.argv) > 3:
    other = sys.argv[3]
    while report(own, token)[0] == 404:  # the controller has not seen this job yet
        time.sleep(0.2)
    made_up = f"0.{token.split('.')[1]}"
    pid = int(folder.joinpath(f"{other}.pid").read_text())
    secrets = [pathlib.Path(f"/proc/{pid}/environ"), folder.parent / "job.secret"]
    tried = {"token": token, "own": report(own, token), "other": report(other, token), "without": report(other, ""),
             "made up": report(other, made_up), "readable": [str(path) for path in secrets if readable(path)]}
    folder.joinpath(f"{own}.json").write_text(json.dumps(tried))
    sys.exit(0)

library = ctypes.CDLL(f"{build}/lib/libflyball.so")
library.flyball_elastic_open.restype = ctypes.c_void_p
library.flyball_elastic_report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_double]
library.flyball_elastic_close.argtypes = [ctypes.c_void_p]
folder.joinpath(f"{own}.pid").write_text(str(os.getpid()))
job = library.flyball_elastic_open(0, None, None)
while not folder.joinpath("stop").exists():
    library.flyball_elastic_report(job, 5, 1000, 0.1)
    time.sleep(0.2)
library.flyball_elastic_close(job)
