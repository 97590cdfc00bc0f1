// From joules to what is paid for them: kilowatt-hours, carbon dioxide and money, of whatever was forecast.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "forecast/forecast.h"
#include "forecast/run_description.h"

namespace flyball {

// The energy of a run in the rows that every forecast is shown in, whether it came from measured stages, from a
// planner's frontier or from a cluster's simulation.
struct EnergySheet {
  struct Row {
    std::string name;
    Joules energy;
  };
  struct Group {
    std::string name;
    Joules energy;
    std::vector<Row> parts;
  };
  struct Nodes {
    std::string name;
    std::int64_t count = 1;
    Joules energy;
    std::optional<Seconds> wait;  // for the slowest node, per iteration
  };
  // What the same run takes otherwise.
  struct Baseline {
    std::string name;  // "all-maximum clocks"
    Joules energy;
    Seconds duration;
  };

  std::string name;
  std::vector<std::string> notes;  // what the reader should know of how sure this is, a sentence each
  Joules energy;
  Seconds duration;
  double count = 0.0;
  std::string counted = "iterations";  // "jobs" of a cluster
  int epochs = 0;                      // 0: not known
  std::optional<EnergyInterval> interval;
  std::vector<Group> stages;  // groups of the sum `energy`
  std::vector<Row> components;
  std::vector<Nodes> node_types;
  std::optional<Baseline> baseline;
};

[[nodiscard]] EnergySheet energy_sheet(const RunDescription& run, const RunForecast& forecast);

// Of a file that `flyball cluster simulate --format json` printed: policy, energy_j, makespan_s. With `against`, the
// result of the same jobs otherwise, the sheet has a baseline. Throws InputError: for what is no such file, for figures
// that contradict each other, and where the two are of different numbers of jobs.
[[nodiscard]] EnergySheet sheet_of_cluster(const std::string& file, const std::optional<std::string>& against);

// Carbon intensity of the grid over time. Each row holds until the next, the last as long as the one before it; after
// that the series begins again, so that one typical day serves a run of any length.
struct CarbonSeries {
  std::vector<Seconds> begins;  // from the first row
  std::vector<double> grams_per_kwh;
  Seconds period;  // infinite where there is one row
};

// CSV `timestamp,g_per_kwh` (docs/formats/carbon.md). Throws InputError.
[[nodiscard]] CarbonSeries read_carbon(const std::string& source, std::string_view text);

// Mean intensity (g/kWh) while a run of even power goes on that starts so long after the first row.
[[nodiscard]] double mean_intensity(const CarbonSeries& series, Seconds start, Seconds duration);

// What was asked for; the figures follow from an energy.
struct Tariff {
  std::optional<CarbonSeries> carbon;
  Seconds start;  // after the carbon series' first row
  std::optional<double> price_per_kwh;

  [[nodiscard]] std::optional<double> co2_kg(Joules energy, Seconds duration) const;
  [[nodiscard]] std::optional<double> cost(Joules energy) const;
};

}  // namespace flyball
