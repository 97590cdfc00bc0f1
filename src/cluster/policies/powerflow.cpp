// PowerFlow as published (section 5.2, algorithm 1): GPUs are given by marginal return at the thriftiest speed, then
// speeds are raised by marginal return, all within the power limit. A job has a power of two of GPUs.
//
// The work that is left cancels out of eqs. 20 and 21: to double a job's GPUs is worth (T_n - T_2n) / (E_2n - E_n),
// however much work the job has left. So priorities belong to kinds of jobs, and change only when models are refitted.
// The queues of algorithm 1 become lists of (kind, step), which stay sorted between events. A decision goes through
// them and counts how many jobs of each kind get how far: O(kinds * steps). It then touches only kinds for which this
// has changed, and of these only the jobs that have GPUs or get some, however many wait. A step is worth no more than
// the step before it (which must be taken first), so that one pass over the list is the greedy algorithm.
//
// Where the paper leaves details open:
//   - The first GPU of a job has an infinite numerator in eq. 20. It comes before any doubling. If not all jobs can
//     have one, those with the least energy left come first (the smallest denominator), which is close to the shortest
//     remaining time. For a job without GPUs its restart is included, so that two near equals do not take turns.
//   - Where only some jobs of a kind can have the larger size, those that have it keep it, and then those with most
//     work left get it. A resize that would cost more time than it saves is left out.
//   - A job that is being profiled keeps its GPUs, goes through the speeds up to the one that it would have, and counts
//     with that.
//   - A pipeline has one size; its frontier is its list of speeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/index.h"
#include "cluster/policy.h"
#include "cluster/power_book.h"
#include "cluster/waiting_queue.h"

namespace flyball {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Eqs. 20 and 21 without the factors that cancel: seconds saved per joule spent.
double marginal_return(const IterationCost& now, const IterationCost& next) {
  const double saved = (now.time - next.time).value();
  const double spent = (next.energy - now.energy).value();
  if (saved <= 0.0) return 0.0;
  return spent <= 0.0 ? kInfinite : saved / spent;
}

// Sorted with the best first, equal ones by kind and step.
struct Step {
  double priority;
  int kind;
  int level;  // the size before a doubling, or the size at which the speed is raised
  int speed;  // the speed before it is raised; 0 for a doubling

  bool operator<(const Step& other) const {
    if (priority != other.priority) return priority > other.priority;
    return std::tie(kind, level, speed) < std::tie(other.kind, other.level, other.speed);
  }
};

struct KindPlan {
  std::vector<int> sizes;  // number of GPUs, by level
  std::vector<int> size_index;
  std::size_t speeds = 0;
  std::vector<double> watts;       // by level and speed
  std::vector<double> base_watts;  // by level, at speed 0
  std::vector<int> jobs;           // those that have GPUs or are given some, rising
  std::vector<int> newly_chosen;   // of those that wait, if not all can run
  // Of the jobs that may be changed:
  int free_jobs = 0;          // including those that wait
  std::vector<int> holding;   // how many are at each level
  std::vector<int> reaching;  // how many will be at each level or above
  std::vector<int> speed;     // by level: the speed that all have
  std::vector<int> faster;    // by level: how many have one speed more
  std::vector<int> old_speed;
  std::vector<int> old_faster;
  bool dirty = false;
};

class PowerFlow : public Policy {
 public:
  [[nodiscard]] PolicyTraits traits() const override { return {.placement = PlacementRule::kPacked, .profiles = true}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    if (kinds_.empty()) begin(cluster);
    waiting_.read(cluster, events, group_of);
    if (!events.kinds_changed.empty()) read_costs(cluster, events.kinds_changed);
    for (const int k : events.power_changed) read_power(cluster, k);
    for (const int job : events.finished) leave(cluster, job);
    for (const int job : events.profiled) unpin(cluster, job);
    for (const int job : events.arrived) enter(cluster, job);
    plan_sizes(cluster, 0.0);
    // A reserve must not keep the only job waiting (power_book.h).
    if (nothing_runs()) plan_sizes(cluster, cluster.power_limit.value() * kUnseenReserve);
    plan_speeds(cluster);
    emit(cluster, decision);
    newly_pinned_.clear();
    waiting_.note(decision);
  }

 private:
  // ---- kinds

  void begin(const ClusterState& cluster) {
    kinds_.resize(cluster.kinds.size());
    level_.assign(cluster.jobs.size(), -1);
    is_pinned_.assign(cluster.jobs.size(), false);
    std::vector<int> all;
    for (std::size_t k = 0; k < cluster.kinds.size(); ++k) {
      KindPlan& kind = kinds_[k];
      const ClusterJobKind& given = cluster.kinds[k];
      kind.sizes = given.elastic_sizes();
      for (const int gpus : kind.sizes) kind.size_index.push_back(given.size_index(gpus));
      kind.holding.assign(kind.sizes.size(), 0);
      kind.reaching.assign(kind.sizes.size() + 1, 0);
      kind.speed.assign(kind.sizes.size(), 0);
      kind.faster.assign(kind.sizes.size(), 0);
      all.push_back(static_cast<int>(k));
    }
    read_costs(cluster, all);
  }

  void read_costs(const ClusterState& cluster, const std::vector<int>& changed) {
    for (const int k : changed) kinds_[at(k)].dirty = true;
    const auto stale = [&](const Step& step) { return std::binary_search(changed.begin(), changed.end(), step.kind); };
    std::erase_if(doublings_, stale);
    std::erase_if(raises_, stale);
    const std::size_t old_doublings = doublings_.size();
    const std::size_t old_raises = raises_.size();
    for (const int k : changed) add_steps(cluster, k);
    // The steps that have not changed are sorted already.
    const auto merge = [](std::vector<Step>& steps, std::size_t sorted) {
      const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::sort(middle, steps.end());
      std::inplace_merge(steps.begin(), middle, steps.end());
    };
    merge(doublings_, old_doublings);
    merge(raises_, old_raises);
  }

  void add_steps(const ClusterState& cluster, int k) {
    KindPlan& kind = kinds_[at(k)];
    const CostSheet& costs = cluster.believed[at(k)];
    const int speeds = static_cast<int>(cluster.kinds[at(k)].speeds);
    const auto levels = static_cast<int>(kind.sizes.size());
    read_power(cluster, k);
    double worth = kInfinite;
    for (int level = 0; level < levels; ++level) {
      const auto size = at(kind.size_index[at(level)]);
      double raise_worth = kInfinite;
      for (int speed = 0; speed + 1 < speeds; ++speed) {
        const IterationCost& now = costs.at(size, at(speed));
        const IterationCost& next = costs.at(size, at(speed) + 1);
        raise_worth = std::min(raise_worth, marginal_return(now, next));
        raises_.push_back({raise_worth, k, level, speed});
      }
      if (level == 0) continue;
      const IterationCost& before = costs.at(at(kind.size_index[at(level) - 1]), 0);
      worth = std::min(worth, marginal_return(before, costs.at(size, 0)));
      doublings_.push_back({worth, k, level - 1, 0});
    }
  }

  // Reads what jobs of the kind count with against the limit.
  void read_power(const ClusterState& cluster, int k) {
    KindPlan& kind = kinds_[at(k)];
    const std::size_t speeds = cluster.kinds[at(k)].speeds;
    kind.speeds = speeds;
    kind.watts.clear();
    kind.base_watts.clear();
    for (const int size : kind.size_index) {
      for (std::size_t speed = 0; speed < speeds; ++speed) {
        kind.watts.push_back(cluster.counted(k, at(size), speed).value());
      }
      kind.base_watts.push_back(kind.watts[kind.watts.size() - speeds]);
    }
  }

  // ---- jobs

  // Groups of jobs that wait: by kind.
  static std::size_t group_of(const ClusterJob& job) { return at(job.kind); }

  [[nodiscard]] KindPlan& kind_of(const ClusterState& cluster, int job) {
    return kinds_[at(cluster.jobs[at(job)].kind)];
  }

  void enter(const ClusterState& cluster, int job) {
    KindPlan& kind = kind_of(cluster, job);
    ++kind.free_jobs;
    kind.dirty = true;
  }

  void leave(const ClusterState& cluster, int job) {
    unpin(cluster, job);
    set_level(cluster, job, -1);
    KindPlan& kind = kind_of(cluster, job);
    const auto place = std::lower_bound(kind.jobs.begin(), kind.jobs.end(), job);
    if (place != kind.jobs.end() && *place == job) kind.jobs.erase(place);
    --kind.free_jobs;
    kind.dirty = true;
  }

  // Moves a job that may be changed. One to which the size is new stays pinned until it has been profiled.
  void set_level(const ClusterState& cluster, int job, int level) {
    KindPlan& kind = kind_of(cluster, job);
    if (level_[at(job)] >= 0) --kind.holding[at(level_[at(job)])];
    level_[at(job)] = level;
    kind.dirty = true;
    if (level < 0) return;
    ++kind.holding[at(level)];
    const auto place = std::lower_bound(kind.jobs.begin(), kind.jobs.end(), job);
    if (place == kind.jobs.end() || *place != job) kind.jobs.insert(place, job);
    if (!will_be_profiled(cluster, job, level)) return;
    --kind.holding[at(level)];
    --kind.free_jobs;
    is_pinned_[at(job)] = true;
    pinned_.insert(job);
    newly_pinned_.push_back(job);
  }

  void unpin(const ClusterState& cluster, int job) {
    if (!is_pinned_[at(job)]) return;
    KindPlan& kind = kind_of(cluster, job);
    ++kind.holding[at(level_[at(job)])];
    ++kind.free_jobs;
    kind.dirty = true;
    is_pinned_[at(job)] = false;
    pinned_.erase(job);
  }

  [[nodiscard]] bool will_be_profiled(const ClusterState& cluster, int job, int level) {
    return cluster.to_be_profiled(job, kind_of(cluster, job).size_index[at(level)]);
  }

  // The watts of the job at that level, before speeds are raised.
  [[nodiscard]] double watts_at(const ClusterState& cluster, int job, int level) {
    return level < 0 ? 0.0 : kind_of(cluster, job).base_watts[at(level)];
  }

  // ---- GPUs (algorithm 1, lines 2-20)

  // `more` are watts beyond the limit, for the reserve of a job of whose kind nothing was metered.
  void plan_sizes(const ClusterState& cluster, double more) {
    int gpus = cluster.spec.gpus();
    double watts = cluster.spendable_power().value() + more;
    for (const int job : pinned_) {
      const KindPlan& kind = kind_of(cluster, job);
      const ClusterJob& one = cluster.jobs[at(job)];
      gpus -= kind.sizes[at(level_[at(job)])];
      // The watts at the fastest speed of its profiling.
      const double counted = kind.watts[at(level_[at(job)]) * kind.speeds + at(one.speed)];
      watts -= one.phase == JobPhase::kProfiling ? std::max(counted, one.power.value()) : counted;
    }
    power_left_ = watts;  // of the pinned jobs so far; the others follow
    chosen_.clear();
    scarce_ = more > 0.0 || !everyone_fits(gpus, watts);
    if (scarce_) {
      choose(cluster, gpus, watts, more > 0.0);
    } else {
      for (KindPlan& kind : kinds_) {
        kind.reaching[0] = kind.free_jobs;
        gpus -= kind.free_jobs * kind.sizes[0];
        watts -= kind.free_jobs * kind.base_watts[0];
      }
    }
    walk_doublings(gpus, watts);
    change_sizes(cluster);
    power_left_ -= more;
  }

  [[nodiscard]] bool nothing_runs() const {
    return pinned_.empty() && std::all_of(kinds_.begin(), kinds_.end(), [](const KindPlan& kind) {
             return std::all_of(kind.holding.begin(), kind.holding.end(), [](int jobs) { return jobs == 0; });
           });
  }

  [[nodiscard]] bool everyone_fits(int gpus, double watts) const {
    std::int64_t needed = 0;
    double draw = 0.0;
    for (const KindPlan& kind : kinds_) {
      needed += std::int64_t{kind.free_jobs} * kind.sizes[0];
      draw += kind.free_jobs * kind.base_watts[0];
    }
    return needed <= gpus && draw <= watts;
  }

  // Chooses which jobs have GPUs at all, if not all can, or if only jobs of unmetered kinds may. The jobs that have
  // some and those that wait are merged by rank. The least that a job takes depends only on its kind, so that when one
  // that waits does not fit, no other of its kind does.
  void choose(const ClusterState& cluster, int& gpus, double& watts, bool only_unmetered) {
    const auto joules_of = [&](std::size_t k, double work) {
      return work * cluster.believed[k].at(at(kinds_[k].size_index[0]), 0).energy.value();
    };
    const auto restart_of = [&](std::size_t k) { return kinds_[k].base_watts[0] * cluster.spec.restart.value(); };
    const auto fits = [&](std::size_t k) {
      return kinds_[k].sizes[0] <= gpus && kinds_[k].base_watts[0] <= watts &&
             (!only_unmetered || cluster.unmetered[k]);
    };
    const auto take = [&](std::size_t k, int job) {
      gpus -= kinds_[k].sizes[0];
      watts -= kinds_[k].base_watts[0];
      ++kinds_[k].reaching[0];
      chosen_.insert(job);
    };
    candidates_.clear();
    for (KindPlan& kind : kinds_) {
      kind.reaching[0] = 0;
      kind.newly_chosen.clear();
    }
    for (const int job : cluster.holding) {
      if (is_pinned_[at(job)]) continue;
      const std::size_t k = group_of(cluster.jobs[at(job)]);
      const double joules = joules_of(k, cluster.remaining_iterations(job));
      candidates_.emplace_back(level_[at(job)] < 0 ? joules + restart_of(k) : joules, job);
    }
    std::sort(candidates_.begin(), candidates_.end());
    auto walk = waiting_.queue.walk([&](std::size_t k, double work) { return joules_of(k, work) + restart_of(k); });
    for (auto next = candidates_.begin(); gpus > 0 && (next != candidates_.end() || !walk.done());) {
      if (walk.done() || (next != candidates_.end() && *next < std::pair(walk.front().key, walk.front().job))) {
        const std::size_t k = group_of(cluster.jobs[at(next->second)]);
        if (fits(k)) take(k, next->second);
        ++next;
      } else if (fits(walk.front().group)) {
        const auto [joules, job, k] = walk.front();
        take(k, job);
        kinds_[k].newly_chosen.push_back(job);
        walk.pop();
      } else {
        walk.drop_group();
      }
    }
  }

  void walk_doublings(int gpus, double watts) {
    for (KindPlan& kind : kinds_) std::fill(kind.reaching.begin() + 1, kind.reaching.end(), 0);
    for (const Step& step : doublings_) {
      if (step.priority <= 0.0 || gpus <= 0) break;
      KindPlan& kind = kinds_[at(step.kind)];
      const int jobs = kind.reaching[at(step.level)];
      if (jobs == 0) continue;
      const int more = kind.sizes[at(step.level) + 1] - kind.sizes[at(step.level)];
      int count = std::min(jobs, gpus / more);
      const double each = kind.base_watts[at(step.level) + 1] - kind.base_watts[at(step.level)];
      if (each > 0.0) count = std::min(count, static_cast<int>(std::min(1e9, std::max(0.0, watts / each))));
      kind.reaching[at(step.level) + 1] = count;
      gpus -= count * more;
      watts -= count * each;
    }
  }

  struct Change {
    int job;
    int level;
  };

  // Lists how many jobs of each kind change from which size to which: those that have most keep most.
  void change_sizes(const ClusterState& cluster) {
    changes_.clear();
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const KindPlan& kind = kinds_[k];
      if (!scarce_ && has_what_it_should(kind)) continue;
      order_.clear();
      const auto runs = [&](int job) {
        order_.emplace_back(-level_[at(job)], -cluster.remaining_iterations(job), job);
      };
      for (const int job : kind.jobs) {
        if (is_pinned_[at(job)]) continue;
        if (!scarce_ || chosen_.count(job) != 0) {
          runs(job);
        } else if (level_[at(job)] >= 0) {
          changes_.push_back({job, -1});
        }
      }
      const auto begins = [&](int job) {
        if (!std::binary_search(kind.jobs.begin(), kind.jobs.end(), job)) runs(job);
      };
      if (scarce_) {
        std::for_each(kind.newly_chosen.begin(), kind.newly_chosen.end(), begins);
      } else {
        for (const WaitingQueue::Place& place : waiting_.queue.places(k)) begins(place.job);
      }
      std::sort(order_.begin(), order_.end());
      int index = 0;
      for (const auto& [minus_level, minus_work, job] : order_) {
        int level = 0;
        while (at(level) + 1 < kind.sizes.size() && kind.reaching[at(level) + 1] > index) ++level;
        if (level != level_[at(job)]) changes_.push_back({job, level});
        ++index;
      }
    }
    apply_changes(cluster);
  }

  [[nodiscard]] static bool has_what_it_should(const KindPlan& kind) {
    int above = 0;
    for (std::size_t level = kind.sizes.size(); level-- > 0;) {
      above += kind.holding[level];
      if (above != kind.reaching[level]) return false;
    }
    return above == kind.free_jobs;
  }

  // Shrinks jobs first, then lets others grow while power lasts, with profiling counted.
  void apply_changes(const ClusterState& cluster) {
    double watts = power_left_;
    for (const KindPlan& kind : kinds_) {
      for (std::size_t level = 0; level < kind.sizes.size(); ++level) {
        watts -= kind.holding[level] * kind.base_watts[level];
      }
    }
    const auto grows = [&](const Change& change) { return change.level > level_[at(change.job)]; };
    std::stable_partition(changes_.begin(), changes_.end(), [&](const Change& change) { return !grows(change); });
    for (const Change& change : changes_) {
      const int now = level_[at(change.job)];
      if (grows(change) && !worth_it(cluster, change)) continue;
      const double more = watts_at(cluster, change.job, change.level) - watts_at(cluster, change.job, now);
      int level = change.level;
      if (more > watts && more > 0.0) {
        if (grows(change)) continue;
        level = -1;  // cannot even be profiled at a smaller size
      }
      watts -= watts_at(cluster, change.job, level) - watts_at(cluster, change.job, now);
      set_level(cluster, change.job, level);
    }
    power_left_ = watts;
  }

  // Growing costs a restart, so that a job that is nearly done is left alone.
  [[nodiscard]] bool worth_it(const ClusterState& cluster, const Change& change) const {
    const ClusterJob& one = cluster.jobs[at(change.job)];
    if (!one.has_gpus()) return true;
    const CostSheet& costs = cluster.believed[at(one.kind)];
    const std::vector<int>& index = kinds_[at(one.kind)].size_index;
    const Seconds saved =
        costs.at(at(index[at(level_[at(change.job)])]), 0).time - costs.at(at(index[at(change.level)]), 0).time;
    return saved * cluster.remaining_iterations(change.job) > cluster.spec.restart;
  }

  // ---- speeds (lines 21-30)

  // Raises speeds, also of jobs that will be profiled now: those go up to the speed at which they would run.
  void plan_speeds(const ClusterState& cluster) {
    for (const int job : newly_pinned_) ++kind_of(cluster, job).holding[at(level_[at(job)])];
    for (KindPlan& kind : kinds_) {
      kind.old_speed = kind.speed;
      kind.old_faster = kind.faster;
      std::fill(kind.speed.begin(), kind.speed.end(), 0);
      std::fill(kind.faster.begin(), kind.faster.end(), 0);
    }
    double watts = power_left_;
    for (const Step& step : raises_) {
      if (step.priority <= 0.0) break;
      KindPlan& kind = kinds_[at(step.kind)];
      const int jobs = kind.holding[at(step.level)];
      if (jobs == 0) continue;
      const std::size_t now = at(step.level) * kind.speeds + at(step.speed);
      const double each = kind.watts[now + 1] - kind.watts[now];
      if (each > 0.0 && jobs * each > watts) {
        // As many jobs are raised as there is power for, which is then used up.
        kind.faster[at(step.level)] = static_cast<int>(std::max(0.0, watts / each));
        break;
      }
      watts -= jobs * each;
      kind.speed[at(step.level)] = step.speed + 1;
    }
    for (const int job : newly_pinned_) --kind_of(cluster, job).holding[at(level_[at(job)])];
    for (KindPlan& kind : kinds_) {
      if (kind.speed != kind.old_speed || kind.faster != kind.old_faster) kind.dirty = true;
    }
  }

  // Adds what changes to the decision.
  void emit(const ClusterState& cluster, Decision& decision) {
    for (KindPlan& kind : kinds_) {
      if (!kind.dirty) continue;
      kind.dirty = false;
      pick_faster(cluster, kind);
      for (const int job : kind.jobs) {
        const int level = level_[at(job)];
        const ClusterJob& one = cluster.jobs[at(job)];
        Assignment wanted{job, 0, 0};
        if (level >= 0) {
          wanted.gpus = kind.sizes[at(level)];
          // A job keeps the speed at which its profiling began.
          const bool keeps = is_pinned_[at(job)] && wanted.gpus == one.gpus;
          wanted.speed = keeps ? one.speed : kind.speed[at(level)];
          if (std::binary_search(faster_.begin(), faster_.end(), job)) ++wanted.speed;
        }
        if (wanted.gpus != one.gpus || (wanted.gpus > 0 && wanted.speed != one.speed)) {
          decision.assignments.push_back(wanted);
        }
      }
      std::erase_if(kind.jobs, [&](int job) { return level_[at(job)] < 0; });
    }
  }

  // Picks the jobs that have one speed more than the others of their kind and size: first those that have it already.
  void pick_faster(const ClusterState& cluster, const KindPlan& kind) {
    faster_.clear();
    std::vector<int> left = kind.faster;
    for (const bool already : {true, false}) {
      for (const int job : kind.jobs) {
        const int level = level_[at(job)];
        if (level < 0 || is_pinned_[at(job)] || left[at(level)] == 0) continue;
        const ClusterJob& one = cluster.jobs[at(job)];
        const bool has = one.gpus == kind.sizes[at(level)] && one.speed == kind.speed[at(level)] + 1;
        if (has != already) continue;
        --left[at(level)];
        faster_.push_back(job);
      }
    }
    std::sort(faster_.begin(), faster_.end());
  }

  std::vector<KindPlan> kinds_;
  std::vector<Step> doublings_;  // sorted
  std::vector<Step> raises_;     // sorted
  std::vector<int> level_;       // by job; -1: no GPUs
  std::vector<bool> is_pinned_;
  std::set<int> pinned_;
  std::vector<int> newly_pinned_;
  WaitingJobs waiting_;  // by kind
  double power_left_ = 0.0;
  bool scarce_ = false;
  // Reused by every decision:
  std::set<int> chosen_;
  std::vector<std::pair<double, int>> candidates_;
  std::vector<std::tuple<int, double, int>> order_;
  std::vector<Change> changes_;
  std::vector<int> faster_;
};

}  // namespace

void add_powerflow_policies(PolicyRegistry& registry) {
  registry.add("powerflow", "PowerFlow", PolicySetting::kBudget,
               [](const PolicyOptions& /*options*/) { return std::make_unique<PowerFlow>(); });
}

}  // namespace flyball
