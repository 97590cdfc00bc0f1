// Turns the energy of a forecast into a bill: kilowatt-hours, carbon dioxide and money. All functions are pure.
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

// The energy of a run, in the form in which every forecast is shown, whether it came from measured stages, from a
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
    std::optional<Seconds> wait;  // how long a node waits for the slowest one, per iteration
  };
  // What the same run takes with other clocks, or the same jobs under another policy.
  struct Baseline {
    std::string name;  // "all-maximum clocks"
    Joules energy;
    Seconds duration;
  };

  std::string name;
  std::vector<std::string> notes;  // sentences that tell the reader how sure the figures are
  Joules energy;
  Seconds duration;
  double count = 0.0;
  std::string counted = "iterations";  // what `count` counts; "jobs" for a cluster
  int epochs = 0;                      // 0: not known
  std::optional<EnergyInterval> interval;
  std::vector<Group> stages;  // their energies add up to `energy`
  std::vector<Row> components;
  std::vector<Nodes> node_types;
  std::optional<Baseline> baseline;
};

// Returns the sheet of a forecast from measured stages.
[[nodiscard]] EnergySheet energy_sheet(const RunDescription& run, const RunForecast& forecast);

// Returns the sheet of a file that `flyball cluster simulate --format json` printed: policy, energy_j, makespan_s.
// `against` may name such a file for the same jobs under another policy, which becomes the baseline. Throws InputError
// for a file of another kind, for figures that contradict each other, and where the two files have different numbers of
// jobs.
[[nodiscard]] EnergySheet sheet_of_cluster(const std::string& file, const std::optional<std::string>& against);

// What a kilowatt-hour stands for over time: grams of CO2, or money. Each row holds until the next one, and the last
// for as long as the row before it. After that the series begins again, so that one typical day serves a run of any
// length.
struct PerKwhSeries {
  Seconds first;                // when the first row begins: since 1970 where it has a date, else as it says
  std::vector<Seconds> begins;  // when each row begins, counted from the first row
  std::vector<double> per_kwh;
  std::vector<double> integrals;  // of `per_kwh` from the first row to each row, times seconds
  Seconds period;                 // the time after which the series begins again; infinite where there is one row
};

// Reads a carbon intensity in g/kWh (docs/formats/carbon.md): CSV `timestamp,g_per_kwh`, or a download of Electricity
// Maps or WattTime, which are told by their columns. Throws InputError with line and column.
[[nodiscard]] PerKwhSeries read_carbon(const std::string& source, std::string_view text);

// Reads a price over time: CSV `timestamp,price_per_kwh`. Throws as read_carbon() does.
[[nodiscard]] PerKwhSeries read_prices(const std::string& source, std::string_view text);

// Returns the mean of the series over a run of constant power that starts `start` after the first row.
[[nodiscard]] double mean_per_kwh(const PerKwhSeries& series, Seconds start, Seconds duration);
// Returns what an energy that is taken at constant power meanwhile brings about, in kg of CO2.
[[nodiscard]] double co2_kg(const PerKwhSeries& series, Joules energy, Seconds start, Seconds duration);

// Returns the start, counted from the first row and within one period, at which a run of constant power has the least
// mean; the earliest of several. Cost: rows times log rows.
[[nodiscard]] Seconds best_start(const PerKwhSeries& series, Seconds duration);

// The carbon series and the prices that the user has given. The functions return none where there is none.
struct Tariff {
  std::optional<PerKwhSeries> carbon;
  Seconds start;  // when the run starts, after the first row of `carbon`, or else of `prices`
  std::optional<double> price_per_kwh;
  std::optional<PerKwhSeries> prices;  // in place of `price_per_kwh`

  [[nodiscard]] bool has_price() const { return price_per_kwh || prices; }
  [[nodiscard]] std::optional<double> co2_kg(Joules energy, Seconds duration) const;
  [[nodiscard]] std::optional<double> cost(Joules energy, Seconds duration) const;
};

}  // namespace flyball
