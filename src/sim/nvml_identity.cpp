// The calls of the simulated vendor library that tell what a device is, and which processes use it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "base/monotonic_time.h"
#include "sim/nvml_calls.h"

namespace flyball {
namespace {

constexpr std::uint64_t kMebibyte = 1'048'576;
// What the driver keeps for itself, and what a process's context takes.
constexpr std::uint64_t kReservedMemory = 512 * kMebibyte;
constexpr std::uint64_t kContextMemory = 400 * kMebibyte;
constexpr unsigned kNoInstance = 0xFFFFFFFF;

unsigned process_count(const BoardState& state) {
  return static_cast<unsigned>(std::count_if(state.processes.begin(), state.processes.end(),
                                             [](const SimProcess& process) { return process.pid != 0; }));
}

NvmlReturn unsupported(NvmlDevice device, const char* call) {
  return on_state(device, call, [](const BoardSpec&, const BoardState&) { return kNvmlErrorNotSupported; });
}

// None of the simulated boards encodes or decodes videos. The period is what drivers answer.
NvmlReturn give_no_video(NvmlDevice device, const char* call, unsigned* percent, unsigned* period_us) {
  constexpr unsigned kPeriod = 167'000;
  return on_state(device, call, [&](const BoardSpec&, const BoardState&) -> NvmlReturn {
    if (percent == nullptr || period_us == nullptr) return kNvmlErrorInvalidArgument;
    *percent = 0;
    *period_us = kPeriod;
    return kNvmlSuccess;
  });
}

void describe_pci(const BoardSpec& spec, NvmlPciInfo& pci) {
  pci = {};
  std::snprintf(pci.bus_id_short, sizeof(pci.bus_id_short), "%04X:%02X:00.0", spec.pci_domain & 0xFFFFu,
                spec.pci_bus & 0xFFu);
  std::snprintf(pci.bus_id, sizeof(pci.bus_id), "%08X:%02X:00.0", spec.pci_domain, spec.pci_bus & 0xFFu);
  pci.domain = spec.pci_domain;
  pci.bus = spec.pci_bus;
  pci.device = 0;
  pci.pci_device_id = spec.pci_device_id;
}

NvmlReturn give_short_pci(NvmlDevice device, const char* call, NvmlPciInfoShort* pci) {
  return on_state(device, call, [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
    if (pci == nullptr) return kNvmlErrorInvalidArgument;
    NvmlPciInfo full;
    describe_pci(spec, full);
    *pci = {};
    std::memcpy(pci->bus_id, full.bus_id_short, sizeof(pci->bus_id));
    pci->domain = full.domain;
    pci->bus = full.bus;
    pci->pci_device_id = full.pci_device_id;
    return kNvmlSuccess;
  });
}

// Compute processes in the layout of either version of the call.
template <class Process>
NvmlReturn give_processes(NvmlDevice device, const char* call, unsigned* count, Process* processes) {
  return on_state(device, call, [&](const BoardSpec&, const BoardState& state) -> NvmlReturn {
    if (count == nullptr) return kNvmlErrorInvalidArgument;
    const unsigned room = processes == nullptr ? 0 : *count;
    *count = process_count(state);
    if (room < *count) return kNvmlErrorInsufficientSize;
    for (const SimProcess& process : state.processes) {
      if (process.pid == 0) continue;
      Process& out = *processes++;
      out.pid = static_cast<unsigned>(process.pid);
      out.used_memory = kContextMemory;
      if constexpr (std::is_same_v<Process, NvmlProcess>) out.gpu_instance = out.compute_instance = kNoInstance;
    }
    return kNvmlSuccess;
  });
}

// None of the simulated boards draws pictures.
NvmlReturn give_no_processes(NvmlDevice device, const char* call, unsigned* count) {
  return give(device, call, count, [](const BoardSpec&, const BoardState&) { return 0u; });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the vendor's names
extern "C" {

NvmlReturn nvmlDeviceGetIndex(NvmlDevice device, unsigned* index) {
  return give(device, "nvmlDeviceGetIndex", index, [&](auto&, auto&) { return device->index; });
}
NvmlReturn nvmlDeviceGetMinorNumber(NvmlDevice device, unsigned* minor) {
  return give(device, "nvmlDeviceGetMinorNumber", minor, [&](auto&, auto&) { return device->index; });
}
NvmlReturn nvmlDeviceGetName(NvmlDevice device, char* name, unsigned length) {
  return give_name(device, "nvmlDeviceGetName", name, length, [](const BoardSpec& spec) { return spec.product; });
}
NvmlReturn nvmlDeviceGetUUID(NvmlDevice device, char* uuid, unsigned length) {
  return give_name(device, "nvmlDeviceGetUUID", uuid, length, [](const BoardSpec& spec) { return spec.uuid; });
}
NvmlReturn nvmlDeviceGetSerial(NvmlDevice device, char* serial, unsigned length) {
  return give_name(device, "nvmlDeviceGetSerial", serial, length, [](const BoardSpec& spec) { return spec.serial; });
}
NvmlReturn nvmlDeviceGetVbiosVersion(NvmlDevice device, char* version, unsigned length) {
  return give_name(device, "nvmlDeviceGetVbiosVersion", version, length,
                   [](const BoardSpec&) { return "00.00.00.00.00"; });
}
NvmlReturn nvmlDeviceGetPciInfo(NvmlDevice device, NvmlPciInfoShort* pci) {
  return give_short_pci(device, "nvmlDeviceGetPciInfo", pci);
}
NvmlReturn nvmlDeviceGetPciInfo_v2(NvmlDevice device, NvmlPciInfoShort* pci) {
  return give_short_pci(device, "nvmlDeviceGetPciInfo_v2", pci);
}
NvmlReturn nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo* pci) {
  return on_state(device, "nvmlDeviceGetPciInfo_v3", [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
    if (pci == nullptr) return kNvmlErrorInvalidArgument;
    describe_pci(spec, *pci);
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetBrand(NvmlDevice device, unsigned* brand) {
  return give(device, "nvmlDeviceGetBrand", brand, [](auto& spec, auto&) { return spec.brand; });
}
NvmlReturn nvmlDeviceGetArchitecture(NvmlDevice device, unsigned* architecture) {
  return give(device, "nvmlDeviceGetArchitecture", architecture, [](auto& spec, auto&) { return spec.architecture; });
}
NvmlReturn nvmlDeviceGetCudaComputeCapability(NvmlDevice device, int* major, int* minor) {
  return on_state(device, "nvmlDeviceGetCudaComputeCapability",
                  [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
                    if (major == nullptr || minor == nullptr) return kNvmlErrorInvalidArgument;
                    *major = spec.capability_major;
                    *minor = spec.capability_minor;
                    return kNvmlSuccess;
                  });
}
NvmlReturn nvmlDeviceGetNumGpuCores(NvmlDevice device, unsigned* cores) {
  return give(device, "nvmlDeviceGetNumGpuCores", cores, [](auto& spec, auto&) { return spec.cores; });
}

NvmlReturn nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  return on_state(device, "nvmlDeviceGetMemoryInfo", [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
    if (memory == nullptr) return kNvmlErrorInvalidArgument;
    const std::uint64_t used = kReservedMemory + kContextMemory * process_count(state);
    *memory = {spec.memory_bytes, spec.memory_bytes - used, used};
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetMemoryInfo_v2(NvmlDevice device, NvmlMemory2* memory) {
  return on_state(device, "nvmlDeviceGetMemoryInfo_v2",
                  [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
                    if (memory == nullptr) return kNvmlErrorInvalidArgument;
                    if (memory->version != kNvmlMemoryVersion2) return kNvmlErrorArgumentVersionMismatch;
                    const std::uint64_t used = kContextMemory * process_count(state);
                    memory->total = spec.memory_bytes;
                    memory->reserved = kReservedMemory;
                    memory->used = used;
                    memory->free = spec.memory_bytes - kReservedMemory - used;
                    return kNvmlSuccess;
                  });
}
NvmlReturn nvmlDeviceGetBAR1MemoryInfo(NvmlDevice device, NvmlBar1Memory*) {
  return unsupported(device, "nvmlDeviceGetBAR1MemoryInfo");
}
NvmlReturn nvmlDeviceGetC2cModeInfoV(NvmlDevice device, NvmlC2cMode*) {
  return unsupported(device, "nvmlDeviceGetC2cModeInfoV");
}
NvmlReturn nvmlDeviceGetMigMode(NvmlDevice device, unsigned* current, unsigned* pending) {
  return on_state(device, "nvmlDeviceGetMigMode", [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
    if (current == nullptr || pending == nullptr) return kNvmlErrorInvalidArgument;
    // From Ampere on, the chips for data centers, whose compute capability ends in 0.
    if (spec.capability_major < 8 || spec.capability_minor != 0) return kNvmlErrorNotSupported;
    const bool divided = find_fault(state, SimFaultKind::kMig) != nullptr;
    *current = *pending = divided ? kNvmlFeatureEnabled : kNvmlFeatureDisabled;
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetEccMode(NvmlDevice device, unsigned* current, unsigned* pending) {
  return on_state(device, "nvmlDeviceGetEccMode", [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
    if (current == nullptr || pending == nullptr) return kNvmlErrorInvalidArgument;
    if (spec.brand == kNvmlBrandGeforce) return kNvmlErrorNotSupported;
    *current = *pending = kNvmlFeatureEnabled;
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetTotalEccErrors(NvmlDevice device, unsigned type, unsigned counter, unsigned long long* errors) {
  return on_state(device, "nvmlDeviceGetTotalEccErrors", [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
    if (type > 1 || counter > 1 || errors == nullptr) return kNvmlErrorInvalidArgument;
    if (spec.brand == kNvmlBrandGeforce) return kNvmlErrorNotSupported;
    *errors = 0;
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceIsMigDeviceHandle(NvmlDevice device, unsigned* is_instance) {
  return give(device, "nvmlDeviceIsMigDeviceHandle", is_instance, [](auto&, auto&) { return 0u; });
}
// A matter of Windows.
NvmlReturn nvmlDeviceGetDriverModel(NvmlDevice device, unsigned*, unsigned*) {
  return unsupported(device, "nvmlDeviceGetDriverModel");
}
NvmlReturn nvmlDeviceGetDriverModel_v2(NvmlDevice device, unsigned*, unsigned*) {
  return unsupported(device, "nvmlDeviceGetDriverModel_v2");
}
NvmlReturn nvmlDeviceGetEncoderUtilization(NvmlDevice device, unsigned* percent, unsigned* period_us) {
  return give_no_video(device, "nvmlDeviceGetEncoderUtilization", percent, period_us);
}
NvmlReturn nvmlDeviceGetDecoderUtilization(NvmlDevice device, unsigned* percent, unsigned* period_us) {
  return give_no_video(device, "nvmlDeviceGetDecoderUtilization", percent, period_us);
}
NvmlReturn nvmlDeviceGetComputeMode(NvmlDevice device, unsigned* mode) {
  return give(device, "nvmlDeviceGetComputeMode", mode, [](auto&, auto&) { return 0u; });
}
NvmlReturn nvmlDeviceGetDisplayMode(NvmlDevice device, unsigned* mode) {
  return give(device, "nvmlDeviceGetDisplayMode", mode, [](auto&, auto&) { return kNvmlFeatureDisabled; });
}
NvmlReturn nvmlDeviceGetDisplayActive(NvmlDevice device, unsigned* active) {
  return give(device, "nvmlDeviceGetDisplayActive", active, [](auto&, auto&) { return kNvmlFeatureDisabled; });
}
NvmlReturn nvmlDeviceGetMultiGpuBoard(NvmlDevice device, unsigned* multi) {
  return give(device, "nvmlDeviceGetMultiGpuBoard", multi, [](auto&, auto&) { return 0u; });
}
NvmlReturn nvmlDeviceGetFanSpeed(NvmlDevice device, unsigned*) { return unsupported(device, "nvmlDeviceGetFanSpeed"); }

// One sample of each process, of now; those that compute share the board evenly, as their work does.
NvmlReturn nvmlDeviceGetProcessUtilization(NvmlDevice device, NvmlProcessUtilization* samples, unsigned* count,
                                           unsigned long long after_us) {
  return on_state(device, "nvmlDeviceGetProcessUtilization", [&](const BoardSpec& spec, const BoardState& state) {
    if (count == nullptr) return kNvmlErrorInvalidArgument;
    const auto now_us = static_cast<unsigned long long>(read_clock(CLOCK_REALTIME) / 1'000);
    if (process_count(state) == 0 || after_us >= now_us) return kNvmlErrorNotFound;
    const unsigned room = samples == nullptr ? 0 : *count;
    *count = process_count(state);
    if (room < *count) return kNvmlErrorInsufficientSize;
    const Utilisation board = utilisation_of(spec, state);
    // Waiting in a collective is work, too: a kernel waits.
    const auto works_of = [&](std::size_t process) {
      return (state.processes[process].blocking > 0 ? 1 : 0) +
             std::count_if(state.works.begin(), state.works.end(), [&](const SimWork& work) {
               return work.state == WorkState::kRunning && work.process == process;
             });
    };
    std::ptrdiff_t all = 0;
    for (std::size_t i = 0; i < state.processes.size(); ++i) all += works_of(i);
    for (std::size_t i = 0; i < state.processes.size(); ++i) {
      if (state.processes[i].pid == 0) continue;
      const double part = all == 0 ? 0.0 : static_cast<double>(works_of(i)) / static_cast<double>(all);
      *samples++ = {static_cast<unsigned>(state.processes[i].pid),
                    now_us,
                    static_cast<unsigned>(std::lround(board.busy * part * 100)),
                    static_cast<unsigned>(std::lround(board.memory * part * 100)),
                    0,
                    0};
    }
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetComputeRunningProcesses(NvmlDevice device, unsigned* count, NvmlProcess1* processes) {
  return give_processes(device, "nvmlDeviceGetComputeRunningProcesses", count, processes);
}
NvmlReturn nvmlDeviceGetComputeRunningProcesses_v2(NvmlDevice device, unsigned* count, NvmlProcess* processes) {
  return give_processes(device, "nvmlDeviceGetComputeRunningProcesses_v2", count, processes);
}
NvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess* processes) {
  return give_processes(device, "nvmlDeviceGetComputeRunningProcesses_v3", count, processes);
}
NvmlReturn nvmlDeviceGetGraphicsRunningProcesses(NvmlDevice device, unsigned* count, NvmlProcess1*) {
  return give_no_processes(device, "nvmlDeviceGetGraphicsRunningProcesses", count);
}
NvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v2(NvmlDevice device, unsigned* count, NvmlProcess*) {
  return give_no_processes(device, "nvmlDeviceGetGraphicsRunningProcesses_v2", count);
}
NvmlReturn nvmlDeviceGetGraphicsRunningProcesses_v3(NvmlDevice device, unsigned* count, NvmlProcess*) {
  return give_no_processes(device, "nvmlDeviceGetGraphicsRunningProcesses_v3", count);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace flyball
