// One simulated board: its specification, its state, and the physics that connects them. This file does not ask for the
// time, and uses no shared memory and no operating system. BoardSpec and BoardState are plain data of fixed size,
// because they live in shared memory and are copied whole. Everything here needs only the standard library, because the
// simulated vendor library carries it into any process.
//
// The state is evaluated lazily: advance() takes it exactly from its own time to a later one, in pieces between the
// moments at which something changes (a clock takes hold, a piece of work ends).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/compensated_sum.h"
#include "base/units.h"
#include "profile/gpu_physics.h"

namespace flyball {

inline constexpr std::size_t kSimVoltagePoints = 8;
inline constexpr std::size_t kSimMemoryClocks = 8;
inline constexpr std::size_t kSimWorks = 32;
inline constexpr std::size_t kSimProcesses = 32;
inline constexpr std::size_t kSimFaults = 8;
inline constexpr std::size_t kSimHistory = 512;

// Energy is remembered at multiples of this time, for sensors that average over the past. Every window and period of a
// sensor is a multiple of it.
inline constexpr Nanoseconds kSimHistoryStep = 5'000'000;

// How often a board that is not ideal looks at its temperature.
inline constexpr Nanoseconds kSimHeatStep = 250'000'000;

// Cuts the text where the field is too short for it.
template <std::size_t Size>
void set_text(char (&field)[Size], std::string_view text) {
  const std::size_t length = std::min(Size - 1, text.size());
  std::copy_n(text.begin(), length, field);
  field[length] = '\0';
}

struct SensorSpec {
  Nanoseconds window = 0;  // the time over which a reading averages; 0: the board has no such sensor
  Nanoseconds period = 0;  // how often the reading changes
};

// What tells a board from an ideal one of its model. All zero: the board is ideal, every computation of a kind takes
// the same time, and power has the form of the synthetic profiles (profile/gpu_physics.h).
// docs/manual/simulated-boards.md says where the figures come from.
struct BoardCharacter {
  std::uint64_t seed;  // of what is drawn while it works; 0: an ideal board
  double slowness;     // what it takes for a computation, over what other boards of the model take
  double hunger;       // what a computation draws, likewise
  double gain;         // what its sensors show, over what flows
  double noise;        // standard deviation of a computation's time, as a share of it
  double load_noise;   // of loading
  // Power of the mean computation at clock x times the highest: full * (floor + (1 - floor) * x^exponent), where the
  // limit lets it; at full_celsius.
  Watts full;
  double floor;
  double exponent;
  double heat_per_kelvin;   // share by which the power of computations grows
  Nanoseconds hold_mean;    // from when a change is asked for until it begins to take hold
  Nanoseconds hold_spread;  // the most by which a change is earlier or later
  Nanoseconds ramp;         // from there until the new clock is reached
  Nanoseconds counter_lag;  // of the energy counter
  Joules counter_jitter;    // the most by which it is off, up or down; errors do not add up
};

// The specification of a board, which is constant while the board exists.
struct BoardSpec {
  char model[32];    // "a100-pcie"
  char product[64];  // the driver's name for it
  char uuid[48];     // "GPU-..."
  char serial[16];
  char pci_bus_id[16];  // "0000:07:00.0"
  unsigned pci_domain;
  unsigned pci_bus;
  unsigned pci_device_id;  // of the vendor interface: device in the upper half, vendor in the lower
  unsigned brand;
  unsigned architecture;
  int capability_major;
  int capability_minor;
  unsigned cores;
  std::uint64_t memory_bytes;

  Megahertz minimum;
  Megahertz maximum;
  Megahertz step;
  std::uint32_t memory_clock_count;
  std::array<Megahertz, kSimMemoryClocks> memory_clocks;  // falling
  std::uint32_t voltage_count;
  std::array<VoltagePoint, kSimVoltagePoints> voltage;

  Watts busy;
  Watts waiting;  // at the highest clock
  Watts idle;
  Watts phase_limit;  // limit of the regulator at the standard power limit
  Watts limit;        // standard power limit
  Watts limit_minimum;
  Watts limit_maximum;
  Activity forward;
  Activity backward;
  Nanoseconds switch_latency;

  SensorSpec power;     // the sensor of the plain power call
  SensorSpec instant;   // the "instant" field
  SensorSpec average;   // the "average" field
  Watts sensor_jitter;  // the most by which a reading of power is off, up or down
  Nanoseconds energy_period;
  Nanoseconds sensor_phase;  // when, within their periods, this board's sensors update

  double idle_celsius;
  double full_celsius;  // approached at the standard power limit
  double thermal_seconds;
  double slowdown_celsius;
  double shutdown_celsius;
  Megahertz throttle;  // while hot

  BoardCharacter character;

  [[nodiscard]] GpuCurve curve() const { return {minimum, maximum, busy, {voltage.data(), voltage_count}}; }
};

// The settings that software has asked for. A clock or limit of zero means that none was asked for.
struct BoardSettings {
  Megahertz lock_minimum;
  Megahertz lock_maximum;
  Megahertz memory_lock_minimum;
  Megahertz memory_lock_maximum;
  Megahertz application;
  Watts power_limit;
  std::uint32_t power_profiles;  // the vendor's numbers, as a set of bits
};

// The power profiles of simulated boards, from Blackwell on: Max-P, which changes nothing, and Max-Q, which holds the
// SM clock down. They conflict, and Max-P, whose priority is the first, is enforced where both are requested. All of it
// is assumed: what the profiles of real boards do is not published.
inline constexpr std::uint32_t kSimMaxP = 1u << 0;
inline constexpr std::uint32_t kSimMaxQ = 1u << 1;
inline constexpr double kSimMaxQClock = 0.85;  // of the highest

[[nodiscard]] constexpr std::uint32_t enforced_profiles(std::uint32_t requested) {
  return (requested & kSimMaxP) != 0 ? kSimMaxP : requested;
}

struct SimProcess {
  std::int32_t pid;  // 0: the slot is free
  std::uint32_t blocking;
  std::uint64_t started;  // from /proc/PID/stat, to tell a new process with the same number
};

// What a piece of work does: it computes, or it copies, which takes the same time at any clock and draws what waiting
// draws. Loading is copying whose time varies a lot.
enum class WorkNature : std::uint32_t { kComputes, kTransfers, kLoads };

struct WorkKind {
  WorkKind() = default;
  // Whatever has an activity computes.
  WorkKind(const Activity& computed) : activity(computed) {}  // NOLINT(google-explicit-constructor)
  explicit WorkKind(WorkNature of) : nature(of) {}

  Activity activity;
  WorkNature nature = WorkNature::kComputes;
};

enum class WorkState : std::uint32_t { kFree, kRunning, kDone };

struct SimWork {
  WorkState state;
  std::uint32_t process;
  WorkKind kind;
  double unit;       // makes the time at the maximum clock what was asked for
  double remaining;  // seconds at the maximum clock
  Nanoseconds begin;
  Nanoseconds end;
  double begin_joules;  // energy of the whole board
  double end_joules;
};

enum class SimFaultKind : std::uint32_t {
  kNone,
  kLost,            // every call answers that the GPU is lost; its work ends in an error
  kError,           // one call answers `code`
  kHang,            // one call does not return for `value` wall seconds, or until the fault is taken back
  kCounterFrozen,   // the energy counter stands still
  kCounterWraps,    // the energy counter starts again at `value` millijoules
  kCounterMissing,  // the board has no energy counter
  kCounterCosts,    // reading the energy counter takes `value` seconds of processor time
  kUnprivileged,    // root has no privilege, unless FLYBALL_SIM_PRIVILEGED is set in the process's environment
  kHot,             // the chip is at its slowdown temperature
  kMig,             // the board is divided into instances
  kEarlyAnswer,     // a call that changes settings answers at once, and the change takes hold `value` seconds later
};

struct SimFault {
  SimFaultKind kind;
  unsigned code;  // a vendor's error number
  double value;
  char call[56];  // the vendor's name of the call; "*" for every one
};

// A sample of the board's past, for its sensors: sums since it was switched on.
struct SimHistory {
  double joules;
  double busy_seconds;
  double memory_seconds;
};

struct BoardState {
  Nanoseconds now;  // simulated
  CompensatedSum joules;
  CompensatedSum busy_seconds;    // in which a kernel was on it, a waiting one included
  CompensatedSum memory_seconds;  // of memory-bound work
  double celsius;
  double heat_celsius;  // that computations draw by; follows `celsius` every kSimHeatStep while anything runs
  std::uint64_t drawn;  // how often chance was asked

  BoardSettings applied;
  BoardSettings requested;
  Nanoseconds effective_at;  // when `requested` becomes `applied`; 0: no change is under way
  Nanoseconds ramp_begin;    // when `applied` was; the clock goes there in steps
  Megahertz ramp_from;       // 0: it is there
  std::uint32_t persistence;

  std::uint64_t frozen_millijoules;  // the value of a frozen counter
  double counter_base_joules;        // where the counter was last set to zero
  std::int64_t reaped_at;            // wall time of the last look for dead processes

  std::array<SimFault, kSimFaults> faults;
  std::array<SimProcess, kSimProcesses> processes;
  std::array<SimWork, kSimWorks> works;
  std::array<SimHistory, kSimHistory> history;  // [k % size]: at k * kSimHistoryStep
};
static_assert(std::is_trivially_copyable_v<BoardSpec> && std::is_trivially_copyable_v<BoardState>);

// What the board does at the time of its state.
struct BoardActivity {
  Watts power;
  Megahertz sm_clock;
  Megahertz memory_clock;
  unsigned running = 0;       // pieces of work
  double memory_share = 0.0;  // share of the time in which the work is memory-bound
  bool blocking = false;
  bool power_limited = false;
  bool clock_limited = false;  // by a lock or an application clock
  bool hot = false;
};

// Makes a board switched on at time 0: idle, with nothing locked.
[[nodiscard]] BoardState switched_on(const BoardSpec& spec);

// Takes the state to time `t`; does nothing when it is there already. The cost is linear in the changes on the way.
void advance(const BoardSpec& spec, BoardState& state, Nanoseconds t);

[[nodiscard]] BoardActivity activity_of(const BoardSpec& spec, const BoardState& state);

// Returns what the board draws while a process waits on it, at that clock: idle power and a part that falls with the
// square of the clock, to spec.waiting at the highest. Perseus's authors measured 127 to 145 W at the highest clock of
// A100s and some 95 W at about three quarters of it (docs/measured-tables.md).
[[nodiscard]] Watts waiting_power(const BoardSpec& spec, Megahertz clock);

// Returns the highest clock of the board that is not above `clock`, or its lowest where all are.
[[nodiscard]] Megahertz supported_clock(const BoardSpec& spec, Megahertz clock);

// Asks for what the state has in `requested`, at its present moment, and returns when it will take hold.
Nanoseconds request_settings(const BoardSpec& spec, BoardState& state);

// Puts work on the board at its present moment and returns its slot, or -1 where all are taken. `seconds` is what it
// takes alone at the maximum clock and the standard power limit, on a board of which the model has most. Pieces of work
// share the board in equal slices of time.
[[nodiscard]] int start_work(const BoardSpec& spec, BoardState& state, std::uint32_t process, const WorkKind& kind,
                             Seconds seconds);

// Returns when the work in a slot will end if nothing is asked of the board until then.
[[nodiscard]] Nanoseconds predicted_end(const BoardSpec& spec, const BoardState& state, std::size_t slot);

// Returns the sensor's latest reading at the state's time. Where the sensor's window begins before the board was
// switched on, the reading is the mean since then.
[[nodiscard]] Watts reading_of(const BoardSpec& spec, const BoardState& state, const SensorSpec& sensor);

struct SimPowerSample {
  Nanoseconds time = 0;  // simulated
  Watts power;
};
// Returns the driver's record of the board's power, oldest first, as an H100's keeps it: every 20 ms the power through
// a first-order low pass of 15 ms, the latest 120.
[[nodiscard]] std::vector<SimPowerSample> power_samples_of(const BoardSpec& spec, const BoardState& state);

// Returns the energy counter, faults included, in the vendor's millijoules.
[[nodiscard]] std::uint64_t counter_millijoules(const BoardSpec& spec, const BoardState& state);

struct Utilisation {
  double busy = 0.0;  // share of the last sample period (0.2 s)
  double memory = 0.0;
};
[[nodiscard]] Utilisation utilisation_of(const BoardSpec& spec, const BoardState& state);

// Returns the active fault of that kind, or null. With `call`, returns the fault that names this call or all calls.
[[nodiscard]] const SimFault* find_fault(const BoardState& state, SimFaultKind kind, const char* call = nullptr);

// Returns false where all fault slots are taken. A second fault of the same kind and call replaces the first.
[[nodiscard]] bool add_fault(const BoardSpec& spec, BoardState& state, const SimFault& fault);

// Takes all faults back. A lost board comes back as one that was just switched on, with nothing locked.
void clear_faults(const BoardSpec& spec, BoardState& state);

// Sets the counter to zero.
void reset_counter(const BoardSpec& spec, BoardState& state);

// Returns the slot of the process, which is given one if it has none; returns -1 where all are taken.
[[nodiscard]] int process_slot(BoardState& state, std::int32_t pid, std::uint64_t started);

// Takes the process off the board, with its work and its waiting.
void drop_process(BoardState& state, std::size_t slot);

}  // namespace flyball
