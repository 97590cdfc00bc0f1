// AFS-L, Apathetic Future Share (Hwang et al.: "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021), as
// PowerFlow compares with it (section 6.1): elastic, aware of how long jobs run, and not of energy. With "+zeus", jobs
// run at the clock that Zeus chooses for their GPUs.
//
// GPUs are given one by one. While several jobs have none, the shortest job comes first. Of two jobs that have GPUs,
// let s be the one with less time left at its share and l the other, p the throughput now and p' that with one GPU
// more. Then
//   l comes first if (p_l' - p_l) / p_l' >= (p_s' - p_s) / p_s, otherwise s.
// A GPU thus goes where it is used well, with some preference for the job that is done sooner. The job to be served is
// found by comparing all jobs in turn. Shares are computed anew at every arrival and completion.
//
// Jobs are packed and migrated (network packing, which PowerFlow 5.3 takes from AFS), so that their numbers of GPUs are
// powers of two. Hence a job grows by doubling, and p' lies on the line between the two sizes. All jobs get one GPU
// before any gets two; the rule implies that too, unless a job gains more than twofold. As under powerflow, a larger
// share is left out if its restart would cost more time than it saves. Jobs in transition keep their GPUs.
//
// Cost of a decision: O(GPUs * jobs with GPUs), however many wait.
#include <algorithm>
#include <utility>
#include <vector>

#include "cluster/policy_rules.h"
#include "cluster/waiting_queue.h"

namespace flyball {
namespace {

struct Share {
  int job;
  const std::vector<int>* sizes;
  std::size_t level;
  double iterations;  // left
  double rate;        // p: iterations per second
  double gain;        // p' - p; 0 where there is no larger size

  [[nodiscard]] int gpus() const { return (*sizes)[level]; }
  [[nodiscard]] int more_gpus() const { return (*sizes)[level + 1] - gpus(); }
  [[nodiscard]] double time_left() const { return iterations / rate; }
};

// TopPriority of the paper: whether `a` is served before `b`.
bool precedes(const Share& a, const Share& b) {
  const bool a_shorter = a.time_left() < b.time_left();
  const Share& s = a_shorter ? a : b;
  const Share& l = a_shorter ? b : a;
  const bool l_first = l.gain / (l.rate + l.gain) >= s.gain / s.rate;
  return l_first != a_shorter;
}

class Afs : public Policy {
 public:
  explicit Afs(const SpeedRule& speed) : speed_(speed) {}

  [[nodiscard]] PolicyTraits traits() const override { return {.placement = PlacementRule::kPacked}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    while (sizes_.size() < cluster.kinds.size()) sizes_.push_back(cluster.kinds[sizes_.size()].elastic_sizes());
    waiting_.read(cluster, events, group_of);
    int free = first_gpus(cluster, decision);
    while (Share* next = top_priority(free)) {
      free -= next->more_gpus();
      ++next->level;
      read_rate(cluster, *next);
    }
    for (const Share& share : shares_) {
      const ClusterJob& one = cluster.jobs[static_cast<std::size_t>(share.job)];
      const int gpus = share.gpus();
      if (gpus == one.gpus || (one.has_gpus() && gpus > one.gpus && !worth_a_restart(cluster, share))) continue;
      decision.assignments.push_back({share.job, gpus, speed_(cluster, share.job, gpus)});
    }
    waiting_.note(decision);
  }

 private:
  static std::size_t group_of(const ClusterJob& job) { return static_cast<std::size_t>(job.kind); }

  [[nodiscard]] double rate(const ClusterState& cluster, int job, int gpus) const {
    return 1.0 / cluster.believed_cost(job, gpus, speed_(cluster, job, gpus)).time.value();
  }

  [[nodiscard]] double rate_of_kind(const ClusterState& cluster, std::size_t kind) const {
    const std::vector<WaitingQueue::Place>& waiting = waiting_.queue.places(kind);
    return rate(cluster, waiting.front().job, sizes_[kind].front());
  }

  void read_rate(const ClusterState& cluster, Share& share) const {
    share.rate = rate(cluster, share.job, share.gpus());
    share.gain = 0.0;
    if (share.level + 1 == share.sizes->size()) return;
    const int more = share.more_gpus();
    share.gain = (rate(cluster, share.job, share.gpus() + more) - share.rate) / more;
  }

  [[nodiscard]] Share smallest_share(const ClusterState& cluster, int job) const {
    const std::vector<int>& sizes = sizes_[group_of(cluster.jobs[static_cast<std::size_t>(job)])];
    Share share{job, &sizes, 0, cluster.remaining_iterations(job), 0.0, 0.0};
    read_rate(cluster, share);
    return share;
  }

  // Gives every job its smallest size, shortest job first; jobs for which no GPUs are left lose theirs. Returns how
  // many GPUs are left. Of the jobs that wait, only as many are looked at as there is room for.
  int first_gpus(const ClusterState& cluster, Decision& decision) {
    running_.clear();
    int free = cluster.gpus();
    for (const int job : cluster.holding) {
      if (cluster.is_held(job) || cluster.jobs[static_cast<std::size_t>(job)].pinned) {
        free -= cluster.jobs[static_cast<std::size_t>(job)].gpus;
      } else {
        running_.push_back(smallest_share(cluster, job));
      }
    }
    std::sort(running_.begin(), running_.end(), [](const Share& a, const Share& b) {
      return std::pair(a.time_left(), a.job) < std::pair(b.time_left(), b.job);
    });
    std::vector<double> rates(sizes_.size());  // by kind: the rate of a job that waits
    auto walk = waiting_.queue.walk([&](std::size_t kind, double iterations) {
      if (rates[kind] == 0.0) rates[kind] = rate_of_kind(cluster, kind);
      return iterations / rates[kind];
    });
    shares_.clear();
    std::size_t next = 0;  // of the jobs that run
    while (next < running_.size() || !walk.done()) {
      if (next < running_.size() && walk.comes_after(running_[next].time_left(), running_[next].job)) {
        const Share& share = running_[next++];
        if (share.gpus() <= free) {
          free -= share.gpus();
          shares_.push_back(share);
        } else {
          decision.assignments.push_back({share.job, 0, 0});
        }
      } else if (sizes_[walk.front().group].front() > free) {
        walk.drop_group();
      } else {
        shares_.push_back(smallest_share(cluster, walk.front().job));
        free -= shares_.back().gpus();
        walk.pop();
      }
    }
    return free;
  }

  // The first by top priority of the jobs that gain from a larger size that fits into `free`.
  Share* top_priority(int free) {
    Share* top = nullptr;
    for (Share& share : shares_) {
      if (share.gain <= 0.0 || share.more_gpus() > free) continue;
      if (top == nullptr || precedes(share, *top)) top = &share;
    }
    return top;
  }

  [[nodiscard]] bool worth_a_restart(const ClusterState& cluster, const Share& share) const {
    const ClusterJob& one = cluster.jobs[static_cast<std::size_t>(share.job)];
    const Seconds now = Seconds(share.iterations / rate(cluster, share.job, one.gpus));
    return now - Seconds(share.time_left()) > cluster.restart_of(one.kind);
  }

  SpeedRule speed_;
  std::vector<std::vector<int>> sizes_;  // by kind
  WaitingJobs waiting_;                  // by kind
  std::vector<Share> running_;           // reused, as are the shares
  std::vector<Share> shares_;
};

}  // namespace

void add_afs_policies(PolicyRegistry& registry) {
  registry.add("afs", "AFS", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Afs>(SpeedRule::one_clock(options)); });
  registry.add("afs+zeus", "AFS + Zeus", PolicySetting::kZeusEta,
               [](const PolicyOptions& options) { return std::make_unique<Afs>(SpeedRule::zeus(options)); });
}

}  // namespace flyball
