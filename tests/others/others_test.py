#!/usr/bin/env python3
"""Other people's programs, unmodified, on simulated GPUs: each runs as its user would run it, and what it says is compared
with what the simulated boards are set to.

Usage: others_test.py [--command WORDS] [--verbose]      (in a Python that has what tests/others/requirements.txt pins)

WORDS are the command that makes simulated machines: "build/flyball sim" (default) or "flyball-sim", from its wheel.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARIES = pathlib.Path(sys.executable).parent  # where pip has put the programs
COMMAND = [str(ROOT / "build" / "flyball"), "sim"]
# data/devices/h100-sxm.toml, as programs have to see it
NAME, MEMORY_MIB, LIMIT_W, IDLE_W = "NVIDIA H100 80GB HBM3", 81559, 700, 70
# What "forward" draws in the mean: of the time at the highest clock, 0.46 at 190 + 520 W, held at 700 W by the limit, and the
# rest at 190 + 400 W.
WORKING_W = 640.8


def run(words, environment=None, **options):
    done = subprocess.run([str(word) for word in words], env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Machine:
    """Two ideal boards, the environment in which programs see them, and what only the simulator knows."""

    def __init__(self, model="h100"):
        self.name = f"others-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        run([*COMMAND, "up", "--gpus", "2", "--model", model, "--ideal", "--name", self.name])
        shown = json.loads(run([*COMMAND, "env", "--name", self.name, "--format", "json"]))
        self.environment = {**os.environ, **shown, "FLYBALL_SIM_PRIVILEGED": "1", "NO_COLOR": "1", "COLUMNS": "100"}

    def down(self):
        run([*COMMAND, "down", "--name", self.name])

    def status(self):
        return json.loads(run([*COMMAND, "status", "--name", self.name, "--format", "json"]))["gpus"]

    @contextlib.contextmanager
    def load(self, gpu=0):
        """A process that computes on the GPU while the block runs. Yields its number."""
        words = [*COMMAND, "work", "--gpu", str(gpu), "--seconds", "600", "--name", self.name]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            while abs(self.status()[gpu]["sensed_power_w"] - WORKING_W) > 1:  # the sensor averages over a second
                assert process.poll() is None
            yield process.pid
        finally:
            process.kill()
            process.wait()

    def script(self, text):
        """What a Python script prints that sees the machine: the loader looks at the environment once."""
        return run([sys.executable, "-B", "-c", text], self.environment)


class Others(unittest.TestCase):
    def setUp(self):
        self.machine = Machine()
        self.addCleanup(self.machine.down)

    def program(self, name, *arguments, **options):
        return run([BINARIES / name, *arguments], self.machine.environment, **options)

    def test_nvitop(self):
        with self.machine.load() as pid:
            shown = self.program("nvitop", "--once", "--ascii")
        self.assertIn("flyball-sim", shown)
        boards = re.findall(r"(\d+)W / (\d+)W \| +(\S+) / (\S+) \| +(\d+)%", shown)
        self.assertEqual(len(boards), 2, shown)
        self.assertAlmostEqual(float(boards[0][0]), WORKING_W, delta=2)
        self.assertEqual(boards[0][1:], (str(LIMIT_W), "400.0MiB", "79.65GiB", "100"))
        self.assertEqual(boards[1], (str(IDLE_W), str(LIMIT_W), "0B", "79.65GiB", "0"))
        self.assertRegex(shown, rf"\| +0 +{pid} +C +\S+ +400\.0MiB +100 ")
        self.assertNotIn("ERROR", shown)

    def test_gpustat(self):
        with self.machine.load() as pid:
            shown = json.loads(self.program("gpustat", "--json"))
        self.assertIn("flyball-sim", shown["driver_version"])
        busy, idle = shown["gpus"]
        self.assertEqual([gpu["uuid"] for gpu in shown["gpus"]], [gpu["uuid"] for gpu in self.machine.status()])
        self.assertEqual((busy["name"], busy["memory.total"], busy["enforced.power.limit"]), (NAME, MEMORY_MIB, LIMIT_W))
        self.assertEqual((busy["utilization.gpu"], idle["utilization.gpu"]), (100, 0))
        self.assertAlmostEqual(busy["power.draw"], WORKING_W, delta=2)
        self.assertAlmostEqual(idle["power.draw"], IDLE_W, delta=1)
        self.assertEqual(idle["temperature.gpu"], 32)
        self.assertEqual([process["pid"] for process in busy["processes"]], [pid])
        self.assertEqual(idle["processes"], [])

    def test_py3nvml(self):
        shown = self.program("py3smi")
        self.assertRegex(shown, rf"{IDLE_W}W / {LIMIT_W}W \| +512MiB / {MEMORY_MIB}MiB \|")
        with self.machine.load():
            self.assertEqual(self.machine.script("import py3nvml; print(py3nvml.get_free_gpus())").strip(), "[False, True]")

    def test_nvidia_ml_py(self):
        shown = self.machine.script("""
import pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(1)
n.nvmlDeviceSetGpuLockedClocks(gpu, 1005, 1005)
n.nvmlDeviceSetPowerManagementLimit(gpu, 400000)
print(n.nvmlDeviceGetCount(), n.nvmlDeviceGetName(gpu), n.nvmlDeviceGetPowerManagementLimit(gpu),
      n.nvmlDeviceGetMaxClockInfo(gpu, n.NVML_CLOCK_SM), sep=", ")
""")
        self.assertEqual(shown.strip(), f"2, {NAME}, 400000, 1980")
        self.assertEqual(self.machine.status()[1]["locked"], "1005-1005")

    def test_power_profiles_of_blackwell(self):
        """The layouts and versions of NVIDIA's package: what it sets and reads has to be the same."""
        self.machine = Machine("b200")
        self.addCleanup(self.machine.down)
        shown = self.machine.script("""
from ctypes import byref
import pynvml as n
n.nvmlInit()
gpu = n.nvmlDeviceGetHandleByIndex(0)
info = n.c_nvmlWorkloadPowerProfileProfilesInfo_v1_t()
n.nvmlDeviceWorkloadPowerProfileGetProfilesInfo(gpu, byref(info))
wanted = n.c_nvmlWorkloadPowerProfileRequestedProfiles_v1_t()
wanted.requestedProfilesMask.mask[0] = 1 << n.NVML_POWER_PROFILE_MAX_Q
n.nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(gpu, byref(wanted))
current = n.c_nvmlWorkloadPowerProfileCurrentProfiles_v1_t()
n.nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(gpu, byref(current))
print(info.perfProfilesMask.mask[0], info.perfProfile[1].profileId, info.perfProfile[1].conflictingmask.mask[0],
      current.requestedProfilesMask.mask[0], current.enforcedProfilesMask.mask[0])
""")
        self.assertEqual(shown.split(), ["3", "1", "1", "2", "2"])

    def energy_of(self, measure):
        """Runs a script that measures what `work()` takes, and returns what it prints and what board 0 really took."""
        work = [*COMMAND, "work", "--gpu", "0", "--seconds", "3", "--name", self.machine.name]
        head = f"import subprocess\ndef work(): subprocess.run({work!r}, check=True, stdout=subprocess.DEVNULL)\n"
        before = self.machine.status()
        shown = self.machine.script(head + measure)
        after = self.machine.status()
        return shown, [end["true_energy_j"] - begin["true_energy_j"] for begin, end in zip(before, after)]

    def test_zeus(self):
        shown, true = self.energy_of("""
from zeus.monitor import ZeusMonitor
monitor = ZeusMonitor(gpu_indices=[0, 1], cpu_indices=[])
monitor.begin_window("work", sync_execution=False)
work()
measured = monitor.end_window("work", sync_execution=False)
print(measured.time, measured.gpu_energy[0], measured.gpu_energy[1])
""")
        time, busy, idle = map(float, shown.split()[-3:])
        # Around the window boards idle. Its counters move every 0.1 s, at most that much of the load is missed.
        work = true[0] - (true[1] / IDLE_W - 3) * IDLE_W
        self.assertAlmostEqual(busy, work + (time - 3) * IDLE_W, delta=0.2 * LIMIT_W)
        self.assertAlmostEqual(idle, time * IDLE_W, delta=0.2 * IDLE_W)

    def test_codecarbon(self):
        # CodeCarbon looks for GPUs of NVIDIA only where a program `nvidia-smi` runs.
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.symlink("/bin/true", os.path.join(folder.name, "nvidia-smi"))
        self.machine.environment["PATH"] = f"{folder.name}:{os.environ['PATH']}"
        shown, true = self.energy_of("""
import ctypes, json, time
from codecarbon import OfflineEmissionsTracker
library = ctypes.CDLL("libnvidia-ml.so.1")
def energies():
    joules, seconds = ctypes.c_double(), ctypes.c_double()
    for gpu in range(2):
        assert library.flyball_sim_true_energy(gpu, ctypes.byref(joules), ctypes.byref(seconds)) == 0
        yield joules.value
tracker = OfflineEmissionsTracker(country_iso_code="FRA", measure_power_secs=1, save_to_file=False, log_level="error")
tracker.start()
before = list(energies())
work()
time.sleep(2)
tracker.stop()
true = [end - begin for begin, end in zip(before, energies())]
data = tracker.final_emissions_data
print(json.dumps({"model": data.gpu_model, "count": data.gpu_count, "joules": data.gpu_energy * 3.6e6, "true": sum(true)}))
""")
        said = json.loads(shown.strip().splitlines()[-1])
        self.assertEqual((said["model"], said["count"]), (f"2 x {NAME}", 2))
        # It reads the counters each second and not at the end, and these move every 0.1 s: a second of idling may be missed.
        self.assertAlmostEqual(said["joules"], said["true"], delta=1.3 * 2 * IDLE_W)
        self.assertGreater(said["joules"], true[0] - true[1])  # the work, which the idling board did not do


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", type=shlex.split)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    COMMAND[:] = arguments.command or COMMAND
    unittest.main(argv=[sys.argv[0]], verbosity=2 if arguments.verbose else 1)


if __name__ == "__main__":
    main()
