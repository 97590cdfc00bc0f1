"""NVIDIA's own Python bindings, unmodified, on simulated GPUs; sim_test.py runs it."""
import os
import unittest

import pynvml
import simulated


class NvidiaMlPy(unittest.TestCase):
    def setUp(self):
        pynvml.nvmlInit()
        self.workload = simulated.Workload()
        self.gpu = pynvml.nvmlDeviceGetHandleByIndex(0)

    def tearDown(self):
        for index in range(2):
            self.workload.clear_faults(index)
        pynvml.nvmlShutdown()

    def test_what_is_there(self):
        self.assertEqual(pynvml.nvmlDeviceGetCount(), 2)
        self.assertIn("flyball-sim", pynvml.nvmlSystemGetDriverVersion())
        self.assertEqual(pynvml.nvmlDeviceGetName(self.gpu), "NVIDIA A100 80GB PCIe")
        uuid = pynvml.nvmlDeviceGetUUID(self.gpu)
        self.assertEqual(pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)), 0)
        bus_id = pynvml.nvmlDeviceGetPciInfo(self.gpu).busId
        self.assertEqual(pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)), 0)
        self.assertEqual(pynvml.nvmlDeviceGetArchitecture(self.gpu), pynvml.NVML_DEVICE_ARCH_AMPERE)
        self.assertEqual(pynvml.nvmlDeviceGetCudaComputeCapability(self.gpu), (8, 0))
        self.assertEqual(pynvml.nvmlDeviceGetMemoryInfo(self.gpu).total, 80 << 30)
        self.assertEqual(pynvml.nvmlDeviceGetMemoryInfo(self.gpu, version=pynvml.nvmlMemory_v2).total, 80 << 30)
        self.assertGreater(pynvml.nvmlDeviceGetTemperatureV(self.gpu, pynvml.NVML_TEMPERATURE_GPU), 20)
        self.assertEqual(
            pynvml.nvmlDeviceGetTemperature(self.gpu, pynvml.NVML_TEMPERATURE_GPU),
            pynvml.nvmlDeviceGetTemperatureV(self.gpu, pynvml.NVML_TEMPERATURE_GPU),
        )

    def test_clocks(self):
        memory = pynvml.nvmlDeviceGetSupportedMemoryClocks(self.gpu)
        self.assertEqual(memory, [1512])
        clocks = pynvml.nvmlDeviceGetSupportedGraphicsClocks(self.gpu, memory[0])
        self.assertEqual(clocks, list(range(1410, 209, -15)))
        pynvml.nvmlDeviceSetGpuLockedClocks(self.gpu, 1005, 1005)
        self.assertEqual(pynvml.nvmlDeviceGetClockInfo(self.gpu, pynvml.NVML_CLOCK_SM), 1005)
        slow = self.workload.work(0, "forward", 1.0)
        pynvml.nvmlDeviceResetGpuLockedClocks(self.gpu)
        fast = self.workload.work(0, "forward", 1.0)
        # Half of the work goes with the clock.
        self.assertAlmostEqual(slow.end_s - slow.begin_s, 0.5 * 1410 / 1005 + 0.5, 6)
        self.assertAlmostEqual(fast.end_s - fast.begin_s, 1.0, 6)
        self.assertLess(slow.energy_j, fast.energy_j)

    def test_power_and_energy(self):
        before = pynvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu)
        true_before, _ = self.workload.true_energy(0)
        self.workload.work(0, "backward", 40.0)
        after = pynvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu)
        true_after, _ = self.workload.true_energy(0)
        self.assertAlmostEqual((after - before) / 1e3 / (true_after - true_before), 1.0, delta=0.01)
        least, most = pynvml.nvmlDeviceGetPowerManagementLimitConstraints(self.gpu)
        self.assertEqual((least, most), (150000, 300000))
        values = pynvml.nvmlDeviceGetFieldValues(
            self.gpu, [pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION]
        )
        self.assertEqual(values[0].nvmlReturn, pynvml.NVML_SUCCESS)
        self.assertTrue(44900 <= values[0].value.uiVal <= 300100)  # readings jitter
        self.assertGreaterEqual(values[1].value.ullVal, after)

    def test_processes(self):
        self.workload.work(1, "forward", 0.1)
        other = pynvml.nvmlDeviceGetHandleByIndex(1)
        pids = [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(other)]
        self.assertIn(os.getpid(), pids)

    def test_errors_are_the_vendors(self):
        with self.assertRaises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceSetGpuLockedClocks(self.gpu, 5000, 6000)
        with self.assertRaises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetTopologyNearestGpus(self.gpu, 0)
        self.workload.fault(0, "error:nvmlDeviceSetGpuLockedClocks=4")
        with self.assertRaises(pynvml.NVMLError_NoPermission):
            pynvml.nvmlDeviceSetGpuLockedClocks(self.gpu, 1005, 1005)
        self.workload.fault(0, "counter-missing")
        with self.assertRaises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu)
        self.workload.fault(0, "lost")
        with self.assertRaises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetPowerUsage(self.gpu)


if __name__ == "__main__":
    unittest.main()
