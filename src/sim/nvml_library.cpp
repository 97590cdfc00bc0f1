// The calls of the simulated vendor library that begin and end its use, ask about the system, and find devices.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "sim/nvml_calls.h"
#include "sim/workload.h"

namespace flyball {
namespace {

constexpr const char* kDriverVersion = "550.0-flyball-sim";
constexpr const char* kLibraryVersion = "12.550.0-flyball-sim";
constexpr int kCudaVersion = 12040;

struct NvmlSession {
  std::mutex mutex;
  int count = 0;
  std::shared_ptr<Machine> machine;
};

// Never destroyed: threads may still call while the process exits.
NvmlSession& session() {
  static auto& one = *new NvmlSession;
  return one;
}

// What any board's faults say about a call that is on none of them. Only faults that name the call count.
NvmlReturn faults_of_all(Machine& machine, const char* call) {
  for (std::size_t i = 0; i < machine.board_count(); ++i) {
    bool named = false;
    {
      BoardAccess access(machine, i);
      const auto& faults = access.state().faults;
      named = std::any_of(faults.begin(), faults.end(),
                          [call](const SimFault& fault) { return std::strcmp(fault.call, call) == 0; });
    }
    if (!named) continue;
    const NvmlReturn fault = faults_of_call(machine, i, call);
    if (fault != kNvmlSuccess) return fault;
  }
  return kNvmlSuccess;
}

NvmlReturn initialise(const char* call) {
  return nvml_call([call]() -> NvmlReturn {
    std::shared_ptr<Machine> machine = attached_machine();
    if (machine != nullptr) {
      const NvmlReturn fault = faults_of_all(*machine, call);
      if (fault != kNvmlSuccess) return fault;
    }
    NvmlSession& here = session();
    const std::lock_guard lock(here.mutex);
    if (here.machine == nullptr || here.machine->down()) {
      if (machine == nullptr) return kNvmlErrorDriverNotLoaded;
      here.machine = std::move(machine);
    }
    ++here.count;
    return kNvmlSuccess;
  });
}

// Body: NvmlReturn(Machine&), for calls on no particular device.
template <class Body>
NvmlReturn on_session(Body body) {
  return nvml_call([&]() -> NvmlReturn {
    const std::shared_ptr<Machine> machine = nvml_session();
    if (machine == nullptr) return kNvmlErrorUninitialized;
    return machine->down() ? kNvmlErrorDriverNotLoaded : body(*machine);
  });
}

// Finds the first board of which `is`, a bool(const BoardSpec&), is true.
template <class Is>
NvmlReturn find_board(const char* call, NvmlDevice* device, Is is) {
  return on_session([&](Machine& machine) -> NvmlReturn {
    if (device == nullptr) return kNvmlErrorInvalidArgument;
    for (std::size_t i = 0; i < machine.board_count(); ++i) {
      if (!is(machine.spec(i))) continue;
      const NvmlReturn fault = faults_of_call(machine, i, call);
      if (fault == kNvmlSuccess) *device = nvml_handle(i);
      return fault;
    }
    return kNvmlErrorNotFound;
  });
}

NvmlReturn handle_by_index(const char* call, unsigned index, NvmlDevice* device) {
  return on_session([&](Machine& machine) -> NvmlReturn {
    if (device == nullptr || index >= machine.board_count()) return kNvmlErrorInvalidArgument;
    const NvmlReturn fault = faults_of_call(machine, index, call);
    if (fault == kNvmlSuccess) *device = nvml_handle(index);
    return fault;
  });
}

// Finds a board by domain, bus and device, however many digits the caller writes.
NvmlReturn handle_by_pci(const char* call, const char* bus_id, NvmlDevice* device) {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (bus_id == nullptr) return kNvmlErrorInvalidArgument;
  if (std::sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(bus_id, "%x:%x", &bus, &slot) != 2) return kNvmlErrorInvalidArgument;
  }
  return find_board(call, device, [&](const BoardSpec& spec) {
    return spec.pci_domain == domain && spec.pci_bus == bus && slot == 0;
  });
}

NvmlReturn count_devices(const char* call, unsigned* count) {
  return on_session([&](Machine& machine) -> NvmlReturn {
    if (count == nullptr) return kNvmlErrorInvalidArgument;
    const NvmlReturn fault = faults_of_all(machine, call);
    if (fault != kNvmlSuccess) return fault;
    *count = static_cast<unsigned>(machine.board_count());
    return kNvmlSuccess;
  });
}

}  // namespace

std::shared_ptr<Machine> nvml_session() {
  NvmlSession& here = session();
  const std::lock_guard lock(here.mutex);
  return here.count > 0 ? here.machine : nullptr;
}

NvmlDevice nvml_handle(std::size_t index) {
  static std::array<NvmlDeviceHandle, kSimBoards> handles = [] {
    std::array<NvmlDeviceHandle, kSimBoards> all{};
    for (unsigned i = 0; i < all.size(); ++i) all[i].index = i;
    return all;
  }();
  return &handles[index];
}

bool privileged(const BoardState& state) {
  const char* flag = std::getenv("FLYBALL_SIM_PRIVILEGED");
  if (flag != nullptr && std::strcmp(flag, "1") == 0) return true;
  return ::geteuid() == 0 && find_fault(state, SimFaultKind::kUnprivileged) == nullptr;
}

NvmlReturn faults_of_call(Machine& machine, std::size_t board, const char* call) {
  const Nanoseconds begin = wall_now();
  while (true) {
    std::uint32_t seen = 0;
    Nanoseconds until = 0;
    {
      BoardAccess access(machine, board);
      if (machine.down() || find_fault(access.state(), SimFaultKind::kLost) != nullptr) return kNvmlErrorGpuIsLost;
      const SimFault* hang = find_fault(access.state(), SimFaultKind::kHang, call);
      if (hang != nullptr) until = begin + to_nanoseconds(Seconds(hang->value));
      if (hang == nullptr || wall_now() >= until) {
        const SimFault* error = find_fault(access.state(), SimFaultKind::kError, call);
        return error == nullptr ? kNvmlSuccess : error->code;
      }
      seen = access.changes();
    }
    machine.wait(board, seen, until);
  }
}

NvmlReturn give_text(char* to, unsigned length, const char* text) {
  if (to == nullptr) return kNvmlErrorInvalidArgument;
  const std::size_t size = std::strlen(text) + 1;
  if (length < size) return kNvmlErrorInsufficientSize;
  std::memcpy(to, text, size);
  return kNvmlSuccess;
}

// NOLINTBEGIN(readability-identifier-naming): the vendor's names
extern "C" {

NvmlReturn nvmlInit() { return initialise("nvmlInit"); }
NvmlReturn nvmlInit_v2() { return initialise("nvmlInit_v2"); }
NvmlReturn nvmlInitWithFlags(unsigned) { return initialise("nvmlInitWithFlags"); }

NvmlReturn nvmlShutdown() {
  return nvml_call([]() -> NvmlReturn {
    NvmlSession& here = session();
    const std::lock_guard lock(here.mutex);
    if (here.count == 0) return kNvmlErrorUninitialized;
    if (--here.count == 0) here.machine = nullptr;
    return kNvmlSuccess;
  });
}

const char* nvmlErrorString(NvmlReturn result) {
  switch (result) {
    case kNvmlSuccess: return "Success";
    case kNvmlErrorUninitialized: return "Uninitialized";
    case kNvmlErrorInvalidArgument: return "Invalid Argument";
    case kNvmlErrorNotSupported: return "Not Supported";
    case kNvmlErrorNoPermission: return "Insufficient Permissions";
    case kNvmlErrorNotFound: return "Not Found";
    case kNvmlErrorInsufficientSize: return "Insufficient Size";
    case kNvmlErrorDriverNotLoaded: return "Driver Not Loaded";
    case kNvmlErrorTimeout: return "Timeout";
    case kNvmlErrorGpuIsLost: return "GPU is lost";
    case kNvmlErrorOperatingSystem: return "Operating system error";
    case kNvmlErrorArgumentVersionMismatch: return "Version mismatch";
    default: return "Unknown Error";
  }
}

NvmlReturn nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return on_session([&](Machine&) { return give_text(version, length, kDriverVersion); });
}
NvmlReturn nvmlSystemGetNVMLVersion(char* version, unsigned length) {
  return give_text(version, length, kLibraryVersion);
}
NvmlReturn nvmlSystemGetCudaDriverVersion(int* version) {
  if (version == nullptr) return kNvmlErrorInvalidArgument;
  *version = kCudaVersion;
  return kNvmlSuccess;
}
NvmlReturn nvmlSystemGetCudaDriverVersion_v2(int* version) { return nvmlSystemGetCudaDriverVersion(version); }

NvmlReturn nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  return on_session([&](Machine&) -> NvmlReturn {
    const std::string link = "/proc/" + std::to_string(pid) + "/exe";
    std::array<char, 4096> path{};
    if (::readlink(link.c_str(), path.data(), path.size() - 1) < 0) return kNvmlErrorNotFound;
    return give_text(name, length, path.data());
  });
}

NvmlReturn nvmlDeviceGetCount(unsigned* count) { return count_devices("nvmlDeviceGetCount", count); }
NvmlReturn nvmlDeviceGetCount_v2(unsigned* count) { return count_devices("nvmlDeviceGetCount_v2", count); }

NvmlReturn nvmlDeviceGetHandleByIndex(unsigned index, NvmlDevice* device) {
  return handle_by_index("nvmlDeviceGetHandleByIndex", index, device);
}
NvmlReturn nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* device) {
  return handle_by_index("nvmlDeviceGetHandleByIndex_v2", index, device);
}
NvmlReturn nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  if (uuid == nullptr) return kNvmlErrorInvalidArgument;
  return find_board("nvmlDeviceGetHandleByUUID", device,
                    [&](const BoardSpec& spec) { return std::strcmp(spec.uuid, uuid) == 0; });
}
NvmlReturn nvmlDeviceGetHandleBySerial(const char* serial, NvmlDevice* device) {
  if (serial == nullptr) return kNvmlErrorInvalidArgument;
  return find_board("nvmlDeviceGetHandleBySerial", device,
                    [&](const BoardSpec& spec) { return std::strcmp(spec.serial, serial) == 0; });
}
NvmlReturn nvmlDeviceGetHandleByPciBusId(const char* bus_id, NvmlDevice* device) {
  return handle_by_pci("nvmlDeviceGetHandleByPciBusId", bus_id, device);
}
NvmlReturn nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, NvmlDevice* device) {
  return handle_by_pci("nvmlDeviceGetHandleByPciBusId_v2", bus_id, device);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace flyball
