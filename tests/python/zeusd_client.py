"""Zeus, unmodified, with the agent as its daemon; zeusd_client_test.py runs it on simulated GPUs."""
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from zeus.device import get_gpus
from zeus.device.exception import ZeusdError
from zeus.device.gpu.nvidia import ZeusdNVIDIAGPU
from zeus.monitor.power_streaming import PowerStreamingClient
from zeus.utils.zeusd import ZeusdClient, ZeusdConfig

PROGRAM = os.path.join(os.environ["FLYBALL_BUILD"], "flyball")
SOCKET = os.environ["ZEUSD_SOCK_PATH"]

SETS_AND_WAITS = """
import sys, time
from zeus.utils.zeusd import ZeusdClient
client = ZeusdClient()
client.set_gpu_locked_clocks([0, 1], 210, 1005)
client.set_power_limit([1], 200000)
print("set", flush=True)
time.sleep(600)
"""


def node():
    """The agent's own view."""
    out = subprocess.run([PROGRAM, "top", "--agent", SOCKET, "--once", "--format", "json"], check=True, capture_output=True)
    import json

    return json.loads(out.stdout)["gpus"]


def until(holds, what):
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within 30 s: {what}")
        time.sleep(0.01)


class Zeusd(unittest.TestCase):
    def setUp(self):
        self.client = ZeusdClient()

    def test_discovery(self):
        self.assertEqual([gpu.id for gpu in self.client.gpus], [0, 1])
        self.assertEqual(self.client.gpus[0].name, "NVIDIA A100 80GB PCIe")
        self.assertEqual([(cpu.id, cpu.dram_available) for cpu in self.client.cpus], [(0, True)])
        self.assertTrue(self.client.can_read_gpu and self.client.can_control_gpu and self.client.can_read_cpu)
        self.assertFalse(self.client.auth_required)
        self.assertAlmostEqual(self.client.get_time(), time.time(), delta=5)

    def test_reading(self):
        first = self.client.get_gpu_energy([0, 1])
        until(lambda: self.client.get_gpu_energy([0])[0] > first[0], "energy grows")
        power = self.client.get_gpu_power()
        self.assertEqual(sorted(power.power_mw), [0, 1])
        self.assertTrue(all(40_000 <= milliwatts <= 300_000 for milliwatts in power.power_mw.values()))
        self.assertEqual(self.client.get_power_limit([0]), {0: 300_000})
        self.assertEqual(self.client.get_power_limit_constraints([1]), {1: (150_000, 300_000)})
        cpu = self.client.get_cpu_energy()
        self.assertTrue(cpu[0].cpu_energy_uj > 0 and cpu[0].dram_energy_uj > 0)
        self.assertEqual(self.client.get_cpu_energy(dram=False)[0].dram_energy_uj, None)
        self.assertTrue(self.client.get_cpu_power().power_mw[0].cpu_mw > 0)

    def test_setting_and_resetting(self):
        gpus = get_gpus()
        self.assertIsInstance(gpus.gpus[0], ZeusdNVIDIAGPU)
        gpus.set_gpu_locked_clocks(0, 210, 1005)
        gpus.set_power_management_limit(0, 200_000)
        self.assertEqual(gpus.get_power_management_limit(0), 200_000)
        lease = node()[0]["lease"]
        self.assertEqual(lease["holder"]["pid"], os.getpid())
        self.assertEqual(lease["settings"][0]["sm_clocks_mhz"], {"minimum": 210.0, "maximum": 1005.0})
        gpus.reset_gpu_locked_clocks(0)
        gpus.reset_power_management_limit(0)
        self.assertEqual(gpus.get_power_management_limit(0), 300_000)
        until(lambda: node()[0]["lease"] is None, "the lease ends with its last setting")
        gpus.set_persistence_mode(0, True)
        self.assertEqual(self.client.get_persistence_mode([0]), {0: True})

    def test_settings_without_waiting(self):
        self.client.set_power_limit([0, 1], 250_000, block=False)
        until(lambda: self.client.get_power_limit() == {0: 250_000, 1: 250_000}, "limits are set")
        self.client.set_power_limit([0, 1], 300_000)

    def test_errors(self):
        for call in (
            lambda: self.client.set_gpu_locked_clocks([9], 210, 1005),
            lambda: self.client.set_power_limit([0], 1),
            lambda: self.client.get_gpu_energy([]),
        ):
            with self.assertRaises(ZeusdError):
                call()

    def test_a_killed_program_leaves_nothing_behind(self):
        child = subprocess.Popen([sys.executable, "-c", SETS_AND_WAITS], stdout=subprocess.PIPE, text=True)
        self.assertEqual(child.stdout.readline(), "set\n")
        self.assertEqual(self.client.get_power_limit([1]), {1: 200_000})
        with self.assertRaises(ZeusdError):
            ZeusdClient().get_gpu_energy([9])
        child.kill()
        child.wait()
        child.stdout.close()
        until(lambda: self.client.get_power_limit([1]) == {1: 300_000}, "the limit is back")
        until(lambda: all(gpu["lease"] is None for gpu in node()), "no leases")

    def test_streaming(self):
        stream = PowerStreamingClient([ZeusdConfig.uds(SOCKET)])
        try:
            until(lambda: stream.get_power().get(SOCKET) is not None, "a reading arrives")
            until(lambda: sorted(stream.get_power()[SOCKET].gpu_power_w) == [0, 1], "from both GPUs")
            until(lambda: 0 in stream.get_power()[SOCKET].cpu_power_w, "and the processor")
            reading = stream.get_power()[SOCKET]
            self.assertTrue(40 <= reading.gpu_power_w[0] <= 300)
            self.assertAlmostEqual(reading.timestamp_s, time.time(), delta=30)
        finally:
            threading.Thread(target=stream.stop, daemon=True).start()


if __name__ == "__main__":
    unittest.main()
