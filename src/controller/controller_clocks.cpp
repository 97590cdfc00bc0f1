// Clocks and watts of the controller: what the clock keeper is told of the jobs, and what is done with what it knows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "base/monotonic_time.h"
#include "cluster/cost_belief.h"
#include "controller/controller.h"

namespace flyball {
namespace {

constexpr int kReportsToMeter = 3;  // what a job draws while it starts says nothing of its training
constexpr std::size_t kMostCausesKept = 100;
constexpr double kNewPower = 0.02;               // what a meter must show otherwise to be noted
constexpr Nanoseconds kPeakHeld = 60 * kSecond;  // of the watts of a job that is not elastic

}  // namespace

// A job that is on its way runs as it is until it has stopped. Where it is to run then, its clocks are set beforehand.
std::vector<ClockedJob> Controller::clocked_jobs() const {
  std::vector<ClockedJob> all;
  for (const auto& [id, job] : jobs_) {
    if (job.index < 0) continue;
    const int speed = scheduler_->state().jobs[at(job.index)].speed;
    ClockedJob one;
    one.job = id;
    one.gpus = job.seen.gpus;
    if (!one.gpus.empty()) {
      const bool stays = !job.wanted || shape_of(job.seen) == job.wanted->target;
      if (stays) one.speed = speed;
    } else if (job.wanted) {
      for (const std::string& node : job.wanted->target.nodes) {
        one.gpus.push_back({node, job.wanted->target.gpus_per_node, {}});
      }
      one.draws = job.seen.state != EngineJobState::kCompleted && (!job.seen.held || job.started);
      one.speed = speed;
    }
    if (one.gpus.empty()) continue;
    const int gpus = gpu_count(one.gpus);
    for (int step = 0; at(step) < options_.spec.clocks.size(); ++step) {
      one.expected.push_back(power_on(job, gpus, step));
    }
    all.push_back(std::move(one));
  }
  add_clocked(all);
  return all;
}

const ClockedPower* Controller::clocked_power(const Job& job) const {
  return keeper_ ? keeper_->of(job.seen.id) : nullptr;
}

void Controller::keep_clocks() {
  if (!keeper_) return;
  std::erase_if(others_peaks_, [&](const auto& one) {
    const auto seen = std::ranges::lower_bound(view_.jobs, one.first, {}, &EngineJob::id);
    return seen == view_.jobs.end() || seen->id != one.first || seen->gpus.empty();  // what a start before drew is over
  });
  const auto ceiling = keeper_->ceiling();
  const bool decides = options_.mode != ControllerMode::kObserves;
  const Watts limit = decides ? scheduler_->state().spendable_power() : Watts(std::numeric_limits<double>::infinity());
  keeper_->pass(clocked_jobs(), limit, options_.mode == ControllerMode::kActs);
  drawn_ = keeper_->counted();
  if (keeper_->ceiling() != ceiling) {
    log_(keeper_->ceiling() ? fmt::format("no job runs above {:.0f} MHz, so that all are within {:.0f} W",
                                          keeper_->ceiling()->value(), scheduler_->state().power_limit.value())
                            : "all jobs may run at the clocks that were decided");
  }
  std::map<std::tuple<int, int, int>, Job*> highest;  // by kind, GPUs and speed
  for (auto& [id, job] : jobs_) {
    const ClockedPower* const clocked = clocked_power(job);
    if (clocked == nullptr) continue;
    if (is_to_meter(job)) {
      const ClusterJob& one = scheduler_->state().jobs[at(job.index)];
      Job*& most = highest[{one.kind, one.gpus, one.speed}];
      if (most == nullptr || clocked_power(*most)->peak < clocked->peak) most = &job;
    }
    const Megahertz asked = keeper_->asked(id);
    const bool is_so = clocked->held && asked == options_.spec.clocks[at(clocked->speed)];
    if (options_.mode != ControllerMode::kDryRun || is_so) continue;
    decided_.push_back(fmt::format("job {}: clocks of at most {:.0f} MHz", id, asked.value()));
  }
  for (const auto& [which, job] : highest) meter(job->seen.id, job->index);
  keep_paces();
}

// Jobs that do not lie packed say nothing of those that do.
bool Controller::is_to_meter(const Job& job) const {
  const ClockedPower* const clocked = clocked_power(job);
  if (clocked == nullptr || job.index < 0 || job.wanted || job.reports < kReportsToMeter) return false;
  const ClusterJob& one = scheduler_->state().jobs[at(job.index)];
  if (one.in_transition || !one.has_gpus()) return false;
  if (clocked->peak.value() <= 0.0 || !clocked->settled || clocked->speed != one.speed) return false;
  return scheduler_->placement().nodes_of(job.index) == packed_nodes(scheduler_->state().spec, one.gpus);
}

// While the engine does not answer, nothing is decided that would tell them.
void Controller::note_cause(std::string words) {
  if (causes_.size() < kMostCausesKept) causes_.push_back(std::move(words));
}

// The scheduler counts jobs with the most that their meters have shown at a kind's size and speed, once they train.
void Controller::meter(std::int64_t id, int index) {
  const ClockedPower& clocked = *keeper_->of(id);
  const ClusterState& state = scheduler_->state();
  ClusterJob& one = scheduler_->state().jobs[at(index)];
  const int size = state.kind_of(index).size_index(one.gpus);
  const Watts before = state.counted(one.kind, at(size), at(one.speed));
  if (std::abs(clocked.peak / before - 1.0) <= kNewPower) return;
  settle(index);
  one.power = clocked.peak;
  scheduler_->metered(index, one.speed);
  scheduler_->limit_changed(state.power_limit);  // decide with what is known now
  note_cause(fmt::format("job {} was metered at {:.0f} W", id, clocked.peak.value()));
}

void Controller::changed_speed(int job) { other_speeds_.insert(job); }

// A job at another clock is measured again.
void Controller::note_speeds(Seconds now, const std::string& cause) {
  const std::set<int> speeds = std::exchange(other_speeds_, {});
  if (!keeper_) return;
  note_pipeline_speeds(speeds, now, cause);
  for (auto& [id, job] : jobs_) {
    if (job.index < 0 || speeds.count(job.index) == 0) continue;
    const int speed = scheduler_->state().jobs[at(job.index)].speed;
    job.reports = 0;
    job.learned = false;
    const Megahertz clock = options_.spec.clocks[at(speed)];
    const std::string change = fmt::format("clocks of at most {:.0f} MHz", clock.value());
    job.why = fmt::format("{}: {}", change, cause);
    const int gpus = job.seen.gpu_count();
    note_decision({now, id, change, cause, gpus, gpus, clock});
    if (options_.mode != ControllerMode::kDryRun) log_(fmt::format("job {}: {}", id, job.why));
  }
}

bool Controller::adjust(Seconds now) {
  const std::lock_guard working(work_);
  const bool ordered = scheduler_ && take_order();
  if (!scheduler_ || !keeper_) return false;
  set_limit(now);
  keep_clocks();
  if (ordered) publish(now);
  return keeper_->is_settling();
}

// The highest of the last minute: a training's watts rise and fall. At first a job loads its data, so that its boards'
// limit counts until it has run for a while; and where no agent tells.
Watts Controller::drawn_by_other(const EngineJob& job) {
  const Watts most = options_.spec.limit * static_cast<double>(job.gpu_count());
  if (options_.agents == nullptr || job.gpus.empty()) return most;
  const Nanoseconds now = monotonic_now();
  OthersPeak& known = others_peaks_[job.id];
  if (known.begin == 0) known.begin = now;
  Watts measured;
  for (const NodeGpus& place : job.gpus) {
    const AgentReading reading = options_.agents->reading(place.node);
    if (!reading.answers || place.indices.size() != static_cast<std::size_t>(place.count)) return most;
    for (const std::size_t gpu : place.indices) {
      if (gpu >= reading.gpus.size() || !reading.gpus[gpu].power) return most;
      measured += *reading.gpus[gpu].power;
    }
  }
  if (measured >= known.peak || now - known.peak_at > kPeakHeld) {
    known.peak = measured;
    known.peak_at = now;
  }
  return to_seconds(now - known.begin) < options_.meter_others_after ? most : known.peak;
}

void Controller::show_power(const Job& job, ClusterJobStatus& shown) const {
  const ClockedPower* const clocked = clocked_power(job);
  if (clocked == nullptr) return;
  shown.power = clocked->counted;
  if (job.seen.gpus.empty()) return;
  if (clocked->held) shown.clock = options_.spec.clocks[at(clocked->speed)];
  shown.expected = clocked->expected;
  shown.measured = clocked->measured;
  shown.energy = clocked->energy;
}

void Controller::show_agent(ClusterNodeStatus& shown) const {
  if (options_.agents == nullptr) return;
  const AgentReading reading = options_.agents->reading(shown.node);
  shown.agent = reading.address;
  shown.agent_trouble = reading.trouble;
  shown.age = reading.age;
  if (!reading.answers) return;
  shown.power = Watts(0.0);
  for (const AgentGpu& gpu : reading.gpus) *shown.power += gpu.power.value_or(Watts(0.0));
}

}  // namespace flyball
