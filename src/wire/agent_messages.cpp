// The descriptions of the agent's messages: what each field is called, means and may hold. Only the settings by GPU
// need a codec of their own, since JSON has them as a list.
#include "wire/agent_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/record.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLastGpu = 1023;
constexpr double kLastJobRank = 131'071;
constexpr double kMostClock = 100'000.0;  // MHz
constexpr double kMostPower = 100'000.0;  // W
constexpr std::size_t kLongestPurpose = 200;
constexpr const char* kRequest = "the request";
constexpr const char* kAgentAnswer = "the agent's answer";

}  // namespace

bool is_session_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestSessionName && is_made_of(name, "._-") &&
         name.find_first_not_of('.') != std::string_view::npos;  // ".." would be no segment of a path
}

std::vector<Knob> SettingsChange::knobs() const {
  std::vector<Knob> knobs;
  if (sm_clocks) knobs.push_back(Knob::kSmClocks);
  if (memory_clocks) knobs.push_back(Knob::kMemoryClocks);
  if (power_limit || lost_power_limit) knobs.push_back(Knob::kPowerLimit);
  return knobs;
}

bool is_lease_id(std::string_view text) {
  constexpr std::size_t kMost = 64;  // the agent's have 32
  return !text.empty() && text.size() <= kMost &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

std::string LeaseHolder::text() const {
  std::string known;
  if (uid) known += fmt::format("uid {}", *uid);
  if (pid) known += fmt::format("{}pid {}", known.empty() ? "" : ", ", *pid);
  if (known.empty()) return name;
  return name.empty() ? known : fmt::format("{} ({})", name, known);
}

// Settings by GPU are [{"gpu": 0, "sm_clocks_mhz": ...}, ...].
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
  return Record<R>::answer("Settings", kAgentAnswer, "Settings made under a lease; null: as before the lease.")
      .field("sm_clocks_mhz", &R::sm_clocks, "Range to which the SM clock is locked.")
      .field("memory_clocks_mhz", &R::memory_clocks, "Range to which the memory clock is locked.")
      .field("power_limit_w", &R::power_limit, "Power limit of the board.", {.minimum = 1, .maximum = kMostPower})
      .field("lost_power_limit_w", &R::lost_power_limit, "Power limit of the board once the lease's holder is lost.",
             {.left_out = true, .minimum = 1, .maximum = kMostPower});
}

Record<SettingsChange> description_of(const SettingsChange* /*type*/) {
  using R = SettingsChange;
  return Record<R>::request("SettingsChange",
                            "A field that is missing changes nothing; null restores what held before the lease. At "
                            "least one field must be given.")
      .field("sm_clocks_mhz", &R::sm_clocks, "Range to which to lock the SM clock.")
      .field("memory_clocks_mhz", &R::memory_clocks, "Range to which to lock the memory clock.")
      .field("power_limit_w", &R::power_limit, "Power limit to set for the board.",
             {.minimum = 1, .maximum = kMostPower})
      .field("lost_power_limit_w", &R::lost_power_limit,
             "Power limit that the board gets if the lease's holder is lost; null: as before the lease.",
             {.minimum = 1, .maximum = kMostPower})
      .check([](const JsonObject& /*object*/, R& change) {
        if (!change.knobs().empty()) return;
        throw InputError({kRequest}, "it changes nothing",
                         "give sm_clocks_mhz, memory_clocks_mhz, power_limit_w or lost_power_limit_w");
      });
}

Record<LeaseRequest> description_of(const LeaseRequest* /*type*/) {
  using R = LeaseRequest;
  return Record<R>::request("LeaseRequest")
      .field("gpus", &R::gpus, "Indices of the GPUs to lease.",
             {.needed = true, .minimum = 0, .maximum = kLastGpu, .fewest = 1})
      .field("heartbeat_timeout_s", &R::heartbeat_timeout, "Time without a heartbeat after which the lease ends.",
             {.minimum = 0.1, .maximum = 60})
      .field("binding", &R::binding,
             "What else ends the lease. connection: the end of this connection or of the process; process: the end of "
             "the process alone.")
      .field("purpose", &R::purpose, "What the lease is for, in words for people; at most 200 bytes.",
             {.longest = kLongestPurpose})
      .field("job", &R::job,
             "The job whose training it is for, by which metrics tell the job's GPUs; at most 200 bytes.",
             {.left_out = true, .longest = kLongestPurpose})
      .field("rank", &R::rank, "Which of the job's ranks the holder is.",
             {.left_out = true, .minimum = 0, .maximum = kLastJobRank})
      .field("may_set", &R::may_set, "Settings that the lease may change. If it is missing, all of them.",
             {.left_out = true})
      .field("shared", &R::shared, "Whether the user's other processes may change and end the lease, too.",
             {.left_out = true, .null_is_missing = true})
      .field("lost_power_limit_w", &R::lost_power_limit,
             "Power limit that each GPU gets if the lease ends in any way but by its release. It stays until it is "
             "lifted. If it is missing, the limit is as before the lease.",
             {.left_out = true, .minimum = 1, .maximum = kMostPower})
      .check([](const JsonObject& object, R& lease) {
        const bool may_limit = lease.may_set.empty() || std::find(lease.may_set.begin(), lease.may_set.end(),
                                                                  Knob::kPowerLimit) != lease.may_set.end();
        if (lease.lost_power_limit && !may_limit) {
          object.refuse("lost_power_limit_w", "is a power limit, which may_set leaves out",
                        "add power_limit to may_set");
        }
        const auto keep_one_of_each = [](auto& list) {
          std::sort(list.begin(), list.end());
          list.erase(std::unique(list.begin(), list.end()), list.end());
        };
        keep_one_of_each(lease.gpus);
        keep_one_of_each(lease.may_set);
      });
}

Record<Cap> description_of(const Cap* /*type*/) {
  using R = Cap;
  return Record<R>::answer("Cap", kAgentAnswer, "What keeps a power limit down since the holder of a lease was lost.")
      .field("power_limit_w", &R::power_limit, "The power limit that the lease stated for this case.",
             {.needed = true, .minimum = 1, .maximum = kMostPower})
      .field("holder", &R::holder, "Who held the lease, in words for people.")
      .field("since_s", &R::since, "When the lease ended, in Unix time.", {.needed = true, .minimum = 0});
}

Record<LeaseHolder> description_of(const LeaseHolder* /*type*/) {
  using R = LeaseHolder;
  return Record<R>::answer("Holder", kAgentAnswer)
      .field("uid", &R::uid, "The user's number (uid); null over TCP.")
      .field("pid", &R::pid, "The process's number (pid); null over TCP.", {.minimum = 0})
      .field("name", &R::name, "The user's name, or the address of a TCP client.");
}

Record<LeaseInfo> description_of(const LeaseInfo* /*type*/) {
  using R = LeaseInfo;
  return Record<R>::answer("Lease", kAgentAnswer)
      .field("id", &R::id,
             "The lease's identifier: 128 random bits in hexadecimal. Null for a reader who may not end the lease.",
             {.empty_is_null = true})
      .field("holder", &R::holder, "Who took the lease.", {.needed = true})
      .field("gpus", &R::gpus, "Indices of the leased GPUs.", {.maximum = kLastGpu})
      .field("may_set", &R::may_set, "Settings that the lease may change.")
      .field("heartbeat_timeout_s", &R::heartbeat_timeout,
             "Time without a heartbeat after which the lease ends; 0: no heartbeat is needed.")
      .field("binding", &R::binding,
             "What else ends the lease. connection: the end of its connection or of the process; process: the end of "
             "the process alone.")
      .field("purpose", &R::purpose, "What the lease is for, in words for people.")
      .field("job", &R::job, "The job whose training it is for; empty: none was named.")
      .field("rank", &R::rank, "Which of the job's ranks the holder is; null: it did not say.")
      .field("shared", &R::shared, "Whether the user's other processes may change and end the lease, too.")
      .field("age_s", &R::age, "Time since the lease was granted.")
      .field("settings", &R::settings, "What has been set under the lease, for each GPU on which anything has.");
}

Record<LeaseList> description_of(const LeaseList* /*type*/) {
  return Record<LeaseList>::answer("LeaseList", kAgentAnswer)
      .field("leases", &LeaseList::leases, "All leases in force.");
}

Record<LeaseAlive> description_of(const LeaseAlive* /*type*/) {
  using R = LeaseAlive;
  return Record<R>::answer("LeaseAlive", kAgentAnswer)
      .field("id", &R::id, "The identifier of the lease, which is in force.", {.needed = true})
      .field("age_s", &R::age, "Time since the lease was granted.");
}

Record<LeaseEnded> description_of(const LeaseEnded* /*type*/) {
  using R = LeaseEnded;
  return Record<R>::answer("LeaseEnded", kAgentAnswer)
      .field("id", &R::id, "The identifier of the lease that has ended.", {.needed = true})
      .field("restored", &R::restored, "Always true: all settings are as they were before the lease.");
}

Record<PowerLimits> description_of(const PowerLimits* /*type*/) {
  using R = PowerLimits;
  return Record<R>::answer("PowerLimits", kAgentAnswer,
                           "Power limits that the caller can set, in watts. If the minimum is above the maximum, the "
                           "caller can set none.")
      .field("minimum", &R::minimum, "The lowest power limit that the caller may set.")
      .field("maximum", &R::maximum, "The highest power limit that the caller may set.")
      .field("standard", &R::standard, "The board's default power limit, which may lie outside this range.");
}

Record<GpuClocks> description_of(const GpuClocks* /*type*/) {
  using R = GpuClocks;
  return Record<R>::answer("GpuClocks", kAgentAnswer, "Clocks and power limits that a lease of the caller can set.")
      .field("sm_clocks_mhz", &R::sm_clocks, "SM clocks at the highest memory clock, highest first.",
             {.minimum = 0, .maximum = 1e6})
      .field("memory_clocks_mhz", &R::memory_clocks, "Memory clocks, highest first.")
      .field("power_limit_w", &R::power_limit, "Power limits of the board.");
}

Record<GpuStatus> description_of(const GpuStatus* /*type*/) {
  using R = GpuStatus;
  return Record<R>::answer("Gpu", kAgentAnswer,
                           "A reading is null if the device does not report it, or did not report it in time.")
      .field("index", &R::index, "The agent's number of the GPU.", {.needed = true, .maximum = kLastGpu})
      .field("uuid", &R::uuid, "The GPU's UUID; empty until the driver has opened the GPU.")
      .field("name", &R::name, "Name of the GPU's model.")
      .field("pci_bus_id", &R::pci_bus_id, "The GPU's PCI address.")
      .field("health", &R::health,
             "State of the GPU. unwell: a call of the driver hangs; lost: the GPU fell off the bus; restoring: a lease "
             "has ended, and its settings are not yet undone.")
      .field("trouble", &R::trouble, "What is wrong, in words; empty when all is well.")
      .field("power_w", &R::power, "Power that the GPU draws now.")
      .field("energy_j", &R::energy, "Energy of the GPU since its driver was loaded.")
      .field("sm_clock_mhz", &R::sm_clock, "SM clock now.")
      .field("sm_clock_maximum_mhz", &R::sm_clock_maximum, "The highest SM clock that can be set.")
      .field("memory_clock_mhz", &R::memory_clock, "Memory clock now.")
      .field("temperature_c", &R::temperature_celsius, "Temperature of the GPU, in degrees Celsius.")
      .field("utilisation", &R::utilisation,
             "Share of the driver's last measuring period in which a kernel ran, from 0 to 1.")
      .field("power_limit_w", &R::power_limit, "The power limit in force.")
      .field("power_limit_minimum_w", &R::power_limit_minimum, "The lowest power limit that the board takes.")
      .field("power_limit_maximum_w", &R::power_limit_maximum, "The highest power limit that the board takes.")
      .field("power_limit_standard_w", &R::power_limit_standard,
             "The board's default power limit, in force after a reset.")
      .field("throttle_reasons", &R::throttle_reasons, "Reasons why the GPU's clocks are below what was asked for.")
      .field("lease", &R::lease, "The lease on the GPU, if there is one.")
      .field("cap", &R::cap, "What keeps the power limit down since the holder of a lease was lost.");
}

Record<CpuStatus> description_of(const CpuStatus* /*type*/) {
  using R = CpuStatus;
  return Record<R>::answer("Cpu", kAgentAnswer, "An energy is null if the processor does not report it.")
      .field("index", &R::index, "Number of the processor package.", {.needed = true, .maximum = kLastGpu})
      .field("name", &R::name, "Name of the processor package, as the kernel gives it.")
      .field("package_energy_j", &R::package_energy, "Energy of the processor package since the agent started.")
      .field("dram_energy_j", &R::dram_energy, "Energy of the package's memory since the agent started.")
      .field("trouble", &R::trouble, "What is wrong, in words; empty when all is well.");
}

Record<NodeStatus> description_of(const NodeStatus* /*type*/) {
  using R = NodeStatus;
  return Record<R>::answer("NodeStatus", kAgentAnswer)
      .field("node", &R::node, "The node's host name.")
      .field("version", &R::version, "Version of the agent.")
      .field("gpus", &R::gpus, "All GPUs of the node.")
      .field("cpus", &R::cpus, "The processor packages that have an energy counter.");
}

Record<PowerPoint> description_of(const PowerPoint* /*type*/) {
  using R = PowerPoint;
  return Record<R>::answer("PowerSample", kAgentAnswer)
      .field("device", &R::device, "Name of the device, such as GPU:0, CPU:0 or DRAM:0.", {.needed = true})
      .field("time_s", &R::time, "Time of the sample, on the node's CLOCK_MONOTONIC.", {.needed = true})
      .field("power_w", &R::power, "Power of the device since its sample before.", {.needed = true})
      .field("energy_j", &R::energy, "Energy of the device since the sampler began.", {.needed = true});
}

Record<PowerEvent> description_of(const PowerEvent* /*type*/) {
  return Record<PowerEvent>::answer("PowerEvent", kAgentAnswer)
      .field("samples", &PowerEvent::samples, "All samples since the event before.");
}

Record<AccountSessionRequest> description_of(const AccountSessionRequest* /*type*/) {
  using R = AccountSessionRequest;
  return Record<R>::request("SessionRequest")
      .field("name", &R::name, "Name of the session: 1 to 64 letters, digits, '.', '_' or '-', not dots alone.",
             {.needed = true, .shortest = 1, .longest = kLongestSessionName, .marks = "._-"})
      .field("cpus", &R::cpus, "Whether processors and their memory are recorded, too.")
      .field("row_period_s", &R::row_period,
             "Least time between two rows of a device; changes in between are left out. 0: every change is a row. "
             "Other values must not be below the agent's sampling period.",
             {.minimum = 0, .maximum = 3600})
      .field("gpus", &R::gpus, "Indices of the GPUs to record. If it is missing, all GPUs.",
             {.minimum = 0, .maximum = 1024})
      .check([](const JsonObject& object, R& session) {
        if (!is_session_name(session.name)) object.refuse("name", "consists of dots alone", "give another name");
      });
}

Record<AccountSessionInfo> description_of(const AccountSessionInfo* /*type*/) {
  using R = AccountSessionInfo;
  return Record<R>::answer("Session", kAgentAnswer)
      .field("name", &R::name, "The name under which the session was started.", {.needed = true})
      .field("state", &R::state,
             "Whether the session still records. stopped: its owner ended it; too_long, too_large: the agent ended it.",
             {.needed = true})
      .field("ended", &R::ended, "Why the session ended, in words; empty while it records.")
      .field("devices", &R::devices, "Names of the devices that the session records, such as GPU:0, CPU:0 or DRAM:0.")
      .field("begin_s", &R::begin, "When the session began, in Unix time.", {.needed = true})
      .field("length_s", &R::length, "Time from the session's begin to its end, or until now.", {.needed = true})
      .field("rows", &R::rows, "Number of rows of the power trace.", {.needed = true})
      .field("bytes", &R::bytes, "Size of the power trace, in bytes.", {.needed = true})
      .field("failures", &R::failures,
             "One sentence for each device of which readings failed, so that rows of the trace are missing.");
}

Record<AccountSessionList> description_of(const AccountSessionList* /*type*/) {
  using R = AccountSessionList;
  return Record<R>::answer("SessionList", kAgentAnswer)
      .field("sessions", &R::sessions, "The caller's sessions, recording and ended.");
}

Record<AccountSessionDropped> description_of(const AccountSessionDropped* /*type*/) {
  using R = AccountSessionDropped;
  return Record<R>::answer("SessionDropped", kAgentAnswer)
      .field("name", &R::name, "Name of the session, which is gone.", {.needed = true})
      .field("dropped", &R::dropped, "Always true: the session is forgotten.");
}

}  // namespace flyball
