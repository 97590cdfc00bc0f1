// The plan's timeline is emulated and the stages' are joined, in the same DAG, only when somebody asks.
#include "server/last_iteration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "base/json_text.h"
#include "base/record.h"
#include "pipeline/instruction.h"
#include "pipeline/timeline.h"

namespace flyball {
namespace {

std::string why_missing(const Job& job) {
  if (job.stored().kind == JobKind::kZeus) return "Zeus's clients do not report iterations";
  if (!job.current()) return fmt::format("the job has no schedule yet: it is {}", name_of(job.state()));
  const Deployment& current = *job.current();
  const std::int64_t every = current.pipelines.front().texts->measured_every;
  if (every > 0) {
    return fmt::format("no iteration by a schedule has been reported yet; ranks report one in {}", every);
  }
  if (current.plan->wants_steps()) return "no iteration has been reported yet";
  return fmt::format("iterations of {} operations are not measured, only those of at most {}",
                     current.plan->dag().size(), kMostIterationOperations);
}

// Times of all operations, from when the first computation begins.
struct Times {
  std::vector<Nanoseconds> begin;
  std::vector<Nanoseconds> end;
};

Times counted_from_first(std::vector<Nanoseconds> begin, std::vector<Nanoseconds> end,
                         const std::vector<int>& computations) {
  Nanoseconds first = begin[at(computations.front())];
  for (const int i : computations) first = std::min(first, begin[at(i)]);
  for (std::size_t i = 0; i < begin.size(); ++i) {
    begin[i] -= first;
    end[i] -= first;
  }
  return {std::move(begin), std::move(end)};
}

std::vector<int> computations_of(const ComputationDag& dag) {
  std::vector<int> all;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const std::vector<int> of_stage = measured_operations(dag, stage);
    all.insert(all.end(), of_stage.begin(), of_stage.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Each type with the settings that the plan uses. Returns, by operation, the index of its own.
std::vector<int> add_types(const ComputationDag& dag, const ClockPlan& clocks, std::vector<IterationType>& types) {
  std::vector<std::map<int, int>> settings(dag.types().size());  // by option, highest clock first
  for (int i = 0; i < dag.size(); ++i) settings[at(dag[i].type)].emplace(clocks[at(i)], 0);
  for (std::size_t t = 0; t < settings.size(); ++t) {
    const OperationType& type = dag.types()[t];
    IterationType& told = types.emplace_back(IterationType{type.instruction,
                                                           instruction_letters(type.instruction),
                                                           is_forward(type.instruction),
                                                           type.occupies_stage,
                                                           type.stage,
                                                           {}});
    for (auto& [option, index] : settings[t]) {
      index = static_cast<int>(told.settings.size());
      const ClockOption& is = type.options[at(option)];
      told.settings.push_back(
          {is.frequency, is.time, is.energy, is.time > Seconds(0) ? is.energy / is.time : Watts(0)});
    }
  }
  std::vector<int> used;
  for (int i = 0; i < dag.size(); ++i) used.push_back(settings[at(dag[i].type)].at(clocks[at(i)]));
  return used;
}

// Adds how late each computation was. What nobody measures ends as much after all that it waits for as planned.
void add_lateness(const ComputationDag& dag, const Times& planned, const Times& measured,
                  const std::vector<bool>& is_measured, IterationOperations& told) {
  std::vector<Nanoseconds> ended(planned.end.size());
  for (int i = 0; i < dag.size(); ++i) {
    std::optional<Nanoseconds> planned_ready;
    std::optional<Nanoseconds> ready;
    for (const int p : dag.predecessors(i)) {
      planned_ready = std::max(planned_ready.value_or(planned.end[at(p)]), planned.end[at(p)]);
      ready = std::max(ready.value_or(ended[at(p)]), ended[at(p)]);
    }
    const Nanoseconds since_ready = planned.end[at(i)] - planned_ready.value_or(0);
    ended[at(i)] = is_measured[at(i)] ? measured.end[at(i)] : ready.value_or(0) + since_ready;
    if (!is_measured[at(i)]) {
      told.late.emplace_back();
      told.added.emplace_back();
      continue;
    }
    told.late.emplace_back(to_seconds(ended[at(i)] - planned.end[at(i)]));
    told.added.emplace_back(to_seconds(ended[at(i)] - ready.value_or(0) - since_ready));
  }
}

}  // namespace

void LastIteration::keep(const Deployment& deployment, CompleteStep step, Seconds now) {
  const JobPlan& plan = deployment.plan->of_pipeline(0);
  const Deployment::Pipeline& pipeline = deployment.pipelines.front();
  const JobPlan::Run run{pipeline.point, pipeline.allowed};
  if (static_cast<std::size_t>(plan.dag().size()) > kMostIterationOperations || !plan.is_prepared(run)) return;
  kept_ = Kept{{deployment.plan, &plan}, plan.clocks_of(run, pipeline.raised), std::move(step),
               deployment.version,       pipeline.texts->promised_time,        now};
  text_.reset();
}

MeasuredIteration LastIteration::beside_plan() const {
  const ComputationDag& dag = kept_->plan->dag();
  const std::vector<int> computations = computations_of(dag);
  const std::vector<Nanoseconds> durations = kept_->plan->durations(kept_->clocks);
  Timeline emulated = emulate(dag, durations);
  const Times planned = counted_from_first(std::move(emulated.start), std::move(emulated.finish), computations);
  ExecutedStep joined = join_stages(dag, kept_->step.stages);
  const Times measured = counted_from_first(std::move(joined.start), std::move(joined.finish), computations);
  std::vector<bool> is_measured(durations.size());
  Nanoseconds last_planned = 0;
  Nanoseconds last = 0;
  for (const int i : computations) {
    is_measured[at(i)] = true;
    last_planned = std::max(last_planned, planned.end[at(i)]);
    last = std::max(last, measured.end[at(i)]);
  }
  MeasuredIteration told;
  told.version = kept_->version;
  told.step = kept_->step.number;
  told.measured_at = kept_->at;
  told.promised_time = kept_->promised;
  told.planned_time = to_seconds(last_planned);
  told.measured_time = to_seconds(last);
  told.clock_changes = count_switches(dag, kept_->clocks);
  told.clocks = kept_->step.clocks;
  IterationOperations& operations = told.operations;
  operations.setting = add_types(dag, kept_->clocks, told.types);
  for (int i = 0; i < dag.size(); ++i) {
    operations.type.push_back(dag[i].type);
    operations.microbatch.push_back(dag[i].microbatch);
    operations.chunk.push_back(dag[i].chunk);
    operations.waits_for.emplace_back(dag.predecessors(i).begin(), dag.predecessors(i).end());
    operations.planned_begin.push_back(to_seconds(planned.begin[at(i)]));
    operations.planned_time.push_back(to_seconds(durations[at(i)]));
    const auto if_measured = [&](Nanoseconds time) {
      return is_measured[at(i)] ? std::optional(to_seconds(time)) : std::nullopt;
    };
    operations.measured_begin.push_back(if_measured(measured.begin[at(i)]));
    operations.measured_time.push_back(if_measured(measured.end[at(i)] - measured.begin[at(i)]));
  }
  add_lateness(dag, planned, measured, is_measured, operations);
  return told;
}

std::shared_ptr<const std::string> LastIteration::text(const Job& job) const {
  if (kept_ && text_) return text_;
  MeasuredIteration told = kept_ ? beside_plan() : MeasuredIteration();
  told.job = job.id();
  if (!kept_) told.missing = why_missing(job);
  auto text = std::make_shared<const std::string>(dump_json(to_json(told)));
  if (kept_) text_ = text;
  return text;
}

}  // namespace flyball
