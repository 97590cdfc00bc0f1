// What `run` and `record` have in common: which devices, how often, which program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "client/measurement.h"

namespace flyball {

struct MeasuringOptions {
  std::optional<std::vector<std::size_t>> gpus;
  bool no_cpu = false;
  std::optional<Seconds> period;
  std::vector<std::string> command;
};

// The sensors of all boards that we know of have a new value within this time.
inline constexpr Seconds kLongestSensorWait{0.5};

// Adds --gpus, --no-cpu, --period and CMD. `options` must outlive the parsing.
void add_measuring_options(const Command& app, MeasuringOptions& options);

// Opens the devices that the options ask for. Warns of devices that are there and cannot be measured; throws
// SystemError where none can.
[[nodiscard]] MachineDevices open_measured_machine(const MeasuringOptions& options);
// Returns the devices that are there and were to be measured but cannot be. Their energy is missing from every total.
[[nodiscard]] std::vector<DeviceError> unmeasured_devices(const MeasuringOptions& options,
                                                          const MachineDevices& machine);

// Returns the command on one line, its words with blanks between them, shortened to 120 characters.
[[nodiscard]] std::string shown_command(const std::vector<std::string>& command);

}  // namespace flyball
