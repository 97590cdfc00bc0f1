// A plan file's point becomes lists of settings. A job's schedule gives the lists to compare with: sessions count the
// computations of each type, so that a plan fits where the types come in the same order.
#include "plan/plan_to_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/text.h"
#include "pipeline/instruction.h"
#include "plan/executed_step.h"
#include "plan/plan_file.h"
#include "plan/stage_clock.h"
#include "plan/zeus_frequencies.h"

namespace flyball {
namespace {

std::optional<Watts> power_limit_of(const OptionLabels& labels, const std::string& source) {
  for (const Label& label : labels) {
    if (label.name != kPowerLimitLabel) continue;
    const std::optional<double> watts = parse_number(label.value);
    if (!watts || !(*watts > 0.0)) {
      throw InputError({source}, fmt::format("power limit '{}' is no number above 0", label.value),
                       "state it in watts: 250");
    }
    return Watts(*watts);
  }
  return std::nullopt;
}

std::string limit_text(const std::optional<Watts>& limit) {
  return limit ? fmt::format("a power limit of {:g} W", limit->value()) : std::string("none");
}

// The computations of a stage, which must have the same power limit.
PlanToRun::Stage stage_of(const PlanFile& file, const ClockPlan& clocks, int stage, const std::string& source) {
  PlanToRun::Stage made;
  const std::string* first = nullptr;  // the instruction of the first computation
  const std::vector<PostedTransfers> posted = posted_transfers(file.dag, stage);
  for (const int i : file.dag.stage_order(stage)) {
    const OperationType& type = file.dag.type_of(i);
    if (!type.occupies_stage || is_constant_operation(type.instruction)) continue;
    const std::uint16_t chosen = clocks[static_cast<std::size_t>(i)];
    const auto limit = power_limit_of(type.labels.of(chosen), source);
    if (first == nullptr) {
      first = &type.instruction;
      made.power_limit = limit;
    } else if (limit != made.power_limit) {
      throw InputError(
          {source},
          fmt::format("stage {} is to run its first {} with {}, and a {} with {}", stage, *first,
                      limit_text(made.power_limit), type.instruction, limit_text(limit)),
          "a board's limit is set once for all computations of its stage: plan with --planner zeus-per-stage or "
          "zeus-global, which choose one limit for each stage");
    }
    made.computations.push_back({std::string(announced_name(type.instruction)), file.dag[i].microbatch,
                                 file.dag[i].chunk,
                                 static_cast<int>(std::lround(type.options[chosen].frequency.value())),
                                 posted.empty() ? PostedTransfers{} : posted[made.computations.size()]});
  }
  return made;
}

// The plan with every computation at its highest clock; of several options of that clock, the fastest.
ClockPlan highest_clocks(const ComputationDag& dag) {
  TypeOptions options;
  for (const OperationType& type : dag.types()) {
    const auto best = std::min_element(type.options.begin(), type.options.end(), [](const auto& a, const auto& b) {
      return a.frequency != b.frequency ? a.frequency > b.frequency : a.time < b.time;
    });
    options.push_back(static_cast<std::uint16_t>(best - type.options.begin()));
  }
  return plan_of_types(dag, options);
}

std::string job_text(const PipelineSpec& job) {
  std::string text =
      fmt::format("{} and {}", schedule_name(job.schedule), counted(job.microbatches, "microbatch", "es"));
  if (job.chunks > 1) text += fmt::format(", {}", counted(job.chunks, "chunk"));
  return text;
}

void check_counts(const PlanToRun& plan, int stage, const InstructionStream& stream, const PipelineSpec& job) {
  const std::vector<PlannedComputation>& planned = plan.stages[static_cast<std::size_t>(stage)].computations;
  for (const InstructionKind kind : {InstructionKind::kForward, InstructionKind::kBackward, InstructionKind::kRecompute,
                                     InstructionKind::kBackwardInput, InstructionKind::kBackwardWeight}) {
    const auto in_plan = std::count_if(planned.begin(), planned.end(), [&](const PlannedComputation& one) {
      return one.instruction == instruction_name(kind);
    });
    const auto in_job =
        std::count_if(stream.begin(), stream.end(), [&](const Instruction& one) { return one.kind == kind; });
    if (in_plan == in_job) continue;
    throw InputError({plan.source},
                     fmt::format("stage {} has {} {} in the plan, and {} in the job ({})", stage, in_plan,
                                 instruction_name(kind), in_job, job_text(job)),
                     "plan for the job's schedule and numbers of microbatches and chunks, or open the session with "
                     "those of the plan");
  }
}

// The place at which the orders part; none where they are the same.
std::optional<std::size_t> other_order_at(const std::vector<PlannedComputation>& planned,
                                          const InstructionStream& stream, bool knows_chunks) {
  for (std::size_t k = 0; k < planned.size() && k < stream.size(); ++k) {
    const bool same_chunk = !knows_chunks || planned[k].chunk == stream[k].chunk;
    if (planned[k].instruction != instruction_name(stream[k].kind) || !same_chunk) return k;
  }
  if (planned.size() != stream.size()) return std::min(planned.size(), stream.size());
  return std::nullopt;
}

std::int64_t number_of_order(const PlanToRun& plan) {
  Fingerprint fingerprint;
  for (const PlanToRun::Stage& stage : plan.stages) {
    fingerprint.add("stage");
    for (const PlannedComputation& one : stage.computations) {
      fingerprint.add(fmt::format("{} {} {} {}", one.instruction, one.microbatch, one.chunk, one.transfers));
    }
  }
  return fingerprint.number();
}

// "1410 and 1395", the clocks next to one that the board does not have.
std::string neighbours(std::span<const Megahertz> clocks, double mhz) {
  std::optional<double> above;
  std::optional<double> below;
  for (const Megahertz clock : clocks) {
    if (clock.value() > mhz) above = std::min(above.value_or(clock.value()), clock.value());
    if (clock.value() < mhz) below = std::max(below.value_or(clock.value()), clock.value());
  }
  if (above && below) return fmt::format("{:.0f} and {:.0f} MHz are next to it", *above, *below);
  return fmt::format("its {} clock is {:.0f} MHz", above ? "lowest" : "highest", above ? *above : below.value_or(0.0));
}

// A list of clocks begins with a bracket, a plan file with a brace.
bool is_list(std::string_view text) {
  while (!text.empty() && (text.front() == '#' || text.find_first_of(" \t\r\n") == 0)) {
    const std::size_t skipped = text.front() == '#' ? text.find('\n') : 1;
    text.remove_prefix(std::min(skipped, text.size()));
  }
  return !text.empty() && text.front() == '[';
}

PlanToRun plan_of_list(const std::string& source, std::string_view text) {
  PlanToRun plan;
  plan.source = source;
  plan.knows_operations = false;
  for (std::vector<AnnouncedClock>& stage : read_zeus_frequencies(source, text)) {
    PlanToRun::Stage& made = plan.stages.emplace_back();
    for (AnnouncedClock& one : stage) {
      if (is_constant_operation(one.instruction)) continue;  // sessions set no clock for these
      made.computations.push_back({std::move(one.instruction), 0, 0, one.clock_mhz, {}});
    }
  }
  return plan;
}

// The fastest option of this clock (0: whatever the clock) and limit; none where there is none.
std::optional<std::uint16_t> option_for(const OperationType& type, int clock_mhz, const std::optional<Watts>& limit,
                                        const std::string& source) {
  std::optional<std::uint16_t> best;
  for (std::size_t k = 0; k < type.options.size(); ++k) {
    const bool same_clock = clock_mhz == 0 || std::lround(type.options[k].frequency.value()) == clock_mhz;
    if (!same_clock || power_limit_of(type.labels.of(k), source) != limit) continue;
    if (!best || type.options[k].time < type.options[*best].time) best = static_cast<std::uint16_t>(k);
  }
  return best;
}

// Whether the plan says where any transfer is posted.
bool places_transfers(const PlanToRun& plan) {
  for (const PlanToRun::Stage& stage : plan.stages) {
    for (const PlannedComputation& one : stage.computations) {
      if (one.transfers != PostedTransfers{}) return true;
    }
  }
  return false;
}

}  // namespace

PlanToRun read_plan_to_run(const std::string& source, std::string_view text) {
  if (is_list(text)) return plan_of_list(source, text);
  const PlanFile file = read_plan_json(source, text);
  if (file.frontier.empty()) {
    throw InputError({source}, "the plan has no point", "make it anew: flyball plan PROFILE --out FOLDER");
  }
  PlanToRun plan;
  plan.source = source;
  plan.point = file.header.selected.value_or(0);
  const ClockPlan clocks = file.frontier.plan(plan.point);
  for (int stage = 0; stage < file.dag.stages(); ++stage) {
    plan.stages.push_back(stage_of(file, clocks, stage, source));
  }
  plan.time = file.frontier.time(plan.point);
  plan.energy = file.frontier.energy(plan.point);
  plan.max_clock_time = to_seconds(replay(file.dag, file.blocking, highest_clocks(file.dag)).time);
  return plan;
}

PlanToRun read_plan_to_run(const std::filesystem::path& path) {
  return read_plan_to_run(path.string(), read_text_file(path));
}

void fit_to_job(PlanToRun& plan, const PipelineSpec& job, const OrderAbility& can) {
  const auto streams = make_schedule(job.schedule, job.stages, job.microbatches, job.chunks);
  if (plan.stages.size() != streams.size()) {
    throw InputError({plan.source},
                     fmt::format("the plan has {}, the job {}", counted(std::ssize(plan.stages), "stage"),
                                 counted(std::ssize(streams), "stage")),
                     "plan for the job's stages, or open the session with those of the plan");
  }
  plan.order = 0;
  for (std::size_t stage = 0; stage < streams.size(); ++stage) {
    std::vector<PlannedComputation>& planned = plan.stages[stage].computations;
    check_counts(plan, static_cast<int>(stage), streams[stage], job);
    const auto other = other_order_at(planned, streams[stage], plan.knows_operations);
    for (std::size_t k = 0; !other && !plan.knows_operations && k < planned.size(); ++k) {
      planned[k].microbatch = streams[stage][k].microbatch;
      planned[k].chunk = streams[stage][k].chunk;
    }
    if (!other) continue;
    if (!can.executes_order || !plan.knows_operations) {
      const Instruction& there = streams[stage].at(*other);
      throw InputError(
          {plan.source},
          fmt::format("stage {} is to run {} as computation {}, where schedule {} of the job has {}", stage,
                      name_of_chunk(planned[*other].instruction, planned[*other].chunk), *other + 1,
                      schedule_name(job.schedule), name_of_chunk(instruction_name(there.kind), there.chunk)),
          plan.knows_operations
              ? "plan in that order (--order fixed), or set executes_order if the job runs the order that its session "
                "gives"
              : "open the session with the schedule of the plan; a list of clocks does not say which microbatches "
                "another order would take");
    }
    plan.order = number_of_order(plan);
  }
  if (plan.order == 0 || !job.transfers_occupy_both) return;
  if (!can.places_transfers || !places_transfers(plan)) {
    throw InputError(
        {plan.source},
        can.places_transfers ? "the plan is in another order than the job's schedule, and does not say where "
                               "stages post transfers that occupy both of them, as the job's do"
                             : "the plan is in another order than the job's schedule, and the job does not "
                               "post transfers that occupy both stages where a plan says so",
        "plan in the schedule's order (--order fixed), or plan with such transfers and set places_transfers");
  }
}

ClockPlan plan_on(const PlanToRun& plan, const ComputationDag& dag) {
  if (std::ssize(plan.stages) != dag.stages()) {
    throw InputError({plan.source},
                     fmt::format("the plan has {}, the pipeline {}", counted(std::ssize(plan.stages), "stage"),
                                 counted(dag.stages(), "stage")),
                     "give the profile and the pipeline that the plan is for");
  }
  ClockPlan chosen = highest_clocks(dag);
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const PlanToRun::Stage& own = plan.stages[static_cast<std::size_t>(stage)];
    const std::vector<int> operations = measured_operations(dag, stage);
    for (std::size_t k = 0; k < std::max(operations.size(), own.computations.size()); ++k) {
      const bool there = k < operations.size() && k < own.computations.size();
      const OperationType* type = there ? &dag.type_of(operations[k]) : nullptr;
      if (type == nullptr || announced_name(type->instruction) != own.computations[k].instruction) {
        throw InputError(
            {plan.source},
            fmt::format("stage {} has other computations than the pipeline, from number {} on", stage, k + 1),
            "give the schedule and the numbers of microbatches and chunks that the plan is for");
      }
      const int mhz = own.computations[k].clock_mhz;
      const auto option = option_for(*type, mhz, own.power_limit, plan.source);
      if (!option) {
        std::vector<Megahertz> clocks;
        for (const ClockOption& one : type->options) clocks.push_back(one.frequency);
        throw InputError(
            {plan.source},
            fmt::format("stage {} is to run {} at {} MHz{}, at which the profile has no measurement; {}", stage,
                        type->instruction, mhz, own.power_limit ? " with " + limit_text(own.power_limit) : "",
                        neighbours(clocks, mhz)),
            "give a profile that was measured at the plan's clocks");
      }
      chosen[static_cast<std::size_t>(operations[k])] = *option;
    }
  }
  return chosen;
}

void check_board(const PlanToRun& plan, int stage, std::span<const Megahertz> clocks,
                 const std::optional<PowerLimitBounds>& limits) {
  const PlanToRun::Stage& own = plan.stages.at(static_cast<std::size_t>(stage));
  for (const PlannedComputation& one : own.computations) {
    const bool known = std::any_of(clocks.begin(), clocks.end(),
                                   [&](Megahertz clock) { return std::lround(clock.value()) == one.clock_mhz; });
    if (one.clock_mhz == 0 || clocks.empty() || known) continue;
    throw InputError({plan.source},
                     fmt::format("stage {} is to run {} of microbatch {} at {} MHz, a clock that its GPU does not have "
                                 "or that the agent allows to nobody; {}",
                                 stage, name_of_chunk(one.instruction, one.chunk), one.microbatch, one.clock_mhz,
                                 neighbours(clocks, one.clock_mhz)),
                     "plan with a profile of this GPU");
  }
  if (!own.power_limit || !limits) return;
  if (*own.power_limit >= limits->minimum && *own.power_limit <= limits->maximum) return;
  throw InputError({plan.source},
                   fmt::format("stage {} is to run with {}; its GPU may be set to {:g} to {:g} W", stage,
                               limit_text(own.power_limit), limits->minimum.value(), limits->maximum.value()),
                   "plan with limits in that range");
}

}  // namespace flyball
