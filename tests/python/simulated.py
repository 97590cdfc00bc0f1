"""Simulated machines for the tests: `flyball sim up` under a name of its own, its library loaded into this process."""

import os
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path

BUILD = Path(os.environ.get("FLYBALL_BUILD", "build"))
PROGRAM = str(BUILD / "flyball")
SIMULATION = str(BUILD / "sim")


def flyball(*arguments, check=True, **options):
    return subprocess.run([PROGRAM, *arguments], check=check, capture_output=True, text=True, timeout=120, **options)


@contextmanager
def machine(*options):
    """Yields the environment in which a program sees the machine; takes the machine down afterwards."""
    name = f"python-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    environment = {**os.environ, "FLYBALL_SIM": name, "LD_LIBRARY_PATH": SIMULATION,
                   "FLYBALL_POWERCAP_ROOT": f"/dev/shm/flyball-{name}-powercap"}
    if "--powercap" in options:
        where = options.index("--powercap")
        options = (*options[:where + 1], environment["FLYBALL_POWERCAP_ROOT"], *options[where + 1:])
    flyball("sim", "up", "--name", name, *options)
    try:
        yield environment
    finally:
        flyball("sim", "down", "--name", name, check=False)
