// Text, JSON and page are made from one list of lines, so that they show the same facts.
#include "report/recorded_bill_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/record_codec.h"
#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/svg_canvas.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

struct BillLine {
  std::string key;   // in JSON
  std::string name;  // for people
  std::string unit;
  std::optional<double> forecast;
  std::optional<double> low;  // both ends or none
  std::optional<double> high;
  std::optional<double> measured;

  [[nodiscard]] std::optional<double> off_pct() const {
    if (!forecast || !measured || *forecast <= 0.0) return std::nullopt;
    return 100.0 * (*measured / *forecast - 1.0);
  }
  [[nodiscard]] std::optional<bool> held() const {
    if (!low || !measured) return std::nullopt;
    return *measured >= *low && *measured <= *high;
  }
};

BillLine energy_line(std::string key, std::string name, const Compared<Joules>& energy) {
  BillLine line{std::move(key), std::move(name), "kWh", std::nullopt, std::nullopt, std::nullopt, std::nullopt};
  if (energy.forecast) {
    line.forecast = kilowatt_hours(*energy.forecast);
    line.low = kilowatt_hours(energy.low);
    line.high = kilowatt_hours(energy.high);
  }
  if (energy.measured) line.measured = kilowatt_hours(*energy.measured);
  return line;
}

std::vector<BillLine> lines_of(const RecordedBill& bill, const Tariff& tariff) {
  const Compared<Seconds>& time = bill.duration;
  std::vector<BillLine> lines{{"duration", "duration", "s", time.forecast->value(), time.low.value(), time.high.value(),
                               time.measured->value()}};
  for (std::size_t c = 0; c < kComponents; ++c) {
    const Compared<Joules>& energy = bill.components[c];
    if (energy.forecast || energy.measured) {
      const std::string name(kNamesOf<Component>[c]);
      lines.push_back(energy_line(name, name, energy));
    }
  }
  if (!bill.total.both()) return lines;
  lines.push_back(energy_line("total", "total of both", bill.total));
  const Joules forecast = *bill.total.forecast;
  const Joules measured = *bill.total.measured;
  const auto add = [&lines](std::string key, std::string name, std::string unit, std::optional<double> of_forecast,
                            std::optional<double> of_measured) {
    if (!of_forecast || !of_measured) return;
    lines.push_back(
        {std::move(key), std::move(name), std::move(unit), of_forecast, std::nullopt, std::nullopt, of_measured});
  };
  add("mean_power", "mean power", "W", (forecast / *time.forecast).value(), (measured / *time.measured).value());
  add("CO2", "CO2", "kg", tariff.co2_kg(forecast, *time.forecast), tariff.co2_kg(measured, *time.measured));
  add("cost", "cost", "", tariff.cost(forecast, *time.forecast), tariff.cost(measured, *time.measured));
  return lines;
}

// Four digits, since a part of a run may be milliwatt-hours.
std::string figure(std::optional<double> value) {
  if (!value) return "-";
  if (std::abs(*value) >= 1000.0) return grouped_number(*value, 1);
  const double size = std::abs(*value);
  return format_fixed(*value, size < 1e-9 ? 4 : std::clamp(3 - static_cast<int>(std::floor(std::log10(size))), 1, 9));
}

std::string iteration_count(double iterations) {
  return grouped_number(iterations, iterations == std::floor(iterations) ? 0 : 2);
}

std::string measured_cell(const BillLine& line) { return line.measured ? figure(line.measured) : "not measured"; }
std::string forecast_cell(const BillLine& line) { return line.forecast ? figure(line.forecast) : "not forecast"; }
std::string off_cell(const BillLine& line) { return line.off_pct() ? format_signed(*line.off_pct(), 1) : "-"; }
std::string held_cell(const BillLine& line) { return !line.held() ? "-" : *line.held() ? "yes" : "no"; }

bool is_whole(const RecordedBill& bill) { return bill.part.begin && bill.part.iterations == bill.run_iterations; }

// Sentences on what is compared.
std::vector<std::string> scope_of(const RecordedBill& bill) {
  std::vector<std::string> sentences;
  std::vector<std::string> nodes;
  std::vector<std::string> without;
  for (const RecordedBill::Nodes& type : bill.node_types) {
    if (type.recorded == 0) {
      without.push_back(fmt::format("the {} of '{}'", type.count, type.name));
      continue;
    }
    nodes.push_back(fmt::format("{} of {} '{}'", type.recorded, type.count, type.name));
    if (type.recorded < type.count) without.push_back(fmt::format("{} of '{}'", type.count - type.recorded, type.name));
  }
  std::string part = "the whole run";
  if (!is_whole(bill)) {
    part = fmt::format("{} of {} iterations, {} what runs once", iteration_count(bill.part.iterations),
                       iteration_count(bill.run_iterations), bill.part.begin ? "with" : "without");
  }
  sentences.push_back(fmt::format("compared: {}; nodes {}", part, fmt::join(nodes, ", ")));
  if (!without.empty()) sentences.push_back(fmt::format("without a recording: {}", fmt::join(without, ", ")));
  for (const std::string& note : bill.notes) sentences.push_back(note);
  return sentences;
}

std::optional<std::string> closing_sentence(const RecordedBill& bill) {
  const auto run = bill.run_at_this_rate();
  if (!run) return std::nullopt;
  return fmt::format("the whole run on all nodes takes {} kWh if all of it is off by as much; forecast {} kWh",
                     figure(kilowatt_hours(*run)), figure(kilowatt_hours(bill.run_forecast)));
}

}  // namespace

std::string recorded_bill_text(const RecordedBill& bill, const Tariff& tariff) {
  std::string out = fmt::format("against {}\n", fmt::join(bill.files, ", "));
  for (const std::string& sentence : scope_of(bill)) out += sentence + "\n";
  out += '\n';
  TextTable table({"<bill", "<unit", "forecast", "low", "high", "measured", "off by %", "in interval"});
  for (const BillLine& line : lines_of(bill, tariff)) {
    table.add_row({line.name, line.unit, forecast_cell(line), figure(line.low), figure(line.high), measured_cell(line),
                   off_cell(line), held_cell(line)});
  }
  out += table.str();
  if (const auto sentence = closing_sentence(bill)) out += *sentence + "\n";
  return out;
}

nlohmann::ordered_json recorded_bill_json(const RecordedBill& bill, const Tariff& tariff) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const RecordedBill::Nodes& type : bill.node_types) {
    nodes.push_back({{"name", type.name}, {"count", type.count}, {"recorded", type.recorded}});
  }
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const BillLine& line : lines_of(bill, tariff)) {
    lines.push_back({{"name", line.key},
                     {"unit", line.unit},
                     {"forecast", write_value(line.forecast)},
                     {"low", write_value(line.low)},
                     {"high", write_value(line.high)},
                     {"measured", write_value(line.measured)},
                     {"off_pct", write_value(line.off_pct())},
                     {"in_interval", write_value(line.held())}});
  }
  const auto run = bill.run_at_this_rate();
  return {{"recordings", bill.files},
          {"iterations", bill.part.iterations},
          {"of_iterations", bill.run_iterations},
          {"with_begin", bill.part.begin},
          {"confidence_pct", bill.confidence * 100.0},
          {"node_types", std::move(nodes)},
          {"lines", std::move(lines)},
          {"run_kwh", run ? nlohmann::ordered_json(kilowatt_hours(*run)) : nlohmann::ordered_json(nullptr)},
          {"note", bill.notes.empty() ? nlohmann::ordered_json(nullptr)
                                      : nlohmann::ordered_json(fmt::format("{}", fmt::join(bill.notes, "\n")))}};
}

std::string recorded_bill_html(const RecordedBill& bill, const Tariff& tariff) {
  std::string out = "<h2>Forecast and bill</h2>\n";
  for (const std::string& sentence : scope_of(bill)) out += fmt::format("<p>{}</p>\n", escape_markup(sentence));
  HtmlTable table({"Bill", "Forecast", "Low", "High", "Measured", "Off by<small>%</small>", "In interval"});
  for (const BillLine& line : lines_of(bill, tariff)) {
    table.row({line.unit.empty() ? line.name : fmt::format("{} ({})", line.name, line.unit), forecast_cell(line),
               figure(line.low), figure(line.high), measured_cell(line), off_cell(line), held_cell(line)});
  }
  out += table.str();
  if (const auto sentence = closing_sentence(bill)) out += fmt::format("<p>{}</p>\n", escape_markup(*sentence));
  return out;
}

}  // namespace flyball
