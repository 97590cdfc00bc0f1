// One list of rows makes the table and the JSON.
#include "report/estimate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/record_codec.h"
#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "forecast/bill.h"
#include "report/forecast_report.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

struct EstimateRow {
  std::string key;  // in JSON
  std::string name;
  std::string unit;
  ValueRange value;
  std::string from;
};

// Three digits, which is more than an estimate has.
std::string three_digits(double value) {
  if (!std::isfinite(value)) return "-";
  if (value == 0.0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  if (magnitude < -4) return fmt::format("{:.2e}", value);
  const double unit = std::pow(10.0, magnitude - 2);
  return grouped_number(std::round(value / unit) * unit, std::max(0, 2 - magnitude));
}

ValueRange scaled(const ValueRange& range, double factor) {
  return {range.low * factor, range.middle * factor, range.high * factor};
}

std::vector<EstimateRow> factor_rows(const Estimate& estimate) {
  return {{"utilization", estimate.request.recompute ? "HFU" : "MFU", "", estimate.utilization.range,
           estimate.utilization.from},
          {"gpu_power_w", "power of a GPU", "W", estimate.power_w.range, estimate.power_w.from},
          {"node_factor", "node over its GPUs", "", estimate.node_factor.range, estimate.node_factor.from},
          {"pue", "PUE", "", estimate.pue.range, estimate.pue.from}};
}

std::vector<EstimateRow> result_rows(const EstimateReport& report) {
  const Estimate& estimate = *report.estimate;
  const EstimateBill& bill = *report.bill;
  std::vector<EstimateRow> rows = {{"gpu_hours", "GPU-hours", "h", estimate.gpu_hours, ""},
                                   {"days", "time", "d", scaled(estimate.seconds, 1.0 / 86400.0), ""},
                                   {"gpu_kwh", "energy, GPUs", "kWh", estimate.gpu_kwh, ""},
                                   {"node_kwh", "  and host, network, fans, supplies", "kWh", estimate.node_kwh, ""},
                                   {"site_kwh", "  and cooling, distribution", "kWh", estimate.site_kwh, ""}};
  const auto add = [&rows](const char* key, const char* name, const char* unit, const std::optional<ValueRange>& value,
                           std::string from) {
    if (value) rows.push_back({key, name, unit, *value, std::move(from)});
  };
  add("co2_kg", "CO2", "kg", bill.co2_kg, report.region ? *report.region : "");
  add("embodied_kg", "CO2 of making the hardware", "kg", bill.embodied_kg, "");
  add("energy_cost", "cost of energy", "", bill.energy_cost, "");
  add("gpu_cost", "cost of GPU-hours", "", bill.gpu_cost, "");
  add("cost", "cost of both", "", bill.cost, "");
  add("budget_tokens", "tokens for the budget", "", bill.budget_tokens, "");
  return rows;
}

std::vector<std::string> cells_of(const EstimateRow& row, bool with_source) {
  std::vector<std::string> cells = {row.name, row.unit, three_digits(row.value.low), three_digits(row.value.middle),
                                    three_digits(row.value.high)};
  if (with_source) cells.push_back(row.from);
  return cells;
}

std::string table_of(const std::vector<EstimateRow>& rows, bool with_source) {
  std::vector<std::string> headings = {with_source ? "<factor" : "<result", "<unit", "low", "middle", "high"};
  if (with_source) headings.emplace_back("<from");
  TextTable table(headings);
  for (const EstimateRow& row : rows) table.add_row(cells_of(row, with_source));
  return table.str();
}

std::string html_table_of(const std::vector<EstimateRow>& rows, bool with_source) {
  std::vector<std::string> headings = {with_source ? "factor" : "result", "unit", "low", "middle", "high"};
  if (with_source) headings.emplace_back("from");
  HtmlTable table(headings);
  for (const EstimateRow& row : rows) table.row(cells_of(row, with_source));
  return table.str();
}

// What the figures were taken from; stated factors have no source.
std::vector<std::string> sources_of(const EstimateReport& report) {
  const EstimateRequest& request = report.estimate->request;
  std::vector<std::string> lines = {fmt::format("{}: {}", request.gpu->board, request.gpu->source)};
  const auto add = [&lines](std::string line) {
    for (const std::string& there : lines) {
      if (there == line) return;
    }
    lines.push_back(std::move(line));
  };
  if (!request.utilization) {
    for (const PublishedRun& run : calibrating_runs()) add(fmt::format("MFU, {}: {}", run.family, run.source));
  }
  const auto add_figures = [&add](const char* what, std::span<const PublishedFigure> figures) {
    for (const PublishedFigure& figure : figures) {
      add(fmt::format("{} {:.2f}, {}: {}", what, figure.value, figure.name, figure.source));
    }
  };
  if (!request.power) add_figures("load", load_shares());
  if (!request.node_factor) add_figures("node", node_factors());
  if (!request.pue) add_figures("PUE", site_pues());
  if (report.charges->embodied) add(fmt::format("making: {}", published_embodied_carbon().source));
  if (report.region) add(fmt::format("{}: {}", *report.region, region_source()));
  return lines;
}

// "70 B" for 70e9, as people write numbers of parameters and tokens.
std::string in_units(double value) {
  for (const auto& [unit, name] : {std::pair{1e12, "T"}, std::pair{1e9, "B"}, std::pair{1e6, "M"}}) {
    if (value >= unit) return fmt::format("{:.4g}{}", value / unit, name);
  }
  return fmt::format("{:.4g}", value);
}

std::string title_of(const EstimateRequest& request) {
  std::string model = fmt::format("{} parameters", in_units(request.parameters));
  if (request.active_parameters) model += fmt::format(", {} active", in_units(*request.active_parameters));
  return fmt::format("estimate: {}, {} tokens, {} x {}", model, in_units(request.tokens),
                     grouped_number(static_cast<double>(request.gpus), 0), request.gpu->board);
}

std::optional<std::string> start_line(const EstimateReport& report) {
  if (!report.best_start) return std::nullopt;
  return fmt::format("best start: {} h after the first row",
                     format_fixed(report.charges->tariff.start.value() / 3600.0, 2));
}

// The middle of the energies, for the picture.
EnergySheet energy_of(const Estimate& estimate) {
  const auto joules = [](double kwh) { return Joules(kwh * 3.6e6); };
  const Joules gpus = joules(estimate.gpu_kwh.middle);
  const Joules host = joules(estimate.node_kwh.middle) - gpus;
  const Joules site = joules(estimate.site_kwh.middle) - gpus - host;
  EnergySheet sheet;
  sheet.energy = gpus + host + site;
  sheet.stages = {{"GPUs", gpus, {}}, {"host, network, fans, supplies", host, {}}, {"cooling, distribution", site, {}}};
  return sheet;
}

Json json_of(const ValueRange& range) { return {{"low", range.low}, {"middle", range.middle}, {"high", range.high}}; }

}  // namespace

std::string estimate_text(const EstimateReport& report) {
  const Estimate& estimate = *report.estimate;
  std::string out =
      fmt::format("{}\nnothing was measured; with a probability of {:g} % the true value lies between low and high\n\n",
                  title_of(estimate.request), estimate.request.confidence * 100.0);
  out += table_of(factor_rows(estimate), true) + "\n" + table_of(result_rows(report), false);
  if (const auto line = start_line(report)) out += "\n" + *line + "\n";
  out += "\nsources\n";
  for (const std::string& line : sources_of(report)) out += "  " + line + "\n";
  return out;
}

std::string estimate_json(const EstimateReport& report) {
  const Estimate& estimate = *report.estimate;
  const EstimateRequest& request = estimate.request;
  Json json = {{"gpu", request.gpu->name},
               {"board", request.gpu->board},
               {"gpus", request.gpus},
               {"parameters", request.parameters},
               {"active_parameters", write_value(request.active_parameters)},
               {"tokens", request.tokens},
               {"operations", estimate.operations},
               {"confidence_pct", request.confidence * 100.0}};
  for (const EstimateRow& row : factor_rows(estimate)) {
    json[row.key] = json_of(row.value);
    json[row.key]["from"] = row.from;
  }
  for (const EstimateRow& row : result_rows(report)) json[row.key] = json_of(row.value);
  json["start_s"] = report.best_start ? Json(report.charges->tariff.start.value()) : Json(nullptr);
  json["sources"] = sources_of(report);
  return json.dump(2) + "\n";
}

std::string estimate_html(const EstimateReport& report, const std::string& command) {
  const Estimate& estimate = *report.estimate;
  const EnergySheet sheet = energy_of(estimate);
  std::string body = fmt::format(
      "<p>Nothing was measured: with a probability of {:g}&nbsp;% the true value lies between low and high.</p>\n",
      estimate.request.confidence * 100.0);
  body += html_table_of(result_rows(report), false);
  if (const auto line = start_line(report)) body += fmt::format("<p>{}</p>\n", escape_markup(*line));
  body += "<h2>Where the energy goes</h2>\n<p>Of the middle values.</p>\n";
  body += in_both_widths([&](int width) { return energy_bars(sheet, width); });
  body += "<h2>What it rests on</h2>\n" + html_table_of(factor_rows(estimate), true) + "<ul class=\"note\">";
  for (const std::string& line : sources_of(report)) body += "<li>" + escape_markup(line) + "</li>";
  body += "</ul>\n";
  const std::string headline =
      fmt::format("<strong>{}&nbsp;kWh</strong>, between {} and {}, in {} days.",
                  three_digits(estimate.site_kwh.middle), three_digits(estimate.site_kwh.low),
                  three_digits(estimate.site_kwh.high), three_digits(estimate.seconds.middle / 86400.0));
  return html_document({.title = title_of(estimate.request),
                        .headline = headline,
                        .body = std::move(body),
                        .commands = {command},
                        .closing = {},
                        .files = {}});
}

}  // namespace flyball
