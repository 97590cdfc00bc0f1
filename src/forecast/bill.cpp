#include "forecast/bill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "trace/trace_time.h"

namespace flyball {
namespace {

constexpr double kMostGrams = 5000.0;  // oil alone is below 1,000

// Integral of the intensity from the series' first row, in g/kWh times seconds.
double integral_until(const CarbonSeries& series, Seconds time) {
  double sum = 0.0;
  for (std::size_t k = 0; k < series.begins.size(); ++k) {
    const Seconds end = k + 1 < series.begins.size() ? series.begins[k + 1] : series.period;
    if (time <= series.begins[k]) break;
    sum += series.grams_per_kwh[k] * (std::min(time, end) - series.begins[k]).value();
  }
  return sum;
}

}  // namespace

EnergySheet energy_sheet(const RunDescription& run, const RunForecast& forecast) {
  EnergySheet sheet;
  sheet.name = run.name;
  sheet.notes = doubts_of(run);
  sheet.energy = forecast.energy;
  sheet.duration = forecast.duration;
  sheet.count = forecast.iterations;
  sheet.epochs = run.epochs;
  sheet.interval = forecast.interval;
  for (std::size_t g = 0; g < kStageGroups; ++g) {
    const auto group = static_cast<StageGroup>(g);
    EnergySheet::Group rows{std::string(name_of(group)), forecast.of(group), {}};
    for (std::size_t s = 0; s < kTrainingStages; ++s) {
      const auto stage = static_cast<TrainingStage>(s);
      const bool stated = std::any_of(run.node_types.begin(), run.node_types.end(),
                                      [stage](const NodeType& type) { return type.stage(stage).stated; });
      if (group_of(stage) != group || (!stated && stage != TrainingStage::kWait)) continue;
      rows.parts.push_back({std::string(name_of(stage)), forecast.of(stage)});
    }
    sheet.stages.push_back(std::move(rows));
  }
  for (std::size_t c = 0; c < kComponents; ++c) {
    const auto component = static_cast<Component>(c);
    const bool there = std::any_of(run.node_types.begin(), run.node_types.end(),
                                   [component](const NodeType& type) { return type.has(component); });
    if (there || forecast.of(component) > Joules(0)) {
      sheet.components.push_back({std::string(name_of(component)), forecast.of(component)});
    }
  }
  for (const NodeTypeForecast& type : forecast.node_types) {
    sheet.node_types.push_back({type.name, type.count, type.energy, type.wait});
  }
  return sheet;
}

CarbonSeries read_carbon(const std::string& source, std::string_view text) {
  CsvReader csv(source, text, {"timestamp", "g_per_kwh"});
  CarbonSeries series;
  double first = 0.0;
  while (csv.next()) {
    const std::string_view stamp = csv.text("timestamp");
    const std::optional<Nanoseconds> date = parse_date_time(stamp, Seconds(0));
    const double time = date ? to_seconds(*date).value() : csv.number("timestamp");
    if (series.begins.empty()) first = time;
    const Seconds begin(time - first);
    if (!series.begins.empty() && begin <= series.begins.back()) {
      throw InputError(csv.where("timestamp"), "not after the row before", "sort the rows by time");
    }
    const double grams = csv.number("g_per_kwh");
    if (grams < 0.0 || grams > kMostGrams) {
      throw InputError(csv.where("g_per_kwh"), fmt::format("an intensity of {} g/kWh", grams),
                       "write grams of CO2 per kilowatt-hour, from 0 to 5000");
    }
    series.begins.push_back(begin);
    series.grams_per_kwh.push_back(grams);
  }
  if (series.begins.empty()) throw InputError({source, csv.line(), 1}, "no rows", "add for example 0,380");
  const std::size_t count = series.begins.size();
  series.period = count == 1 ? Seconds(std::numeric_limits<double>::infinity())
                             : 2.0 * series.begins[count - 1] - series.begins[count - 2];
  return series;
}

double mean_intensity(const CarbonSeries& series, Seconds start, Seconds duration) {
  if (series.begins.size() == 1) return series.grams_per_kwh.front();
  const auto until = [&series](Seconds time) {
    const double periods = std::floor(time / series.period);
    return periods * integral_until(series, series.period) + integral_until(series, time - periods * series.period);
  };
  if (duration <= Seconds(0)) {
    const double periods = std::floor(start / series.period);
    const Seconds inside = start - periods * series.period;
    const auto after = std::upper_bound(series.begins.begin(), series.begins.end(), inside);
    return series.grams_per_kwh[static_cast<std::size_t>(after - series.begins.begin()) - 1];
  }
  return (until(start + duration) - until(start)) / duration.value();
}

std::optional<double> Tariff::co2_kg(Joules energy, Seconds duration) const {
  if (!carbon) return std::nullopt;
  return kilowatt_hours(energy) * mean_intensity(*carbon, start, duration) * 1e-3;
}

std::optional<double> Tariff::cost(Joules energy) const {
  if (!price_per_kwh) return std::nullopt;
  return kilowatt_hours(energy) * *price_per_kwh;
}

}  // namespace flyball
