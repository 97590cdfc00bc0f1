// The messages between the agent and its clients, as values. agent_messages.cpp describes each once (base/record.h):
// read_message<T>(json) reads it, to_json() writes it, and the schemas of docs/openapi-agent.yaml are made from the
// description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described.h"
#include "base/names.h"
#include "base/units.h"

namespace flyball {

inline constexpr const char* kAgentSocket = "/run/flyball/agent.sock";
inline constexpr Seconds kDefaultHeartbeatTimeout{0.75};  // with 0.1 s to restore, default clocks within 1 s

// The settings of a GPU that can be changed.
enum class Knob { kSmClocks, kMemoryClocks, kPowerLimit };
template <>
inline constexpr auto kNamesOf<Knob> = name_list("sm_clocks", "memory_clocks", "power_limit");
inline constexpr auto kAllKnobs = values_of<Knob>();

struct ClockBounds {
  Megahertz minimum;
  Megahertz maximum;

  bool operator==(const ClockBounds&) const = default;
};

// What a lease has set; a field without a value is as it was before the lease. Where the struct holds settings to be
// brought back, a field without a value is the driver's default.
struct GpuSettings {
  std::optional<ClockBounds> sm_clocks;
  std::optional<ClockBounds> memory_clocks;
  std::optional<Watts> power_limit;
  // The most that the GPU's power limit may be once the holder is lost; not in force while the lease is.
  std::optional<Watts> lost_power_limit = std::nullopt;

  bool operator==(const GpuSettings&) const = default;
  [[nodiscard]] bool all_default() const { return *this == GpuSettings{}; }
};

// A change of settings. Where the outer optional is empty, the knob is left alone; where the inner one is (null in
// JSON), it is reset.
struct SettingsChange {
  std::optional<std::optional<ClockBounds>> sm_clocks;
  std::optional<std::optional<ClockBounds>> memory_clocks;
  std::optional<std::optional<Watts>> power_limit;
  std::optional<std::optional<Watts>> lost_power_limit;  // as in LeaseRequest, for this GPU

  bool operator==(const SettingsChange&) const = default;
  [[nodiscard]] std::vector<Knob> knobs() const;
};

// What ends a lease, besides missing heartbeats.
enum class LeaseBinding {
  kConnection,  // the end of the connection that made it, or of its process
  kProcess,     // the end of its process only; Unix sockets only
};
template <>
inline constexpr auto kNamesOf<LeaseBinding> = name_list("connection", "process");

struct LeaseRequest {
  std::vector<std::size_t> gpus;
  std::vector<Knob> may_set;  // empty: all
  Seconds heartbeat_timeout = kDefaultHeartbeatTimeout;
  LeaseBinding binding = LeaseBinding::kConnection;
  std::string purpose;  // for people: "training run 12"
  bool shared = false;  // other processes of the user may change and end it, too
  std::string job{};    // whose training it is for, by which metrics tell GPUs of jobs; empty: of none
  std::optional<std::int64_t> rank = std::nullopt;  // which of the job's ranks the holder is
  // If the lease ends in any way but by its release, each of its GPUs gets this power limit (or keeps a lower one that
  // held before the lease), a Cap. It stays until it is lifted, beyond ends of the agent and of the machine. Without a
  // value the limit is as before the lease. Only for those who may slow others' processes.
  std::optional<Watts> lost_power_limit = std::nullopt;
};

// What keeps a GPU's power limit down after the holder of a lease was lost. It ends when a lease whose holder might
// leave a cap sets or resets the power limit, or states a limit of its own and ends; and with DELETE
// /v1/gpus/{gpu}/cap. For all other leases it is the limit that held before.
struct Cap {
  Watts power_limit;
  std::string holder;  // of that lease, in words for people
  Seconds since;       // when the lease ended, in Unix time

  bool operator==(const Cap&) const = default;
};

struct LeaseHolder {
  std::optional<std::uint32_t> uid;
  std::optional<std::int32_t> pid;
  std::string name;  // the process's name, or the address of a TCP client

  [[nodiscard]] std::string text() const;  // "alice (uid 1000, pid 4242)"
};

// Whether a text may be a lease's identifier: hexadecimal digits, which are no path and no markup.
[[nodiscard]] bool is_lease_id(std::string_view text);

struct LeaseInfo {
  std::string id;  // empty for a reader who may not end the lease
  LeaseHolder holder;
  std::vector<std::size_t> gpus;
  std::vector<Knob> may_set;
  Seconds heartbeat_timeout;  // 0: none is asked for (leases that zeusd's interface makes)
  LeaseBinding binding = LeaseBinding::kConnection;
  std::string purpose;
  std::string job{};
  std::optional<std::int64_t> rank = std::nullopt;
  bool shared = false;
  Seconds age;
  std::map<std::size_t, GpuSettings> settings;  // by GPU
};

enum class GpuHealth {
  kWell,
  kUnwell,     // a call of the driver hangs
  kLost,       // fell off the bus
  kRestoring,  // a lease has ended, its settings are not yet undone
};
template <>
inline constexpr auto kNamesOf<GpuHealth> = name_list("well", "unwell", "lost", "restoring");
template <>
inline constexpr auto kUnknownName<GpuHealth> = GpuHealth::kUnwell;

struct GpuStatus {
  std::size_t index = 0;
  std::string uuid;
  std::string name;
  std::string pci_bus_id;
  GpuHealth health = GpuHealth::kWell;
  std::string trouble;  // what is wrong, in words; empty when well
  // A reading is empty where the device does not give it, or did not give it in time.
  std::optional<Watts> power;
  std::optional<Joules> energy;  // since the driver was loaded
  std::optional<Megahertz> sm_clock;
  std::optional<Megahertz> memory_clock;
  std::optional<Megahertz> sm_clock_maximum;
  std::optional<double> temperature_celsius;
  std::optional<double> utilisation;  // 0 to 1
  std::optional<Watts> power_limit;
  std::optional<Watts> power_limit_minimum;
  std::optional<Watts> power_limit_maximum;
  std::optional<Watts> power_limit_standard;
  std::vector<std::string> throttle_reasons;
  std::optional<LeaseInfo> lease;
  std::optional<Cap> cap;
};

// GET /v1/gpus/{gpu}/clocks
struct PowerLimits {
  Watts minimum;
  Watts maximum;
  Watts standard;
};
struct GpuClocks {
  std::vector<Megahertz> sm_clocks;  // highest first, like all
  std::vector<Megahertz> memory_clocks;
  PowerLimits power_limit;
};

// What the agent answers besides a LeaseInfo.
struct LeaseList {
  std::vector<LeaseInfo> leases;
};
struct LeaseAlive {
  std::string id;
  Seconds age;
};
struct LeaseEnded {
  std::string id;
  bool restored = true;
};

struct CpuStatus {
  std::size_t index = 0;
  std::string name;
  std::optional<Joules> package_energy;  // since the agent started
  std::optional<Joules> dram_energy;
  std::string trouble;
};

struct NodeStatus {
  std::string node;     // host name
  std::string version;  // of the agent
  std::vector<GpuStatus> gpus;
  std::vector<CpuStatus> cpus;
};

struct PowerPoint {
  std::string device;  // "GPU:0", "CPU:0", "DRAM:0"
  Seconds time;        // of the agent's monotonic clock
  Watts power;
  Joules energy;  // since the stream's sampler began
};

// One event of the power stream.
struct PowerEvent {
  std::vector<PowerPoint> samples;
};

// Account sessions: power traces that the agent records for its callers.
inline constexpr std::size_t kLongestSessionName = 64;
[[nodiscard]] bool is_session_name(std::string_view name);

struct AccountSessionRequest {
  std::string name;                              // 1 to 64 letters, digits, '.', '_', '-'
  std::optional<std::vector<std::size_t>> gpus;  // none: all
  bool cpus = true;                              // and their memory
  Seconds row_period;                            // least time between two rows of a device; 0: every change is a row
};

enum class AccountSessionState {
  kRecording,
  kStopped,   // its owner ended it
  kTooLong,   // the agent ended it at the longest time that a session may take
  kTooLarge,  // the agent ended it at the largest size that a trace may have
};
template <>
inline constexpr auto kNamesOf<AccountSessionState> = name_list("recording", "stopped", "too_long", "too_large");
template <>
inline constexpr auto kUnknownName<AccountSessionState> = AccountSessionState::kStopped;

struct AccountSessionInfo {
  std::string name;
  AccountSessionState state = AccountSessionState::kRecording;
  std::string ended;  // why it ended, in words: "it had reached 64 MiB"; empty while it records
  std::vector<std::string> devices;
  Seconds begin;   // Unix time
  Seconds length;  // until its end, or until now
  std::size_t rows = 0;
  std::size_t bytes = 0;
  std::vector<std::string> failures;  // of devices whose readings failed meanwhile, one sentence each

  [[nodiscard]] bool recording() const { return state == AccountSessionState::kRecording; }
};

struct AccountSessionList {
  std::vector<AccountSessionInfo> sessions;
};
struct AccountSessionDropped {
  std::string name;
  bool dropped = true;
};

[[nodiscard]] Record<ClockBounds> description_of(const ClockBounds*);
[[nodiscard]] Record<GpuSettings> description_of(const GpuSettings*);
[[nodiscard]] Record<SettingsChange> description_of(const SettingsChange*);
[[nodiscard]] Record<LeaseRequest> description_of(const LeaseRequest*);
[[nodiscard]] Record<Cap> description_of(const Cap*);
[[nodiscard]] Record<LeaseHolder> description_of(const LeaseHolder*);
[[nodiscard]] Record<LeaseInfo> description_of(const LeaseInfo*);
[[nodiscard]] Record<LeaseList> description_of(const LeaseList*);
[[nodiscard]] Record<LeaseAlive> description_of(const LeaseAlive*);
[[nodiscard]] Record<LeaseEnded> description_of(const LeaseEnded*);
[[nodiscard]] Record<PowerLimits> description_of(const PowerLimits*);
[[nodiscard]] Record<GpuClocks> description_of(const GpuClocks*);
[[nodiscard]] Record<GpuStatus> description_of(const GpuStatus*);
[[nodiscard]] Record<CpuStatus> description_of(const CpuStatus*);
[[nodiscard]] Record<NodeStatus> description_of(const NodeStatus*);
[[nodiscard]] Record<PowerPoint> description_of(const PowerPoint*);
[[nodiscard]] Record<PowerEvent> description_of(const PowerEvent*);
[[nodiscard]] Record<AccountSessionRequest> description_of(const AccountSessionRequest*);
[[nodiscard]] Record<AccountSessionInfo> description_of(const AccountSessionInfo*);
[[nodiscard]] Record<AccountSessionList> description_of(const AccountSessionList*);
[[nodiscard]] Record<AccountSessionDropped> description_of(const AccountSessionDropped*);

}  // namespace flyball
