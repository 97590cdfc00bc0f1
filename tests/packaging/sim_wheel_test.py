#!/usr/bin/env python3
"""What the wheel flyball-sim packs works from where it is laid out: the command, the libraries beside it, and nothing of
others that would have to be installed.

Usage: sim_wheel_test.py BUILD
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
# glibc's own, which every Linux of its kind has.
SYSTEM = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}


class SimWheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([ROOT / "scripts" / "sim_wheel", "--build", BUILD, "--layout-only"], check=True, stdout=subprocess.DEVNULL)
        cls.folder = BUILD / "sim-wheel"
        cls.environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(cls.folder), "PYTHONDONTWRITEBYTECODE": "1",
                           "FLYBALL_SIM": f"sim-wheel-{os.getpid()}", "FLYBALL_SIM_PRIVILEGED": "1"}

    def command(self, *words, status=0):
        """What flyball-sim says, called as the console script of the wheel calls it."""
        call = "import sys, flyball_sim; sys.argv[0] = 'flyball-sim'; flyball_sim.main()"
        done = subprocess.run([sys.executable, "-c", call, *words], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_needs_nothing_of_others(self):
        for name in "bin/flyball-sim", "lib/flyball/sim/libnvidia-ml.so.1", "lib/flyball/sim/cuda/libcuda.so.1":
            shown = subprocess.run(["readelf", "--dynamic", self.folder / "flyball_sim" / "_program" / name], check=True,
                                   text=True, stdout=subprocess.PIPE).stdout
            needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", shown))
            self.assertTrue(needed, name)
            self.assertLessEqual(needed, SYSTEM, name)

    def test_the_words_of_the_manual(self):
        self.assertIn('eval "$(flyball-sim env)"', self.command("up", "--gpus", "4", "--model", "h200", "--ideal"))
        self.addCleanup(self.command, "down")
        seen = json.loads(self.command("env", "--format", "json"))
        self.assertEqual(seen["LD_LIBRARY_PATH"], str(self.folder / "flyball_sim/_program/lib/flyball/sim"))
        # A process that knows nothing of this: NVIDIA's library by its name.
        look = ("import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1'); c = ctypes.c_uint(); "
                "assert n.nvmlInit_v2() == 0 and n.nvmlDeviceGetCount_v2(ctypes.byref(c)) == 0; print(c.value)")
        shown = subprocess.run([sys.executable, "-c", look], env={**self.environment, **seen}, text=True, check=True,
                               stdout=subprocess.PIPE).stdout
        self.assertEqual(shown.strip(), "4")
        self.command("fault", "--gpu", "1", "lost")
        gpus = json.loads(self.command("status", "--format", "json"))["gpus"]
        self.assertEqual([gpu["name"] for gpu in gpus], ["NVIDIA H200"] * 4)
        self.assertEqual([gpu["faults"] for gpu in gpus], [[], ["lost"], [], []])
        self.assertIn("3.0000 s", self.command("work", "--gpu", "0", "--seconds", "3"))

    def test_a_tree_of_processors_energy(self):
        """The program starts itself again for that, under its own name."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tree = pathlib.Path(folder.name) / "powercap"
        self.command("up", "--gpus", "1", "--powercap", str(tree))
        self.assertTrue((tree / "intel-rapl:0" / "energy_uj").exists())
        self.command("down")
        self.assertFalse(tree.exists())

    def test_errors_name_this_command(self):
        self.assertIn("bring it up with: flyball-sim up", self.command("status", status=2))
        self.assertIn("see: flyball-sim up --help", self.command("up", "--modle", "h100", status=2))
        self.assertIn("known are", self.command("up", "--model", "h1000", status=2))
        for command in "up", "down", "status", "env", "work", "fault":
            self.assertNotIn("flyball sim", self.command(command, "--help"))


if __name__ == "__main__":
    unittest.main()
