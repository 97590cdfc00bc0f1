#include "wire/agent_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_object.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostGpus = 1024;
constexpr std::size_t kLongestPurpose = 200;
constexpr NumberRange kClockRange{1.0, 100'000.0, "MHz"};
constexpr NumberRange kPowerRange{1.0, 100'000.0, "W"};
constexpr NumberRange kTimeoutRange{0.1, 60.0, "s"};
constexpr NumberRange kAnyNumber{-1e300, 1e300, ""};
constexpr const char* kRequest = "the request";
constexpr const char* kAnswer = "the agent's answer";

Json bounds_json(const ClockBounds& bounds) {
  return {{"minimum", bounds.minimum.value()}, {"maximum", bounds.maximum.value()}};
}

ClockBounds read_bounds(JsonObject object) {
  const ClockBounds bounds{Megahertz(object.number("minimum", kClockRange)),
                           Megahertz(object.number("maximum", kClockRange))};
  if (bounds.minimum > bounds.maximum) {
    object.refuse("minimum", "is above the maximum", "give a minimum that is not above the maximum");
  }
  object.refuse_others();
  return bounds;
}

template <class Unit>
Json number_or_null(const std::optional<Quantity<Unit>>& value) {
  return value && std::isfinite(value->value()) ? Json(value->value()) : Json(nullptr);
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

template <class Unit>
std::optional<Quantity<Unit>> as_quantity(const std::optional<double>& value) {
  if (!value) return std::nullopt;
  return Quantity<Unit>(*value);
}

Json names_json(const std::vector<Knob>& knobs) {
  Json names = Json::array();
  for (const Knob knob : knobs) names.push_back(name_of(knob));
  return names;
}

std::vector<Knob> read_knobs(JsonObject& object, const std::string& field) {
  std::vector<Knob> knobs;
  for (const std::string& name : object.texts(field)) {
    const auto knob = knob_named(name);
    if (!knob) {
      object.refuse(field, fmt::format("there is no '{}'", name),
                    "give some of: sm_clocks, memory_clocks, power_limit");
    }
    if (std::find(knobs.begin(), knobs.end(), *knob) == knobs.end()) knobs.push_back(*knob);
  }
  return knobs;
}

std::vector<std::size_t> read_gpus(JsonObject& object) {
  std::vector<std::size_t> gpus;
  for (const std::int64_t gpu : object.integers("gpus", 0, kMostGpus - 1))
    gpus.push_back(static_cast<std::size_t>(gpu));
  return gpus;
}

LeaseBinding read_binding(JsonObject& object) {
  return object.find_choice("binding", {"connection", "process"}) == "process" ? LeaseBinding::kProcess
                                                                               : LeaseBinding::kConnection;
}

std::optional<ClockBounds> find_bounds(JsonObject& object, const std::string& name) {
  auto bounds = object.find_object(name);
  if (!bounds) return std::nullopt;
  return read_bounds(*bounds);
}

LeaseInfo read_lease(JsonObject object) {
  LeaseInfo lease;
  lease.id = object.find_text("id").value_or("");
  JsonObject holder = object.object("holder");
  if (const auto uid = holder.find_integer("uid", 0, UINT32_MAX)) lease.holder.uid = static_cast<std::uint32_t>(*uid);
  if (const auto pid = holder.find_integer("pid", 0, INT32_MAX)) lease.holder.pid = static_cast<std::int32_t>(*pid);
  lease.holder.name = holder.find_text("name").value_or("");
  lease.gpus = read_gpus(object);
  lease.may_set = read_knobs(object, "may_set");
  lease.heartbeat_timeout = Seconds(object.find_number("heartbeat_timeout_s", kAnyNumber).value_or(0));
  lease.binding = read_binding(object);
  lease.purpose = object.find_text("purpose").value_or("");
  lease.shared = object.has("shared") && object.boolean("shared");
  lease.age = Seconds(object.find_number("age_s", kAnyNumber).value_or(0));
  for (JsonObject& setting : object.objects("settings")) {
    const auto gpu = static_cast<std::size_t>(setting.integer("gpu", 0, kMostGpus - 1));
    lease.settings[gpu] = read_gpu_settings(setting);
  }
  return lease;
}

Json gpu_json(const GpuStatus& gpu) {
  return {{"index", gpu.index},
          {"uuid", gpu.uuid},
          {"name", gpu.name},
          {"pci_bus_id", gpu.pci_bus_id},
          {"health", name_of(gpu.health)},
          {"trouble", gpu.trouble},
          {"power_w", number_or_null(gpu.power)},
          {"energy_j", number_or_null(gpu.energy)},
          {"sm_clock_mhz", number_or_null(gpu.sm_clock)},
          {"sm_clock_maximum_mhz", number_or_null(gpu.sm_clock_maximum)},
          {"memory_clock_mhz", number_or_null(gpu.memory_clock)},
          {"temperature_c", number_or_null(gpu.temperature_celsius)},
          {"utilisation", number_or_null(gpu.utilisation)},
          {"power_limit_w", number_or_null(gpu.power_limit)},
          {"power_limit_minimum_w", number_or_null(gpu.power_limit_minimum)},
          {"power_limit_maximum_w", number_or_null(gpu.power_limit_maximum)},
          {"power_limit_standard_w", number_or_null(gpu.power_limit_standard)},
          {"throttle_reasons", gpu.throttle_reasons},
          {"lease", gpu.lease ? to_json(*gpu.lease) : Json(nullptr)}};
}

GpuStatus read_gpu(JsonObject object) {
  GpuStatus gpu;
  gpu.index = static_cast<std::size_t>(object.integer("index", 0, kMostGpus - 1));
  gpu.uuid = object.find_text("uuid").value_or("");
  gpu.name = object.find_text("name").value_or("");
  gpu.pci_bus_id = object.find_text("pci_bus_id").value_or("");
  const std::string health = object.find_text("health").value_or("well");
  for (const GpuHealth known : {GpuHealth::kUnwell, GpuHealth::kLost, GpuHealth::kRestoring}) {
    if (health == name_of(known)) gpu.health = known;
  }
  gpu.trouble = object.find_text("trouble").value_or("");
  const auto find = [&](const char* name) { return object.find_number(name, kAnyNumber); };
  gpu.power = as_quantity<WattsTag>(find("power_w"));
  gpu.energy = as_quantity<JoulesTag>(find("energy_j"));
  gpu.sm_clock = as_quantity<MegahertzTag>(find("sm_clock_mhz"));
  gpu.sm_clock_maximum = as_quantity<MegahertzTag>(find("sm_clock_maximum_mhz"));
  gpu.memory_clock = as_quantity<MegahertzTag>(find("memory_clock_mhz"));
  gpu.temperature_celsius = find("temperature_c");
  gpu.utilisation = find("utilisation");
  gpu.power_limit = as_quantity<WattsTag>(find("power_limit_w"));
  gpu.power_limit_minimum = as_quantity<WattsTag>(find("power_limit_minimum_w"));
  gpu.power_limit_maximum = as_quantity<WattsTag>(find("power_limit_maximum_w"));
  gpu.power_limit_standard = as_quantity<WattsTag>(find("power_limit_standard_w"));
  gpu.throttle_reasons = object.texts("throttle_reasons");
  if (auto lease = object.find_object("lease")) gpu.lease = read_lease(*lease);
  return gpu;
}

}  // namespace

std::string_view name_of(Knob knob) {
  switch (knob) {
    case Knob::kSmClocks: return "sm_clocks";
    case Knob::kMemoryClocks: return "memory_clocks";
    case Knob::kPowerLimit: return "power_limit";
  }
  return "";
}

std::optional<Knob> knob_named(std::string_view name) {
  for (const Knob knob : kAllKnobs) {
    if (name_of(knob) == name) return knob;
  }
  return std::nullopt;
}

std::string_view name_of(LeaseBinding binding) { return binding == LeaseBinding::kProcess ? "process" : "connection"; }

std::string_view name_of(GpuHealth health) {
  switch (health) {
    case GpuHealth::kWell: return "well";
    case GpuHealth::kUnwell: return "unwell";
    case GpuHealth::kLost: return "lost";
    case GpuHealth::kRestoring: return "restoring";
  }
  return "";
}

std::vector<Knob> SettingsChange::knobs() const {
  std::vector<Knob> knobs;
  if (sm_clocks) knobs.push_back(Knob::kSmClocks);
  if (memory_clocks) knobs.push_back(Knob::kMemoryClocks);
  if (power_limit) knobs.push_back(Knob::kPowerLimit);
  return knobs;
}

std::string LeaseHolder::text() const {
  std::string known;
  if (uid) known += fmt::format("uid {}", *uid);
  if (pid) known += fmt::format("{}pid {}", known.empty() ? "" : ", ", *pid);
  if (known.empty()) return name;
  return name.empty() ? known : fmt::format("{} ({})", name, known);
}

LeaseRequest read_lease_request(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  LeaseRequest request;
  request.gpus = read_gpus(object);
  if (request.gpus.empty()) object.refuse("gpus", "names no GPU", "list the indices of the GPUs to lease");
  std::sort(request.gpus.begin(), request.gpus.end());
  request.gpus.erase(std::unique(request.gpus.begin(), request.gpus.end()), request.gpus.end());
  request.may_set = read_knobs(object, "may_set");
  if (const auto timeout = object.find_number("heartbeat_timeout_s", kTimeoutRange)) {
    request.heartbeat_timeout = Seconds(*timeout);
  }
  request.binding = read_binding(object);
  request.shared = object.has("shared") && !object.is_null("shared") && object.boolean("shared");
  request.purpose = object.find_text("purpose").value_or("");
  if (request.purpose.size() > kLongestPurpose) {
    object.refuse("purpose", "is too long", fmt::format("give at most {} bytes", kLongestPurpose));
  }
  object.refuse_others();
  return request;
}

GpuSettings read_gpu_settings(JsonObject object) {
  GpuSettings settings;
  settings.sm_clocks = find_bounds(object, "sm_clocks_mhz");
  settings.memory_clocks = find_bounds(object, "memory_clocks_mhz");
  settings.power_limit = as_quantity<WattsTag>(object.find_number("power_limit_w", kPowerRange));
  return settings;
}

SettingsChange read_settings_change(const nlohmann::json& json) {
  JsonObject object(json, kRequest);
  SettingsChange change;
  if (object.has("sm_clocks_mhz")) change.sm_clocks = find_bounds(object, "sm_clocks_mhz");
  if (object.has("memory_clocks_mhz")) change.memory_clocks = find_bounds(object, "memory_clocks_mhz");
  if (object.has("power_limit_w")) {
    change.power_limit = as_quantity<WattsTag>(object.find_number("power_limit_w", kPowerRange));
  }
  object.refuse_others();
  if (change.knobs().empty()) {
    throw InputError({kRequest}, "it changes nothing", "give sm_clocks_mhz, memory_clocks_mhz or power_limit_w");
  }
  return change;
}

Json to_json(const LeaseRequest& request) {
  Json json = {{"gpus", request.gpus},
               {"heartbeat_timeout_s", request.heartbeat_timeout.value()},
               {"binding", name_of(request.binding)},
               {"purpose", request.purpose}};
  if (!request.may_set.empty()) json["may_set"] = names_json(request.may_set);
  if (request.shared) json["shared"] = true;
  return json;
}

Json to_json(const SettingsChange& change) {
  Json json = Json::object();
  if (change.sm_clocks) json["sm_clocks_mhz"] = *change.sm_clocks ? bounds_json(**change.sm_clocks) : Json(nullptr);
  if (change.memory_clocks) {
    json["memory_clocks_mhz"] = *change.memory_clocks ? bounds_json(**change.memory_clocks) : Json(nullptr);
  }
  if (change.power_limit) json["power_limit_w"] = number_or_null(*change.power_limit);
  return json;
}

Json to_json(const GpuSettings& settings) {
  return {{"sm_clocks_mhz", settings.sm_clocks ? bounds_json(*settings.sm_clocks) : Json(nullptr)},
          {"memory_clocks_mhz", settings.memory_clocks ? bounds_json(*settings.memory_clocks) : Json(nullptr)},
          {"power_limit_w", number_or_null(settings.power_limit)}};
}

Json to_json(const LeaseHolder& holder) {
  return {{"uid", holder.uid ? Json(*holder.uid) : Json(nullptr)},
          {"pid", holder.pid ? Json(*holder.pid) : Json(nullptr)},
          {"name", holder.name}};
}

Json to_json(const LeaseInfo& lease) {
  Json settings = Json::array();
  for (const auto& [gpu, set] : lease.settings) {
    Json one = {{"gpu", gpu}};
    one.update(to_json(set));
    settings.push_back(std::move(one));
  }
  return {{"id", lease.id.empty() ? Json(nullptr) : Json(lease.id)},
          {"holder", to_json(lease.holder)},
          {"gpus", lease.gpus},
          {"may_set", names_json(lease.may_set)},
          {"heartbeat_timeout_s", lease.heartbeat_timeout.value()},
          {"binding", name_of(lease.binding)},
          {"purpose", lease.purpose},
          {"shared", lease.shared},
          {"age_s", lease.age.value()},
          {"settings", settings}};
}

Json to_json(const NodeStatus& report) {
  Json gpus = Json::array();
  for (const GpuStatus& gpu : report.gpus) gpus.push_back(gpu_json(gpu));
  Json cpus = Json::array();
  for (const CpuStatus& cpu : report.cpus) {
    cpus.push_back({{"index", cpu.index},
                    {"name", cpu.name},
                    {"package_energy_j", number_or_null(cpu.package_energy)},
                    {"dram_energy_j", number_or_null(cpu.dram_energy)},
                    {"trouble", cpu.trouble}});
  }
  return {{"node", report.node}, {"version", report.version}, {"gpus", gpus}, {"cpus", cpus}};
}

Json to_json(const std::vector<PowerPoint>& points) {
  Json samples = Json::array();
  for (const PowerPoint& point : points) {
    samples.push_back({{"device", point.device},
                       {"time_s", point.time.value()},
                       {"power_w", point.power.value()},
                       {"energy_j", point.energy.value()}});
  }
  return {{"samples", samples}};
}

LeaseInfo read_lease(const nlohmann::json& json) { return read_lease(JsonObject(json, kAnswer)); }

std::vector<LeaseInfo> read_leases(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  std::vector<LeaseInfo> leases;
  for (const JsonObject& lease : object.objects("leases")) leases.push_back(read_lease(lease));
  return leases;
}

NodeStatus read_node_status(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  NodeStatus report;
  report.node = object.find_text("node").value_or("");
  report.version = object.find_text("version").value_or("");
  for (const JsonObject& gpu : object.objects("gpus")) report.gpus.push_back(read_gpu(gpu));
  for (JsonObject& cpu : object.objects("cpus")) {
    CpuStatus one;
    one.index = static_cast<std::size_t>(cpu.integer("index", 0, kMostGpus - 1));
    one.name = cpu.find_text("name").value_or("");
    one.package_energy = as_quantity<JoulesTag>(cpu.find_number("package_energy_j", kAnyNumber));
    one.dram_energy = as_quantity<JoulesTag>(cpu.find_number("dram_energy_j", kAnyNumber));
    one.trouble = cpu.find_text("trouble").value_or("");
    report.cpus.push_back(std::move(one));
  }
  return report;
}

std::vector<PowerPoint> read_power_points(const nlohmann::json& json) {
  JsonObject object(json, kAnswer);
  std::vector<PowerPoint> points;
  for (JsonObject& sample : object.objects("samples")) {
    points.push_back({sample.text("device"), Seconds(sample.number("time_s", kAnyNumber)),
                      Watts(sample.number("power_w", kAnyNumber)), Joules(sample.number("energy_j", kAnyNumber))});
  }
  return points;
}

}  // namespace flyball
