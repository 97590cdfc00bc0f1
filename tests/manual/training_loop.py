"""Writes loop.json and loop.csv: twenty seconds of a training loop of five kernels in a fixed order on a GPU whose energy
counter changes every 20 ms. The kernels draw 330, 120, 290, 140 and 180 W, and 60 W are drawn between two steps; the
host makes the GPU wait for 0 to 3 ms."""
import json

KERNELS = [("layer_0/dense/MatMul", 3.0, 330), ("layer_0/Gelu", 1.5, 120), ("layer_1/dense/MatMul", 2.5, 290),
           ("layer_1/Gelu", 1.5, 140), ("Adam/update", 4.0, 180)]
IDLE_W = 60
PERIOD_MS = 20.0

events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "GPU:0"}}]
stretches = []  # begin in ms, length in ms, W
now = 0.0
step = 0
while now < 20_000:
    for name, length, watts in KERNELS:
        events.append({"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 1000 * now, "dur": 1000 * length})
        stretches.append((now, length, watts))
        now += length
    wait = step * 7 % 13 / 4
    stretches.append((now, wait, IDLE_W))
    now += wait
    step += 1

rows = ["timestamp,device,energy_j"]
joules = 0.0
reading = 0
for begin, length, watts in stretches:
    while reading * PERIOD_MS <= begin + length:
        rows.append(f"{reading * PERIOD_MS / 1000:.3f},GPU:0,"
                    f"{joules + watts * (reading * PERIOD_MS - begin) / 1000:.6f}")
        reading += 1
    joules += watts * length / 1000

with open("loop.json", "w", encoding="utf-8") as file:
    json.dump({"traceEvents": events}, file)
with open("loop.csv", "w", encoding="utf-8") as file:
    file.write("\n".join(rows) + "\n")
