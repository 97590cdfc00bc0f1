// Writes a forecast as text, JSON and one page of HTML.
#include "report/forecast_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/record_codec.h"
#include "draw/html_page.h"
#include "draw/scale.h"
#include "draw/text_table.h"
#include "report/recorded_bill_report.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

// Returns `decimals`, or more if the value needs them to show four digits.
int decimals_for(double value, int decimals) {
  constexpr int kMost = 12;
  if (std::abs(value) < 1e-9) return decimals;
  return std::clamp(3 - static_cast<int>(std::floor(std::log10(std::abs(value)))), decimals, kMost);
}

// The number of decimals for all figures of a sheet: its total has about five digits.
int decimals_of(const EnergySheet& sheet) {
  const double total = kilowatt_hours(sheet.energy);
  return total >= 1000.0 ? 1 : total >= 100.0 ? 2 : total >= 10.0 ? 3 : decimals_for(total, 4);
}

std::string kwh(const EnergySheet& sheet, Joules energy) {
  return grouped_number(kilowatt_hours(energy), decimals_of(sheet));
}

std::string share(Joules part, Joules whole) {
  return whole > Joules(0) ? format_fixed(100.0 * (part / whole), 1) : "-";
}

std::string span_of_time(Seconds time) {
  const double s = time.value();
  if (s >= 2.0 * 86400.0) return fmt::format("{} d", format_fixed(s / 86400.0, 1));
  if (s >= 2.0 * 3600.0) return fmt::format("{} h", format_fixed(s / 3600.0, 1));
  if (s >= 120.0) return fmt::format("{} min", format_fixed(s / 60.0, 1));
  return fmt::format("{} s", format_fixed(s, decimals_for(s, 2)));
}

struct Saving {
  Joules energy;
  double pct;
  double slower_pct;
};

std::optional<Saving> saving_of(const EnergySheet& sheet) {
  if (!sheet.baseline) return std::nullopt;
  const EnergySheet::Baseline& before = *sheet.baseline;
  return Saving{before.energy - sheet.energy, 100.0 * (1.0 - sheet.energy / before.energy),
                100.0 * (sheet.duration / before.duration - 1.0)};
}

struct Charge {
  std::string what;
  std::string unit;
  double own;
  std::optional<double> before;  // the baseline's
};

std::vector<Charge> charges_of(const ForecastReport& report) {
  const EnergySheet& sheet = *report.sheet;
  const Tariff& tariff = *report.tariff;
  std::vector<Charge> charges{{"energy", "kWh", kilowatt_hours(sheet.energy), std::nullopt}};
  if (sheet.baseline) charges.back().before = kilowatt_hours(sheet.baseline->energy);
  if (const auto co2 = tariff.co2_kg(sheet.energy, sheet.duration)) {
    charges.push_back({"CO2", "kg", *co2, std::nullopt});
    if (sheet.baseline) charges.back().before = tariff.co2_kg(sheet.baseline->energy, sheet.baseline->duration);
  }
  if (const auto cost = tariff.cost(sheet.energy, sheet.duration)) {
    charges.push_back({"cost", "", *cost, std::nullopt});
    if (sheet.baseline) charges.back().before = tariff.cost(sheet.baseline->energy, sheet.baseline->duration);
  }
  return charges;
}

std::string amount(double value) {
  if (std::abs(value) >= 1000.0) return grouped_number(value, 0);
  return format_fixed(value, std::abs(value) >= 10.0 ? 2 : decimals_for(value, 4));
}

std::string run_line(const EnergySheet& sheet) {
  const bool whole = sheet.count == std::floor(sheet.count);
  std::string line = fmt::format("{} {}", whole ? grouped_number(sheet.count, 0) : amount(sheet.count), sheet.counted);
  if (sheet.epochs > 0) line = fmt::format("{} epoch{}, {}", sheet.epochs, sheet.epochs == 1 ? "" : "s", line);
  return fmt::format("{}, {}", line, span_of_time(sheet.duration));
}

std::string interval_line(const EnergySheet& sheet) {
  return fmt::format("{:g} % interval {} to {} kWh", sheet.interval->confidence * 100.0,
                     kwh(sheet, sheet.interval->low), kwh(sheet, sheet.interval->high));
}

std::string bought_line(const ForecastReport::Bought& bought) {
  std::string text = fmt::format("budget {}: {} iterations", bought.budget, grouped_number(bought.iterations, 0));
  if (bought.least)
    text += fmt::format(" ({} to {})", grouped_number(*bought.least, 0), grouped_number(*bought.most, 0));
  if (bought.epochs) text += fmt::format(", {} epochs", amount(*bought.epochs));
  return text;
}

std::string headline(const ForecastReport& report) {
  const EnergySheet& sheet = *report.sheet;
  std::string text = fmt::format("<strong>{}&nbsp;kWh</strong>", kwh(sheet, sheet.energy));
  if (sheet.interval) {
    text += fmt::format(" ({} to {} with {:g}&nbsp;% confidence)", kwh(sheet, sheet.interval->low),
                        kwh(sheet, sheet.interval->high), sheet.interval->confidence * 100.0);
  }
  text += fmt::format(" for {}", escape_markup(run_line(sheet)));
  if (const auto saving = saving_of(sheet)) {
    const bool less = saving->pct >= 0.0;
    const bool slower = saving->slower_pct >= -0.05;  // of a tenth per cent
    text +=
        fmt::format(": {}&nbsp;kWh or {}&nbsp;% {} than with {}, in {}&nbsp;% {} time",
                    kwh(sheet, less ? saving->energy : Joules(0) - saving->energy),
                    format_fixed(std::abs(saving->pct), 1), less ? "less" : "more", escape_markup(sheet.baseline->name),
                    format_fixed(std::abs(saving->slower_pct), 1), slower ? "more" : "less");
  }
  return text + ".";
}

constexpr std::string_view kForecastWords = R"(<h2>Words</h2>
<dl>
<dt>preprocess</dt><dd>indexing the data set, loading and preparing batches, moving them to the accelerator</dd>
<dt>compute</dt><dd>model in and out, forward, backward</dd>
<dt>communicate</dt><dd>the gradients' all-reduce, the update, and waiting for the slowest node</dd>
<dt>interruptions</dt><dd>checkpoints, evaluations, and after a failure the restart and the work that is repeated;
only if RUN.toml states them</dd>
<dt>wait</dt><dd>what nodes draw idle until the slowest has done its share of an iteration and the longest all-reduce is
over</dd>
<dt>interval</dt><dd>holds the run's energy with that probability, if the measured iterations are like the rest and
nodes differ as little as stated or usual</dd>
</dl>
)";

}  // namespace

std::string forecast_text(const ForecastReport& report) {
  const EnergySheet& sheet = *report.sheet;
  std::string out = fmt::format("{}\n{}\n", sheet.name.empty() ? "forecast" : sheet.name, run_line(sheet));
  out += fmt::format("total {} kWh", kwh(sheet, sheet.energy));
  if (sheet.interval) out += fmt::format("; {}", interval_line(sheet));
  for (const std::string& note : sheet.notes) out += "\n" + note;
  out += "\n\n";
  TextTable stages({"<stage", "energy kWh", "share %"});
  for (const EnergySheet::Group& group : sheet.stages) {
    stages.add_row({spaced(group.name), kwh(sheet, group.energy), share(group.energy, sheet.energy)});
    for (const EnergySheet::Row& part : group.parts) {
      stages.add_row({"  " + spaced(part.name), kwh(sheet, part.energy), share(part.energy, sheet.energy)});
    }
  }
  out += stages.str() + "\n";
  TextTable components({"<component", "energy kWh", "share %"});
  for (const EnergySheet::Row& row : sheet.components) {
    components.add_row({row.name, kwh(sheet, row.energy), share(row.energy, sheet.energy)});
  }
  out += components.str() + "\n";
  TextTable nodes({"<nodes", "count", "energy kWh", "share %", "wait s"});
  for (const EnergySheet::Nodes& type : sheet.node_types) {
    nodes.add_row({type.name, fmt::to_string(type.count), kwh(sheet, type.energy), share(type.energy, sheet.energy),
                   type.wait ? format_fixed(type.wait->value(), decimals_for(type.wait->value(), 4)) : "-"});
  }
  out += nodes.str();
  const Tariff& tariff = *report.tariff;
  const std::vector<Charge> charges = charges_of(report);
  if (sheet.baseline) {
    TextTable bill({"<whole run", "<unit", "this run", ">" + sheet.baseline->name, "saved", "saved %"});
    for (const Charge& charge : charges) {
      const double before = charge.before.value_or(0.0);
      bill.add_row({charge.what, charge.unit, amount(charge.own), amount(before), amount(before - charge.own),
                    before > 0.0 ? format_fixed(100.0 * (1.0 - charge.own / before), 2) : "-"});
    }
    bill.add_row({"time", "h", amount(sheet.duration.value() / 3600.0),
                  amount(sheet.baseline->duration.value() / 3600.0),
                  amount((sheet.baseline->duration - sheet.duration).value() / 3600.0),
                  format_fixed(-saving_of(sheet)->slower_pct, 2)});
    out += "\n" + bill.str();
  } else if (charges.size() > 1) {
    out += '\n';
    for (std::size_t i = 1; i < charges.size(); ++i) {
      out += fmt::format("{} {}{}{}\n", charges[i].what, amount(charges[i].own), charges[i].unit.empty() ? "" : " ",
                         charges[i].unit);
    }
  }
  if (report.bought) out += "\n" + bought_line(*report.bought) + "\n";
  if (report.recorded) out += "\n" + recorded_bill_text(*report.recorded, tariff);
  return out;
}

std::string forecast_json(const ForecastReport& report) {
  const EnergySheet& sheet = *report.sheet;
  const Tariff& tariff = *report.tariff;
  Json json = {{"name", sheet.name},
               {"epochs", sheet.epochs > 0 ? Json(sheet.epochs) : Json(nullptr)},
               {sheet.counted, sheet.count},
               {"duration_s", sheet.duration.value()},
               {"total_kwh", kilowatt_hours(sheet.energy)},
               {"interval", nullptr},
               {"note", sheet.notes.empty() ? Json(nullptr) : Json(fmt::format("{}", fmt::join(sheet.notes, "\n")))}};
  if (sheet.interval) {
    json["interval"] = {{"confidence_pct", sheet.interval->confidence * 100.0},
                        {"low_kwh", kilowatt_hours(sheet.interval->low)},
                        {"high_kwh", kilowatt_hours(sheet.interval->high)}};
  }
  Json stages = Json::object();
  for (const EnergySheet::Group& group : sheet.stages) {
    Json parts = Json::object();
    for (const EnergySheet::Row& part : group.parts) parts[part.name] = kilowatt_hours(part.energy);
    stages[group.name] = {{"kwh", kilowatt_hours(group.energy)}, {"parts", std::move(parts)}};
  }
  json["stages"] = std::move(stages);
  Json components = Json::object();
  for (const EnergySheet::Row& row : sheet.components) components[row.name] = kilowatt_hours(row.energy);
  json["components"] = std::move(components);
  Json nodes = Json::array();
  for (const EnergySheet::Nodes& type : sheet.node_types) {
    nodes.push_back({{"name", type.name},
                     {"count", type.count},
                     {"kwh", kilowatt_hours(type.energy)},
                     {"wait_s", write_value(type.wait)}});
  }
  json["node_types"] = std::move(nodes);
  json["co2_kg"] = write_value(tariff.co2_kg(sheet.energy, sheet.duration));
  json["cost"] = write_value(tariff.cost(sheet.energy, sheet.duration));
  if (const auto saving = saving_of(sheet)) {
    const EnergySheet::Baseline& before = *sheet.baseline;
    const auto co2 = tariff.co2_kg(before.energy, before.duration);
    const auto cost = tariff.cost(before.energy, before.duration);
    json["baseline"] = {{"name", before.name},
                        {"total_kwh", kilowatt_hours(before.energy)},
                        {"duration_s", before.duration.value()},
                        {"co2_kg", write_value(co2)},
                        {"cost", write_value(cost)}};
    json["saved"] = {{"kwh", kilowatt_hours(saving->energy)},
                     {"pct", saving->pct},
                     {"slower_pct", saving->slower_pct},
                     {"co2_kg", co2 ? Json(*co2 - *tariff.co2_kg(sheet.energy, sheet.duration)) : Json(nullptr)},
                     {"cost", cost ? Json(*cost - *tariff.cost(sheet.energy, sheet.duration)) : Json(nullptr)}};
  }
  if (report.bought) {
    json["budget"] = {{"budget", report.bought->budget},
                      {"iterations", report.bought->iterations},
                      {"low_iterations", write_value(report.bought->least)},
                      {"high_iterations", write_value(report.bought->most)},
                      {"epochs", write_value(report.bought->epochs)}};
  }
  if (report.recorded) json["against"] = recorded_bill_json(*report.recorded, tariff);
  return json.dump(2) + "\n";
}

std::string forecast_html(const ForecastReport& report) {
  const EnergySheet& sheet = *report.sheet;
  std::string body;
  const std::vector<Charge> charges = charges_of(report);
  if (charges.size() > 1 || sheet.baseline) {
    std::vector<std::string> headings = {"Whole run", "This run"};
    if (sheet.baseline) headings.insert(headings.end(), {escape_markup(sheet.baseline->name), "Saved"});
    HtmlTable bill(headings);
    for (const Charge& charge : charges) {
      std::vector<std::string> cells = {
          charge.unit.empty() ? charge.what : fmt::format("{} ({})", charge.what, charge.unit), amount(charge.own)};
      if (charge.before) cells.insert(cells.end(), {amount(*charge.before), amount(*charge.before - charge.own)});
      bill.row(cells);
    }
    if (sheet.baseline) {
      const Seconds before = sheet.baseline->duration;
      bill.row({"time (h)", amount(sheet.duration.value() / 3600.0), amount(before.value() / 3600.0),
                amount((before - sheet.duration).value() / 3600.0)});
    }
    body += bill.str();
  }
  for (const std::string& line : sheet.notes) {
    body += fmt::format("<p class=\"note\">{}</p>\n", escape_markup(line));
  }
  if (report.bought) body += fmt::format("<p>{}</p>\n", escape_markup(bought_line(*report.bought)));
  if (report.recorded) body += recorded_bill_html(*report.recorded, *report.tariff);
  body += "<h2>Where the energy goes</h2>\n";
  body += in_both_widths([&](int width) { return energy_bars(sheet, width); });
  HtmlTable stages({"Stage", "Energy<small>kWh</small>", "Share<small>%</small>"});
  for (const EnergySheet::Group& group : sheet.stages) {
    stages.row({spaced(group.name), kwh(sheet, group.energy), share(group.energy, sheet.energy)});
    for (const EnergySheet::Row& part : group.parts) {
      stages.row({spaced(part.name), kwh(sheet, part.energy), share(part.energy, sheet.energy)}, "part");
    }
  }
  body += stages.str();
  HtmlTable components({"Component", "Energy<small>kWh</small>", "Share<small>%</small>"});
  for (const EnergySheet::Row& row : sheet.components) {
    components.row({row.name, kwh(sheet, row.energy), share(row.energy, sheet.energy)});
  }
  body += components.str();
  HtmlTable nodes({"Nodes", "Count", "Energy<small>kWh</small>", "Wait<small>s per iteration</small>"});
  for (const EnergySheet::Nodes& type : sheet.node_types) {
    nodes.row({type.name, fmt::to_string(type.count), kwh(sheet, type.energy),
               type.wait ? format_fixed(type.wait->value(), decimals_for(type.wait->value(), 4)) : "-"});
  }
  body += nodes.str();
  const TimeCharts power = power_charts(sheet, report.power);
  if (!power.charts.empty()) {
    body +=
        "<h2>Power over time</h2>\n<p>What one node draws as the run begins: filled what is forecast, by stage; a line "
        "what was recorded, where there is a recording. Drag over a chart to see less of the time; a double click "
        "shows "
        "all of it again.</p>\n";
    body += time_charts(power);
  }
  return html_document(
      {.title = sheet.name.empty() ? "Energy forecast" : sheet.name,
       .headline = headline(report),
       .body = std::move(body),
       .commands = report.command.empty() ? std::vector<std::string>{} : std::vector<std::string>{report.command},
       .closing = std::string(kForecastWords),
       .files = power.charts.empty() ? std::vector<std::string_view>{} : time_chart_files()});
}

}  // namespace flyball
