"""Simulated NVIDIA GPUs. The command `flyball-sim` makes them; this module says where their program and libraries are."""

import os
import sys
from pathlib import Path

_PROGRAM = Path(__file__).parent / "_program"


def program() -> str:
    """The path of the program."""
    return str(_PROGRAM / "bin" / "flyball-sim")


def library_folder() -> str:
    """The folder of libnvidia-ml.so.1, which LD_LIBRARY_PATH has to name before a program starts that is to see the
    simulated GPUs."""
    return str(_PROGRAM / "lib" / "flyball" / "sim")


def main() -> None:
    """The command `flyball-sim`: this process becomes the program, and has its signals, terminal and exit status."""
    try:
        os.execv(program(), ["flyball-sim", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"flyball-sim: error: cannot run {program()}: {error.strerror}")
