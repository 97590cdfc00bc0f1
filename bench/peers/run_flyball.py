"""Runs `flyball plan ... --format json` several times and writes the last document with what the runs took.

`command_seconds` is the processor time of each whole command, from the system's accounts of the child
(user and system, all threads), and `planning_seconds` what each says of its planning, by the wall clock.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import pipeline as pl


def run_once(command: list[str]) -> tuple[float, dict]:
    """The processor time in s, and the document."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        text = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise pl.InputError(f"{' '.join(command)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, json.loads(text)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9, help="how many (default 9)")
    parser.add_argument("--out", required=True)
    parser.add_argument("command", nargs="+", help="the program and its arguments, after --")
    args = parser.parse_args(argv)
    if args.runs < 1:
        parser.error("--runs must be positive")
    costs, documents = zip(*(run_once(args.command) for _ in range(args.runs)))
    document = documents[-1]
    document["command_seconds"] = costs
    document["planning_seconds"] = [each["stats"]["solve_seconds"] for each in documents]
    Path(args.out).write_text(json.dumps(document) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    pl.run_main(main)
