// Devices are judged first, then each row takes its device's power times its share of the time.
#include "account/static_power.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace flyball {

void tell_static_energy(Footprint& footprint, const StaticPowers& given, std::string_view option,
                        FootprintNotes& notes) {
  constexpr double kAsMuch = 0.99;
  std::map<std::string_view, Watts> powers;
  std::vector<std::string> unknown;
  std::vector<std::string> busy;
  std::vector<std::string> shared;
  for (FootprintDevice& device : footprint.devices) {
    if (device.attributed <= Joules(0)) continue;
    if (device.other_processes + device.system + device.monitor > Joules(0)) {
      shared.push_back(device.device);
      continue;
    }
    const auto told = given.find(device.device);
    if (told != given.end()) {
      device.static_power = told->second;
    } else if (!device.quiet) {
      unknown.push_back(device.device);
    } else if (*device.quiet * device.busy > kAsMuch * device.attributed) {
      busy.push_back(device.device);
    } else {
      device.static_power = device.quiet;
    }
    if (device.static_power) powers.emplace(device.device, *device.static_power);
  }
  for (FootprintDevice& device : footprint.devices) device.static_energy = Joules(0);
  std::map<std::string_view, Joules> sums;
  for (FootprintRow& row : footprint.rows) {
    const auto power = powers.find(row.device);
    if (power == powers.end()) continue;
    row.static_energy = std::clamp(power->second * row.shared, Joules(0), std::max(row.energy, Joules(0)));
    sums[row.device] += row.static_energy;
  }
  for (FootprintDevice& device : footprint.devices) {
    if (device.static_power) device.static_energy = sums[device.device];
  }
  constexpr std::string_view kNotApart = "static and dynamic energy are not told apart of";
  if (!unknown.empty()) {
    notes.push_back(
        fmt::format("{} {}: readings while nothing ran do not add up to 0.5 s; record for longer before and after the "
                    "profile, or give {}",
                    kNotApart, fmt::join(unknown, ", "), option));
  }
  if (!busy.empty()) {
    notes.push_back(fmt::format("{} {}: as much was drawn while nothing of the profile ran; give {}", kNotApart,
                                fmt::join(busy, ", "), option));
  }
  if (!shared.empty()) {
    notes.push_back(fmt::format("{} {}, which the program shares with others", kNotApart, fmt::join(shared, ", ")));
  }
  for (const auto& [name, power] : given) {
    const auto is_named = [&wanted = name](const FootprintDevice& device) { return device.device == wanted; };
    if (std::any_of(footprint.devices.begin(), footprint.devices.end(), is_named)) continue;
    notes.push_back(fmt::format("{} {}=... changes nothing: no trace has this device", option, name));
  }
}

}  // namespace flyball
