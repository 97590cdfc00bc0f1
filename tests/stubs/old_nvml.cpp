// A stand-in for an NVIDIA library of ten years ago: first versions of the calls only, no energy counter, no locked
// clocks, no clock lists of its second board, which will not even open.
#include <cstring>

#include "driver/nvml_abi.h"

namespace flyball {
namespace {

int initialised = 0;
// NOLINTNEXTLINE(performance-no-int-to-ptr): a number, as real handles may be
NvmlDevice handle(std::uintptr_t number) { return reinterpret_cast<NvmlDevice>(number); }

}  // namespace

extern "C" {

NvmlReturn nvmlInit() {
  ++initialised;
  return kNvmlSuccess;
}
NvmlReturn nvmlShutdown() { return --initialised >= 0 ? kNvmlSuccess : kNvmlErrorUninitialized; }
NvmlReturn nvmlDeviceGetCount(unsigned* count) {
  *count = 3;
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice* device) {
  if (index == 1) return kNvmlErrorGpuIsLost;
  *device = handle(index + 1);
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetName(NvmlDevice, char* name, unsigned length) {
  std::strncpy(name, "Tesla P100", length);
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetUUID(NvmlDevice device, char* uuid, unsigned length) {
  std::strncpy(uuid, device == handle(1) ? "GPU-old-0" : "GPU-old-2", length);
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetPciInfo(NvmlDevice, NvmlPciInfoShort* pci) {
  std::strncpy(pci->bus_id, "0000:3B:00.0", sizeof pci->bus_id);
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetPowerUsage(NvmlDevice device, unsigned* milliwatts) {
  if (device != handle(1)) return 777;
  *milliwatts = 31'415;
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetClockInfo(NvmlDevice, unsigned type, unsigned* mhz) {
  *mhz = type == kNvmlClockSm ? 1328 : 715;
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetTemperatureV(NvmlDevice, NvmlTemperature* temperature) {
  temperature->temperature = 44;
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDevice, unsigned long long* reasons) {
  *reasons = kNvmlReasonSwPowerCap | kNvmlReasonHwThermalSlowdown | kNvmlReasonSyncBoost;
  return kNvmlSuccess;
}
// More clocks than the room that a first question gives.
NvmlReturn nvmlDeviceGetSupportedMemoryClocks(NvmlDevice device, unsigned* count, unsigned* mhz) {
  if (device != handle(1)) return kNvmlErrorNotSupported;
  if (*count < 1) return kNvmlErrorInsufficientSize;
  *count = 1;
  mhz[0] = 715;
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetSupportedGraphicsClocks(NvmlDevice, unsigned memory_mhz, unsigned* count, unsigned* mhz) {
  if (memory_mhz != 715) return kNvmlErrorInvalidArgument;
  const unsigned room = *count;
  *count = 1000;
  if (room < 1000) return kNvmlErrorInsufficientSize;
  for (unsigned i = 0; i < 1000; ++i) mhz[i] = 1500 - i;
  return kNvmlSuccess;
}

}  // extern "C"
}  // namespace flyball
