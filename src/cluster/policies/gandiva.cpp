// Gandiva (Xiao et al.: "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018), as PowerFlow
// compares with it (section 6.1): not elastic, and not aware of energy. With "+zeus", jobs run at the clock that Zeus
// chooses.
//
// Time slicing (section 4.1). If not all jobs fit, they take turns in slices of one minute. At the end of a slice all
// GPUs are dealt out again: first to jobs that wait, in the order in which they last ran, then to those that just ran.
// A job that does not fit into the GPUs that are left is passed over for smaller ones, and comes first in the next
// slice. GPUs that become free within a slice go to jobs that wait. Suspended jobs stay in the hosts' memory, and
// resume within a second on any GPUs.
//
// Migration (section 4.2). When GPUs are free and no job waits for them, jobs that lie on more nodes than they need are
// moved if they then lie on fewer. They resume as above.
//
// Packing (section 4.2), only while jobs ask for more GPUs than there are. Jobs first run alone and are watched. Those
// that use their GPUs least are then paired, if the memory that they declare fits together. A pair takes turns with
// other jobs as one job. After a slice its throughput is judged: each job's rate over its rate alone, summed over both
// jobs. If the sum is not more than 1, which is what taking turns would give, the pair is parted and not tried again. A
// pair is also parted when there is room for both its jobs. The policy uses only what it has observed: rates, and
// utilisation as meters show it.
//
// Where the paper leaves details open: both jobs of a pair have equally many GPUs, as in Gavel's implementation of the
// policy (Narayanan et al., OSDI 2020). As many pairs as are needed are tried in one slice; one pair after another
// would take days on a cluster of thousands of GPUs. A pair runs at the higher clock of its two jobs. Two things are
// not modelled: more than two jobs on a GPU, and growing into idle GPUs, which PowerFlow's comparison leaves out too.
//
// Cost of a decision: O(jobs with GPUs * log jobs), however many wait. Waiting jobs are kept in line by number of GPUs
// (fitting_queue.h), and of the jobs that may be paired only new ones are looked at (pair_finder.h).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cluster/cost_belief.h"
#include "cluster/fitting_queue.h"
#include "cluster/pair_finder.h"
#include "cluster/policy_rules.h"

namespace flyball {
namespace {

constexpr Seconds kSlice{60.0};
constexpr Seconds kResume{1.0};  // section 4.1: from 0.1 s to 1 s, by the size of the model

// What was observed of a job while it had its GPUs alone.
struct Watched {
  double rate = 0.0;  // iterations per second
  double utilisation = 0.0;
};

class Gandiva : public Policy {
 public:
  Gandiva(const SpeedRule& speed, bool packs) : speed_(speed), packs_(packs) {}

  [[nodiscard]] PolicyTraits traits() const override { return {.resume = kResume, .jobs_per_gpu = packs_ ? 2 : 1}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    parted_.clear();
    paired_.clear();
    taken_over_.clear();
    place_.resize(cluster.jobs.size());
    first_.resize(cluster.jobs.size(), -1);
    for (const int job : events.finished) forget(cluster, job);
    for (const int job : events.arrived) {
      place_of(job) = next_place();
      wait(cluster, job);
    }
    const bool slice_over = slice_end_ && *slice_end_ <= cluster.now;
    gather(cluster);
    if (slice_over) {  // their places are behind those that wait
      for (Place& one : running_) one.key = place_of(one.job) = next_place();
    }
    if (packs_) pair_up(cluster, slice_over);
    const bool all_run = deal(cluster, slice_over, decision);
    if (all_run && !events.finished.empty()) bring_together(cluster, decision);
    if (all_run && on_trial_.empty()) {
      slice_end_.reset();  // nobody waits
    } else if (!slice_end_ || slice_over) {
      slice_end_ = cluster.now + kSlice;
    }
    if (!second_.empty() || !parted_.empty()) bring_seconds(cluster, decision);
    decision.wake_at = slice_end_;
  }

 private:
  using Place = JobPlace<std::int64_t>;  // in line

  static const ClusterJob& job_of(const ClusterState& cluster, int job) {
    return cluster.jobs[static_cast<std::size_t>(job)];
  }
  // The memory that the job declares for each GPU; 0: unknown.
  static double memory_of(const ClusterState& cluster, int job) {
    const ClusterJobKind& kind = cluster.kind_of(job);
    return kind.memory_gib[static_cast<std::size_t>(kind.size_index(job_of(cluster, job).requested_gpus))];
  }

  int& first_of(int job) { return first_[static_cast<std::size_t>(job)]; }
  std::int64_t& place_of(int job) { return place_[static_cast<std::size_t>(job)]; }
  // A place at the end of the line, which leaves a free number behind it (see part()).
  std::int64_t next_place() { return last_place_ += 2; }

  void wait(const ClusterState& cluster, int job) {
    waiting_.add(job_of(cluster, job).requested_gpus, {place_of(job), job});
  }
  void wait_no_more(const ClusterState& cluster, int job) {
    waiting_.remove(job_of(cluster, job).requested_gpus, {place_of(job), job});
  }

  // Lists the jobs in line that have GPUs, nearly in the order in which they were served.
  void gather(const ClusterState& cluster) {
    running_.clear();
    for (const std::vector<int>* jobs : {&order_, &taken_over_}) {
      for (const int job : *jobs) {
        if (job_of(cluster, job).has_gpus() && first_of(job) < 0) running_.push_back({place_of(job), job});
      }
    }
    sort_again(running_, apart_);
  }

  // Deals out all GPUs: at the end of a slice in the order of the line, within a slice first to jobs that have GPUs.
  // Returns whether every job has got some.
  bool deal(const ClusterState& cluster, bool slice_over, Decision& decision) {
    Dealing dealing(cluster, speed_, decision);
    order_.clear();
    std::vector<int> stopped;
    for (auto next = running_.begin();;) {
      const bool runs_next = next != running_.end();
      const auto waits = runs_next && !slice_over ? std::nullopt : waiting_.first(dealing.left());
      if (runs_next && (!waits || *next < *waits)) {
        (dealing.offer(next->job) ? order_ : stopped).push_back(next->job);
        ++next;
      } else if (waits) {
        wait_no_more(cluster, waits->job);
        dealing.offer(waits->job);
        order_.push_back(waits->job);
      } else {
        break;
      }
    }
    for (const int job : stopped) wait(cluster, job);
    return waiting_.size() == 0;
  }

  // Moves jobs onto fewer nodes, among those that keep their GPUs.
  void bring_together(const ClusterState& cluster, Decision& decision) const {
    for (const int job : order_) {
      const ClusterJob& one = job_of(cluster, job);
      const bool paired = one.partner >= 0 || second_.count(job) != 0 ||
                          std::find(parted_.begin(), parted_.end(), job) != parted_.end();
      if (paired || one.nodes <= packed_nodes(cluster.spec, one.gpus)) continue;
      decision.assignments.push_back({job, one.gpus, one.speed, -1, true});
    }
  }

  // Removes a job that has finished. Its partner, if it has one, takes over its place and the GPUs.
  void forget(const ClusterState& cluster, int job) {
    finder_.remove(job);
    fresh_.erase(job);
    watched_.erase(job);
    if (const auto with = refused_.find(job); with != refused_.end()) {
      for (const int other : with->second) refused_[other].erase(job);
      refused_.erase(with);
    }
    on_trial_.erase(job);
    if (const int first = std::exchange(first_of(job), -1); first >= 0) {
      on_trial_.erase(first);
      left_alone(first);
      second_.erase(first);
    } else if (const auto second = second_.find(job); second != second_.end()) {
      const int other = second->second;
      left_alone(other);
      place_of(other) = place_of(job);
      const ClusterJob& one = job_of(cluster, other);
      if (one.has_gpus()) {
        taken_over_.push_back(other);
      } else if (one.active()) {
        wait(cluster, other);
      }
      first_of(other) = -1;
      second_.erase(second);
    }
  }

  // Notes that the job is in no pair any more.
  void left_alone(int job) {
    parted_.push_back(job);
    fresh_.insert(job);
  }

  // Parts a pair: the second job is put back in line, at the free number behind the first.
  void part(const ClusterState& cluster, int first) {
    const int second = second_.at(first);
    place_of(second) = place_of(first) + 1;
    if (job_of(cluster, second).has_gpus()) {
      running_.push_back({place_of(second), second});
    } else {
      wait(cluster, second);
    }
    first_of(second) = -1;
    second_.erase(first);
    on_trial_.erase(first);
    left_alone(first);
    left_alone(second);
  }

  void pair_up(const ClusterState& cluster, bool slice_over) {
    std::int64_t wanted = 0;  // GPUs
    for (const auto& [gpus, places] : waiting_.places()) wanted += gpus * static_cast<std::int64_t>(places.size());
    for (const Place& place : running_) {
      const ClusterJob& one = job_of(cluster, place.job);
      wanted += one.requested_gpus;
      if (!slice_over || one.phase != JobPhase::kRunning || one.partner >= 0) continue;
      watched_[place.job] = {one.iterations_per_second, one.gpu_utilisation};
      fresh_.insert(place.job);
    }
    const int gpus = cluster.gpus();
    if (!slice_over && wanted >= gpus) return;
    std::vector<int> to_part;
    const auto judge = [&](int first, int second) {
      if (!slice_over || on_trial_.count(first) == 0 || !both_run(cluster, first, second)) return false;
      on_trial_.erase(first);
      if (pays(cluster, first, second)) return false;
      refused_[first].insert(second);
      refused_[second].insert(first);
      return true;
    };
    if (wanted < gpus) {
      number_again(cluster);
      for (const auto& [first, second] : second_) {
        const int needed = job_of(cluster, first).requested_gpus;
        if (wanted + needed > gpus && !judge(first, second)) continue;
        to_part.push_back(first);
        wanted += needed;
      }
    } else {  // no pair has room for both its jobs, and only those that run are judged
      for (const Place& one : running_) {
        const auto pair = second_.find(one.job);
        if (pair != second_.end() && judge(one.job, pair->second)) to_part.push_back(one.job);
      }
      std::sort(to_part.begin(), to_part.end());
      for (const int first : to_part) wanted += job_of(cluster, first).requested_gpus;
    }
    for (const int first : to_part) part(cluster, first);
    sort_again(running_, apart_);
    if (slice_over && wanted > gpus) try_pairs(cluster, wanted - gpus);
  }

  // Numbers the whole line anew, so that there is a free number behind every job. It is called when there is a GPU for
  // each of them.
  void number_again(const ClusterState& cluster) {
    std::vector<Place> line = running_;
    for (const auto& [gpus, places] : waiting_.places()) line.insert(line.end(), places.begin(), places.end());
    std::sort(line.begin(), line.end());
    for (const Place& one : line) {
      const bool waits = !job_of(cluster, one.job).has_gpus();
      if (waits) wait_no_more(cluster, one.job);
      place_of(one.job) = next_place();
      if (waits) wait(cluster, one.job);
    }
    for (Place& one : running_) one.key = place_of(one.job);
  }

  static bool both_run(const ClusterState& cluster, int first, int second) {
    return job_of(cluster, first).phase == JobPhase::kRunning && job_of(cluster, second).phase == JobPhase::kRunning;
  }

  // Whether a pair does more than its jobs would by turns, each at half the rate that it had alone.
  bool pays(const ClusterState& cluster, int first, int second) const {
    double gain = 0.0;
    for (const int job : {first, second}) {
      gain += job_of(cluster, job).iterations_per_second / watched_.at(job).rate;
    }
    return gain > 1.0;
  }

  // Hands the jobs that were observed alone, and about which something changed, to the finder.
  void list_candidates(const ClusterState& cluster) {
    std::set<int> later;
    for (const int job : fresh_) {
      const auto seen = watched_.find(job);
      if (seen == watched_.end() || second_.count(job) != 0 || first_of(job) >= 0) continue;
      if (job_of(cluster, job).partner >= 0) {  // its pair was parted just now
        finder_.remove(job);
        later.insert(job);
        continue;
      }
      const double memory = memory_of(cluster, job);
      if (memory > 0.0) {
        finder_.put({seen->second.utilisation, job}, job_of(cluster, job).requested_gpus, memory);
      } else {
        finder_.remove(job);
      }
    }
    std::swap(fresh_, later);
  }

  void try_pairs(const ClusterState& cluster, std::int64_t lacking) {
    list_candidates(cluster);
    for (auto [first, second] : finder_.pair_up(cluster.spec.memory_gib, lacking, refused_)) {
      if (!job_of(cluster, first).has_gpus()) std::swap(first, second);  // a job that runs need not move
      second_[first] = second;
      first_of(second) = first;
      on_trial_.insert(first);
      paired_.push_back(first);
      // A pair takes the place of the one of its jobs that comes first in line.
      const auto runs = [&](int job) { return job_of(cluster, job).has_gpus(); };
      if (!runs(second)) wait_no_more(cluster, second);
      if (!runs(first)) wait_no_more(cluster, first);
      place_of(first) = std::min(place_of(first), place_of(second));
      if (!runs(first)) wait(cluster, first);
    }
    std::erase_if(running_, [&](const Place& one) { return first_of(one.job) >= 0; });
    for (Place& one : running_) one.key = place_of(one.job);
    sort_again(running_, apart_);
  }

  // Adds to the decision, which was made for the jobs in line, the second jobs of pairs and the parted jobs.
  void bring_seconds(const ClusterState& cluster, Decision& decision) {
    const auto own_speed = [&](int job) { return speed_(cluster, job, job_of(cluster, job).requested_gpus); };
    const auto pair_speed = [&](int first, int second) { return std::max(own_speed(first), own_speed(second)); };
    // Pairs that change: new ones, and those whose first job was just given GPUs or lost them.
    std::vector<int>& changed = paired_;
    for (Assignment& one : decision.assignments) {
      const auto second = second_.find(one.job);
      if (second == second_.end()) continue;
      if (one.gpus > 0) one.speed = pair_speed(one.job, second->second);
      changed.push_back(one.job);
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    runs_.resize(cluster.jobs.size(), false);
    for (const int job : order_) runs_[static_cast<std::size_t>(job)] = true;
    const auto gets = [&](int job) { return runs_[static_cast<std::size_t>(job)]; };
    for (const int first : changed) {
      const int second = second_.at(first);
      const ClusterJob& one = job_of(cluster, first);
      const ClusterJob& other = job_of(cluster, second);
      if (!gets(first)) {
        if (other.has_gpus()) decision.assignments.push_back({second, 0, 0});
      } else if (!one.has_gpus() || other.partner != first) {
        const int speed = pair_speed(first, second);
        if (one.has_gpus() && one.speed != speed) decision.assignments.push_back({first, one.gpus, speed});
        decision.assignments.push_back({second, one.requested_gpus, speed, first});
      }
    }
    // Of parted jobs that both run, the second moves to other GPUs. The one that stays continues at its own clock.
    for (std::size_t i = 0; i < parted_.size(); ++i) {
      const int job = parted_[i];
      const ClusterJob& one = job_of(cluster, job);
      if (!one.has_gpus() || !gets(job)) continue;
      const bool moves = one.partner >= 0 && i > 0 && parted_[i - 1] == one.partner && gets(one.partner);
      if (moves || one.speed != own_speed(job)) decision.assignments.push_back({job, one.gpus, own_speed(job)});
    }
    for (const int job : order_) runs_[static_cast<std::size_t>(job)] = false;
  }

  SpeedRule speed_;
  bool packs_;
  // The line: all active jobs but the second jobs of pairs.
  std::vector<std::int64_t> place_;  // by job
  std::int64_t last_place_ = 0;
  FittingQueue<std::int64_t> waiting_;  // the jobs in line without GPUs, by place
  std::map<int, int> second_;           // of a pair, by its first job
  std::vector<int> first_;              // by job: the first job of its pair; -1: none
  std::set<int> on_trial_;              // first jobs of pairs that were not judged yet
  std::map<int, Watched> watched_;
  PairFinder::Refused refused_;  // pairs that did not pay
  PairFinder finder_;            // knows the jobs that may be paired, but for those that are fresh
  std::set<int> fresh_;          // jobs about which something changed
  std::optional<Seconds> slice_end_;
  std::vector<int> order_;  // jobs in line that have GPUs by the last decision, in the order served
  // While a decision is made:
  std::vector<Place> running_;   // jobs in line that have GPUs, in order
  std::vector<int> paired_;      // the first jobs of new pairs
  std::vector<int> parted_;      // jobs that left a pair
  std::vector<int> taken_over_;  // jobs that took over place and GPUs of a partner that finished
  std::vector<bool> runs_;       // by job; all false between uses
  std::vector<Place> apart_;     // reused
};

}  // namespace

void add_gandiva_policies(PolicyRegistry& registry) {
  registry.add("gandiva", "Gandiva", PolicySetting::kClock, [](const PolicyOptions& options) {
    return std::make_unique<Gandiva>(SpeedRule::one_clock(options), options.packing);
  });
  registry.add("gandiva+zeus", "Gandiva + Zeus", PolicySetting::kZeusEta, [](const PolicyOptions& options) {
    return std::make_unique<Gandiva>(SpeedRule::zeus(options), options.packing);
  });
}

}  // namespace flyball
