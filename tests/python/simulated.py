"""Runs a test script inside an environment that sees simulated GPUs.

A script calls run(__file__, ["--gpus", "2", ...]) under __main__: the first time, this makes a simulated machine and
runs the script again in the environment that `flyball sim env` prints, since the loader reads LD_LIBRARY_PATH only
when a process starts; the second time, it runs the script's unittest cases. FLYBALL_PROGRAM names the program.
"""
import ctypes
import os
import subprocess
import sys
import unittest

INSIDE = "FLYBALL_TEST_INSIDE"


def run(script, up_arguments):
    if os.environ.get(INSIDE):
        unittest.main()
    program = os.environ["FLYBALL_PROGRAM"]
    name = f"python-{os.getpid()}"
    subprocess.run([program, "sim", "up", "--name", name, *up_arguments], check=True, stdout=subprocess.DEVNULL)
    try:
        line = 'lines=$("$0" sim env --name "$1") && eval "$lines" && exec "$2" -B "$3"'
        environment = dict(os.environ, **{INSIDE: "1", "FLYBALL_SIM_PRIVILEGED": "1"})
        inside = subprocess.run(["sh", "-c", line, program, name, sys.executable, script], env=environment)
    finally:
        subprocess.run([program, "sim", "down", "--name", name], check=True, stdout=subprocess.DEVNULL)
    sys.exit(inside.returncode)


class Run(ctypes.Structure):
    _fields_ = [("begin_s", ctypes.c_double), ("end_s", ctypes.c_double), ("energy_j", ctypes.c_double)]


class Workload:
    """The C interface of include/flyball/sim.h, in the same library as the vendor's."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.flyball_sim_error_text.restype = ctypes.c_char_p

    def _check(self, result):
        if result != 0:
            raise RuntimeError(self.library.flyball_sim_error_text(result).decode())

    def work(self, gpu, kind, seconds):
        run = Run()
        self._check(
            self.library.flyball_sim_work(
                ctypes.c_uint(gpu), kind.encode(), ctypes.c_double(seconds), ctypes.byref(run)
            )
        )
        return run

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
