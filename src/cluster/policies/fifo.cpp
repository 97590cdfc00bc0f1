// First in, first out: jobs start in the order of submission, with the GPUs that they asked for, and keep them. Under
// "fifo" a job that does not fit holds back all behind it. Under "backfill" others may overtake it that do not make it
// wait longer (EASY backfilling; Lifka: "The ANL/IBM SP Scheduling System", JSSPP 1995), as far as is believed of how
// long jobs take: those that end before enough GPUs are free for it, and those that leave it enough GPUs then.
//
// Cost of a decision: O(jobs that start); with backfilling, O(jobs that wait + jobs with GPUs log jobs with GPUs).
#include <algorithm>
#include <utility>
#include <vector>

#include "base/index.h"
#include "cluster/policy_rules.h"

namespace flyball {
namespace {

class Fifo : public Policy {
 public:
  Fifo(const PolicyOptions& options, bool backfills) : speed_(SpeedRule::one_clock(options)), backfills_(backfills) {}

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    waiting_.insert(waiting_.end(), events.arrived.begin(), events.arrived.end());
    int free = cluster.free_gpus;
    std::size_t started = 0;
    while (started < waiting_.size() && gpus_of(cluster, waiting_[started]) <= free) {
      free -= start(cluster, waiting_[started++], decision);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(started));
    if (backfills_ && waiting_.size() > 1 && free > 0) backfill(cluster, free, decision);
  }

 private:
  // When the first job that waits will have its GPUs, and how many more will be free then.
  struct Shadow {
    Seconds time;
    int extra = 0;
  };

  static int gpus_of(const ClusterState& cluster, int job) { return cluster.jobs[at(job)].requested_gpus; }

  int start(const ClusterState& cluster, int job, Decision& decision) const {
    const int gpus = gpus_of(cluster, job);
    decision.assignments.push_back({job, gpus, speed_(cluster, job, gpus)});
    return gpus;
  }

  // Counts from now, with the jobs that this decision starts among those that run.
  static Shadow shadow_of(const ClusterState& cluster, int wanted, int free, const Decision& decision) {
    std::vector<std::pair<Seconds, int>> ends;
    for (const int job : cluster.holding) {
      const ClusterJob& one = cluster.jobs[at(job)];
      ends.emplace_back(cluster.remaining_time(job, one.gpus, one.speed), one.gpus);
    }
    for (const Assignment& one : decision.assignments) {
      ends.emplace_back(cluster.remaining_time(one.job, one.gpus, one.speed), one.gpus);
    }
    std::ranges::sort(ends);
    Shadow shadow;
    for (auto end = ends.begin(); end != ends.end() && free < wanted; ++end) {
      shadow.time = end->first;
      free += end->second;
    }
    shadow.extra = free - wanted;
    return shadow;
  }

  void backfill(const ClusterState& cluster, int free, Decision& decision) {
    Shadow shadow = shadow_of(cluster, gpus_of(cluster, waiting_.front()), free, decision);
    const auto starts = [&](int job) {
      const int gpus = gpus_of(cluster, job);
      if (gpus > free) return false;
      const bool ends = cluster.remaining_time(job, gpus, speed_(cluster, job, gpus)) <= shadow.time;
      if (!ends && gpus > shadow.extra) return false;
      if (!ends) shadow.extra -= gpus;
      free -= start(cluster, job, decision);
      return true;
    };
    waiting_.erase(std::remove_if(waiting_.begin() + 1, waiting_.end(), starts), waiting_.end());
  }

  SpeedRule speed_;
  bool backfills_;
  std::vector<int> waiting_;  // first come first
};

}  // namespace

void add_fifo_policies(PolicyRegistry& registry) {
  registry.add("fifo", "FIFO", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Fifo>(options, false); });
  registry.add("backfill", "EASY backfill", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Fifo>(options, true); });
}

}  // namespace flyball
