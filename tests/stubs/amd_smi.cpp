// A stand-in for libamd_smi with a socket of two boards, a processor among them, of the year that STUB_AMD_YEAR names
// (24 or 25). Its writes are refused unless STUB_AMD_ROOT is set.
#include "driver/amd_smi_abi.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace flyball {
namespace {

struct Board {
  bool is_gpu = true;
  // An agent asks from several threads.
  std::atomic<std::uint64_t> cap_microwatts = 750'000'000;
  std::atomic<std::uint64_t> energy_count = 0;
};
Board boards[3] = {{}, {false}, {}};

unsigned year() {
  const char* text = std::getenv("STUB_AMD_YEAR");
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : 25;
}
bool root() { return std::getenv("STUB_AMD_ROOT") != nullptr; }
bool is(AmdSmiProcessor processor, int board) { return processor == &boards[board]; }
Board& board(AmdSmiProcessor processor) { return *static_cast<Board*>(processor); }

}  // namespace

extern "C" {

AmdSmiStatus amdsmi_init(std::uint64_t) {
  if (std::getenv("STUB_AMD_HANGS") != nullptr) ::pause();
  return std::getenv("STUB_AMD_NO_KERNEL") != nullptr ? kAmdSmiDriverNotLoaded : kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_shut_down() { return kAmdSmiSuccess; }
AmdSmiStatus amdsmi_get_lib_version(AmdSmiVersion* version) {
  *version = {year(), 5, 1, 0, "stub"};
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_status_code_to_string(AmdSmiStatus, const char** text) {
  *text = "the stub says no";
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_socket_handles(std::uint32_t* count, AmdSmiSocket* sockets) {
  if (sockets != nullptr) *sockets = &boards;
  *count = 1;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_processor_handles(AmdSmiSocket, std::uint32_t* count, AmdSmiProcessor* processors) {
  for (std::uint32_t i = 0; processors != nullptr && i < 3; ++i) processors[i] = &boards[i];
  *count = 3;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_processor_type(AmdSmiProcessor processor, std::uint32_t* type) {
  *type = board(processor).is_gpu ? kAmdSmiProcessorGpu : 2;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_gpu_asic_info(AmdSmiProcessor, void* info) {
  std::strcpy(static_cast<char*>(info), "AMD Instinct MI300X");
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_gpu_device_uuid(AmdSmiProcessor processor, std::uint32_t* length, char* uuid) {
  if (*length < 38) return kAmdSmiInvalid;
  if (!is(processor, 0)) return kAmdSmiNotSupported;
  std::strcpy(uuid, "c4ff74a1-0000-1000-80ce-f19c57a2f31c");
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_gpu_device_bdf(AmdSmiProcessor processor, std::uint64_t* place) {
  *place = is(processor, 0) ? 0xc100 : (std::uint64_t{1} << 16 | 0xc6'0a);
  return kAmdSmiSuccess;
}
// Board 2 is older: it tells an average, and its library says of the rest that there is none.
AmdSmiStatus amdsmi_get_power_info(AmdSmiProcessor processor, void* power) {
  const std::uint32_t current = is(processor, 0) ? 412 : 0xffff;
  const std::uint32_t average = is(processor, 0) ? 0xffff'ffff : 91;
  if (year() < 25) {
    *static_cast<AmdSmiPower24*>(power) = {current, average};
  } else {
    *static_cast<AmdSmiPower25*>(power) = {is(processor, 0) ? 412u : ~std::uint64_t{0}, current, average};
  }
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_energy_count(AmdSmiProcessor processor, std::uint64_t* counter, float* unit,
                                     std::uint64_t* time) {
  if (!is(processor, 0)) return kAmdSmiNotSupported;
  *counter = board(processor).energy_count += 1'000'000;
  *unit = 15.3F;
  *time = 1;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_clk_freq(AmdSmiProcessor, std::uint32_t clock, AmdSmiFrequencies* list) {
  if (clock == kAmdSmiClockMemory) return kAmdSmiNotSupported;
  const std::uint64_t hertz[3] = {132'000'000, 2'100'000'000, 500'000'000};
  *list = {};
  list->count = 3;
  list->current = 1;
  std::memcpy(list->hertz, hertz, sizeof hertz);
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_temp_metric(AmdSmiProcessor, std::uint32_t sensor, std::uint32_t, std::int64_t* celsius) {
  if (sensor == kAmdSmiTemperatureEdge) return kAmdSmiNotSupported;
  *celsius = 41;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_gpu_activity(AmdSmiProcessor processor, AmdSmiUsage* usage) {
  *usage = {};
  usage->graphics = is(processor, 0) ? 37 : 0xffff;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_get_power_cap_info(AmdSmiProcessor processor, std::uint32_t, AmdSmiPowerCap* caps) {
  *caps = {board(processor).cap_microwatts, 750'000'000, 2100, 0, 750'000'000, {}};
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_set_power_cap(AmdSmiProcessor processor, std::uint32_t, std::uint64_t microwatts) {
  if (!root()) return kAmdSmiNoPermission;
  if (microwatts > 750'000'000) return kAmdSmiInvalid;
  board(processor).cap_microwatts = microwatts;
  return kAmdSmiSuccess;
}
// The test sees a range as the highest clock that the board takes from then on: in the power limit.
AmdSmiStatus amdsmi_set_gpu_clk_range(AmdSmiProcessor processor, std::uint64_t, std::uint64_t maximum, std::uint32_t) {
  if (!root()) return kAmdSmiNoPermission;
  board(processor).cap_microwatts = maximum * 1'000;
  return kAmdSmiSuccess;
}
AmdSmiStatus amdsmi_set_gpu_perf_level(AmdSmiProcessor processor, std::uint32_t level) {
  if (!root()) return kAmdSmiNoPermission;
  if (level != kAmdSmiPerformanceAuto) return kAmdSmiNotSupported;
  board(processor).cap_microwatts = 750'000'000;
  return kAmdSmiSuccess;
}

}  // extern "C"
}  // namespace flyball
