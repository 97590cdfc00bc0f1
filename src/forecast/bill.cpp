// A carbon series is integrated over whole periods and the rest, so that a long run costs no more than a short one.
#include "forecast/bill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_object.h"
#include "base/text.h"
#include "base/time_text.h"
#include "forecast/interruptions.h"

namespace flyball {
namespace {

constexpr double kMostGrams = 5000.0;  // oil alone is below 1,000
constexpr double kMostPrice = 1000.0;
constexpr double kGramsOfPoundPerMwh = 0.45359237;  // lb/MWh in g/kWh

// The row that holds at a time in the series' first period. Rounding may put it a little before that.
std::size_t row_at(const PerKwhSeries& series, Seconds time) {
  const auto after = std::upper_bound(series.begins.begin() + 1, series.begins.end(), time);
  return static_cast<std::size_t>(after - series.begins.begin()) - 1;
}

// Integral from the series' first row to a time in its first period, times seconds.
double integral_until(const PerKwhSeries& series, Seconds time) {
  const std::size_t row = row_at(series, time);
  return series.integrals[row] + series.per_kwh[row] * (time - series.begins[row]).value();
}

// How a file of intensities names its columns.
struct CarbonLayout {
  std::string time = "timestamp";
  std::string value = "g_per_kwh";
  double grams = 1.0;   // of the file's unit
  bool pounds = false;  // a column `units`, where there is one, must say lbs_co2_per_mwh
};

// Tells a file by its header. Electricity Maps has changed its headings' case, and writes the unit with or without a
// subscript two; of its two intensities the one over the life cycle counts, as in the paid service's default.
CarbonLayout carbon_layout(std::string_view text) {
  std::string_view header;
  for (const std::string_view line : split_at('\n', text.substr(0, 4096))) {
    const std::string_view own = trim(line);
    if (own.empty() || own.front() == '#') continue;
    header = own;
    break;
  }
  CarbonLayout layout;
  std::string life_cycle;
  std::string direct;
  const bool maps = contains(header, "Datetime (UTC)");
  for (std::string_view name : split_at(',', header)) {
    name = unquoted(trim(name));
    if (maps && contains(name, "arbon") && contains(name, "ntensity")) {
      if (contains(name, "(direct)")) direct = name;
      if (contains(name, "(LCA)") || contains(name, "ife cycle)")) life_cycle = name;
    }
    if (name == "point_time") return {"point_time", "value", kGramsOfPoundPerMwh, true};
    if (name == "MOER") return {"timestamp", "MOER", kGramsOfPoundPerMwh, true};
  }
  if (!maps || (direct.empty() && life_cycle.empty())) return layout;
  layout.time = "Datetime (UTC)";
  layout.value = life_cycle.empty() ? direct : life_cycle;
  return layout;
}

// Reads the rows; `check` gets each value and throws where it cannot be meant.
template <class Check>
PerKwhSeries read_series(CsvReader& csv, const std::string& source, const CarbonLayout& layout, const Check& check) {
  PerKwhSeries series;
  while (csv.next()) {
    const std::string_view stamp = csv.text(layout.time);
    const std::optional<Nanoseconds> date = parse_date_time(stamp, Seconds(0));
    const double time = date ? to_seconds(*date).value() : csv.number(layout.time);
    if (series.begins.empty()) series.first = Seconds(time);
    const Seconds begin(time - series.first.value());
    if (!series.begins.empty() && begin <= series.begins.back()) {
      throw InputError(csv.where(layout.time), "not after the row before", "sort the rows by time");
    }
    if (layout.pounds && csv.has_column("units") && csv.text("units") != "lbs_co2_per_mwh") {
      throw InputError(csv.where("units"), "another unit than lbs_co2_per_mwh",
                       "ask WattTime for the signal co2_moer or co2_aoer");
    }
    const double value = csv.number(layout.value);
    check(value);
    const double held = series.begins.empty() ? 0.0 : (begin - series.begins.back()).value();
    series.integrals.push_back(held > 0.0 ? series.integrals.back() + series.per_kwh.back() * held : 0.0);
    series.begins.push_back(begin);
    series.per_kwh.push_back(value * layout.grams);
  }
  if (series.begins.empty()) throw InputError({source, csv.line(), 1}, "no rows", "add for example 0,380");
  const std::size_t count = series.begins.size();
  series.period = count == 1 ? Seconds(std::numeric_limits<double>::infinity())
                             : 2.0 * series.begins[count - 1] - series.begins[count - 2];
  return series;
}

EnergySheet sheet_of_result(const std::string& file) {
  const nlohmann::json json = parse_json(file, read_text_file(file));
  JsonObject result(json, file);
  constexpr NumberRange kEnergy{0.0, 1e18, "J"};
  constexpr NumberRange kTime{0.0, 1e12, "s"};
  EnergySheet sheet;
  sheet.energy = Joules(result.number("energy_j", kEnergy));
  sheet.duration = Seconds(result.number("makespan_s", kTime));
  const std::string policy = result.find_text("policy").value_or("");
  sheet.name = policy.empty() ? "simulated cluster" : fmt::format("simulated cluster, {}", policy);
  if (const auto power = result.find_number("avg_power_w", {0.0, 1e12, "W"})) {
    const double product = *power * sheet.duration.value();
    if (sheet.energy > Joules(0) && std::abs(product / sheet.energy.value() - 1.0) > 0.05) {
      result.refuse(
          "avg_power_w",
          fmt::format("mean power times makespan is {:.6g} J, energy_j {:.6g} J", product, sheet.energy.value()),
          "write energy_j in joules, makespan_s in seconds, avg_power_w in watts");
    }
  }
  sheet.counted = "jobs";
  sheet.count = static_cast<double>(result.find_integer("jobs", 0, 1'000'000'000).value_or(0));
  sheet.stages = {{"jobs", sheet.energy, {}}};
  if (const auto busy = result.find_number("busy_energy_j", {0.0, sheet.energy.value() * (1.0 + 1e-9), "J"})) {
    const double profiling = result.find_number("profiling_energy_j", {0.0, *busy * (1.0 + 1e-9), "J"}).value_or(0.0);
    sheet.stages = {
        {"jobs", Joules(*busy), {{"training", Joules(*busy - profiling)}, {"profiling", Joules(profiling)}}},
        {"idle", sheet.energy - Joules(*busy), {}}};
  }
  sheet.components = {{"accelerator", sheet.energy}};
  sheet.node_types = {{"cluster", 1, sheet.energy, std::nullopt}};
  return sheet;
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
  EnergySheet::Group interruptions{"interruptions", Joules(0), {}};
  for (const InterruptionForecast& one : forecast.interruptions) {
    interruptions.parts.push_back({one.name, one.energy()});
    interruptions.energy += one.energy();
  }
  if (!interruptions.parts.empty()) sheet.stages.push_back(std::move(interruptions));
  if (const auto sentence = sentence_on_failures(run, forecast)) sheet.notes.push_back(*sentence);
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

EnergySheet sheet_of_cluster(const std::string& file, const std::optional<std::string>& against) {
  EnergySheet sheet = sheet_of_result(file);
  if (!against) return sheet;
  const EnergySheet before = sheet_of_result(*against);
  if (before.count != sheet.count) {
    throw InputError({*against}, fmt::format("{:.0f} jobs, {:.0f} in {}", before.count, sheet.count, file),
                     "simulate the same trace under both policies");
  }
  sheet.baseline = EnergySheet::Baseline{before.name, before.energy, before.duration};
  return sheet;
}

PerKwhSeries read_carbon(const std::string& source, std::string_view text) {
  const CarbonLayout layout = carbon_layout(text);
  CsvReader csv(source, text, {layout.time, layout.value});
  return read_series(csv, source, layout, [&csv, &layout](double value) {
    const double grams = value * layout.grams;
    if (grams >= 0.0 && grams <= kMostGrams) return;
    throw InputError(csv.where(layout.value), fmt::format("an intensity of {} g/kWh", grams),
                     "write grams of CO2 per kilowatt-hour, from 0 to 5000");
  });
}

PerKwhSeries read_prices(const std::string& source, std::string_view text) {
  const CarbonLayout layout{"timestamp", "price_per_kwh"};
  CsvReader csv(source, text, {layout.time, layout.value});
  return read_series(csv, source, layout, [&csv, &layout](double value) {
    if (std::abs(value) <= kMostPrice) return;
    throw InputError(csv.where(layout.value), fmt::format("a price of {} per kWh", value),
                     "write the price of one kilowatt-hour, from -1000 to 1000");
  });
}

double mean_per_kwh(const PerKwhSeries& series, Seconds start, Seconds duration) {
  if (series.begins.size() == 1) return series.per_kwh.front();
  const auto until = [&series](Seconds time) {
    const double periods = std::floor(time / series.period);
    return periods * integral_until(series, series.period) + integral_until(series, time - periods * series.period);
  };
  if (duration <= Seconds(0)) {
    const double periods = std::floor(start / series.period);
    return series.per_kwh[row_at(series, start - periods * series.period)];
  }
  return (until(start + duration) - until(start)) / duration.value();
}

Seconds best_start(const PerKwhSeries& series, Seconds duration) {
  if (series.begins.size() == 1) return Seconds(0);
  // The mean over a window is piecewise linear in its start, so that its least is where one of its ends meets a row.
  std::vector<Seconds> starts = series.begins;
  for (const Seconds row : series.begins) {
    const Seconds start = row - duration;
    starts.push_back(start - std::floor(start / series.period) * series.period);
  }
  std::sort(starts.begin(), starts.end());
  Seconds best(0);
  double least = std::numeric_limits<double>::infinity();
  for (const Seconds start : starts) {
    const double mean = mean_per_kwh(series, start, duration);
    if (mean >= least - 1e-9 * std::abs(mean)) continue;
    least = mean;
    best = start;
  }
  return best;
}

double co2_kg(const PerKwhSeries& series, Joules energy, Seconds start, Seconds duration) {
  return kilowatt_hours(energy) * mean_per_kwh(series, start, duration) * 1e-3;
}

std::optional<double> Tariff::co2_kg(Joules energy, Seconds duration) const {
  if (!carbon) return std::nullopt;
  return flyball::co2_kg(*carbon, energy, start, duration);
}

std::optional<double> Tariff::cost(Joules energy, Seconds duration) const {
  if (prices) {
    // Where there is a carbon series too, both run by the same clock.
    const Seconds own = carbon ? start + carbon->first - prices->first : start;
    return kilowatt_hours(energy) * mean_per_kwh(*prices, own, duration);
  }
  if (!price_per_kwh) return std::nullopt;
  return kilowatt_hours(energy) * *price_per_kwh;
}

}  // namespace flyball
