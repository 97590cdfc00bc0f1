// Starts that the engine has lost or could not make: how they are told from a job's own end, and what follows
// (docs/decisions/0086-starts-that-come-to-nothing.md).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "controller/controller.h"

namespace flyball {
namespace {

constexpr Seconds kResumeAgain{30.0};  // we may lack the right to, which is logged each time

}  // namespace

// An engine that is killed may forget the last seconds: a job that was released, or ran, is held again as it was
// before, with the same count of restarts. That is our hold. A job that somebody else puts back has one restart more.
void Controller::note_start(Job& job, Seconds now) {
  JobRecord& record = job.record;
  const int restarts = job.seen.restarts;
  if (job.seen.state == EngineJobState::kRunning && record.ran != restarts) {
    record.ran = restarts;
    changed_.insert(record.job);
  }
  const bool is_doubtful = was_away_ || (job.seen.failed_at_once && record.failures == 0);
  if (is_doubtful && record.released >= 0 && record.reported != restarts && record.in_doubt != restarts) {
    record.in_doubt = restarts;
    changed_.insert(record.job);
  }
  if (job.wanted && restarts < job.wanted->restarts) {
    // The engine has forgotten that the job was put back, which is done again, therefore.
    job.wanted->restarts = restarts;
    store_.want({*job.wanted});
  }
  if (job.settled_at && scheduler_->state().now - *job.settled_at > options_.settle_within) forgive(job);
  if (job.seen.state != EngineJobState::kPending) return;
  const bool is_held_again = job.seen.held && !record.held && record.released >= restarts &&
                             (job.seen.put_back || record.in_doubt == restarts);
  if (record.ran >= restarts || is_held_again) forget_start(job, now);
}

// What was started may still run. Slurm ends it once its node has registered, and starts nothing of that job there for
// some seconds (AuthInfo=cred_expire).
void Controller::forget_start(Job& job, Seconds now) {
  JobRecord& record = job.record;
  if (job.seen.held) record.held = true;
  record.ran = record.reported = -1;
  record.in_doubt = job.seen.restarts;
  job.not_before = std::max(job.not_before, now + options_.forgotten_for);
  changed_.insert(record.job);
  log_(fmt::format("job {} had been started, and waits as it did before that: the cluster engine has lost its start",
                   record.job));
}

// Whether a start that we made came to nothing. What an engine that is killed says of it may look like the job's own
// end: where slurmd had ended a run that slurmctld has forgotten, the next start on that node fails with exit code 1,
// and so do programs that slurmctld starts without their GPUs just after its own start. Of a job that has reported
// before, or whose start is in doubt, a failure before its first report is taken for that; of any other, its first one,
// if it comes at once: a killed controller does not know that the engine was killed, too.
bool Controller::has_failed_start(const Job& job) const {
  const JobRecord& record = job.record;
  if (options_.mode != ControllerMode::kActs || record.released < 0 || is_rigid(job)) return false;
  if (job.seen.state == EngineJobState::kPending) return job.seen.held && job.seen.engine_failed;
  if (job.seen.state != EngineJobState::kFailed) return false;
  const bool is_doubtful = job.has_reported() || was_away_ || record.in_doubt == job.seen.restarts;
  return job.seen.engine_failed || (is_doubtful && record.reported != job.seen.restarts);
}

// An engine that was killed may also forget a job altogether, which can be submitted again by its user only.
std::string Controller::how_gone(const Job& job) const {
  if (std::ranges::find(view_.jobs, job.seen.id, &EngineJob::id) != view_.jobs.end()) return "is elastic no longer";
  if (job.record.ran >= 0) return "is gone";
  return fmt::format("of {} ({}) is gone and has never run: the cluster engine has forgotten it; submit it again",
                     job.seen.user_name.empty() ? "user " + fmt::to_string(job.seen.user) : job.seen.user_name,
                     job.seen.name);
}

// Slurm drains a node where it has started a job twice, having forgotten the first start. By then it has ended both.
void Controller::resume_nodes(Seconds now) {
  for (EngineNode& node : view_.nodes) {
    const auto doubled = std::ranges::find_if(view_.jobs, [&](const EngineJob& one) {
      return one.engine_failed && jobs_.count(one.id) != 0 && std::ranges::count(one.wanted.nodes, node.name) != 0;
    });
    if (!node.doubled || doubled == view_.jobs.end() || now < resume_after_[node.name]) continue;
    if (!try_to("resume a node of", *doubled, [&] { engine_.resume(node); })) {
      resume_after_[node.name] = now + kResumeAgain;
      continue;
    }
    node.usable = true;
    log_(fmt::format("node {} is resumed: the cluster engine had drained it since job {} was there twice", node.name,
                     doubled->id));
  }
}

// Its changes succeed again.
void Controller::forgive(Job& job) {
  job.settled_at.reset();
  if (std::exchange(job.record.failures, 0) > 0) changed_.insert(job.seen.id);
}

}  // namespace flyball
