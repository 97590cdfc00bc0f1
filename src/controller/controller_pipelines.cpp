// Pipeline jobs of the controller: they keep their GPUs, and are moved along their frontiers at the planning server
// (docs/decisions/0095-pipelines-along-their-frontiers.md). To the scheduler such a job is pinned, and its speeds are
// points of its frontier; until that is known, it counts as any job that is not elastic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/index.h"
#include "controller/controller.h"

namespace flyball {
namespace {

constexpr double kIterationsUntilTaken = 2.0;  // the one that runs, and one more whose order was on its way

constexpr Seconds kFirstAnswer{2.0};  // how long a dry run waits for the planning server

}  // namespace

void Controller::follow_pipelines(const std::map<std::int64_t, ElasticOption>& options) {
  for (auto known = pipelines_.begin(); known != pipelines_.end();) {
    const bool is_odd = std::ranges::count(view_.odd, known->first, &OddEntry::job) > 0;
    if (!is_odd && options.count(known->first) == 0) {
      drop(known->second, false);
      options_.plans->forget(known->first);
      note_cause(fmt::format("pipeline job {} has ended", known->first));
      known = pipelines_.erase(known);
    } else {
      ++known;
    }
  }
  for (const auto& [id, option] : options) {
    Pipeline& job = pipelines_[id];
    job.seen = *std::ranges::lower_bound(view_.jobs, id, {}, &EngineJob::id);
    job.option = option;
    options_.plans->follow(id, job.seen.restarts);
    if (options_.mode == ControllerMode::kDryRun) options_.plans->wait_for(id, kFirstAnswer);
    adopt(job, options_.plans->pace(id));
  }
}

// The job is given to the scheduler with what its frontier says, and again with every other frontier.
void Controller::adopt(Pipeline& job, const JobPace& pace) {
  job.pace = pace;
  const int gpus = job.seen.gpu_count();
  const bool fits = !pace.speeds.empty() && pace.gpus == gpus;
  if (job.index >= 0 && (!fits || pace.frontier != job.frontier || gpus != job.gpus)) drop(job, true);
  if (!fits) {
    job.why = !pace.trouble.empty() ? pace.trouble
              : pace.speeds.empty() ? "the planning server has not been asked yet"
                                    : fmt::format("it has {} GPUs, and its plan is for {}", gpus, pace.gpus);
    return;
  }
  if (job.index >= 0) {
    settle(job.index);
    ClusterJob& one = scheduler_->state().jobs[at(job.index)];
    one.iterations_per_second = 1.0 / pace.speeds[at(pace.speed)].time.value();
    one.power = pace.speeds[at(pace.speed)].power();
    return;
  }
  ClusterJobKind kind;
  kind.model = job.option.kind;
  kind.elastic = false;
  kind.sizes = {gpus};
  kind.speeds = pace.speeds.size();
  kind.memory_gib.resize(1);
  CostSheet costs(1, kind.speeds);
  for (std::size_t speed = 0; speed < kind.speeds; ++speed) costs.at(0, speed) = pace.speeds[speed];
  ClusterJob one;
  one.kind = scheduler_->add_kind(std::move(kind), std::move(costs));
  one.requested_gpus = gpus;
  one.submit = one.since = scheduler_->state().now;
  one.iterations = std::max(job.option.iterations, job.done);
  one.done = job.done;
  job.index = scheduler_->add_job(one);
  job.frontier = pace.frontier;
  job.gpus = gpus;
  scheduler_->pinned(job.index, gpus, pace.speed);
  job.why = fmt::format("its frontier has {} speeds", pace.speeds.size());
  note_cause(fmt::format("the frontier of job {} is known", job.seen.id));
}

void Controller::drop(Pipeline& job, bool goes_on) {
  if (job.index < 0) return;
  settle(job.index);
  if (goes_on) job.done = scheduler_->state().jobs[at(job.index)].done;
  scheduler_->cancelled(job.index);
  job.index = -1;
}

void Controller::take_report(Pipeline& job, const ElasticReport& told) {
  job.done = told.iteration;
  if (told.iterations > 0.0) job.option.iterations = told.iterations;
  if (job.index < 0) return;
  settle(job.index);
  ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  one.iterations = std::max(job.option.iterations, told.iteration);
  one.done = told.iteration;
}

bool Controller::is_paced(std::int64_t id) const {
  const auto job = pipelines_.find(id);
  return job != pipelines_.end() && job->second.index >= 0;
}

void Controller::add_clocked(std::vector<ClockedJob>& all) const {
  const ClusterState& state = scheduler_->state();
  for (const auto& [id, job] : pipelines_) {
    if (job.index < 0) continue;
    const ClusterJob& known = state.jobs[at(job.index)];
    const JobPace latest = options_.plans->pace(id);
    const JobPace& pace = latest.frontier == job.frontier ? latest : job.pace;  // another one is for the next cycle
    ClockedJob one;
    one.job = id;
    one.gpus = job.seen.gpus;
    one.speed = known.speed;
    for (std::size_t speed = 0; speed < job.pace.speeds.size(); ++speed) {
      one.expected.push_back(state.counted(known.kind, 0, speed));
    }
    const Seconds iteration = job.pace.speeds[at(pace.speed)].time;
    one.pace = {pace.answers, pace.speed, pace.since + to_nanoseconds(iteration * kIterationsUntilTaken), iteration};
    all.push_back(std::move(one));
  }
}

// After a pass of the clock keeper.
void Controller::keep_paces() {
  for (auto& [id, job] : pipelines_) {
    const ClockedPower* const clocked = job.index < 0 ? nullptr : keeper_->of(id);
    if (clocked == nullptr) continue;
    const int asked = keeper_->asked_speed(id);
    const std::string words = fmt::format("iterations of {:.4g} s", job.pace.speeds[at(asked)].time.value());
    if (options_.mode == ControllerMode::kActs) options_.plans->want(id, asked, job.frontier);
    const bool is_new = asked != job.pace.speed;
    if (is_new && options_.mode == ControllerMode::kDryRun) decided_.push_back(fmt::format("job {}: {}", id, words));
    if (std::exchange(job.asked, asked) != asked && options_.mode == ControllerMode::kActs) {
      log_(fmt::format("job {}: {}", id, words));
    }
    const ClusterJob& one = scheduler_->state().jobs[at(job.index)];
    if (clocked->settled && clocked->peak.value() > 0.0 && clocked->speed == one.speed) meter(id, job.index);
  }
}

void Controller::note_pipeline_speeds(const std::set<int>& speeds, Seconds now, const std::string& cause) {
  for (auto& [id, job] : pipelines_) {
    if (job.index < 0 || speeds.count(job.index) == 0) continue;
    const int speed = scheduler_->state().jobs[at(job.index)].speed;
    const std::string change = fmt::format("iterations of {:.4g} s", job.pace.speeds[at(speed)].time.value());
    job.why = fmt::format("{}: {}", change, cause);
    const int gpus = job.seen.gpu_count();
    note_decision({now, id, change, cause, gpus, gpus, std::nullopt});
    if (options_.mode != ControllerMode::kDryRun) log_(fmt::format("job {}: {}", id, job.why));
  }
}

ClusterJobStatus Controller::status_of(const Pipeline& job) const {
  ClusterJobStatus shown;
  shown.job = job.seen.id;
  shown.user = job.seen.user_name;
  shown.kind = job.option.kind;
  shown.pipeline = true;
  for (const NodeGpus& one : job.seen.gpus) shown.nodes.push_back(one.node);
  shown.gpus = shown.to_gpus = job.seen.gpu_count();
  shown.iterations = job.option.iterations;
  shown.why = job.why;
  shown.state = job.index < 0 ? "left alone" : "running";
  if (job.index < 0) return shown;
  shown.iteration = std::floor(scheduler_->state().jobs[at(job.index)].done);
  shown.step = job.pace.speeds[at(job.pace.speed)].time;
  const ClockedPower* const clocked = keeper_->of(job.seen.id);
  if (clocked == nullptr) return shown;
  shown.power = clocked->counted;
  shown.expected = clocked->expected;
  shown.measured = clocked->measured;
  shown.energy = clocked->energy;
  return shown;
}

}  // namespace flyball
