"""Zeus, unmodified, measures and throttles simulated GPUs; sim_test.py runs it."""
import threading
import unittest
import warnings

import simulated
from zeus.device import get_gpus
from zeus.device.gpu.common import ZeusGPUNoPermissionError
from zeus.monitor import ZeusMonitor


class Zeus(unittest.TestCase):
    def setUp(self):
        self.workload = simulated.Workload()

    def tearDown(self):
        for index in range(2):
            self.workload.clear_faults(index)

    def test_monitor_sees_the_true_energy(self):
        monitor = ZeusMonitor(gpu_indices=[0, 1], cpu_indices=[])
        before = [self.workload.true_energy(gpu)[0] for gpu in (0, 1)]
        monitor.begin_window("work", sync_execution=False)
        threads = [threading.Thread(target=self.workload.work, args=(gpu, kind, 40.0))
                   for gpu, kind in ((0, "forward"), (1, "backward"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        measured = monitor.end_window("work", sync_execution=False)
        for gpu in (0, 1):
            true = self.workload.true_energy(gpu)[0] - before[gpu]
            self.assertAlmostEqual(measured.gpu_energy[gpu] / true, 1.0, delta=0.01)

    def test_gpu_controls(self):
        gpus = get_gpus()
        self.assertEqual(len(gpus), 2)
        self.assertEqual(gpus.get_name(0), "NVIDIA A100 80GB PCIe")
        memory = max(gpus.get_supported_memory_clocks(0))
        clocks = gpus.get_supported_graphics_clocks(0, memory)
        self.assertEqual((max(clocks), min(clocks)), (1410, 210))
        gpus.set_gpu_locked_clocks(0, 1005, 1005)
        slow = self.workload.work(0, "forward", 1.0)
        gpus.reset_gpu_locked_clocks(0)
        self.assertAlmostEqual(slow.end_s - slow.begin_s, 0.5 * 1410 / 1005 + 0.5, 6)
        self.assertEqual(gpus.get_power_management_limit_constraints(0), (150000, 300000))
        gpus.set_power_management_limit(0, 200000)
        self.assertEqual(gpus.get_power_management_limit(0), 200000)
        gpus.reset_power_management_limit(0)
        self.assertEqual(gpus.get_power_management_limit(0), 300000)
        self.assertTrue(gpus.supports_get_total_energy_consumption(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertTrue(44900 <= gpus.get_instant_power_usage(0) <= 300100)  # readings jitter

    def test_errors_are_told_apart(self):
        self.workload.fault(0, "error:nvmlDeviceSetGpuLockedClocks=4")
        with self.assertRaises(ZeusGPUNoPermissionError):
            get_gpus().set_gpu_locked_clocks(0, 1005, 1005)


if __name__ == "__main__":
    unittest.main()
