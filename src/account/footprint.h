// The tensor energy footprint (Smaragdine definition 3.4), which gives joules for a name, a device and a phase of
// training, and what is computed from it: its summary (definition 3.5), means of several runs, comparison (section 6),
// quality (section 5.4).
//
// Names are qualified by the model's hierarchy, with '/' between parts. Nothing here reads a trace. The cost is that of
// sorting.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "account/attribution.h"
#include "account/communication.h"
#include "account/self_similar.h"
#include "account/step_energy.h"
#include "base/units.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {

struct FootprintRow {
  std::string name;
  std::string device;
  Phase phase = Phase::kUnknown;
  Joules energy;
  Seconds busy;
  Seconds powered;  // the part of busy for which the power is known
  std::uint64_t events = 0;
  Joules energy_deviation;  // standard deviation over the runs, or over ranks; 0 for one, NaN: unknown
  Watts power_deviation;
  // Half of a 90 % interval around the energy, which counts what the method cannot tell and not how runs differ. NaN:
  // unknown.
  Joules error{std::numeric_limits<double>::quiet_NaN()};
  std::uint32_t group = 0;  // number of the FootprintGroup that it belongs to; 0: none
  int rank = kNoRank;       // whose it is, where a trace has several ranks and they are not added up
  Seconds shared{};         // its shares of the device's time
  Joules static_energy{std::numeric_limits<double>::quiet_NaN()};  // part of `energy` (static_power.h); NaN: unknown

  [[nodiscard]] Watts mean_power() const { return powered > Seconds(0) ? energy / powered : Watts(0); }
};

// measured = attributed + idle + outside + the other processes', the system's and the monitor's shares of a processor.
struct FootprintDevice {
  std::string device;
  Joules measured;
  Joules attributed;
  Joules idle;     // while nothing ran and the program was profiled
  Joules outside;  // before and after the profile
  Joules other_processes;
  Joules system;
  Joules monitor;
  Seconds powered;  // busy + idle_time + outside_time
  Seconds busy;
  Seconds idle_time;
  Seconds outside_time;
  Seconds uncovered;   // without power, while anything ran
  Seconds unmeasured;  // of the profile, without power
  CommunicationTime communication;
  std::uint64_t events = 0;
  // By which the rows got their energy. None: unknown, or not the same in all runs.
  std::optional<AccountMethod> method{};
  std::optional<Watts> quiet{};         // DeviceShare::quiet
  std::optional<Watts> static_power{};  // by which static energy is told; none: it is not
  Joules static_energy{};               // part of `attributed`
};

// Rows of a device of which only the sum is known.
struct FootprintGroup {
  std::uint32_t number = 0;  // from 1
  std::string device;
  Joules energy;
  Joules error;  // of the sum
};

// How much of the attributed energy is known, by the rows' errors.
struct Trust {
  static constexpr double kWell = 0.1;  // of its energy: the error up to which a row is known well
  std::size_t known = 0;                // rows that are known well
  std::size_t grouped = 0;              // not these, but of groups of which the sum is known well
  std::size_t rest = 0;                 // all other rows with energy
  Joules known_energy;
  Joules grouped_energy;
  Joules rest_energy;
  bool judged = false;  // whether any row has a known error
};

// What one rank of a job took.
struct RankShare {
  int rank = 0;
  std::vector<std::string> devices;  // that no other rank used
  Joules energy;                     // of its operations
  Joules idle;                       // of these devices, while nothing ran and the program was profiled
  Seconds computing;                 // sum over its operations that do not communicate, on accelerators or, if the
                                     // job has none, on processors
  Seconds communicating;             // and over those that do
  Seconds exposed;                   // communication, while nothing else ran on these devices
  Seconds processor;                 // sum over all its operations on processors
};

struct Footprint {
  int runs = 1;
  Seconds profiled;  // from the first entry of the event trace to the last
  std::vector<FootprintDevice> devices;
  std::vector<FootprintRow> rows;      // most energy first; no two of the same name, device, phase and rank
  std::vector<FootprintGroup> groups;  // in order of number; of one run only, and not of several ranks
  StepEnergy steps;                    // of traces that tell of steps
  std::vector<RankShare> ranks;        // in order of rank, where rows are sums over ranks; else empty

  [[nodiscard]] Joules measured() const;
  [[nodiscard]] Joules attributed() const;
  [[nodiscard]] Joules idle() const;
  [[nodiscard]] Joules outside() const;
  [[nodiscard]] Joules elsewhere() const;  // other processes, system and monitor
  // Of accelerators, or where nothing communicates on them, of processors.
  [[nodiscard]] CommunicationTime communication() const;
  [[nodiscard]] Trust trust() const;
};

// Whether a device is a processor or its memory, "CPU:0" or, of one of several nodes, "n1/DRAM:0".
[[nodiscard]] bool on_processor(std::string_view device);

// Makes a footprint of an attribution, with the names of the tables that its traces filled.
[[nodiscard]] Footprint make_footprint(const Attribution& attribution, const OperationTable& operations,
                                       const DeviceTable& devices);

// Returns a row with nothing in it, to which others are added.
[[nodiscard]] FootprintRow empty_sum();
// Adds energies, times, events and error of a row to those of `sum`.
void add_to(FootprintRow& sum, const FootprintRow& row);

// Adds up rows of the same name, device and phase, and sorts them. In a mean of several runs, an added-up row has no
// known deviation (NaN), since that depends on how its parts vary together. Its error is the sum of its parts' errors,
// as if all were wrong in the same direction, or its group's, where it is the whole group.
void merge_rows(Footprint& footprint);

// Returns the summarised footprint, in which self-similar parts are added up. Several runs are to be summarised one by
// one, before their mean is taken.
[[nodiscard]] Footprint summarised(const Footprint& footprint, const SelfSimilar& similar);

// One energy per name, over devices and phases, for comparing.
struct NamedEnergy {
  std::string name;
  Joules energy;
  Seconds powered;
};
[[nodiscard]] std::vector<NamedEnergy> by_name(const Footprint& footprint);  // in order of name

// Returns the mean of several runs with the sample standard deviation; a row that a run lacks counts as 0 J there. Its
// error is the mean of the runs' errors, since the method is wrong in the same way in each. Groups are left out.
[[nodiscard]] Footprint mean_of_runs(std::span<const Footprint> runs);

// Returns Pearson's correlation; NaN where a side does not vary, or there are fewer than two values.
[[nodiscard]] double pearson(std::span<const double> a, std::span<const double> b);

struct FootprintMove {
  std::string name;
  Joules before;
  Joules after;
  [[nodiscard]] Joules change() const { return after - before; }
};

// The comparison of two footprints by name; a name that one of them lacks has 0 J there.
struct FootprintComparison {
  std::size_t names = 0;
  double energy_correlation = 0.0;
  double power_correlation = 0.0;  // of the mean powers of the names that both have
  Joules mean_energy_difference;   // mean over names of b - a (Smaragdine figure 9: MED)
  Watts mean_power_difference;
  std::vector<FootprintMove> moves;  // largest change first
};
[[nodiscard]] FootprintComparison compare(const Footprint& a, const Footprint& b);

// Accounting similarity (Smaragdine 5.4): the correlation of two footprints' energies by name.
[[nodiscard]] double similarity(const Footprint& a, const Footprint& b);

struct RunQuality {
  std::vector<std::vector<double>> stability;  // [i][j]: similarity of runs i and j
  std::vector<double> widening;                // [k]: of the mean of the first k + 1 runs with that of all (ASSW)
};
[[nodiscard]] RunQuality quality_of_runs(std::span<const Footprint> runs);

// What was found about the traces, one line each: an offset that was applied, gaps, what was dropped.
using FootprintNotes = std::vector<std::string>;

}  // namespace flyball
