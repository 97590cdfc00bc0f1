// The calls of the simulated vendor library that tell clocks, power, energy and temperature, and those that set them.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "base/monotonic_time.h"
#include "sim/nvml_calls.h"

namespace flyball {
namespace {

// Numbers from here up stand for "whatever the power limit allows" instead of a clock.
constexpr unsigned kSymbolicClock = 0xFFFFFF00;

unsigned to_mhz(Megahertz clock) { return static_cast<unsigned>(std::lround(clock.value())); }
unsigned to_milliwatts(Watts power) { return static_cast<unsigned>(std::lround(std::max(0.0, power.value()) * 1e3)); }

Watts limit_of(const BoardSpec& spec, const BoardSettings& settings) {
  return settings.power_limit.value() > 0.0 ? settings.power_limit : spec.limit;
}

bool is_sm_clock(unsigned type) { return type == kNvmlClockGraphics || type == kNvmlClockSm; }

// edit(spec, settings) makes the change and returns an NvmlReturn. The driver takes one change after another, and each
// call returns when its change has taken hold, unless a fault lets it answer before.
template <class Edit>
NvmlReturn change_settings(NvmlDevice device, const char* call, Edit edit) {
  return on_board(device, call, [&](Machine& machine, std::size_t board) -> NvmlReturn {
    const bool still = machine.shared().time_scale == 0.0;  // then nobody can wait for time to pass
    Nanoseconds effective = 0;
    bool asked = false;
    while (!asked || (!still && machine.now() < effective)) {
      std::uint32_t seen = 0;
      {
        BoardAccess access(machine, board);
        if (machine.down()) return kNvmlErrorGpuIsLost;
        BoardState& state = access.state();
        if (!asked && (still || state.effective_at == 0)) {
          if (!privileged(state)) return kNvmlErrorNoPermission;
          BoardSettings wanted = state.requested;
          const NvmlReturn refused = edit(access.spec(), wanted);
          if (refused != kNvmlSuccess) return refused;
          state.requested = wanted;
          effective = request_settings(access.spec(), state);
          asked = true;
          const bool answers_early = find_fault(state, SimFaultKind::kEarlyAnswer) != nullptr;
          access.commit_change();
          if (answers_early) return kNvmlSuccess;
          continue;
        }
        if (!asked) effective = state.effective_at;
        seen = access.changes();
        access.commit();
      }
      machine.wait(board, seen, machine.wall_time_of(effective));
    }
    return kNvmlSuccess;
  });
}

// Clocks from the highest down, in the vendor's way of asking for the number first.
template <class At>
NvmlReturn give_clocks(unsigned* count, unsigned* mhz, unsigned number, At at) {
  if (count == nullptr) return kNvmlErrorInvalidArgument;
  const unsigned room = mhz == nullptr ? 0 : *count;
  *count = number;
  if (room < number) return kNvmlErrorInsufficientSize;
  for (unsigned i = 0; i < number; ++i) mhz[i] = to_mhz(at(i));
  return kNvmlSuccess;
}

constexpr std::uint32_t kProfiles = kSimMaxP | kSimMaxQ;

NvmlMask255 to_mask(std::uint32_t profiles) { return {{profiles, 0, 0, 0, 0, 0, 0, 0}}; }

bool has_profiles(const BoardSpec& spec) { return spec.architecture >= kNvmlArchBlackwell; }

// change(profiles of the settings, those of the request) makes the change.
template <class Change>
NvmlReturn change_profiles(NvmlDevice device, const char* call, const NvmlRequestedProfiles* request, Change change) {
  if (request == nullptr) return kNvmlErrorInvalidArgument;
  if (request->version != kNvmlRequestedProfilesVersion1) return kNvmlErrorArgumentVersionMismatch;
  const NvmlMask255 asked = request->requested;
  const bool known =
      (asked.words[0] & ~kProfiles) == 0 &&
      std::all_of(std::begin(asked.words) + 1, std::end(asked.words), [](unsigned word) { return word == 0; });
  return change_settings(device, call, [&](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
    if (!has_profiles(spec)) return kNvmlErrorNotSupported;
    if (!known) return kNvmlErrorInvalidArgument;
    change(settings.power_profiles, asked.words[0]);
    return kNvmlSuccess;
  });
}

bool has_memory_clock(const BoardSpec& spec, unsigned mhz) {
  return std::any_of(spec.memory_clocks.begin(), spec.memory_clocks.begin() + spec.memory_clock_count,
                     [&](Megahertz clock) { return to_mhz(clock) == mhz; });
}

NvmlReturn give_reasons(NvmlDevice device, const char* call, unsigned long long* reasons) {
  return give(device, call, reasons, [](const BoardSpec& spec, const BoardState& state) {
    const BoardActivity now = activity_of(spec, state);
    unsigned long long set = kNvmlReasonNone;
    if (now.hot) set |= kNvmlReasonSwThermalSlowdown;
    if (now.running == 0 && !now.blocking) return set | kNvmlReasonGpuIdle;
    if (now.power_limited) set |= kNvmlReasonSwPowerCap;
    if (now.clock_limited) set |= kNvmlReasonApplicationsClocks;
    return set;
  });
}

NvmlReturn give_all_reasons(NvmlDevice device, const char* call, unsigned long long* reasons) {
  return give(device, call, reasons, [](const BoardSpec&, const BoardState&) {
    return kNvmlReasonGpuIdle | kNvmlReasonApplicationsClocks | kNvmlReasonSwPowerCap | kNvmlReasonSwThermalSlowdown;
  });
}

NvmlReturn give_pstate(NvmlDevice device, const char* call, unsigned* pstate) {
  return give(device, call, pstate, [](const BoardSpec& spec, const BoardState& state) {
    const BoardActivity now = activity_of(spec, state);
    // Boards with HBM stay in the fastest state; others sink when nothing runs.
    return spec.brand == kNvmlBrandGeforce && now.running == 0 && !now.blocking ? 8u : 0u;
  });
}

bool has_counter(const BoardSpec& spec, const BoardState& state) {
  return spec.architecture >= kNvmlArchVolta && find_fault(state, SimFaultKind::kCounterMissing) == nullptr;
}

// Runs a call that reads the energy counter. What it takes of the processor is spent when the board is free again.
template <class Body>
NvmlReturn on_counter(NvmlDevice device, const char* call, Body body) {
  Nanoseconds cost = 0;
  const NvmlReturn result = on_state(device, call, [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
    if (const SimFault* dear = find_fault(state, SimFaultKind::kCounterCosts)) {
      cost = to_nanoseconds(Seconds(dear->value));
    }
    return body(spec, state);
  });
  if (cost == 0) return result;
  const Nanoseconds end = read_clock(CLOCK_THREAD_CPUTIME_ID) + cost;
  while (read_clock(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
  return result;
}

std::int64_t microseconds_since_1970() { return read_clock(CLOCK_REALTIME) / 1'000; }

void answer_milliwatts(NvmlFieldValue& field, Watts power) {
  field.value_type = kNvmlValueUnsignedInt;
  field.value.unsigned_int = to_milliwatts(power);
  field.status = kNvmlSuccess;
}

void answer_field(const BoardSpec& spec, const BoardState& state, NvmlFieldValue& field) {
  field.timestamp_us = microseconds_since_1970();
  field.latency_us = 0;
  field.status = kNvmlErrorNotSupported;
  const bool whole = field.scope == kNvmlPowerScopeGpu;
  switch (field.field) {
    case kNvmlFieldTotalEnergy:
      if (!has_counter(spec, state)) break;
      field.value_type = kNvmlValueUnsignedLongLong;
      field.value.unsigned_long_long = counter_millijoules(spec, state);
      field.status = kNvmlSuccess;
      break;
    case kNvmlFieldPowerAverage:
      if (whole && spec.average.window > 0) answer_milliwatts(field, reading_of(spec, state, spec.average));
      break;
    case kNvmlFieldPowerInstant:
      if (whole && spec.instant.window > 0) answer_milliwatts(field, reading_of(spec, state, spec.instant));
      break;
    case kNvmlFieldPowerMinimumLimit: answer_milliwatts(field, spec.limit_minimum); break;
    case kNvmlFieldPowerMaximumLimit: answer_milliwatts(field, spec.limit_maximum); break;
    case kNvmlFieldPowerDefaultLimit: answer_milliwatts(field, spec.limit); break;
    case kNvmlFieldPowerCurrentLimit: answer_milliwatts(field, limit_of(spec, state.applied)); break;
    case kNvmlFieldPowerRequestedLimit: answer_milliwatts(field, limit_of(spec, state.requested)); break;
    default: break;
  }
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the vendor's names
extern "C" {

NvmlReturn nvmlDeviceGetClockInfo(NvmlDevice device, unsigned type, unsigned* mhz) {
  return on_state(device, "nvmlDeviceGetClockInfo", [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
    if (mhz == nullptr) return kNvmlErrorInvalidArgument;
    if (!is_sm_clock(type) && type != kNvmlClockMemory) return kNvmlErrorNotSupported;
    const BoardActivity now = activity_of(spec, state);
    // The regulator's clock is a mean over fast changes. The clock that is shown is one that the board has.
    *mhz = to_mhz(is_sm_clock(type) ? supported_clock(spec, now.sm_clock) : now.memory_clock);
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetMaxClockInfo(NvmlDevice device, unsigned type, unsigned* mhz) {
  return on_state(device, "nvmlDeviceGetMaxClockInfo", [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
    if (mhz == nullptr) return kNvmlErrorInvalidArgument;
    if (!is_sm_clock(type) && type != kNvmlClockMemory) return kNvmlErrorNotSupported;
    *mhz = to_mhz(is_sm_clock(type) ? spec.maximum : spec.memory_clocks[0]);
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetMaxCustomerBoostClock(NvmlDevice device, unsigned type, unsigned* mhz) {
  return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}
NvmlReturn nvmlDeviceGetDefaultApplicationsClock(NvmlDevice device, unsigned type, unsigned* mhz) {
  return nvmlDeviceGetMaxClockInfo(device, type, mhz);
}
NvmlReturn nvmlDeviceGetApplicationsClock(NvmlDevice device, unsigned type, unsigned* mhz) {
  return on_state(device, "nvmlDeviceGetApplicationsClock",
                  [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
                    if (mhz == nullptr) return kNvmlErrorInvalidArgument;
                    if (!is_sm_clock(type) && type != kNvmlClockMemory) return kNvmlErrorNotSupported;
                    const Megahertz set = state.applied.application;
                    const Megahertz sm = set.value() > 0.0 ? set : spec.maximum;
                    *mhz = to_mhz(is_sm_clock(type) ? sm : spec.memory_clocks[0]);
                    return kNvmlSuccess;
                  });
}
NvmlReturn nvmlDeviceGetClock(NvmlDevice device, unsigned type, unsigned id, unsigned* mhz) {
  switch (id) {
    case kNvmlClockIdCurrent: return nvmlDeviceGetClockInfo(device, type, mhz);
    case kNvmlClockIdAppTarget: return nvmlDeviceGetApplicationsClock(device, type, mhz);
    case kNvmlClockIdAppDefault:
    case kNvmlClockIdCustomerBoostMax: return nvmlDeviceGetMaxClockInfo(device, type, mhz);
    default: return kNvmlErrorInvalidArgument;
  }
}
NvmlReturn nvmlDeviceGetSupportedMemoryClocks(NvmlDevice device, unsigned* count, unsigned* mhz) {
  return on_state(device, "nvmlDeviceGetSupportedMemoryClocks", [&](const BoardSpec& spec, const BoardState&) {
    return give_clocks(count, mhz, spec.memory_clock_count, [&](unsigned i) { return spec.memory_clocks[i]; });
  });
}
NvmlReturn nvmlDeviceGetSupportedGraphicsClocks(NvmlDevice device, unsigned memory_mhz, unsigned* count,
                                                unsigned* mhz) {
  return on_state(device, "nvmlDeviceGetSupportedGraphicsClocks",
                  [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
                    if (!has_memory_clock(spec, memory_mhz)) return kNvmlErrorNotFound;
                    const double steps = std::floor((spec.maximum - spec.minimum) / spec.step + 1e-9);
                    return give_clocks(count, mhz, static_cast<unsigned>(steps) + 1,
                                       [&](unsigned i) { return spec.maximum - spec.step * i; });
                  });
}

NvmlReturn nvmlDeviceSetGpuLockedClocks(NvmlDevice device, unsigned minimum_mhz, unsigned maximum_mhz) {
  return change_settings(device, "nvmlDeviceSetGpuLockedClocks",
                         [&](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
                           const bool symbolic = maximum_mhz >= kSymbolicClock;
                           const Megahertz most = symbolic ? spec.maximum : Megahertz(maximum_mhz);
                           const Megahertz least = minimum_mhz >= kSymbolicClock ? most : Megahertz(minimum_mhz);
                           // The range has no clock of the board.
                           if (least > most || most < spec.minimum || least > spec.maximum) {
                             return kNvmlErrorInvalidArgument;
                           }
                           settings.lock_maximum = supported_clock(spec, most);
                           settings.lock_minimum = std::min(settings.lock_maximum, supported_clock(spec, least));
                           return kNvmlSuccess;
                         });
}
NvmlReturn nvmlDeviceResetGpuLockedClocks(NvmlDevice device) {
  return change_settings(device, "nvmlDeviceResetGpuLockedClocks",
                         [](const BoardSpec&, BoardSettings& settings) -> NvmlReturn {
                           settings.lock_minimum = settings.lock_maximum = Megahertz(0);
                           return kNvmlSuccess;
                         });
}
NvmlReturn nvmlDeviceSetMemoryLockedClocks(NvmlDevice device, unsigned minimum_mhz, unsigned maximum_mhz) {
  return change_settings(device, "nvmlDeviceSetMemoryLockedClocks",
                         [&](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
                           if (spec.architecture < kNvmlArchAmpere) return kNvmlErrorNotSupported;
                           const Megahertz lowest = spec.memory_clocks[spec.memory_clock_count - 1];
                           if (minimum_mhz > maximum_mhz || Megahertz(maximum_mhz) < lowest ||
                               Megahertz(minimum_mhz) > spec.memory_clocks[0]) {
                             return kNvmlErrorInvalidArgument;
                           }
                           settings.memory_lock_minimum = Megahertz(minimum_mhz);
                           settings.memory_lock_maximum = Megahertz(maximum_mhz);
                           return kNvmlSuccess;
                         });
}
NvmlReturn nvmlDeviceResetMemoryLockedClocks(NvmlDevice device) {
  return change_settings(device, "nvmlDeviceResetMemoryLockedClocks",
                         [](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
                           if (spec.architecture < kNvmlArchAmpere) return kNvmlErrorNotSupported;
                           settings.memory_lock_minimum = settings.memory_lock_maximum = Megahertz(0);
                           return kNvmlSuccess;
                         });
}
NvmlReturn nvmlDeviceSetApplicationsClocks(NvmlDevice device, unsigned memory_mhz, unsigned graphics_mhz) {
  return change_settings(device, "nvmlDeviceSetApplicationsClocks",
                         [&](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
                           if (spec.brand == kNvmlBrandGeforce) return kNvmlErrorNotSupported;
                           const Megahertz clock(graphics_mhz);
                           if (!has_memory_clock(spec, memory_mhz) || supported_clock(spec, clock) != clock) {
                             return kNvmlErrorInvalidArgument;
                           }
                           settings.application = clock;
                           return kNvmlSuccess;
                         });
}
NvmlReturn nvmlDeviceResetApplicationsClocks(NvmlDevice device) {
  return change_settings(device, "nvmlDeviceResetApplicationsClocks",
                         [](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
                           if (spec.brand == kNvmlBrandGeforce) return kNvmlErrorNotSupported;
                           settings.application = Megahertz(0);
                           return kNvmlSuccess;
                         });
}

NvmlReturn nvmlDeviceGetCurrentClocksThrottleReasons(NvmlDevice device, unsigned long long* reasons) {
  return give_reasons(device, "nvmlDeviceGetCurrentClocksThrottleReasons", reasons);
}
NvmlReturn nvmlDeviceGetCurrentClocksEventReasons(NvmlDevice device, unsigned long long* reasons) {
  return give_reasons(device, "nvmlDeviceGetCurrentClocksEventReasons", reasons);
}
NvmlReturn nvmlDeviceGetSupportedClocksThrottleReasons(NvmlDevice device, unsigned long long* reasons) {
  return give_all_reasons(device, "nvmlDeviceGetSupportedClocksThrottleReasons", reasons);
}
NvmlReturn nvmlDeviceGetSupportedClocksEventReasons(NvmlDevice device, unsigned long long* reasons) {
  return give_all_reasons(device, "nvmlDeviceGetSupportedClocksEventReasons", reasons);
}
NvmlReturn nvmlDeviceGetPerformanceState(NvmlDevice device, unsigned* state) {
  return give_pstate(device, "nvmlDeviceGetPerformanceState", state);
}
NvmlReturn nvmlDeviceGetPowerState(NvmlDevice device, unsigned* state) {
  return give_pstate(device, "nvmlDeviceGetPowerState", state);
}

NvmlReturn nvmlDeviceGetPowerUsage(NvmlDevice device, unsigned* milliwatts) {
  return give(device, "nvmlDeviceGetPowerUsage", milliwatts,
              [](auto& spec, auto& state) { return to_milliwatts(reading_of(spec, state, spec.power)); });
}
NvmlReturn nvmlDeviceGetTotalEnergyConsumption(NvmlDevice device, unsigned long long* millijoules) {
  return on_counter(device, "nvmlDeviceGetTotalEnergyConsumption",
                    [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
                      if (millijoules == nullptr) return kNvmlErrorInvalidArgument;
                      if (!has_counter(spec, state)) return kNvmlErrorNotSupported;
                      *millijoules = counter_millijoules(spec, state);
                      return kNvmlSuccess;
                    });
}
NvmlReturn nvmlDeviceGetFieldValues(NvmlDevice device, int count, NvmlFieldValue* values) {
  const auto answer = [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
    if (values == nullptr || count <= 0) return kNvmlErrorInvalidArgument;
    for (int i = 0; i < count; ++i) answer_field(spec, state, values[i]);
    return kNvmlSuccess;
  };
  constexpr const char* kCall = "nvmlDeviceGetFieldValues";
  const bool counter =
      values != nullptr && count > 0 &&
      std::any_of(values, values + count, [](const NvmlFieldValue& one) { return one.field == kNvmlFieldTotalEnergy; });
  return counter ? on_counter(device, kCall, answer) : on_state(device, kCall, answer);
}
NvmlReturn nvmlDeviceGetSamples(NvmlDevice device, unsigned type, unsigned long long after_us, unsigned* value_type,
                                unsigned* count, NvmlSample* samples) {
  return on_board(device, "nvmlDeviceGetSamples", [&](Machine& machine, std::size_t board) -> NvmlReturn {
    if (value_type == nullptr || count == nullptr) return kNvmlErrorInvalidArgument;
    if (type != kNvmlTotalPowerSamples) return kNvmlErrorNotSupported;
    std::vector<SimPowerSample> record;
    {
      BoardAccess access(machine, board);
      record = power_samples_of(access.spec(), access.state());
      access.commit();
    }
    // The times of a machine that stands still are no times of the world.
    if (machine.shared().time_scale == 0.0) record.clear();
    const unsigned room = samples == nullptr ? 0 : *count;
    *value_type = kNvmlValueUnsignedInt;
    *count = samples == nullptr ? static_cast<unsigned>(record.size()) : 0;
    const Nanoseconds since_1970 = read_clock(CLOCK_REALTIME) - wall_now();
    for (const SimPowerSample& sample : record) {
      const auto time_us = static_cast<unsigned long long>((machine.wall_time_of(sample.time) + since_1970) / 1'000);
      if (time_us <= after_us || *count >= room) continue;
      samples[*count].timestamp_us = time_us;
      samples[(*count)++].value.unsigned_int = to_milliwatts(sample.power);
    }
    return *count > 0 ? kNvmlSuccess : kNvmlErrorNotFound;
  });
}
NvmlReturn nvmlDeviceGetPowerManagementMode(NvmlDevice device, unsigned* mode) {
  return give(device, "nvmlDeviceGetPowerManagementMode", mode, [](auto&, auto&) { return kNvmlFeatureEnabled; });
}
NvmlReturn nvmlDeviceGetPowerManagementLimit(NvmlDevice device, unsigned* milliwatts) {
  return give(device, "nvmlDeviceGetPowerManagementLimit", milliwatts,
              [](auto& spec, auto& state) { return to_milliwatts(limit_of(spec, state.applied)); });
}
NvmlReturn nvmlDeviceGetEnforcedPowerLimit(NvmlDevice device, unsigned* milliwatts) {
  return give(device, "nvmlDeviceGetEnforcedPowerLimit", milliwatts,
              [](auto& spec, auto& state) { return to_milliwatts(limit_of(spec, state.applied)); });
}
NvmlReturn nvmlDeviceGetPowerManagementDefaultLimit(NvmlDevice device, unsigned* milliwatts) {
  return give(device, "nvmlDeviceGetPowerManagementDefaultLimit", milliwatts,
              [](auto& spec, auto&) { return to_milliwatts(spec.limit); });
}
NvmlReturn nvmlDeviceGetPowerManagementLimitConstraints(NvmlDevice device, unsigned* minimum_milliwatts,
                                                        unsigned* maximum_milliwatts) {
  return on_state(device, "nvmlDeviceGetPowerManagementLimitConstraints",
                  [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
                    if (minimum_milliwatts == nullptr || maximum_milliwatts == nullptr) {
                      return kNvmlErrorInvalidArgument;
                    }
                    *minimum_milliwatts = to_milliwatts(spec.limit_minimum);
                    *maximum_milliwatts = to_milliwatts(spec.limit_maximum);
                    return kNvmlSuccess;
                  });
}
NvmlReturn nvmlDeviceSetPowerManagementLimit(NvmlDevice device, unsigned milliwatts) {
  return change_settings(device, "nvmlDeviceSetPowerManagementLimit",
                         [&](const BoardSpec& spec, BoardSettings& settings) -> NvmlReturn {
                           const Watts limit(milliwatts / 1e3);
                           if (limit < spec.limit_minimum || limit > spec.limit_maximum) {
                             return kNvmlErrorInvalidArgument;
                           }
                           settings.power_limit = limit;
                           return kNvmlSuccess;
                         });
}

NvmlReturn nvmlDeviceGetPersistenceMode(NvmlDevice device, unsigned* mode) {
  return give(device, "nvmlDeviceGetPersistenceMode", mode, [](auto&, auto& state) { return state.persistence; });
}
NvmlReturn nvmlDeviceSetPersistenceMode(NvmlDevice device, unsigned mode) {
  return on_state(device, "nvmlDeviceSetPersistenceMode", [&](const BoardSpec&, BoardState& state) -> NvmlReturn {
    if (mode != kNvmlFeatureDisabled && mode != kNvmlFeatureEnabled) return kNvmlErrorInvalidArgument;
    if (!privileged(state)) return kNvmlErrorNoPermission;
    state.persistence = mode;
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetTemperature(NvmlDevice device, unsigned sensor, unsigned* celsius) {
  if (sensor != kNvmlTemperatureGpu) return kNvmlErrorInvalidArgument;
  return give(device, "nvmlDeviceGetTemperature", celsius,
              [](auto&, auto& state) { return std::lround(state.celsius); });
}
NvmlReturn nvmlDeviceGetTemperatureV(NvmlDevice device, NvmlTemperature* temperature) {
  return on_state(device, "nvmlDeviceGetTemperatureV", [&](const BoardSpec&, const BoardState& state) -> NvmlReturn {
    if (temperature == nullptr || temperature->sensor != kNvmlTemperatureGpu) return kNvmlErrorInvalidArgument;
    if (temperature->version != kNvmlTemperatureVersion1) return kNvmlErrorArgumentVersionMismatch;
    temperature->temperature = static_cast<int>(std::lround(state.celsius));
    return kNvmlSuccess;
  });
}
NvmlReturn nvmlDeviceGetTemperatureThreshold(NvmlDevice device, unsigned threshold, unsigned* celsius) {
  return on_state(
      device, "nvmlDeviceGetTemperatureThreshold", [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
        if (celsius == nullptr) return kNvmlErrorInvalidArgument;
        if (threshold != kNvmlThresholdShutdown && threshold != kNvmlThresholdSlowdown) {
          return kNvmlErrorNotSupported;
        }
        const bool slowdown = threshold == kNvmlThresholdSlowdown;
        *celsius = static_cast<unsigned>(std::lround(slowdown ? spec.slowdown_celsius : spec.shutdown_celsius));
        return kNvmlSuccess;
      });
}
NvmlReturn nvmlDeviceGetUtilizationRates(NvmlDevice device, NvmlUtilization* utilization) {
  return on_state(device, "nvmlDeviceGetUtilizationRates",
                  [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
                    if (utilization == nullptr) return kNvmlErrorInvalidArgument;
                    const Utilisation now = utilisation_of(spec, state);
                    *utilization = {static_cast<unsigned>(std::lround(now.busy * 100)),
                                    static_cast<unsigned>(std::lround(now.memory * 100))};
                    return kNvmlSuccess;
                  });
}

NvmlReturn nvmlDeviceWorkloadPowerProfileGetProfilesInfo(NvmlDevice device, NvmlPowerProfiles* profiles) {
  return on_state(device, "nvmlDeviceWorkloadPowerProfileGetProfilesInfo",
                  [&](const BoardSpec& spec, const BoardState&) -> NvmlReturn {
                    if (profiles == nullptr) return kNvmlErrorInvalidArgument;
                    if (profiles->version != kNvmlPowerProfilesVersion1) return kNvmlErrorArgumentVersionMismatch;
                    if (!has_profiles(spec)) return kNvmlErrorNotSupported;
                    *profiles = {};
                    profiles->version = kNvmlPowerProfilesVersion1;
                    profiles->supported = to_mask(kProfiles);
                    for (const unsigned id : {kNvmlPowerProfileMaxP, kNvmlPowerProfileMaxQ}) {
                      const std::uint32_t others = kProfiles & ~(1u << id);
                      profiles->profiles[id] = {kNvmlPowerProfileVersion1, id, id, to_mask(others)};
                    }
                    return kNvmlSuccess;
                  });
}
NvmlReturn nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(NvmlDevice device, NvmlCurrentProfiles* profiles) {
  return on_state(device, "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles",
                  [&](const BoardSpec& spec, const BoardState& state) -> NvmlReturn {
                    if (profiles == nullptr) return kNvmlErrorInvalidArgument;
                    if (profiles->version != kNvmlCurrentProfilesVersion1) return kNvmlErrorArgumentVersionMismatch;
                    if (!has_profiles(spec)) return kNvmlErrorNotSupported;
                    profiles->supported = to_mask(kProfiles);
                    profiles->requested = to_mask(state.requested.power_profiles);
                    profiles->enforced = to_mask(enforced_profiles(state.applied.power_profiles));
                    return kNvmlSuccess;
                  });
}
NvmlReturn nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(NvmlDevice device, NvmlRequestedProfiles* profiles) {
  return change_profiles(device, "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles", profiles,
                         [](std::uint32_t& held, std::uint32_t asked) { held |= asked; });
}
NvmlReturn nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(NvmlDevice device, NvmlRequestedProfiles* profiles) {
  return change_profiles(device, "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles", profiles,
                         [](std::uint32_t& held, std::uint32_t asked) { held &= ~asked; });
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

}  // namespace flyball
