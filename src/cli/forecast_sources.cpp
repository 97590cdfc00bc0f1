// The energy of a plan's point is summed from its operations: what a stage computes, by instruction, and its blocking
// power over the rest of the iteration. The baseline is a replay of the same DAG with every type of operation at its
// highest clock.
#include "cli/forecast_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/json_object.h"
#include "base/text.h"
#include "cli/option_values.h"
#include "pipeline/computation_dag.h"
#include "plan/plan_file.h"
#include "plan/planner.h"
#include "plan/stage_clock.h"
#include "plan/zeus_frequencies.h"
#include "trace/power_trace.h"

namespace flyball {
namespace {

double parse_iterations(std::string_view option, std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value < 1 || *value > 1'000'000'000'000) {
    throw UsageError(fmt::format("{} takes a whole number from 1 to 1e12, not '{}'", option, text));
  }
  return static_cast<double>(*value);
}

int parse_point(std::string_view option, std::string_view text) {
  const auto value = parse_integer(text);
  if (!value || *value < 0 || *value > 1'000'000'000) {
    throw UsageError(fmt::format("{} takes the index of a point, from 0, not '{}'", option, text));
  }
  return static_cast<int>(*value);
}

// What a stage's own computations take under a plan; the rest of the iteration it is blocked.
struct StageEnergy {
  Joules forward;
  Joules backward;
  Joules other;
  Seconds busy;
};

std::vector<StageEnergy> energy_of_stages(const ComputationDag& dag, const ClockPlan& plan,
                                          const std::vector<Watts>& blocking) {
  std::vector<StageEnergy> stages(static_cast<std::size_t>(dag.stages()));
  for (int i = 0; i < dag.size(); ++i) {
    const OperationType& type = dag.type_of(i);
    const ClockOption& option = type.options[plan[static_cast<std::size_t>(i)]];
    StageEnergy& own = stages[static_cast<std::size_t>(type.stage)];
    const bool backward = type.instruction.starts_with("backward") || type.instruction == "recompute";
    Joules& part = type.instruction == "forward" ? own.forward : backward ? own.backward : own.other;
    part += option.energy;
    if (type.occupies_stage) {
      own.busy += option.time;
    } else {  // the stage is charged as waiting meanwhile
      part -= charged_blocking(type, blocking[static_cast<std::size_t>(type.stage)]) * option.time;
    }
  }
  return stages;
}

std::size_t chosen_point(const PlanBillOptions& options, const PlanFile& plan, Seconds fastest) {
  const Frontier& frontier = plan.frontier;
  if (frontier.empty()) throw InputError({*options.file}, "the plan has no points", "make it again with flyball plan");
  if (options.point) {
    if (static_cast<std::size_t>(*options.point) >= frontier.size()) {
      throw UsageError(fmt::format("--point {}: the plan's points are 0 to {}", *options.point, frontier.size() - 1));
    }
    return static_cast<std::size_t>(*options.point);
  }
  if (options.slower_pct) return frontier.cheapest_by(to_nanoseconds((1.0 + *options.slower_pct / 100.0) * fastest));
  return plan.header.selected.value_or(0);
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

void add_plan_options(CLI::App& command, PlanBillOptions& options) {
  add_value(command, "--plan", options.file, parse_path, "FILE",
            "a plan of flyball plan --out, in place of RUN.toml: its whole run against all-maximum clocks");
  add_value(command, "--iterations", options.iterations, parse_iterations, "N", "with --plan: of the run");
  add_value(command, "--point", options.point, parse_point, "N",
            "with --plan: which of its points, from 0, the fastest (default the chosen one)");
  add_value(command, "--slower", options.slower_pct, parse_percent, "PERCENT",
            "with --plan: the slowest point at most so much slower than all-maximum clocks");
  add_value(command, "--pipelines", options.pipelines, parse_count, "N",
            "with --plan: data-parallel pipelines (default 1)");
  add_value(command, "--tensor-parallel", options.tensor_parallel, parse_count, "N",
            "with --plan: GPUs per stage (default 1)");
}

void check_plan_options(const PlanBillOptions& options) {
  const bool details =
      options.point || options.slower_pct || options.iterations || options.pipelines || options.tensor_parallel;
  if (!options.file) {
    if (details) throw UsageError("--iterations, --point, --slower, --pipelines and --tensor-parallel are for --plan");
    return;
  }
  if (!options.iterations) throw UsageError("--plan needs --iterations N, the length of the run");
  if (options.point && options.slower_pct) throw UsageError("--point and --slower both choose a point; give one");
}

EnergySheet sheet_of_plan(const PlanBillOptions& options) {
  const PlanFile plan = read_plan_file(*options.file);
  std::vector<std::uint16_t> highest;
  for (const OperationType& type : plan.dag.types()) {
    const auto found =
        std::max_element(type.options.begin(), type.options.end(),
                         [](const ClockOption& a, const ClockOption& b) { return a.frequency < b.frequency; });
    highest.push_back(static_cast<std::uint16_t>(found - type.options.begin()));
  }
  const FrontierPoint before = replay(plan.dag, plan.blocking, plan_of_types(plan.dag, highest));
  const std::size_t point = chosen_point(options, plan, to_seconds(before.time));
  const ClockPlan clocks = plan.frontier.plan(point);
  const Seconds time = plan.frontier.time(point);

  const auto gpus = std::int64_t{options.pipelines.value_or(1)} * options.tensor_parallel.value_or(1);
  const double factor = *options.iterations * static_cast<double>(gpus);
  EnergySheet sheet;
  // Points count from the fastest, Zeus's files from the slowest.
  sheet.name = fmt::format("{}, {} plan, point {} of 0 to {} (Zeus: {})", plan.header.source, plan.header.planner,
                           point, plan.frontier.size() - 1, zeus_file_name(plan.frontier.size() - 1 - point));
  sheet.count = *options.iterations;
  sheet.duration = *options.iterations * time;
  Joules forward(0);
  Joules backward(0);
  Joules other(0);
  Joules blocked(0);
  const std::vector<StageEnergy> stages = energy_of_stages(plan.dag, clocks, plan.blocking);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Joules waiting = factor * (plan.blocking[s] * (time - stages[s].busy));
    const Joules own = factor * (stages[s].forward + stages[s].backward + stages[s].other) + waiting;
    forward += factor * stages[s].forward;
    backward += factor * stages[s].backward;
    other += factor * stages[s].other;
    blocked += waiting;
    sheet.node_types.push_back({fmt::format("stage {}", s), gpus, own, time - stages[s].busy});
    sheet.energy += own;
  }
  sheet.stages = {{"compute", forward + backward + other, {{"forward", forward}, {"backward", backward}}},
                  {"communicate", blocked, {{"blocked", blocked}}}};
  if (other > Joules(0)) sheet.stages[0].parts.push_back({"other operations", other});
  sheet.components = {{"accelerator", sheet.energy}};
  const Joules total_before(before.net_joules);
  Watts blocking(0);
  for (const Watts power : plan.blocking) blocking += power;
  sheet.baseline =
      EnergySheet::Baseline{"all-maximum clocks", factor * (total_before + blocking * to_seconds(before.time)),
                            *options.iterations * to_seconds(before.time)};
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

Recording read_recording(const std::string& file) {
  DeviceTable devices;
  const std::unique_ptr<PowerTrace> trace = open_power_trace(file, {}, devices);
  const PowerTraceStats& stats = trace->stats();
  for (const DroppedReadings& dropped : stats.dropped) {
    if (!dropped.reason.starts_with("negative")) continue;
    throw InputError({file, dropped.first_line}, dropped.reason, "remove the row, or record again");
  }
  const Seconds whole = to_seconds(stats.last - stats.first);
  constexpr double kMostGaps = 0.01;
  for (const PowerTraceSensor& sensor : stats.sensors) {
    if (sensor.gap_time <= kMostGaps * whole) continue;
    throw InputError({file},
                     fmt::format("nothing is known of {} for {:.4g} s of {:.4g} s", sensor.name,
                                 sensor.gap_time.value(), whole.value()),
                     "cut the trace where its readings or its counter stop, or record again");
  }
  Recording recording{file, to_seconds(stats.first).value(), {}};
  const Nanoseconds first = stats.first;
  PowerSegment segment;
  while (trace->next(segment)) {
    recording.add(devices.name(segment.device), to_seconds(segment.begin - first), to_seconds(segment.end - first),
                  segment.power);
  }
  return recording;
}

}  // namespace flyball
