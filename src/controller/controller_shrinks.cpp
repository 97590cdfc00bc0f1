// Jobs that give nodes back without ending (docs/decisions/0098-nodes-given-back-by-jobs-that-run.md).
//
// The job is told which of its nodes it keeps, in the answer that asks others to stop. It leaves the rest, and says so
// by a report with the number of GPUs that it has kept; only then are the others taken from it. What it was told, and
// that it has gone on, is on the disk before the next thing is done. Where anything is not as it is to be, it ends and
// is started again, as jobs that cannot shrink are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/index.h"
#include "controller/controller.h"

namespace flyball {
namespace {

constexpr int kTakesTried = 2;  // refusals of the engine after which the job is started again instead
constexpr int kForGood = std::numeric_limits<int>::max();

}  // namespace

// Whether some of its nodes can be taken from the job while it runs.
bool Controller::may_shrink(const Job& job) {
  const EngineJob& seen = job.seen;
  return job.option.shrinks && seen.state == EngineJobState::kRunning && seen.changeable && !seen.first_node.empty() &&
         job.shrink.refused < seen.restarts;
}

// Whether what is wanted of the job is that it goes on with some of its nodes, and that can be done. A job that was
// told of other nodes since it started may have left these already.
bool Controller::shrinks_to_target(const Job& job) const {
  if (!may_shrink(job) || !job.wanted || job.wanted->restarts != job.seen.restarts) return false;
  if (job.shrink.told == job.seen.restarts && job.shrink.nodes != job.wanted->target.nodes) return false;
  const std::optional<GpuShape> has = shape_of(job.seen);
  const GpuShape& target = job.wanted->target;
  return has && has->gpus_per_node == target.gpus_per_node && target.nodes.size() < has->nodes.size() &&
         std::ranges::includes(has->nodes, target.nodes) && std::ranges::count(target.nodes, job.seen.first_node) != 0;
}

// Whether the job has said that it goes on with the nodes that are wanted, and no others.
bool Controller::goes_on_with_target(const Job& job) {
  return job.wanted && job.shrink.told == job.seen.restarts && job.shrink.goes_on &&
         job.shrink.nodes == job.wanted->target.nodes;
}

// Decisions leave jobs that can shrink on nodes that they have, the one of the script among them.
void Controller::prefer_nodes() {
  std::map<int, std::vector<int>> preferred;
  for (const auto& [id, job] : jobs_) {
    if (job.index < 0 || job.wanted || !may_shrink(job)) continue;
    const std::optional<GpuShape> has = shape_of(job.seen);
    auto nodes = has ? indices_of(*has) : std::nullopt;
    const auto first = node_index_.find(job.seen.first_node);
    if (!nodes || first == node_index_.end()) continue;
    std::stable_partition(nodes->begin(), nodes->end(), [&](int node) { return node == first->second; });
    preferred[job.index] = std::move(*nodes);
  }
  scheduler_->prefer(std::move(preferred));
}

// A job that has not said yet with how many GPUs it started is told when it has: one that always says the same number
// would seem to have left nodes on which it still runs.
void Controller::ask_to_keep(Job& job, Seconds now) {
  if (!job.asked) job.asked = now;
  if (job.record.reported != job.seen.restarts) return;
  if (job.shrink.told != job.seen.restarts) {
    job.shrink.job = job.seen.id;
    job.shrink.told = job.seen.restarts;
    job.shrink.nodes = job.wanted->target.nodes;
    job.shrink.goes_on = false;
    store_.keep(job.shrink);
    // Now, since the engine may not change the job any more when it has shrunk.
    try_to("explain", job.seen, [&] { engine_.explain(job.seen, job.why); });
  }
  if (job.record.told != job.seen.restarts) {
    // Kept before it is told, so that its end is not taken for the end of its work.
    job.record.told = job.seen.restarts;
    store_.keep(std::vector{job.record});
  }
  const std::lock_guard lock(mutex_);
  stops_[job.seen.id] = {job.shrink.nodes, job.wanted->target.gpus()};
}

// A report with another number of GPUs than the engine shows. It counts as the job's word that it has left the nodes
// that it was to give back if it was told of them and the number is that of the others.
void Controller::take_word(Job& job, const ElasticReport& told, Seconds now) {
  if (!shrinks_to_target(job) || job.shrink.told != job.seen.restarts) return;
  if (told.gpus != job.wanted->target.gpus()) return;
  if (!job.shrink.goes_on) {
    job.shrink.goes_on = true;
    store_.keep(job.shrink);
    log_(fmt::format("job {} goes on with {}", job.seen.id, fmt::join(job.shrink.nodes, ", ")));
  }
  if (job.pause) job.pause->goes_on = true;
  goes_on_shrunk(job, told, now);
}

void Controller::take_nodes(Job& job, Seconds now) {
  if (job.takes_refused >= kTakesTried) {
    return refuse_shrink(job, now, job.seen.restarts, "the cluster engine takes no nodes from it while it runs");
  }
  const bool done =
      try_to("take nodes from", job.seen, [&] { engine_.keep_nodes(job.seen, job.wanted->target.nodes); });
  if (!done) ++job.takes_refused;
}

// Where the job does not say in time that it has left its nodes, it ends and is started again; from now on always.
void Controller::check_shrink(Job& job, Seconds now) {
  if (!shrinks_to_target(job) || job.shrink.goes_on) return;
  if (!job.asked || now - *job.asked < options_.stop_within) return;
  const bool was_told = job.shrink.told == job.seen.restarts;
  refuse_shrink(job, now, was_told ? kForGood : job.seen.restarts,
                fmt::format("it did not go on with {} within {} s", fmt::join(job.wanted->target.nodes, ", "),
                            options_.stop_within.value()));
}

// What it was told stays kept: it is to end, whatever is wanted from now on.
void Controller::refuse_shrink(Job& job, Seconds now, int until, const std::string& why) {
  job.shrink.job = job.seen.id;
  job.shrink.refused = until;
  job.shrink.goes_on = false;
  store_.keep(job.shrink);
  job.takes_refused = 0;
  job.asked = now;
  if (job.pause) job.pause->goes_on = false;
  const char* const then = until == kForGood ? ", as at every change from now on" : "";
  log_(fmt::format("job {} is stopped and started again for fewer GPUs, since {}{}", job.seen.id, why, then));
}

// The engine shows the job as it is wanted. Each record alone says that it is to stay so.
void Controller::has_shrunk(Job& job) {
  if (!goes_on_with_target(job)) return;
  job.record.told = -1;
  store_.keep(std::vector{job.record});
  job.shrink.told = -1;
  job.shrink.goes_on = false;
  store_.keep(job.shrink);
  job.takes_refused = 0;
  job.asked.reset();
  job.reports = 0;
  job.learned = false;
  const std::lock_guard lock(mutex_);
  stops_.erase(job.seen.id);
}

// A job of which nothing is wanted any more has left some of its nodes, or is about to: it is started again where it
// is, so that it uses all of them.
void Controller::undo_shrink(Job& job, Seconds now) {
  if (job.wanted || job.index < 0 || job.shrink.told != job.seen.restarts || options_.mode != ControllerMode::kActs) {
    return;
  }
  const std::optional<GpuShape> has = shape_of(job.seen);
  if (!has || job.seen.state != EngineJobState::kRunning || job.record.told != job.seen.restarts) return;
  ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  job.wanted = Transition{job.seen.id, job.seen.restarts, *has, one.speed, now};
  job.started = false;
  store_.want({*job.wanted});
  one.in_transition = true;
  job.why = "it was told to give nodes back that it is to have now";
  log_(fmt::format("job {}: {}", job.seen.id, job.why));
}

// What giving nodes back costs is counted from the report that was answered with the nodes that it keeps to the first
// that says how long an iteration on these takes.
void Controller::goes_on_shrunk(Job& job, const ElasticReport& told, Seconds now) {
  if (!job.pause || !job.pause->goes_on || told.step.value() <= 0.0) return;
  count_lost(job, ChangePart::kShrink, told, now - job.pause->since);
}

}  // namespace flyball
