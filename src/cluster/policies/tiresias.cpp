// Tiresias (Gu et al.: "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019), as PowerFlow
// compares with it (section 6.1): not elastic, aware neither of energy nor of how long jobs will run. With "+zeus",
// jobs run at the clock that Zeus chooses.
//
// Discretised 2D-LAS (section 3.3), with the rules and constants of the authors' simulator (dlas-gpu). Jobs are ranked
// by attained service, which is a job's GPUs times the time that it held them. There are three queues. A job enters at
// the end of the first, and falls to the end of the next when its service reaches 3,250 and 7,200 GPU-seconds. Jobs of
// an earlier queue come first. Within a queue, jobs that run stay ahead of jobs that wait, and a job that does not fit
// is passed over. A job that has to give way loses its GPUs and restarts later. As in that simulator, starving jobs are
// not promoted.
//
// Discretised 2D-Gittins (sections 3.2, 3.3; "tiresias-gittins") has the same queues, but within one the jobs of the
// highest Gittins index come first, whether they run or wait. With S the service that a job needs, a the service that
// it has had, and D the service of the queue (no limit for the last),
//   G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a].
// S is distributed as the services of the jobs that have finished so far (the authors' simulator is given the
// distribution beforehand, and takes 3,250 for every D). A job that has had more than all of them comes last. The index
// of a job that runs is computed when something happens, not continuously.
//
// Cost of a decision: O(jobs with GPUs * log jobs), however many wait. With Gittins indices, the history of finished
// jobs is summed again from the point at which one is inserted.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/index.h"
#include "cluster/fitting_queue.h"
#include "cluster/policy_rules.h"
#include "cluster/service_history.h"

namespace flyball {
namespace {

constexpr std::array kThresholds = {3250.0, 7200.0};  // GPU-seconds, rising
constexpr std::size_t kQueues = kThresholds.size() + 1;
// Relative to a threshold: a job that was woken at the threshold has reached it, whatever was rounded.
constexpr double kRounding = 1e-6;

// Whether a job that has attained this service leaves the queue, which must not be the last.
bool passes(double service, std::size_t queue) { return service >= kThresholds[queue] * (1.0 - kRounding); }

double service_of(std::size_t queue) {
  if (queue == kThresholds.size()) return std::numeric_limits<double>::infinity();
  return kThresholds[queue] - (queue == 0 ? 0.0 : kThresholds[queue - 1]);
}

// The jobs of one queue. The two disciplines differ in the order of the jobs that wait.
class ServiceQueue {
 public:
  virtual ~ServiceQueue() = default;

  // Puts a job without GPUs at the end.
  virtual void enter(const ClusterState& cluster, int job) = 0;
  // Puts a job with GPUs that fell from the queue before at the end. Within one decision, to be called by rising job.
  void fall_in(int job) { fallen_.push_back(job); }
  // Removes a job that ran here and has finished.
  void leave(int job) { std::erase(running_, job); }
  // Removes and returns the jobs with GPUs that have attained the queue's service, in rising order.
  [[nodiscard]] std::vector<int> fall_out(const ClusterState& cluster, std::size_t queue) {
    std::vector<int> out;
    for (std::vector<int>* list : {&running_, &fallen_}) {
      std::erase_if(*list, [&](int job) {
        if (!passes(cluster.attained_gpu_seconds(job).value(), queue)) return false;
        out.push_back(job);
        return true;
      });
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  virtual void serve(const ClusterState& cluster, Dealing& dealing) = 0;

  [[nodiscard]] const std::vector<int>& running() const { return running_; }

 protected:
  std::vector<int> running_;  // jobs that have GPUs
  std::vector<int> fallen_;   // jobs that have GPUs and come from the queue before by this decision
};

// Jobs that run come before jobs that wait. Of the latter, those that had to give way come first, and those that fell
// come last.
class LasQueue : public ServiceQueue {
 public:
  void enter(const ClusterState& cluster, int job) override {
    waiting_.add(cluster.jobs[at(job)].requested_gpus, {++last_, job});
  }

  void serve(const ClusterState& cluster, Dealing& dealing) override {
    const auto gpus_of = [&](int job) { return cluster.jobs[at(job)].requested_gpus; };
    std::vector<int> stopped;
    const auto offer_all = [&](const std::vector<int>& jobs, std::vector<int>& passed_over) {
      for (const int job : jobs) (dealing.offer(job) ? served_ : passed_over).push_back(job);
    };
    served_.clear();
    offer_all(running_, stopped);
    while (const auto next = waiting_.first(dealing.left())) {
      waiting_.remove(gpus_of(next->job), *next);
      dealing.offer(next->job);
      served_.push_back(next->job);
    }
    std::vector<int> last;
    offer_all(fallen_, last);
    fallen_.clear();
    std::swap(running_, served_);
    for (auto job = stopped.rbegin(); job != stopped.rend(); ++job) waiting_.add(gpus_of(*job), {--first_, *job});
    for (const int job : last) enter(cluster, job);
  }

 private:
  FittingQueue<std::int64_t> waiting_;  // by place in line
  std::int64_t first_ = 0;              // the places taken are from here
  std::int64_t last_ = 0;               // to here
  std::vector<int> served_;             // reused
};

// Serves jobs by Gittins index, whether they run or wait.
class GittinsQueue : public ServiceQueue {
 public:
  GittinsQueue(const ServiceHistory& history, double quantum) : history_(&history), quantum_(quantum) {}

  void enter(const ClusterState& cluster, int job) override {
    const ClusterJob& one = cluster.jobs[at(job)];
    waiting_[one.requested_gpus].add(cluster.attained_gpu_seconds(job).value(), job);
  }

  void serve(const ClusterState& cluster, Dealing& dealing) override {
    running_.insert(running_.end(), fallen_.begin(), fallen_.end());
    fallen_.clear();
    ranked_.clear();
    for (const int job : running_) {
      ranked_.push_back({-history_->gittins_index(cluster.attained_gpu_seconds(job).value(), quantum_), job});
    }
    std::sort(ranked_.begin(), ranked_.end());
    running_.clear();
    std::vector<int> stopped;
    std::map<int, AttainedLine::Walk> lines;  // jobs that wait, by GPUs
    for (const auto& [gpus, line] : waiting_) {
      if (gpus <= dealing.left()) lines.try_emplace(gpus, line, *history_, quantum_);
    }
    for (auto next = ranked_.begin();;) {
      const auto* best = next == ranked_.end() ? nullptr : &*next;
      AttainedLine::Walk* from = nullptr;
      for (auto& [gpus, walk] : lines) {
        if (gpus > dealing.left()) break;
        const auto* const front = walk.front();
        if (front == nullptr || (best != nullptr && *best < *front)) continue;
        best = front;
        from = &walk;
      }
      if (best == nullptr) break;
      const int job = best->job;
      if (from != nullptr) from->pop();
      if (dealing.offer(job)) {
        running_.push_back(job);
        if (from != nullptr) started_.push_back(job);
      } else {
        stopped.push_back(job);
      }
      if (from == nullptr) ++next;
    }
    for (const int job : started_) {
      const ClusterJob& one = cluster.jobs[at(job)];
      waiting_.at(one.requested_gpus).remove(cluster.attained_gpu_seconds(job).value(), job);
    }
    started_.clear();
    for (const int job : stopped) enter(cluster, job);
  }

 private:
  const ServiceHistory* history_;
  double quantum_;
  std::map<int, AttainedLine> waiting_;   // by GPUs
  std::vector<JobPlace<double>> ranked_;  // reused, as is what follows
  std::vector<int> started_;
};

class Tiresias : public Policy {
 public:
  Tiresias(const SpeedRule& speed, bool gittins) : speed_(speed), gittins_(gittins) {
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
      if (gittins) {
        queues_[queue] = std::make_unique<GittinsQueue>(history_, service_of(queue));
      } else {
        queues_[queue] = std::make_unique<LasQueue>();
      }
    }
  }

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    for (const int job : events.finished) {
      remember(cluster, job);
      for (const auto& queue : queues_) queue->leave(job);
    }
    for (const int job : events.arrived) queues_.front()->enter(cluster, job);
    for (std::size_t queue = 0; queue + 1 < kQueues; ++queue) {
      for (const int job : queues_[queue]->fall_out(cluster, queue)) queues_[queue + 1]->fall_in(job);
    }
    Dealing dealing(cluster, speed_, decision);
    for (const auto& queue : queues_) queue->serve(cluster, dealing);
    wake_at_threshold(cluster, decision);
  }

 private:
  void remember(const ClusterState& cluster, int job) {
    if (gittins_) history_.add(cluster.jobs[at(job)].gpu_time.value());
  }

  // Only jobs that run can fall next.
  void wake_at_threshold(const ClusterState& cluster, Decision& decision) const {
    for (std::size_t queue = 0; queue + 1 < kQueues; ++queue) {
      for (const int job : queues_[queue]->running()) {
        const double left = kThresholds[queue] - cluster.attained_gpu_seconds(job).value();
        const Seconds when = cluster.now + Seconds(left / cluster.jobs[at(job)].requested_gpus);
        decision.wake_at = decision.wake_at ? std::min(*decision.wake_at, when) : when;
      }
    }
  }

  SpeedRule speed_;
  bool gittins_;
  ServiceHistory history_;
  std::array<std::unique_ptr<ServiceQueue>, kQueues> queues_;
};

}  // namespace

void add_tiresias_policies(PolicyRegistry& registry) {
  registry.add("tiresias", "Tiresias", PolicySetting::kClock, [](const PolicyOptions& options) {
    return std::make_unique<Tiresias>(SpeedRule::one_clock(options), false);
  });
  registry.add("tiresias-gittins", "Tiresias (Gittins index)", PolicySetting::kClock, [](const PolicyOptions& options) {
    return std::make_unique<Tiresias>(SpeedRule::one_clock(options), true);
  });
  registry.add("tiresias+zeus", "Tiresias + Zeus", PolicySetting::kZeusEta, [](const PolicyOptions& options) {
    return std::make_unique<Tiresias>(SpeedRule::zeus(options), false);
  });
}

}  // namespace flyball
