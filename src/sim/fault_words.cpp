// Two tables: the faults with what each takes, and the sorted names of the calls that can fail.
#include "sim/fault_words.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace flyball {
namespace {

struct FaultName {
  std::string_view name;
  SimFaultKind kind;
  bool has_call;
  bool has_value;
  double least;
  double most;
};

constexpr FaultName kFaultNames[] = {
    {"lost", SimFaultKind::kLost, false, false, 0, 0},
    {"error", SimFaultKind::kError, true, true, 1, 65535},
    {"hang", SimFaultKind::kHang, true, true, 0, 86400},
    {"counter-frozen", SimFaultKind::kCounterFrozen, false, false, 0, 0},
    {"counter-wraps", SimFaultKind::kCounterWraps, false, true, 1, 1e15},
    {"counter-missing", SimFaultKind::kCounterMissing, false, false, 0, 0},
    {"counter-costs", SimFaultKind::kCounterCosts, false, true, 0, 1},
    {"unprivileged", SimFaultKind::kUnprivileged, false, false, 0, 0},
    {"hot", SimFaultKind::kHot, false, false, 0, 0},
    {"mig", SimFaultKind::kMig, false, false, 0, 0},
    {"early-answer", SimFaultKind::kEarlyAnswer, false, true, 0, 10},
    {"counter-reset", SimFaultKind::kNone, false, false, 0, 0},
};

// The vendor's names, in order.
constexpr std::string_view kCalls[] = {
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetC2cModeInfoV",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetDisplayActive",
    "nvmlDeviceGetDisplayMode",
    "nvmlDeviceGetDriverModel",
    "nvmlDeviceGetDriverModel_v2",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleBySerial",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetMultiGpuBoard",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetPciInfo_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetPowerManagementMode",
    "nvmlDeviceGetPowerState",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlDeviceGetSupportedClocksThrottleReasons",
    "nvmlDeviceGetSupportedGraphicsClocks",
    "nvmlDeviceGetSupportedMemoryClocks",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceResetApplicationsClocks",
    "nvmlDeviceResetGpuLockedClocks",
    "nvmlDeviceResetMemoryLockedClocks",
    "nvmlDeviceSetApplicationsClocks",
    "nvmlDeviceSetGpuLockedClocks",
    "nvmlDeviceSetMemoryLockedClocks",
    "nvmlDeviceSetPersistenceMode",
    "nvmlDeviceSetPowerManagementLimit",
    "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles",
    "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles",
    "nvmlDeviceWorkloadPowerProfileGetProfilesInfo",
    "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles",
    "nvmlInit",
    "nvmlInitWithFlags",
    "nvmlInit_v2",
};

bool is_known_call(std::string_view call) {
  return call.empty() || call == "*" || std::binary_search(std::begin(kCalls), std::end(kCalls), call);
}

std::optional<double> parse_fault_value(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::span<const std::string_view> fault_calls() { return kCalls; }

std::string_view call_in_fault(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('='));
  const std::size_t colon = head.find(':');
  return colon == std::string_view::npos ? std::string_view{} : head.substr(colon + 1);
}

std::string_view name_of(SimFaultKind kind) {
  if (kind == SimFaultKind::kNone) return {};
  const auto* known = std::find_if(std::begin(kFaultNames), std::end(kFaultNames),
                                   [kind](const FaultName& name) { return name.kind == kind; });
  return known == std::end(kFaultNames) ? std::string_view{} : known->name;
}

std::optional<SimFault> parse_fault(std::string_view text) {
  std::string_view head = text;
  std::string_view value;
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    head = text.substr(0, equals);
    value = text.substr(equals + 1);
  }
  const std::string_view name = head.substr(0, head.find(':'));
  const std::string_view call = call_in_fault(text);
  for (const FaultName& known : kFaultNames) {
    if (known.name != name) continue;
    SimFault fault{known.kind, 0, 0.0, {}};
    if (known.has_call == call.empty() || !is_known_call(call)) return std::nullopt;
    if (known.has_value != (equals != std::string_view::npos)) return std::nullopt;
    std::copy(call.begin(), call.end(), fault.call);
    if (!known.has_value) return fault;
    const std::optional<double> number = parse_fault_value(value);
    if (!number || *number < known.least || *number > known.most) return std::nullopt;
    fault.value = *number;
    fault.code = known.kind == SimFaultKind::kError ? static_cast<unsigned>(*number) : 0;
    return fault;
  }
  return std::nullopt;
}

}  // namespace flyball
