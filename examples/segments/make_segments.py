#!/usr/bin/env python3
"""Writes the segments of this folder. Their numbers are made up: they have the form of what Kareus measures, no more.

A segment computes for a time that falls with the clock and rises with the SMs that communication takes from it; what of
the communication does not fit beside the computation is waited for. Computing draws 90 W and more by the clock's cube,
waiting 80 W.
"""

import json
import pathlib

CLOCKS = [1410, 1290, 1170, 1050]  # MHz
SETTINGS = [(kernel, sm) for kernel in ("norm_0", "rope_0") for sm in (6, 12, 21)]
SEGMENTS = {  # computation and communication at the highest clock in ms, how much of the window each kernel leaves
    "fwd_attn": (0.62, 0.30, {"norm_0": 0.75, "rope_0": 0.55}),
    "fwd_mlp": (0.81, 0.30, {"norm_0": 0.60, "rope_0": 0.80}),
    "bwd_attn": (1.30, 0.42, {"norm_0": 0.70, "rope_0": 0.60}),
    "bwd_mlp": (1.58, 0.42, {"norm_0": 0.65, "rope_0": 0.85}),
}


def row(clock: int, computing: float, waiting: float = 0.0, **setting: str | int) -> str:
    joules = 1e-3 * (computing * (90.0 + 230.0 * (clock / CLOCKS[0]) ** 3) + waiting * 80.0)
    seconds = 1e-3 * (computing + waiting)
    return json.dumps({"freq": clock, **setting, "time_s": round(seconds, 8), "energy_j": round(joules, 6)})


def main() -> None:
    folder = pathlib.Path(__file__).parent
    for name, (compute, transfer, share) in SEGMENTS.items():
        rows = []
        for clock in CLOCKS:
            for kernel, sm in SETTINGS:
                computing = compute * (CLOCKS[0] / clock) ** 0.9 * (1.0 + sm / 108.0)
                waiting = max(0.0, transfer * (1.0 + 6.0 / sm) - share[kernel] * computing)
                rows.append(row(clock, computing, waiting, overlap_start=kernel, overlap_end="none", sm=sm, block=1024))
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for name, milliseconds in {"embedding": 0.9, "output": 2.6}.items():
        rows = [row(clock, milliseconds * (CLOCKS[0] / clock) ** 0.9) for clock in CLOCKS]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
