// Gandiva (Xiao et al.: "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018), as PowerFlow compares
// with it (section 6.1): not elastic, not energy-aware. With "+zeus", jobs run at the clock that Zeus chooses.
//
// Time slicing (section 4.1): jobs are never refused GPUs for long. Where not all that wait fit, all jobs take turns, in
// slices of one minute. A job that waits is served before those that just ran, in the order in which they last ran; one
// that does not fit in what is left of a slice is passed over for smaller ones and comes first in the next, when all GPUs
// are dealt out again. GPUs that fall free within a slice go to whoever waits. Suspended jobs stay in the hosts' memory,
// and resume within a second, on whatever GPUs they get.
//
// Migration (section 4.2): when jobs have left GPUs that nobody waits for, jobs that lie on more nodes than they need move
// together, if they then lie on fewer; they resume as above.
//
// Packing (section 4.2): only while jobs ask for more GPUs than there are. Jobs run alone first, and are watched. Those
// that use their GPUs least are put together, two at a time, where what they declare to need fits in the memory. A pair
// takes turns as one job. After a slice its throughput is looked at: unless the two together do more than by turns, as
// the sum of both over what each had alone, they are parted and not tried again. So is a pair of which the cluster has
// room for both. Nothing but what was seen goes into this: rates, and utilisation as meters show it.
//
// Where the paper leaves it open: two jobs of a pair have equally many GPUs, as in Gavel's implementation of the policy
// (Narayanan et al., OSDI 2020). Pairs on different GPUs are tried in one slice, as many as are needed, and not one after
// another, which would take a cluster of thousands of GPUs days. A pair runs at the higher clock of its two jobs. Not
// modelled: more than two jobs on a GPU; growing into idle GPUs, which PowerFlow's comparison leaves out, too.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cluster/cost_belief.h"
#include "cluster/policy_rules.h"

namespace flyball {
namespace {

constexpr Seconds kSlice{60.0};
constexpr Seconds kResume{1.0};  // section 4.1: from 0.1 s to 1 s, by the size of the model

// What was seen of a job while it had its GPUs alone.
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
    for (const int job : events.finished) forget(job);
    std::erase_if(line_,
                  [&](int job) { return std::binary_search(events.finished.begin(), events.finished.end(), job); });
    line_.insert(line_.end(), events.arrived.begin(), events.arrived.end());
    const auto runs = [&](int job) { return job_of(cluster, job).has_gpus(); };
    const bool slice_over = slice_end_ && *slice_end_ <= cluster.now;
    if (slice_over) std::stable_partition(line_.begin(), line_.end(), [&](int job) { return !runs(job); });
    if (packs_) pair_up(cluster, slice_over);
    order_ = line_;
    if (!slice_over) std::stable_partition(order_.begin(), order_.end(), runs);
    const std::size_t running = run_in_order(cluster, speed_, order_, decision);
    if (running == order_.size() && !events.finished.empty()) bring_together(cluster, decision);
    if (running == order_.size() && on_trial_.empty()) {
      slice_end_.reset();  // nobody waits
    } else if (!slice_end_ || slice_over) {
      slice_end_ = cluster.now + kSlice;
    }
    if (!second_.empty() || !parted_.empty()) bring_seconds(cluster, running, decision);
    decision.wake_at = slice_end_;
  }

  [[nodiscard]] nlohmann::ordered_json save() const override {
    auto saved = nlohmann::ordered_json{
        {"line", line_},
        {"slice_end", slice_end_ ? nlohmann::ordered_json(slice_end_->value()) : nlohmann::ordered_json(nullptr)}};
    if (!packs_) return saved;
    saved["seconds"] = nlohmann::ordered_json(second_);
    saved["on_trial"] = on_trial_;
    saved["refused"] = nlohmann::ordered_json(refused_);
    saved["watched"] = nlohmann::ordered_json::array();
    for (const auto& [job, seen] : watched_) saved["watched"].push_back({job, seen.rate, seen.utilisation});
    return saved;
  }

  void restore(const ClusterState& cluster, const nlohmann::ordered_json& saved) override {
    saved.at("line").get_to(line_);
    if (!saved.at("slice_end").is_null()) slice_end_ = Seconds(saved.at("slice_end").get<double>());
    std::vector<int> all = line_;
    if (packs_) {
      saved.at("seconds").get_to(second_);
      saved.at("on_trial").get_to(on_trial_);
      saved.at("refused").get_to(refused_);
      for (const auto& one : saved.at("watched")) {
        watched_[one.at(0).get<int>()] = {one.at(1).get<double>(), one.at(2).get<double>()};
      }
      for (const auto& [first, second] : second_) {
        first_[second] = first;
        all.push_back(second);
      }
    }
    if (!std::is_permutation(all.begin(), all.end(), cluster.active.begin(), cluster.active.end())) {
      throw Error("those in line are not the jobs that are to be done");
    }
  }

 private:
  static const ClusterJob& job_of(const ClusterState& cluster, int job) {
    return cluster.jobs[static_cast<std::size_t>(job)];
  }
  // What it declares for each GPU; 0: unknown.
  static double memory_of(const ClusterState& cluster, int job) {
    const ClusterJobKind& kind = cluster.kind_of(job);
    return kind.memory_gib[static_cast<std::size_t>(kind.size_index(job_of(cluster, job).requested_gpus))];
  }

  // Of jobs that keep the GPUs that they have.
  void bring_together(const ClusterState& cluster, Decision& decision) const {
    for (const int job : order_) {
      const ClusterJob& one = job_of(cluster, job);
      const bool paired = one.partner >= 0 || second_.count(job) != 0 ||
                          std::find(parted_.begin(), parted_.end(), job) != parted_.end();
      if (paired || one.nodes <= packed_nodes(cluster.spec, one.gpus)) continue;
      decision.assignments.push_back({job, one.gpus, one.speed, -1, true});
    }
  }

  // The job has finished. Its partner, if it had one, stands in its place and keeps the GPUs.
  void forget(int job) {
    watched_.erase(job);
    if (const auto with = refused_.find(job); with != refused_.end()) {
      for (const int other : with->second) refused_[other].erase(job);
      refused_.erase(with);
    }
    on_trial_.erase(job);
    if (const auto first = first_.find(job); first != first_.end()) {
      on_trial_.erase(first->second);
      parted_.push_back(first->second);
      second_.erase(first->second);
      first_.erase(first);
    } else if (const auto second = second_.find(job); second != second_.end()) {
      parted_.push_back(second->second);
      *std::find(line_.begin(), line_.end(), job) = second->second;
      first_.erase(second->second);
      second_.erase(second);
    }
  }

  // The second of a pair stands in line by itself again, behind the first.
  void part(int first) {
    const int second = second_.at(first);
    line_.insert(std::find(line_.begin(), line_.end(), first) + 1, second);
    first_.erase(second);
    second_.erase(first);
    on_trial_.erase(first);
    parted_.push_back(first);
    parted_.push_back(second);
  }

  void pair_up(const ClusterState& cluster, bool slice_over) {
    int wanted = 0;  // GPUs
    for (const int job : line_) {
      const ClusterJob& one = job_of(cluster, job);
      wanted += one.requested_gpus;
      if (slice_over && one.phase == JobPhase::kRunning && one.partner < 0) {
        watched_[job] = {one.iterations_per_second, one.gpu_utilisation};
      }
    }
    const int gpus = cluster.spec.gpus();
    if (!slice_over && wanted >= gpus) return;
    std::vector<int> to_part;
    for (const auto& [first, second] : second_) {
      if (wanted + job_of(cluster, first).requested_gpus <= gpus) {
        to_part.push_back(first);
      } else if (slice_over && on_trial_.count(first) != 0 && both_run(cluster, first, second)) {
        on_trial_.erase(first);
        if (pays(cluster, first, second)) continue;
        refused_[first].insert(second);
        refused_[second].insert(first);
        to_part.push_back(first);
      } else {
        continue;
      }
      wanted += job_of(cluster, first).requested_gpus;
    }
    for (const int first : to_part) part(first);
    if (slice_over && wanted > gpus) try_pairs(cluster, wanted - gpus);
  }

  static bool both_run(const ClusterState& cluster, int first, int second) {
    return job_of(cluster, first).phase == JobPhase::kRunning && job_of(cluster, second).phase == JobPhase::kRunning;
  }

  // By turns, each would have half of what it had alone.
  bool pays(const ClusterState& cluster, int first, int second) const {
    double gain = 0.0;
    for (const int job : {first, second}) {
      gain += job_of(cluster, job).iterations_per_second / watched_.at(job).rate;
    }
    return gain > 1.0;
  }

  // A job that may be paired, and those of as many GPUs by what they need of the memory, each list by utilisation.
  struct Candidate {
    double utilisation;
    int job;
    int gpus;
    double memory;
    bool taken = false;
  };
  struct Waiting {
    std::vector<std::size_t> candidates;
    std::size_t next = 0;  // those before it are taken, or have had their turn
  };

  [[nodiscard]] std::vector<Candidate> candidates(const ClusterState& cluster) const {
    std::vector<Candidate> found;
    for (const int job : line_) {
      const ClusterJob& one = job_of(cluster, job);
      const auto seen = watched_.find(job);
      if (seen == watched_.end() || second_.count(job) != 0 || one.partner >= 0) continue;  // the last: parted just now
      const double memory = memory_of(cluster, job);
      if (memory > 0.0) found.push_back({seen->second.utilisation, job, one.requested_gpus, memory});
    }
    std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      return std::pair(a.utilisation, a.job) < std::pair(b.utilisation, b.job);
    });
    return found;
  }

  // Pairs jobs, those of low utilisation first and each with the lowest that fits, until as many GPUs as lack are saved.
  // Needs of memory are few, as kinds of jobs are: O(candidates * (needs + refused pairs of the job)).
  void try_pairs(const ClusterState& cluster, int lacking) {
    std::vector<Candidate> all = candidates(cluster);
    std::map<int, std::map<double, Waiting>> waiting;
    for (std::size_t i = 0; i < all.size(); ++i) waiting[all[i].gpus][all[i].memory].candidates.push_back(i);
    std::vector<std::pair<int, int>> pairs;
    for (std::size_t i = 0; i < all.size() && lacking > 0; ++i) {
      if (all[i].taken) continue;
      const auto refused = refused_.find(all[i].job);
      std::size_t best = all.size();
      for (auto& [memory, list] : waiting[all[i].gpus]) {
        if (memory > cluster.spec.memory_gib - all[i].memory) break;
        while (list.next < list.candidates.size() &&
               (list.candidates[list.next] <= i || all[list.candidates[list.next]].taken)) {
          ++list.next;
        }
        for (std::size_t k = list.next; k < list.candidates.size() && list.candidates[k] < best; ++k) {
          const Candidate& other = all[list.candidates[k]];
          if (other.taken || (refused != refused_.end() && refused->second.count(other.job) != 0)) continue;
          best = list.candidates[k];
        }
      }
      if (best == all.size()) continue;
      all[best].taken = true;
      pairs.emplace_back(all[i].job, all[best].job);
      lacking -= all[i].gpus;
    }
    std::map<int, int> partners;
    for (auto [first, second] : pairs) {
      if (!job_of(cluster, first).has_gpus()) std::swap(first, second);  // who runs need not move
      second_[first] = partners[first] = second;
      first_[second] = partners[second] = first;
      on_trial_.insert(first);
      paired_.push_back(first);
    }
    // A pair stands where the one of the two did that comes first.
    std::vector<int> line;
    for (const int job : line_) {
      const auto partner = partners.find(job);
      if (partner == partners.end()) {
        line.push_back(job);
        continue;
      }
      if (partner->second < 0) continue;  // its partner was before it
      line.push_back(second_.count(job) != 0 ? job : partner->second);
      partners.at(partner->second) = -1;
    }
    line_ = std::move(line);
  }

  // Adds what the second jobs of pairs and those that were parted need to what was decided for those in line. The first
  // `running` of order_ run.
  void bring_seconds(const ClusterState& cluster, std::size_t running, Decision& decision) {
    const auto own_speed = [&](int job) { return speed_(cluster, job, job_of(cluster, job).requested_gpus); };
    const auto pair_speed = [&](int first, int second) { return std::max(own_speed(first), own_speed(second)); };
    // Pairs that change: new ones, and those whose first has just been given GPUs, or lost them.
    std::vector<int>& changed = paired_;
    for (Assignment& one : decision.assignments) {
      const auto second = second_.find(one.job);
      if (second == second_.end()) continue;
      if (one.gpus > 0) one.speed = pair_speed(one.job, second->second);
      changed.push_back(one.job);
    }
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    runs_.assign(cluster.jobs.size(), false);
    for (std::size_t i = 0; i < running; ++i) runs_[static_cast<std::size_t>(order_[i])] = true;
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
    // Parted jobs that both run: the second moves to GPUs of its own. What is left on GPUs goes on at its own clock.
    for (std::size_t i = 0; i < parted_.size(); ++i) {
      const int job = parted_[i];
      const ClusterJob& one = job_of(cluster, job);
      if (!one.has_gpus() || !gets(job)) continue;
      const bool moves = one.partner >= 0 && i > 0 && parted_[i - 1] == one.partner && gets(one.partner);
      if (moves || one.speed != own_speed(job)) decision.assignments.push_back({job, one.gpus, own_speed(job)});
    }
  }

  SpeedRule speed_;
  bool packs_;
  std::vector<int> line_;      // all active jobs but the second ones of pairs
  std::map<int, int> second_;  // of a pair, by its first
  std::map<int, int> first_;   // the other way
  std::set<int> on_trial_;     // first ones of pairs that were not judged yet
  std::map<int, Watched> watched_;
  std::map<int, std::set<int>> refused_;  // pairs that did not pay, both ways
  std::optional<Seconds> slice_end_;
  std::vector<int> order_;   // reused
  std::vector<bool> runs_;   // alike: by job, what this decision gives GPUs to
  std::vector<int> paired_;  // by this decision: the first ones of new pairs
  std::vector<int> parted_;  // by this decision: who left a pair
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
