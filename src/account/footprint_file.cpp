// Read by JsonObject; fields that older files lack become zero, and deviations of several runs that are missing become
// NaN (unknown).
#include "account/footprint_file.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "account/rank_footprint.h"
#include "account/work_class.h"
#include "base/json_object.h"
#include "base/json_text.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr NumberRange kJoules{-1e18, 1e18, "J"};
constexpr NumberRange kErrors{0.0, 1e18, "J"};
constexpr long kMostGroups = 1'000'000;
constexpr NumberRange kWatts{0.0, 1e18, "W"};
constexpr NumberRange kSeconds{0.0, 1e12, "s"};
constexpr const char* kMend = "write one with: flyball account --events T --power P --json FILE";

Joules joules(JsonObject& object, const char* name) { return Joules(object.find_number(name, kJoules).value_or(0.0)); }
Seconds seconds(JsonObject& object, const char* name) {
  return Seconds(object.find_number(name, kSeconds).value_or(0.0));
}

FootprintDevice device_of(JsonObject& object) {
  FootprintDevice device;
  device.device = object.text("device");
  device.measured = joules(object, "measured_j");
  device.attributed = joules(object, "attributed_j");
  device.idle = joules(object, "idle_j");
  device.outside = joules(object, "outside_j");
  device.other_processes = joules(object, "other_processes_j");
  device.system = joules(object, "system_j");
  device.monitor = joules(object, "monitor_j");
  device.powered = seconds(object, "measured_s");
  device.busy = seconds(object, "busy_s");
  device.idle_time = seconds(object, "idle_s");
  device.outside_time = seconds(object, "outside_s");
  device.uncovered = seconds(object, "uncovered_s");
  device.unmeasured = seconds(object, "unmeasured_s");
  if (const std::optional<std::string> method = object.find_text("method")) {
    device.method = value_named<AccountMethod>(*method);
  }
  if (const std::optional<double> power = object.find_number("static_power_w", kWatts)) {
    device.static_power = Watts(*power);
  }
  device.static_energy = joules(object, "static_j");
  return device;
}

FootprintRow row_of(JsonObject& object, int runs) {
  // If the file has several runs but no deviation, the deviation is unknown, not 0.
  const double no_deviation = runs > 1 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
  FootprintRow row;
  row.name = object.text("name");
  row.device = object.text("device");
  const std::string phase = object.find_text("phase").value_or("");
  for (const Phase candidate : {Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
    if (phase == name_of(candidate)) row.phase = candidate;
  }
  row.energy = Joules(object.number("energy_j", kJoules));
  row.busy = Seconds(object.number("busy_s", kSeconds));
  row.powered = Seconds(object.find_number("powered_s", kSeconds).value_or(row.busy.value()));
  row.energy_deviation = Joules(object.find_number("energy_std_j", kJoules).value_or(no_deviation));
  row.power_deviation = Watts(object.find_number("mean_power_std_w", kWatts).value_or(no_deviation));
  row.error = Joules(object.find_number("energy_error_j", kErrors).value_or(std::numeric_limits<double>::quiet_NaN()));
  row.static_energy =
      Joules(object.find_number("static_j", kJoules).value_or(std::numeric_limits<double>::quiet_NaN()));
  row.group = static_cast<std::uint32_t>(object.find_integer("group", 0, kMostGroups).value_or(0));
  return row;
}

nlohmann::ordered_json steps_json(const StepEnergy& steps) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::object();
  for (const StepEnergy::Device& device : steps.devices) devices[device.device] = device.energy.value();
  nlohmann::ordered_json json = {{"count", steps.steps},
                                 {"left_out", steps.left_out},
                                 {"step_s", steps.time.value()},
                                 {"step_j", steps.energy.value()},
                                 {"step_std_j", steps.deviation.value()},
                                 {"devices_j", std::move(devices)}};
  if (steps.samples > 0) json["sample_j"] = steps.of_sample().value();
  return json;
}

nlohmann::ordered_json classes_json(const Footprint& footprint) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const ClassShare& share : by_class(footprint)) {
    json[std::string(name_of(share.work))] = {{"energy_j", share.energy.value()}, {"busy_s", share.busy.value()}};
  }
  return json;
}

nlohmann::ordered_json ranks_json(const std::vector<RankShare>& ranks) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  const std::size_t slowest = slowest_rank(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankShare& share = ranks[i];
    array.push_back({{"rank", share.rank},
                     {"devices", share.devices},
                     {"energy_j", share.energy.value()},
                     {"idle_j", share.idle.value()},
                     {"computing_s", share.computing.value()},
                     {"communicating_s", share.communicating.value()},
                     {"exposed_s", share.exposed.value()},
                     {"processor_s", share.processor.value()},
                     {"slowest", i == slowest}});
  }
  return array;
}

FootprintGroup group_of(JsonObject& object) {
  FootprintGroup group;
  group.number = static_cast<std::uint32_t>(object.integer("group", 1, kMostGroups));
  group.device = object.text("device");
  group.energy = Joules(object.number("energy_j", kJoules));
  group.error = Joules(object.number("energy_error_j", kErrors));
  return group;
}

}  // namespace

std::string footprint_json(const Footprint& footprint, const FootprintNotes& notes) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const FootprintDevice& device : footprint.devices) {
    nlohmann::ordered_json json = {{"device", device.device},
                                   {"measured_j", device.measured.value()},
                                   {"attributed_j", device.attributed.value()},
                                   {"idle_j", device.idle.value()},
                                   {"outside_j", device.outside.value()},
                                   {"other_processes_j", device.other_processes.value()},
                                   {"system_j", device.system.value()},
                                   {"monitor_j", device.monitor.value()},
                                   {"measured_s", device.powered.value()},
                                   {"busy_s", device.busy.value()},
                                   {"idle_s", device.idle_time.value()},
                                   {"outside_s", device.outside_time.value()},
                                   {"unmeasured_s", device.unmeasured.value()},
                                   {"uncovered_s", device.uncovered.value()}};
    const CommunicationTime& communication = device.communication;
    if (communication.alone + communication.beside > Seconds(0)) {
      json["communicating_alone_s"] = communication.alone.value();
      json["communicating_beside_s"] = communication.beside.value();
      json["communicating_alone_j"] = communication.energy.value();
    }
    if (device.method) json["method"] = name_of(*device.method);
    if (device.static_power) {
      json["static_power_w"] = device.static_power->value();
      json["static_j"] = device.static_energy.value();
      json["dynamic_j"] = (device.attributed - device.static_energy).value();
    }
    devices.push_back(std::move(json));
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const FootprintRow& row : footprint.rows) {
    // Member by member, since a braced list copies each member, and there are thousands of rows.
    nlohmann::ordered_json::object_t json;
    json.reserve(13);
    json.emplace_back("name", row.name);
    json.emplace_back("device", row.device);
    json.emplace_back("phase", name_of(row.phase));
    json.emplace_back("energy_j", row.energy.value());
    json.emplace_back("busy_s", row.busy.value());
    json.emplace_back("powered_s", row.powered.value());
    json.emplace_back("mean_power_w", row.mean_power().value());
    if (footprint.runs > 1 || !footprint.ranks.empty()) {
      json.emplace_back("energy_std_j", row.energy_deviation.value());
    }
    if (footprint.runs > 1) json.emplace_back("mean_power_std_w", row.power_deviation.value());
    json.emplace_back("energy_error_j", row.error.value());
    if (!std::isnan(row.static_energy.value())) {
      json.emplace_back("static_j", row.static_energy.value());
      json.emplace_back("dynamic_j", (row.energy - row.static_energy).value());
    }
    if (row.group != 0) json.emplace_back("group", row.group);
    rows.push_back(std::move(json));
  }
  nlohmann::ordered_json groups = nlohmann::ordered_json::array();
  for (const FootprintGroup& group : footprint.groups) {
    groups.push_back({{"group", group.number},
                      {"device", group.device},
                      {"energy_j", group.energy.value()},
                      {"energy_error_j", group.error.value()}});
  }
  nlohmann::ordered_json json = {{"runs", footprint.runs},
                                 {"profiled_s", footprint.profiled.value()},
                                 {"devices", std::move(devices)},
                                 {"measured_j", footprint.measured().value()},
                                 {"attributed_j", footprint.attributed().value()},
                                 {"idle_j", footprint.idle().value()},
                                 {"outside_j", footprint.outside().value()},
                                 {"elsewhere_j", footprint.elsewhere().value()},
                                 {"footprint", std::move(rows)},
                                 {"groups", std::move(groups)},
                                 {"notes", notes}};
  if (footprint.steps.steps > 0) json["steps"] = steps_json(footprint.steps);
  json["classes"] = classes_json(footprint);
  if (!footprint.ranks.empty()) json["ranks"] = ranks_json(footprint.ranks);
  return dump_json(json, 2) + "\n";
}

Footprint read_footprint(const std::string& source, std::string_view text) {
  const nlohmann::json json = parse_json(source, text, kMend);
  JsonObject object(json, source);
  if (!object.has("footprint")) throw InputError({source}, "there is no footprint in it", kMend);
  Footprint footprint;
  footprint.runs = static_cast<int>(object.find_integer("runs", 1, 1'000'000).value_or(1));
  footprint.profiled = seconds(object, "profiled_s");
  for (JsonObject& device : object.objects("devices")) footprint.devices.push_back(device_of(device));
  for (JsonObject& row : object.objects("footprint")) footprint.rows.push_back(row_of(row, footprint.runs));
  for (JsonObject& group : object.objects("groups")) footprint.groups.push_back(group_of(group));
  merge_rows(footprint);
  return footprint;
}

Footprint read_footprint_file(const std::string& path) { return read_footprint(path, read_text_file(path)); }

}  // namespace flyball
