// Points are judged by a model that was fitted to other runs or, without such runs, by halves: a model fitted to the
// points in even places predicts those in odd places, and the other way round. Text and JSON come from one judgement.
#include "cli/against.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

std::string title(const Judgement& judgement) {
  const RecordedRuns& runs = judgement.runs;
  const std::string how = judgement.fitted_to
                              ? fmt::format("predicted by what was fitted to {}", *judgement.fitted_to)
                              : "each predicted by what was fitted to the half of the points that it is not in" +
                                    (judgement.also_fitted_to ? ", and to " + *judgement.also_fitted_to : "");
  const std::size_t warm = runs.points.size() - judgement.points.size();
  return fmt::format("{}: {}, {}, {}\n{}{}, {}\n", runs.source, counted(runs.stages, "stage"),
                     counted(runs.microbatches, "microbatch", "es"), schedule_name(judgement.schedule),
                     counted(static_cast<long>(judgement.points.size()), "point"),
                     warm > 0 ? fmt::format(" (and {} that warms up)", warm) : "", how);
}

std::string agreement_table(const Judgement& judgement) {
  TextTable table({"<off, % of measured", "time mean", "worst", "energy mean", "worst"});
  const auto row = [&](const std::string& name, const Agreement& of) {
    table.add_row({name, format_fixed(of.mean_time, 3), format_fixed(of.worst_time, 3), format_fixed(of.mean_energy, 3),
                   format_fixed(of.worst_energy, 3)});
  };
  const Agreement& unseen = judgement.agreement;
  row(judgement.fitted_to ? "fitted to other runs" : "held out", unseen);
  if (judgement.fitted_to_all) row("fitted to these points", *judgement.fitted_to_all);
  table.add_row(
      {"operations as measured", format_fixed(unseen.mean_rest, 3), format_fixed(unseen.worst_rest, 3), "-", "-"});
  return table.str();
}

Json agreement_json(const Agreement& of) {
  return {{"mean_time_off_pct", of.mean_time},     {"worst_time_off_pct", of.worst_time},
          {"mean_energy_off_pct", of.mean_energy}, {"worst_energy_off_pct", of.worst_energy},
          {"mean_rest_pct", of.mean_rest},         {"worst_rest_pct", of.worst_rest}};
}

}  // namespace

std::string against_text(const Judgement& judgement) {
  TextTable table({"point", "measured (s)", "predicted (s)", "off %", "measured (J)", "predicted (J)", "off %"});
  TextTable parts(
      {"point", "computing", "loading", "transfers", "once", "switching", "operations", "rest", "waiting J"});
  for (const JudgedPoint& point : judgement.points) {
    const RecordedPoint& measured = *point.measured;
    const std::string number = fmt::to_string(measured.number);
    table.add_row({number, format_fixed(measured.time.value(), 4), format_fixed(point.time.value(), 4),
                   format_signed(point.time_off_pct(), 2), format_fixed(measured.energy.value(), 1),
                   format_fixed(point.energy.value(), 1), format_signed(point.energy_off_pct(), 2)});
    const auto share = [&](Seconds part) { return format_fixed(100.0 * (part / measured.time), 2); };
    parts.add_row({number, share(point.computations), share(point.loading), share(point.transfers), share(point.once),
                   share(point.switching), share(point.operations), share(point.rest),
                   format_fixed(100.0 * (point.waiting / measured.energy), 2)});
  }
  return fmt::format(
      "{}\n{}\nWhat the measured time consists of, in %: computations alone and what each further\n"
      "part adds; 'operations' is what they took otherwise than their profile says, 'rest'\n"
      "is not explained. Last, the share of the energy that goes while nothing computes.\n\n{}\n{}\n"
      "{} fitted to iteration times, {} to energies, the operations' times by clock to\n"
      "operations. 'operations as measured' replays each point with its own.\n",
      title(judgement), table.str(), parts.str(), agreement_table(judgement),
      counted(judgement.time_constants, "constant"), judgement.power_constants);
}

std::string against_json(const Judgement& judgement) {
  Json points = Json::array();
  for (const JudgedPoint& point : judgement.points) {
    points.push_back({{"point", point.measured->number},
                      {"measured_time", point.measured->time.value()},
                      {"predicted_time", point.time.value()},
                      {"measured_energy", point.measured->energy.value()},
                      {"predicted_energy", point.energy.value()},
                      {"waiting_energy", point.waiting.value()},
                      {"parts",
                       {{"computing", point.computations.value()},
                        {"loading", point.loading.value()},
                        {"transfers", point.transfers.value()},
                        {"once", point.once.value()},
                        {"switching", point.switching.value()},
                        {"operations", point.operations.value()},
                        {"rest", point.rest.value()}}}});
  }
  Json json = {{"runs", judgement.runs.source},
               {"fitted_to", judgement.fitted_to ? Json(*judgement.fitted_to) : Json("every other point")},
               {"schedule", schedule_name(judgement.schedule)},
               {"stages", judgement.runs.stages},
               {"microbatches", judgement.runs.microbatches},
               {"time_constants", judgement.time_constants},
               {"power_constants", judgement.power_constants},
               {"judged", agreement_json(judgement.agreement)}};
  if (judgement.also_fitted_to) json["also_fitted_to"] = *judgement.also_fitted_to;
  if (judgement.fitted_to_all) json["fitted_to_all"] = agreement_json(*judgement.fitted_to_all);
  json["points"] = std::move(points);
  return json.dump(2) + "\n";
}

}  // namespace flyball
