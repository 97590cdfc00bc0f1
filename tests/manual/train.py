"""Stands for the reader's own training where the documents' commands run one: works for a moment, as long as the power's
recording wants, and writes the trace that a framework's profiler would."""

import json
import subprocess
import time

events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}}]
for layer in range(3):
    begin = time.time()
    subprocess.run(["flyball", "sim", "work", "--seconds", "0.1"], check=False, capture_output=True)
    events.append({"ph": "X", "name": f"m/layer_{layer}/dense/MatMul", "pid": 1, "tid": 1, "ts": begin * 1e6,
                   "dur": (time.time() - begin) * 1e6})
with open("trace.json", "w", encoding="utf-8") as file:
    json.dump({"traceEvents": events}, file)
