"""Simulated GPUs for Python tests: a machine for a script, and the C interface of include/flyball/sim.h."""
import ctypes
import os
import subprocess
import sys
import uuid
from contextlib import contextmanager

PROGRAM = os.path.join(os.environ["FLYBALL_BUILD"], "flyball")


@contextmanager
def machine(*up_arguments):
    """Yields the environment in which a process that is started then sees the machine; takes it down afterwards."""
    name = f"python-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    subprocess.run([PROGRAM, "sim", "up", "--ideal", "--name", name, *up_arguments], check=True, stdout=subprocess.DEVNULL)
    try:
        lines = 'eval "$("$0" sim env --name "$1")" && exec env -0'
        seen = subprocess.run(["sh", "-c", lines, PROGRAM, name], check=True, capture_output=True, text=True).stdout
        yield dict(line.split("=", 1) for line in seen.split("\0") if line)
    finally:
        subprocess.run([PROGRAM, "sim", "down", "--name", name], check=True, stdout=subprocess.DEVNULL)


def run(script, up_arguments):
    """Runs a Python script in a shell that has seen `flyball sim up` and `flyball sim env`, as a user would.

    In a process of its own, since the loader reads LD_LIBRARY_PATH only when a process starts. Returns its exit status.
    """
    name = f"python-{os.getpid()}-{os.path.splitext(os.path.basename(script))[0]}"
    subprocess.run([PROGRAM, "sim", "up", "--ideal", "--name", name, *up_arguments], check=True, stdout=subprocess.DEVNULL)
    try:
        line = 'lines=$("$0" sim env --name "$1") && eval "$lines" && exec "$2" -B "$3"'
        environment = dict(os.environ, FLYBALL_SIM_PRIVILEGED="1")
        return subprocess.run(["sh", "-c", line, PROGRAM, name, sys.executable, script], env=environment).returncode
    finally:
        subprocess.run([PROGRAM, "sim", "down", "--name", name], check=True, stdout=subprocess.DEVNULL)


class Run(ctypes.Structure):
    _fields_ = [("begin_s", ctypes.c_double), ("end_s", ctypes.c_double), ("energy_j", ctypes.c_double)]


class Workload:
    """The C interface, in the same library as the vendor's."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.flyball_sim_error_text.restype = ctypes.c_char_p

    def _check(self, result):
        if result != 0:
            raise RuntimeError(self.library.flyball_sim_error_text(result).decode())

    def work(self, gpu, kind, seconds):
        done = Run()
        self._check(
            self.library.flyball_sim_work(
                ctypes.c_uint(gpu), kind.encode(), ctypes.c_double(seconds), ctypes.byref(done)
            )
        )
        return done

    def true_energy(self, gpu):
        energy = ctypes.c_double()
        time = ctypes.c_double()
        self._check(
            self.library.flyball_sim_true_energy(ctypes.c_uint(gpu), ctypes.byref(energy), ctypes.byref(time))
        )
        return energy.value, time.value

    def fault(self, gpu, text):
        self._check(self.library.flyball_sim_fault(ctypes.c_uint(gpu), text.encode()))

    def clear_faults(self, gpu):
        self._check(self.library.flyball_sim_clear_faults(ctypes.c_uint(gpu)))
