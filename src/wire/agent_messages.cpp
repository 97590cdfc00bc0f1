// The descriptions of the agent's messages: what each field is called, means and may hold. Only the settings by GPU
// need a codec of their own, since JSON has them as a list.
#include "wire/agent_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLastGpu = 1023;
constexpr double kMostClock = 100'000.0;  // MHz
constexpr double kMostPower = 100'000.0;  // W
constexpr std::size_t kLongestPurpose = 200;
constexpr const char* kRequest = "the request";
constexpr const char* kAnswer = "the agent's answer";

}  // namespace

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

// [{"gpu": 0, "sm_clocks_mhz": ...}, ...]
template <>
struct Codec<std::map<std::size_t, GpuSettings>> {
  static std::map<std::size_t, GpuSettings> read(const JsonValue& value, const FieldRules& /*rules*/) {
    std::map<std::size_t, GpuSettings> all;
    for (std::size_t i = 0; i < value.size(); ++i) {
      JsonObject object = value.entry(i).object();
      const auto gpu = static_cast<std::size_t>(object.integer("gpu", 0, static_cast<std::int64_t>(kLastGpu)));
      all[gpu] = record_of<GpuSettings>().read(object);
    }
    return all;
  }
  static Json write(const std::map<std::size_t, GpuSettings>& all) {
    Json list = Json::array();
    for (const auto& [gpu, settings] : all) {
      Json one = {{"gpu", gpu}};
      one.update(to_json(settings));
      list.push_back(std::move(one));
    }
    return list;
  }
  static Json schema(const FieldRules& rules) {
    Json gpu = {{"type", "object"}, {"required", {"gpu"}}, {"properties", {{"gpu", {{"type", "integer"}}}}}};
    return {{"type", "array"}, {"items", {{"allOf", {std::move(gpu), schema_of<GpuSettings>(rules)}}}}};
  }
};

const Record<ClockBounds>& description_of(const ClockBounds* /*type*/) {
  using R = ClockBounds;
  static const auto kRecord =
      Record<R>::request("Bounds", "A range of clocks, in MHz.")
          .field("minimum", &R::minimum,
                 {.text = "The lowest clock.", .needed = true, .minimum = 1, .maximum = kMostClock})
          .field("maximum", &R::maximum,
                 {.text = "The highest clock.", .needed = true, .minimum = 1, .maximum = kMostClock})
          .check([](const JsonObject& object, R& bounds) {
            if (bounds.minimum <= bounds.maximum) return;
            object.refuse("minimum", "is above the maximum", "give a minimum that is not above the maximum");
          });
  return kRecord;
}

const Record<GpuSettings>& description_of(const GpuSettings* /*type*/) {
  using R = GpuSettings;
  static const auto kRecord =
      Record<R>::answer("Settings", kAnswer, "What a lease has set; null: as it was before the lease.")
          .field("sm_clocks_mhz", &R::sm_clocks, {.text = "Locked clocks of the processors."})
          .field("memory_clocks_mhz", &R::memory_clocks, {.text = "Locked clocks of the memory."})
          .field("power_limit_w", &R::power_limit,
                 {.text = "Power limit of the board.", .minimum = 1, .maximum = kMostPower});
  return kRecord;
}

const Record<SettingsChange>& description_of(const SettingsChange* /*type*/) {
  using R = SettingsChange;
  static const auto kRecord =
      Record<R>::request(
          "SettingsChange",
          "A field that is missing changes nothing; null brings back what held before. At least one is given.")
          .field("sm_clocks_mhz", &R::sm_clocks, {.text = "Clocks of the processors to lock."})
          .field("memory_clocks_mhz", &R::memory_clocks, {.text = "Clocks of the memory to lock."})
          .field("power_limit_w", &R::power_limit,
                 {.text = "Power limit of the board to set.", .minimum = 1, .maximum = kMostPower})
          .check([](const JsonObject& /*object*/, R& change) {
            if (!change.knobs().empty()) return;
            throw InputError({kRequest}, "it changes nothing",
                             "give sm_clocks_mhz, memory_clocks_mhz or power_limit_w");
          });
  return kRecord;
}

const Record<LeaseRequest>& description_of(const LeaseRequest* /*type*/) {
  using R = LeaseRequest;
  static const auto kRecord =
      Record<R>::request("LeaseRequest")
          .field(
              "gpus", &R::gpus,
              {.text = "Indices of the GPUs to lease.", .needed = true, .minimum = 0, .maximum = kLastGpu, .fewest = 1})
          .field("heartbeat_timeout_s", &R::heartbeat_timeout,
                 {.text = "The lease ends when no heartbeat has come for this long.", .minimum = 0.1, .maximum = 60})
          .field(
              "binding", &R::binding,
              {.text =
                   "What else ends the lease: the end of this connection or of the process, or of the process alone."})
          .field("purpose", &R::purpose, {.text = "A note for people; at most 200 bytes.", .longest = kLongestPurpose})
          .field("may_set", &R::may_set,
                 {.text = "What the lease may change; all where it is missing.", .left_out = true})
          .field("shared", &R::shared,
                 {.text = "Whether the user's other processes may change and end the lease, too.",
                  .left_out = true,
                  .null_is_missing = true})
          .check([](const JsonObject& /*object*/, R& lease) {
            const auto keep_one_of_each = [](auto& list) {
              std::sort(list.begin(), list.end());
              list.erase(std::unique(list.begin(), list.end()), list.end());
            };
            keep_one_of_each(lease.gpus);
            keep_one_of_each(lease.may_set);
          });
  return kRecord;
}

const Record<LeaseHolder>& description_of(const LeaseHolder* /*type*/) {
  using R = LeaseHolder;
  static const auto kRecord =
      Record<R>::answer("Holder", kAnswer)
          .field("uid", &R::uid, {.text = "The user's number; null over TCP."})
          .field("pid", &R::pid, {.text = "The process's number; null over TCP.", .minimum = 0})
          .field("name", &R::name, {.text = "The user's name, or the address of a TCP client."});
  return kRecord;
}

const Record<LeaseInfo>& description_of(const LeaseInfo* /*type*/) {
  using R = LeaseInfo;
  static const auto kRecord =
      Record<R>::answer("Lease", kAnswer)
          .field("id", &R::id,
                 {.text =
                      "128 random bits in hexadecimal; null for a reader who is neither of the holder's user nor root.",
                  .empty_is_null = true})
          .field("holder", &R::holder, {.text = "Who took it.", .needed = true})
          .field("gpus", &R::gpus, {.text = "Indices of its GPUs.", .maximum = kLastGpu})
          .field("may_set", &R::may_set, {.text = "What it may change."})
          .field("heartbeat_timeout_s", &R::heartbeat_timeout,
                 {.text = "The lease ends when no heartbeat has come for this long; 0: none is needed."})
          .field("binding", &R::binding,
                 {.text = "What else ends it: the end of its connection or of the process, or of the process alone."})
          .field("purpose", &R::purpose, {.text = "A note for people."})
          .field("shared", &R::shared, {.text = "Whether the user's other processes may change and end it, too."})
          .field("age_s", &R::age, {.text = "The time since it was granted."})
          .field("settings", &R::settings, {.text = "What it has set, for each GPU on which it has set something."});
  return kRecord;
}

const Record<GpuStatus>& description_of(const GpuStatus* /*type*/) {
  using R = GpuStatus;
  static const auto kRecord =
      Record<R>::answer("Gpu", kAnswer,
                        "A reading is null where the device does not give it, or did not give it in time.")
          .field("index", &R::index, {.text = "The agent's number of the GPU.", .needed = true, .maximum = kLastGpu})
          .field("uuid", &R::uuid, {.text = "Empty until the driver has opened the GPU."})
          .field("name", &R::name, {.text = "Name of the model."})
          .field("pci_bus_id", &R::pci_bus_id, {.text = "Its PCI address."})
          .field(
              "health", &R::health,
              {.text =
                   "unwell: a call of the driver hangs; lost: it fell off the bus; restoring: a lease has ended, and "
                   "its settings are not yet undone."})
          .field("trouble", &R::trouble, {.text = "What is wrong, in words; empty when well."})
          .field("power_w", &R::power, {.text = "Power now."})
          .field("energy_j", &R::energy, {.text = "Energy since the driver was loaded."})
          .field("sm_clock_mhz", &R::sm_clock, {.text = "Clock of the processors now."})
          .field("sm_clock_maximum_mhz", &R::sm_clock_maximum, {.text = "The highest clock that can be set."})
          .field("memory_clock_mhz", &R::memory_clock, {.text = "Clock of the memory now."})
          .field("temperature_c", &R::temperature_celsius, {.text = "Temperature in degrees Celsius."})
          .field("utilisation", &R::utilisation,
                 {.text = "Share of the driver's last period in which a kernel ran, 0 to 1."})
          .field("power_limit_w", &R::power_limit, {.text = "The power limit in force."})
          .field("power_limit_minimum_w", &R::power_limit_minimum, {.text = "The lowest limit that the board takes."})
          .field("power_limit_maximum_w", &R::power_limit_maximum, {.text = "The highest limit that the board takes."})
          .field("power_limit_standard_w", &R::power_limit_standard, {.text = "The board's own limit, after a reset."})
          .field("throttle_reasons", &R::throttle_reasons, {.text = "Why its clocks are below what was asked for."})
          .field("lease", &R::lease, {.text = "The lease on the GPU, if there is one."});
  return kRecord;
}

const Record<CpuStatus>& description_of(const CpuStatus* /*type*/) {
  using R = CpuStatus;
  static const auto kRecord =
      Record<R>::answer("Cpu", kAnswer, "An energy is null where the processor does not give it.")
          .field("index", &R::index, {.text = "Number of the package.", .needed = true, .maximum = kLastGpu})
          .field("name", &R::name, {.text = "Its name, as the kernel gives it."})
          .field("package_energy_j", &R::package_energy, {.text = "Energy of the package since the agent started."})
          .field("dram_energy_j", &R::dram_energy, {.text = "Energy of the package's memory since the agent started."})
          .field("trouble", &R::trouble, {.text = "What is wrong, in words; empty when well."});
  return kRecord;
}

const Record<NodeStatus>& description_of(const NodeStatus* /*type*/) {
  using R = NodeStatus;
  static const auto kRecord =
      Record<R>::answer("NodeStatus", kAnswer)
          .field("node", &R::node, {.text = "The host name."})
          .field("version", &R::version, {.text = "Version of the agent."})
          .field("gpus", &R::gpus, {.text = "All GPUs of the node."})
          .field("cpus", &R::cpus, {.text = "The processor packages that have an energy counter."});
  return kRecord;
}

const Record<PowerPoint>& description_of(const PowerPoint* /*type*/) {
  using R = PowerPoint;
  static const auto kRecord =
      Record<R>::answer("PowerSample", kAnswer)
          .field("device", &R::device, {.text = "GPU:0, CPU:0 or DRAM:0, for example.", .needed = true})
          .field("time_s", &R::time, {.text = "When it was taken, on the node's CLOCK_MONOTONIC.", .needed = true})
          .field("power_w", &R::power, {.text = "Power since the sample before.", .needed = true})
          .field("energy_j", &R::energy, {.text = "Energy since the sampler began.", .needed = true});
  return kRecord;
}

const Record<PowerEvent>& description_of(const PowerEvent* /*type*/) {
  static const auto kRecord =
      Record<PowerEvent>::answer("PowerEvent", kAnswer)
          .field("samples", &PowerEvent::samples, {.text = "All samples since the event before."});
  return kRecord;
}

}  // namespace flyball
