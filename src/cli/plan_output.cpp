// Tables and JSON are made of the same PlannerRun. Each part of the text is a function of its own, which returns an
// empty text where that part was not asked for.
#include "cli/plan_output.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <nlohmann/json.hpp>

#include "draw/text_table.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024.0 * 1e-6;
}

// Turns -0, as a saving of nothing may come out, into 0.
double plain_zero(double value) { return value + 0.0; }

Json figures_json(const PointFigures& figures) {
  return {{"time", figures.time.value()},
          {"energy", figures.energy.value()},
          {"lower_bound", figures.lower_bound.value()},
          {"gap_pct", figures.gap_pct},
          {"saving_pct", plain_zero(figures.saving_pct)},
          {"slowdown_pct", figures.slowdown_pct},
          {"switches", figures.switches}};
}

Json charged_json(const ChargedFigures& charged) {
  const PointFigures& figures = charged.figures;
  return {{"time", figures.time.value()},
          {"energy", figures.energy.value()},
          {"saving_pct", plain_zero(figures.saving_pct)},
          {"slowdown_pct", figures.slowdown_pct},
          {"switches", figures.switches},
          {"shortest_dwell", charged.dwell.value()},
          {"one_clock_per", name_of(charged.one_clock_per)}};
}

Json expected_json(const PlannerRun& run, const MeasurementNoise& noise) {
  if (!run.expected) return {{"noise", "unknown"}};
  const ExpectedFigures& expected = *run.expected;
  return {{"noise", "from smoothness"},
          {"time_noise_pct", 100.0 * noise.of_times()},
          {"energy_noise_pct", 100.0 * noise.of_energies()},
          {"time", expected.time.mean},
          {"time_deviation", expected.time.deviation},
          {"energy", expected.energy.mean},
          {"energy_deviation", expected.energy.deviation},
          {"saving_pct", expected.saving_pct.mean},
          {"saving_deviation_pct", expected.saving_pct.deviation},
          {"slowdown_pct", expected.slowdown_pct.mean},
          {"slowdown_deviation_pct", expected.slowdown_pct.deviation}};
}

Json shape_json(const PowerShape& shape) {
  return {{"mean_w", shape.mean.value()},       {"least_w", shape.least.value()},
          {"peak_w", shape.peak.value()},       {"greatest_step_w", shape.greatest_step.value()},
          {"ramp_w_per_s", shape.ramp_w_per_s}, {"swing_w", shape.swing.peak_to_peak.value()},
          {"swing_hz", shape.swing.hertz}};
}

Json power_json(const PowerFigures& power) {
  Json json = {{"gpus_per_stage", power.copies},
               {"ramp_window_s", power.limits.ramp_window.value()},
               {"max_power_w", nullptr},
               {"max_ramp_w_per_s", nullptr},
               {"least_time", nullptr},
               {"over_least_time_pct", nullptr},
               {"baseline", shape_json(power.baseline)},
               {"plan", shape_json(power.plan)}};
  if (power.limits.peak) json["max_power_w"] = power.limits.peak->value();
  if (power.limits.ramp_w_per_s) json["max_ramp_w_per_s"] = *power.limits.ramp_w_per_s;
  if (power.least_time) {
    json["least_time"] = power.least_time->value();
    json["over_least_time_pct"] = plain_zero(power.over_least_time_pct);
  }
  return json;
}

Json budget_json(const std::vector<BudgetedPlan>& budget) {
  Json periods = Json::array();
  for (const BudgetedPlan& one : budget) {
    periods.push_back({{"from", one.period.from},
                       {"until", one.period.until},
                       {"power_w", one.period.power.value()},
                       {"time", one.figures.time.value()},
                       {"energy", one.figures.energy.value()},
                       {"saving_pct", plain_zero(one.figures.saving_pct)},
                       {"slowdown_pct", one.figures.slowdown_pct},
                       {"peak_w", one.peak.value()},
                       {"iterations", one.iterations},
                       {"plan", one.number}});
  }
  return periods;
}

Json landmarks_json(const std::vector<Landmark>& landmarks) {
  Json json = Json::array();
  for (const Landmark& landmark : landmarks) {
    Json& one = json.emplace_back(Json{{"name", name_of(landmark.name)}, {"point", landmark.point}});
    one.update(figures_json(landmark.figures));
  }
  return json;
}

Json job_json(const std::vector<JobEnergy>& job) {
  Json json = Json::array();
  for (const JobEnergy& one : job) {
    json.push_back({{"pipelines", one.pipelines},
                    {"gpus_per_stage", one.gpus_per_stage},
                    {"baseline_j", one.baseline.value()},
                    {"plan_j", one.plan.value()},
                    {"saved_j", plain_zero(one.saved().value())}});
  }
  return json;
}

Json switching_json(const SwitchingFigures& switching) {
  Json front = Json::array();
  for (const ChargedFigures& one : switching.front) front.push_back(charged_json(one));
  Json slower = Json::array();
  for (const SlowerFront& one : switching.slower) {
    Json plans = Json::array();
    for (const ChargedFigures& plan : one.front) plans.push_back(charged_json(plan));
    slower.push_back({{"deadline", one.deadline.value()}, {"chosen", one.chosen}, {"front", std::move(plans)}});
  }
  Json worth_time = Json::array();
  for (const SlowerPlan& one : switching.worth_time) {
    Json& json = worth_time.emplace_back(Json{{"deadline", one.deadline.value()}});
    json.update(charged_json(one.plan));
  }
  const SwitchingLimits& limits = switching.limits;
  return {{"latency", {(limits.latency - limits.spread).value(), limits.latency.value()}},
          {"charged", charged_json(switching.charged)},
          {"reduced", charged_json(switching.front[switching.chosen])},
          {"front", std::move(front)},
          {"slower", std::move(slower)},
          {"worth_time", std::move(worth_time)}};
}

Json run_json(const PlannerRun& run, const MeasurementNoise& noise, bool measured) {
  const PlanSummary& summary = run.summary;
  const Frontier& frontier = run.result.frontier;
  const PlannerStats& stats = run.result.stats;
  Json selected = figures_json(summary.selected);
  selected["limited_by"] = name_of(summary.limit);
  selected["expected"] = expected_json(run, noise);
  Json points = Json::array();
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    points.push_back({{"time", frontier.time(i).value()},
                      {"energy", frontier.energy(i).value()},
                      {"lower_bound", frontier.lower_bound(i).value()}});
  }
  Json json = {{"planner", summary.planner},
               {"t_min", summary.t_min.value()},
               {"t_star", summary.t_star.value()},
               {"t_least_total", summary.t_least_total.value()},
               {"t_allowed", summary.allowed_time.value()},
               {"baseline", {{"time", summary.baseline.time.value()}, {"energy", summary.baseline.energy.value()}}},
               {"selected", std::move(selected)},
               {"landmarks", landmarks_json(run.landmarks)},
               {"frontier", std::move(points)},
               {"stats", {{"nodes", stats.nodes}, {"edges", stats.edges}, {"steps", stats.steps}}}};
  if (summary.straggler_time) json["t_straggler"] = summary.straggler_time->value();
  json["order"] = name_of(run.order);
  if (!run.in_flight.empty()) json["in_flight"] = run.in_flight;
  if (!run.schedule_in_flight.empty()) json["schedule_in_flight"] = run.schedule_in_flight;
  if (run.one_more) {
    json["one_more_in_flight"] = {{"memory_limit", run.one_more->memory_limit},
                                  {"saving_pct", run.one_more->saving_pct}};
  }
  if (run.against_whole) {
    json["against_whole"] = {{"whole_time", run.against_whole->whole_time.value()},
                             {"whole_energy", run.against_whole->whole_energy.value()},
                             {"whole_saving_pct", run.against_whole->whole_saving_pct},
                             {"time", run.against_whole->time.value()},
                             {"saving_pct", run.against_whole->saving_pct}};
  }
  if (!run.job.empty()) json["job"] = job_json(run.job);
  if (run.switching) json["switching"] = switching_json(*run.switching);
  if (run.power) json["power"] = power_json(*run.power);
  if (!run.budget.empty()) json["budget"] = budget_json(run.budget);
  if (measured) {
    json["stats"]["solve_seconds"] = stats.solve_seconds;
    json["stats"]["peak_rss_mb"] = peak_rss_mb();
  }
  return json;
}

TextTable figures_table(const std::string& first_heading) {
  return TextTable({"<" + first_heading, "time s", "energy J", "saving %", "slower %", "gap %", "switches"});
}

std::vector<std::string> figures_row(const std::string& label, const PointFigures& figures, bool is_baseline) {
  return {label,
          format_fixed(figures.time.value(), 4),
          format_fixed(figures.energy.value(), 1),
          is_baseline ? "-" : format_fixed(figures.saving_pct, 2),
          is_baseline ? "-" : format_fixed(figures.slowdown_pct, 2),
          format_fixed(figures.gap_pct, 3),
          fmt::to_string(figures.switches)};
}

std::string landmark_label(LandmarkName name, const std::string& planner) {
  switch (name) {
    case LandmarkName::kOnly: return planner;
    case LandmarkName::kFastest: return "fastest";
    case LandmarkName::kAsFast: return "as fast";
    case LandmarkName::kTarget: return "target";
    case LandmarkName::kStraggler: return "straggler";
    case LandmarkName::kLeastTotal: return "least total";
    case LandmarkName::kTStar: return "T*";
    case LandmarkName::kInLimits: return "in limits";
  }
  return "";
}

// The frontier's landmarks, the chosen one marked.
std::string landmarks_table(const PlannerRun& run) {
  TextTable table = figures_table("  plan");
  table.add_row(figures_row("  max clocks", run.summary.baseline, true));
  for (const Landmark& landmark : run.landmarks) {
    const bool chosen = landmark.point == run.summary.selected_point;
    table.add_row(figures_row((chosen ? "> " : "  ") + landmark_label(landmark.name, run.summary.planner),
                              landmark.figures, false));
  }
  return table.str();
}

// The memory that a planner's own order costs, or what a little memory would bring in the schedule's.
std::string order_text(const PlannerRun& run) {
  if (run.one_more) {
    return fmt::format(
        "\nwith memory for one more microbatch on every stage but the last, another order\ncould save some {} %: "
        "--memory-limit {}\n",
        format_fixed(run.one_more->saving_pct, 2), fmt::join(run.one_more->memory_limit, ","));
  }
  switch (run.order) {
    case PlannedOrder::kSchedule: return "";
    case PlannedOrder::kNoneBetter:
      return "\norder: the schedule's, since none was found that saves more within the memory limit\n";
    case PlannedOrder::kCannotChange: return "\norder: the schedule's, since this pipeline's cannot be changed\n";
    case PlannedOrder::kOwn: break;
  }
  if (run.in_flight.empty()) return "";
  return fmt::format("\norder: the stages hold at most {} microbatches (in the schedule's order {})\n",
                     fmt::join(run.in_flight, ", "), fmt::join(run.schedule_in_flight, ", "));
}

// What backwards in two parts are worth.
std::string against_text(const PlannerRun& run) {
  if (!run.against_whole) return "";
  const AgainstWhole& against = *run.against_whole;
  return fmt::format(
      "\n1f1b with whole backwards takes {} s and {} J at maximum clocks:\nclocks alone save at most {} %, this "
      "frontier {} % (in {} s)\n",
      format_fixed(against.whole_time.value(), 4), format_fixed(against.whole_energy.value(), 1),
      format_fixed(against.whole_saving_pct, 2), format_fixed(against.saving_pct, 2),
      format_fixed(against.time.value(), 4));
}

// The most microbatches that the stages hold: in the schedule's order, and in the order of each planner with its own.
std::string memory_text(const std::vector<PlannerRun>& runs) {
  constexpr std::size_t kColumns = 78;
  std::string text;
  std::size_t begin = 0;  // of the last line
  for (const PlannerRun& run : runs) {
    if (run.order != PlannedOrder::kOwn || run.in_flight.empty()) continue;
    if (text.empty()) text = fmt::format("in flight: {}", *std::ranges::max_element(run.schedule_in_flight));
    const std::string next = fmt::format("{} {}", run.summary.planner, *std::ranges::max_element(run.in_flight));
    const bool fits = text.size() - begin + next.size() < kColumns;
    text += fits ? ", " : ",\n";
    if (!fits) begin = text.size();
    text += next;
  }
  return text.empty() ? "" : text + "\n";
}

std::string comparison(const std::vector<PlannerRun>& runs) {
  TextTable table = figures_table("planner");
  table.add_row(figures_row("max clocks", runs.front().summary.baseline, true));
  for (const PlannerRun& run : runs) {
    if (run.summary.planner == "max") continue;  // the row above
    table.add_row(figures_row(run.summary.planner, run.summary.selected, false));
  }
  return table.str() + memory_text(runs);
}

// A deviation is never shown as 0.00.
std::string with_deviation(const Expected& expected) {
  return fmt::format("{} ± {}", format_fixed(expected.mean, 2), format_fixed(std::max(expected.deviation, 0.005), 2));
}

// The saving that can be expected of the chosen plan, since noise flatters what was chosen by noisy figures.
std::string expectation(const LoadedPipeline& pipeline, const PlannerRun& run) {
  if (!run.expected && !pipeline.profile.label_columns.empty()) {
    return "\nsaving to expect: unknown; options with labels lie on no curve that tells their noise\n";
  }
  if (!run.expected) {
    return "\nsaving to expect: unknown; too few clocks were measured to tell their noise\n";
  }
  return fmt::format(
      "\nsaving to expect: {} %, slower {} %\n(the measurements' noise, {} % of energies and {} % of times, as their\n"
      "smoothness tells, flatters what is chosen by them)\n",
      expected_saving_text(run), with_deviation(run.expected->slowdown_pct),
      format_fixed(100.0 * pipeline.noise.of_energies(), 2), format_fixed(100.0 * pipeline.noise.of_times(), 2));
}

// The chosen plan's figures when clock changes are not free. The bounds assume free changes, hence no gap is shown.
std::string switching_table(const PlannerRun& run) {
  if (!run.switching) return "";
  TextTable table({"<  changes", "time s", "energy J", "saving %", "slower %", "switches", "dwell s", "<clock per"});
  const auto add = [&](const std::string& label, const PointFigures& figures, const ChargedFigures* charged) {
    table.add_row({label, format_fixed(figures.time.value(), 4), format_fixed(figures.energy.value(), 1),
                   format_fixed(figures.saving_pct, 2), format_fixed(figures.slowdown_pct, 2),
                   fmt::to_string(figures.switches), charged != nullptr ? format_fixed(charged->dwell.value(), 4) : "",
                   charged != nullptr ? std::string(name_of(charged->one_clock_per)) : ""});
  };
  const SwitchingFigures& switching = *run.switching;
  add("  free", run.summary.selected, nullptr);
  add("  charged", switching.charged.figures, &switching.charged);
  // The ends of the front, and the neighbours of the chosen plan.
  for (std::size_t i = 0; i < switching.front.size(); ++i) {
    const bool is_end = i == 0 || i + 1 == switching.front.size();
    const bool is_near = i + 1 >= switching.chosen && i <= switching.chosen + 1;
    if (!is_end && !is_near) continue;
    add(i < switching.chosen    ? "  fewer"
        : i == switching.chosen ? "> reduced"
                                : "  more",
        switching.front[i].figures, &switching.front[i]);
  }
  for (const SlowerPlan& one : switching.worth_time) add("  slower", one.plan.figures, &one.plan);
  const SwitchingLimits& limits = switching.limits;
  const Seconds shortest = limits.latency - limits.spread;
  const std::string range = (limits.spread > Seconds(0) ? fmt::format("{:g} to ", 1e3 * shortest.value()) : "") +
                            fmt::format("{:g} ms", 1e3 * limits.latency.value());
  return fmt::format("\nclock changes take hold {} after they are asked for (--switch-latency):\n", range) +
         table.str();
}

// The plans of the periods of a budget.
std::string budget_table(const PlannerRun& run) {
  if (run.budget.empty()) return "";
  TextTable table({"<from", "<until", "limit W", "peak W", "time s", "iterations"});
  for (const BudgetedPlan& one : run.budget) {
    table.add_row({one.period.from, one.period.until, format_fixed(one.period.power.value(), 0),
                   format_fixed(one.peak.value(), 0), format_fixed(one.figures.time.value(), 4),
                   format_fixed(one.iterations, 0)});
  }
  return "\n" + table.str();
}

// The power of all GPUs of the job, and how good a plan inside the limits is.
std::string power_table(const PlannerRun& run) {
  if (!run.power) return "";
  const PowerFigures& power = *run.power;
  TextTable table({"<power of the job", "mean W", "peak W", "step W", "ramp W/s", "swing W", "at Hz"});
  const auto add = [&](const std::string& label, const PowerShape& shape) {
    table.add_row({label, format_fixed(shape.mean.value(), 1), format_fixed(shape.peak.value(), 1),
                   format_fixed(shape.greatest_step.value(), 1), format_fixed(shape.ramp_w_per_s, 1),
                   format_fixed(shape.swing.peak_to_peak.value(), 1), format_fixed(shape.swing.hertz, 2)});
  };
  add("max clocks", power.baseline);
  add("plan", power.plan);
  std::string text = "\n" + table.str();
  if (power.least_time) {
    std::string inside = "inside both limits";
    if (!power.limits.ramp_w_per_s) inside = fmt::format("below {} W", format_fixed(power.limits.peak->value(), 1));
    if (!power.limits.peak) inside = fmt::format("within {} W/s", format_fixed(*power.limits.ramp_w_per_s, 1));
    text += fmt::format("no plan {} in this order takes less than {:.4f} s;\nthis one takes {} % more\n", inside,
                        power.least_time->value(), format_fixed(power.over_least_time_pct, 2));
  }
  return text;
}

std::string whole_job(const PlannerRun& run, int pipelines) {
  if (run.job.empty()) return "";
  TextTable table({"<energy per iteration", "max clocks J", "plan J", "saved J"});
  for (const JobEnergy& one : run.job) {
    const std::string label = one.pipelines > 1 ? fmt::format("whole job, {} pipelines", one.pipelines)
                              : one.gpus_per_stage > 1
                                  ? fmt::format("one pipeline, {} GPUs per stage", one.gpus_per_stage)
                                  : "one GPU per stage";
    table.add_row({label, format_fixed(one.baseline.value(), 1), format_fixed(one.plan.value(), 1),
                   format_fixed(one.saved().value(), 1)});
  }
  const bool mixed = pipelines > 1 && run.summary.straggler_time;
  return "\n" + table.str() + (mixed ? "the whole job, straggler and others: see flyball emulate\n" : "");
}

std::string pace(const PlanSummary& summary) {
  if (!summary.straggler_time) {
    if (summary.limit != PaceLimit::kLeastEnergy) return "";
    return fmt::format("pace: {:.4f} s leave room, but plans slower than {:.4f} s take more energy\n",
                       summary.allowed_time.value(), summary.selected.time.value());
  }
  std::string text = fmt::format("straggler: T' = {:.4f} s sets the pace; energies include waiting for it\n",
                                 summary.straggler_time->value());
  if (*summary.straggler_time > summary.t_star) {
    text += fmt::format("T' lies beyond T*: slowing down further than T* = {:.4f} s saves nothing\n",
                        summary.t_star.value());
  }
  return text;
}

}  // namespace

std::string expected_saving_text(const PlannerRun& run) {
  return run.expected ? with_deviation(run.expected->saving_pct) : "unknown";
}

std::string plan_results_json(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs, bool measured) {
  Json json = run_json(runs.front(), pipeline.noise, measured);
  if (runs.size() > 1) {
    json["planners"] = Json::array();
    for (const PlannerRun& run : runs) json["planners"].push_back(run_json(run, pipeline.noise, measured));
  }
  return json.dump(2) + "\n";
}

std::string plan_results_text(const LoadedPipeline& pipeline, const std::vector<PlannerRun>& runs) {
  const PlannerRun& main = runs.front();
  const Frontier& frontier = main.result.frontier;
  std::string text = pipeline.title() + "\n" + pace(main.summary) + "\n";
  if (runs.size() > 1) text += comparison(runs) + "\n";
  text += landmarks_table(main) + order_text(main) + against_text(main) + expectation(pipeline, main) +
          budget_table(main) + power_table(main) + switching_table(main) + whole_job(main, pipeline.spec.data_parallel);
  text += fmt::format("\n{}: {} plan{} from {:.4f} s to {:.4f} s, found in {:.3f} s\n", main.summary.planner,
                      frontier.size(), frontier.size() == 1 ? "" : "s", frontier.time(0).value(),
                      frontier.time(frontier.size() - 1).value(), main.result.stats.solve_seconds);
  return text;
}

}  // namespace flyball
