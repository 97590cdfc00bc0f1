// Reports what a machine's devices tell about themselves, field by field, so that a device that refuses one question
// still answers the others.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/measurement.h"

namespace flyball {

struct GpuReport {
  GpuIdentity identity;
  std::string label;
  std::vector<Megahertz> sm_clocks;      // highest first; empty where none are listed
  std::vector<Megahertz> memory_clocks;  // as above
  std::optional<Megahertz> sm_clock;
  std::optional<Megahertz> memory_clock;
  std::optional<Watts> power;
  std::optional<Watts> power_limit;
  std::optional<PowerLimitRange> power_limits;
  std::optional<Joules> total_energy;  // none where there is no counter
  std::optional<double> temperature_celsius;
  std::optional<std::vector<std::string>> throttle_reasons;
  std::optional<bool> persistence;
  ThrottleAccess access;
  std::vector<DeviceError> problems;  // what the empty fields' questions were answered, "not supported" left out, and
                                      // once that the driver hangs, where it does
};

struct CpuReport {
  std::string label;
  std::string name;
  bool readable = false;
  bool memory = false;                 // has a DRAM domain
  std::optional<DeviceError> problem;  // why it is not readable
};

// Both functions ask a device everything once, with about twenty driver calls per GPU. A call that hangs costs
// kAnswerPatience, and the questions after it are left out.
[[nodiscard]] GpuReport report_of(const std::shared_ptr<const GpuDevice>& gpu);
[[nodiscard]] CpuReport report_of(const CpuDevice& cpu);

}  // namespace flyball
