// The descriptions of the agent's messages: what each field is called, means and may hold. Only the settings by GPU
// need a codec of their own, since JSON has them as a list.
#include "wire/agent_messages.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/record.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLastGpu = 1023;
constexpr double kMostClock = 100'000.0;  // MHz
constexpr double kMostPower = 100'000.0;  // W
constexpr std::size_t kLongestPurpose = 200;
constexpr const char* kRequest = "the request";
constexpr const char* kAgentAnswer = "the agent's answer";

}  // namespace

bool is_session_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestSessionName && is_made_of(name, "._-") &&
         name.find_first_not_of('.') != std::string_view::npos;  // "..": no segment of a path
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

Record<ClockBounds> description_of(const ClockBounds* /*type*/) {
  using R = ClockBounds;
  return Record<R>::request("Bounds", "A range of clocks, in MHz.")
      .field("minimum", &R::minimum, "The lowest clock.", {.needed = true, .minimum = 1, .maximum = kMostClock})
      .field("maximum", &R::maximum, "The highest clock.", {.needed = true, .minimum = 1, .maximum = kMostClock})
      .check([](const JsonObject& object, R& bounds) {
        if (bounds.minimum <= bounds.maximum) return;
        object.refuse("minimum", "is above the maximum", "give a minimum that is not above the maximum");
      });
}

Record<GpuSettings> description_of(const GpuSettings* /*type*/) {
  using R = GpuSettings;
  return Record<R>::answer("Settings", kAgentAnswer, "What a lease has set; null: as it was before the lease.")
      .field("sm_clocks_mhz", &R::sm_clocks, "Locked clocks of the processors.")
      .field("memory_clocks_mhz", &R::memory_clocks, "Locked clocks of the memory.")
      .field("power_limit_w", &R::power_limit, "Power limit of the board.", {.minimum = 1, .maximum = kMostPower});
}

Record<SettingsChange> description_of(const SettingsChange* /*type*/) {
  using R = SettingsChange;
  return Record<R>::request(
             "SettingsChange",
             "A field that is missing changes nothing; null brings back what held before. At least one is given.")
      .field("sm_clocks_mhz", &R::sm_clocks, "Clocks of the processors to lock.")
      .field("memory_clocks_mhz", &R::memory_clocks, "Clocks of the memory to lock.")
      .field("power_limit_w", &R::power_limit, "Power limit of the board to set.",
             {.minimum = 1, .maximum = kMostPower})
      .check([](const JsonObject& /*object*/, R& change) {
        if (!change.knobs().empty()) return;
        throw InputError({kRequest}, "it changes nothing", "give sm_clocks_mhz, memory_clocks_mhz or power_limit_w");
      });
}

Record<LeaseRequest> description_of(const LeaseRequest* /*type*/) {
  using R = LeaseRequest;
  return Record<R>::request("LeaseRequest")
      .field("gpus", &R::gpus, "Indices of the GPUs to lease.",
             {.needed = true, .minimum = 0, .maximum = kLastGpu, .fewest = 1})
      .field("heartbeat_timeout_s", &R::heartbeat_timeout, "The lease ends when no heartbeat has come for this long.",
             {.minimum = 0.1, .maximum = 60})
      .field("binding", &R::binding,
             "What else ends the lease: the end of this connection or of the process, or of the process alone.")
      .field("purpose", &R::purpose, "A note for people; at most 200 bytes.", {.longest = kLongestPurpose})
      .field("may_set", &R::may_set, "What the lease may change; all where it is missing.", {.left_out = true})
      .field("shared", &R::shared, "Whether the user's other processes may change and end the lease, too.",
             {.left_out = true, .null_is_missing = true})
      .check([](const JsonObject& /*object*/, R& lease) {
        const auto keep_one_of_each = [](auto& list) {
          std::sort(list.begin(), list.end());
          list.erase(std::unique(list.begin(), list.end()), list.end());
        };
        keep_one_of_each(lease.gpus);
        keep_one_of_each(lease.may_set);
      });
}

Record<LeaseHolder> description_of(const LeaseHolder* /*type*/) {
  using R = LeaseHolder;
  return Record<R>::answer("Holder", kAgentAnswer)
      .field("uid", &R::uid, "The user's number; null over TCP.")
      .field("pid", &R::pid, "The process's number; null over TCP.", {.minimum = 0})
      .field("name", &R::name, "The user's name, or the address of a TCP client.");
}

Record<LeaseInfo> description_of(const LeaseInfo* /*type*/) {
  using R = LeaseInfo;
  return Record<R>::answer("Lease", kAgentAnswer)
      .field("id", &R::id,
             "128 random bits in hexadecimal; null for a reader who is neither of the holder's user nor root.",
             {.empty_is_null = true})
      .field("holder", &R::holder, "Who took it.", {.needed = true})
      .field("gpus", &R::gpus, "Indices of its GPUs.", {.maximum = kLastGpu})
      .field("may_set", &R::may_set, "What it may change.")
      .field("heartbeat_timeout_s", &R::heartbeat_timeout,
             "The lease ends when no heartbeat has come for this long; 0: none is needed.")
      .field("binding", &R::binding,
             "What else ends it: the end of its connection or of the process, or of the process alone.")
      .field("purpose", &R::purpose, "A note for people.")
      .field("shared", &R::shared, "Whether the user's other processes may change and end it, too.")
      .field("age_s", &R::age, "The time since it was granted.")
      .field("settings", &R::settings, "What it has set, for each GPU on which it has set something.");
}

Record<LeaseList> description_of(const LeaseList* /*type*/) {
  return Record<LeaseList>::answer("LeaseList", kAgentAnswer)
      .field("leases", &LeaseList::leases, "All leases in force.");
}

Record<LeaseAlive> description_of(const LeaseAlive* /*type*/) {
  using R = LeaseAlive;
  return Record<R>::answer("LeaseAlive", kAgentAnswer)
      .field("id", &R::id, "The lease, which is in force.", {.needed = true})
      .field("age_s", &R::age, "The time since it was granted.");
}

Record<LeaseEnded> description_of(const LeaseEnded* /*type*/) {
  using R = LeaseEnded;
  return Record<R>::answer("LeaseEnded", kAgentAnswer)
      .field("id", &R::id, "The lease that has ended.", {.needed = true})
      .field("restored", &R::restored, "Always true: all is as it was before.");
}

Record<PowerLimits> description_of(const PowerLimits* /*type*/) {
  using R = PowerLimits;
  return Record<R>::answer("PowerLimits", kAgentAnswer,
                           "In watts. Where the minimum lies above the maximum, the caller can set no limit.")
      .field("minimum", &R::minimum, "The lowest that the caller may set.")
      .field("maximum", &R::maximum, "The highest that the caller may set.")
      .field("standard", &R::standard, "The board's default, which may lie outside of them.");
}

Record<GpuClocks> description_of(const GpuClocks* /*type*/) {
  using R = GpuClocks;
  return Record<R>::answer("GpuClocks", kAgentAnswer, "What a lease of the caller can set.")
      .field("sm_clocks_mhz", &R::sm_clocks, "Clocks of the processors at the highest memory clock, highest first.",
             {.minimum = 0, .maximum = 1e6})
      .field("memory_clocks_mhz", &R::memory_clocks, "Clocks of the memory, highest first.")
      .field("power_limit_w", &R::power_limit, "Power limits of the board.");
}

Record<GpuStatus> description_of(const GpuStatus* /*type*/) {
  using R = GpuStatus;
  return Record<R>::answer("Gpu", kAgentAnswer,
                           "A reading is null where the device does not give it, or did not give it in time.")
      .field("index", &R::index, "The agent's number of the GPU.", {.needed = true, .maximum = kLastGpu})
      .field("uuid", &R::uuid, "Empty until the driver has opened the GPU.")
      .field("name", &R::name, "Name of the model.")
      .field("pci_bus_id", &R::pci_bus_id, "Its PCI address.")
      .field("health", &R::health,
             "unwell: a call of the driver hangs; lost: it fell off the bus; restoring: a lease has ended, and its "
             "settings are not yet undone.")
      .field("trouble", &R::trouble, "What is wrong, in words; empty when well.")
      .field("power_w", &R::power, "Power now.")
      .field("energy_j", &R::energy, "Energy since the driver was loaded.")
      .field("sm_clock_mhz", &R::sm_clock, "Clock of the processors now.")
      .field("sm_clock_maximum_mhz", &R::sm_clock_maximum, "The highest clock that can be set.")
      .field("memory_clock_mhz", &R::memory_clock, "Clock of the memory now.")
      .field("temperature_c", &R::temperature_celsius, "Temperature in degrees Celsius.")
      .field("utilisation", &R::utilisation, "Share of the driver's last period in which a kernel ran, 0 to 1.")
      .field("power_limit_w", &R::power_limit, "The power limit in force.")
      .field("power_limit_minimum_w", &R::power_limit_minimum, "The lowest limit that the board takes.")
      .field("power_limit_maximum_w", &R::power_limit_maximum, "The highest limit that the board takes.")
      .field("power_limit_standard_w", &R::power_limit_standard, "The board's own limit, after a reset.")
      .field("throttle_reasons", &R::throttle_reasons, "Why its clocks are below what was asked for.")
      .field("lease", &R::lease, "The lease on the GPU, if there is one.");
}

Record<CpuStatus> description_of(const CpuStatus* /*type*/) {
  using R = CpuStatus;
  return Record<R>::answer("Cpu", kAgentAnswer, "An energy is null where the processor does not give it.")
      .field("index", &R::index, "Number of the package.", {.needed = true, .maximum = kLastGpu})
      .field("name", &R::name, "Its name, as the kernel gives it.")
      .field("package_energy_j", &R::package_energy, "Energy of the package since the agent started.")
      .field("dram_energy_j", &R::dram_energy, "Energy of the package's memory since the agent started.")
      .field("trouble", &R::trouble, "What is wrong, in words; empty when well.");
}

Record<NodeStatus> description_of(const NodeStatus* /*type*/) {
  using R = NodeStatus;
  return Record<R>::answer("NodeStatus", kAgentAnswer)
      .field("node", &R::node, "The host name.")
      .field("version", &R::version, "Version of the agent.")
      .field("gpus", &R::gpus, "All GPUs of the node.")
      .field("cpus", &R::cpus, "The processor packages that have an energy counter.");
}

Record<PowerPoint> description_of(const PowerPoint* /*type*/) {
  using R = PowerPoint;
  return Record<R>::answer("PowerSample", kAgentAnswer)
      .field("device", &R::device, "GPU:0, CPU:0 or DRAM:0, for example.", {.needed = true})
      .field("time_s", &R::time, "When it was taken, on the node's CLOCK_MONOTONIC.", {.needed = true})
      .field("power_w", &R::power, "Power since the sample before.", {.needed = true})
      .field("energy_j", &R::energy, "Energy since the sampler began.", {.needed = true});
}

Record<PowerEvent> description_of(const PowerEvent* /*type*/) {
  return Record<PowerEvent>::answer("PowerEvent", kAgentAnswer)
      .field("samples", &PowerEvent::samples, "All samples since the event before.");
}

Record<AccountSessionRequest> description_of(const AccountSessionRequest* /*type*/) {
  using R = AccountSessionRequest;
  return Record<R>::request("SessionRequest")
      .field("name", &R::name, "1 to 64 letters, digits, '.', '_' or '-', not of dots alone.",
             {.needed = true, .shortest = 1, .longest = kLongestSessionName, .marks = "._-"})
      .field("cpus", &R::cpus, "Whether processors and their memory are recorded, too.")
      .field("row_period_s", &R::row_period,
             "Least time between two rows of a device; changes in between are left out. 0: every change is a row. "
             "Other values must not be below the agent's sampling period.",
             {.minimum = 0, .maximum = 3600})
      .field("gpus", &R::gpus, "Indices of the GPUs to record; all where it is missing.",
             {.minimum = 0, .maximum = 1024})
      .check([](const JsonObject& object, R& session) {
        if (!is_session_name(session.name)) object.refuse("name", "is of dots alone", "give another name");
      });
}

Record<AccountSessionInfo> description_of(const AccountSessionInfo* /*type*/) {
  using R = AccountSessionInfo;
  return Record<R>::answer("Session", kAgentAnswer)
      .field("name", &R::name, "The name under which it was started.", {.needed = true})
      .field("state", &R::state, "stopped: its owner ended it; too_long, too_large: the agent ended it.",
             {.needed = true})
      .field("ended", &R::ended, "Why it ended, in words; empty while it records.")
      .field("devices", &R::devices, "What it records: GPU:0, CPU:0 or DRAM:0, for example.")
      .field("begin_s", &R::begin, "When it began, in Unix time.", {.needed = true})
      .field("length_s", &R::length, "The time from its begin to its end, or until now.", {.needed = true})
      .field("rows", &R::rows, "Rows of its trace.", {.needed = true})
      .field("bytes", &R::bytes, "Bytes of its trace.", {.needed = true})
      .field("failures", &R::failures,
             "One sentence for each device of which readings failed, so that rows are missing.");
}

Record<AccountSessionList> description_of(const AccountSessionList* /*type*/) {
  using R = AccountSessionList;
  return Record<R>::answer("SessionList", kAgentAnswer)
      .field("sessions", &R::sessions, "The caller's sessions, recording and ended.");
}

Record<AccountSessionDropped> description_of(const AccountSessionDropped* /*type*/) {
  using R = AccountSessionDropped;
  return Record<R>::answer("SessionDropped", kAgentAnswer)
      .field("name", &R::name, "The session that is gone.", {.needed = true})
      .field("dropped", &R::dropped, "Always true.");
}

}  // namespace flyball
