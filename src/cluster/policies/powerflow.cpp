// PowerFlow as published (section 5.2, algorithm 1): GPUs are given by marginal return at the thriftiest speed, then
// speeds are raised by marginal return, all within the power limit. A job has a power of two of GPUs.
//
// The work that is left cancels out of eqs. 20 and 21: to double a job's GPUs is worth (T_n - T_2n) / (E_2n - E_n),
// however much work the job has left. So priorities belong to kinds of jobs, and change only when models are refitted.
// The queues of algorithm 1 become lists of (kind, step), which stay sorted between events. Every decision begins with
// an empty cluster, as in the paper. It goes through the lists and counts how many jobs of each kind get how far, and
// then deals out to the jobs what their kind has got. A step is worth no more than the step before it (which must be
// taken first), so that one pass over the list is the greedy algorithm.
//
// Where the paper leaves details open:
//   - The first GPU of a job has an infinite numerator in eq. 20. It comes before any doubling. If not all jobs can
//     have one, those with the least energy left come first (the smallest denominator), which is close to the shortest
//     remaining time. For a job without GPUs its restart is included, so that two near equals do not take turns.
//   - Where only some jobs of a kind can have the larger size, those that have it keep it, and then those with most
//     work left get it. A resize that would cost more time than it saves is left out.
//   - Where there is power to raise the speed of only some jobs of a kind, those that have the higher speed keep it,
//     and then those submitted first get it. No speed is raised after that.
//   - A job that is being profiled keeps its GPUs, goes through the speeds up to the one that it would have, and counts
//     with that.
//   - A pipeline has one size; its frontier is its list of speeds.
//
// Cost of a decision: O(kinds * steps + r log r) for r jobs that have GPUs or get some, however many wait.
#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/index.h"
#include "cluster/policy.h"
#include "cluster/power_book.h"
#include "cluster/waiting_queue.h"

namespace flyball {
namespace {

constexpr double kNothingSaved = std::numeric_limits<double>::infinity();

// The inverse of eqs. 20 and 21 without the factors that cancel: joules spent per second saved.
double price_of(const IterationCost& now, const IterationCost& next) {
  const double saved = (now.time - next.time).value();
  return saved > 0.0 ? std::max(0.0, (next.energy - now.energy).value() / saved) : kNothingSaved;
}

// Returns how many of the jobs can take a step that costs each of them that much power.
int payable(int jobs, double each, double watts) {
  return each > 0.0 ? static_cast<int>(std::min<double>(jobs, std::max(0.0, watts / each))) : jobs;
}

// A level is a place in the list of sizes that a kind's jobs can have, from 0: no GPUs.
struct Step {
  double price;  // the least comes first
  int kind;
  int level;  // before a doubling, or the one at which the speed is raised
  int speed;  // before it is raised; 0 for a doubling
  auto operator<=>(const Step&) const = default;
};

// What a decision plans for the jobs of a kind at one of its levels, not counting jobs that are held for profiling.
struct LevelPlan {
  int gpus;
  int size;          // its place in ClusterJobKind::sizes
  int reaching = 0;  // how many jobs are to have this level or a higher one
  int having = 0;    // how many jobs have it in the end
  int speed = 0;     // that they have
  int faster = 0;    // how many of them may have one speed more
};

// A job that has GPUs and is not held, or one that waits and is given some.
struct JobPlan {
  int job;
  int kind;
  int now;                 // the level that it has
  double work;             // iterations left
  double joules;           // that these take at least, with a restart if the job has no GPUs
  int level = 0;           // the one that it gets
  bool is_faster = false;  // than its kind at this level
};

class PowerFlow : public Policy {
 public:
  [[nodiscard]] PolicyTraits traits() const override { return {.placement = PlacementRule::kPacked, .profiles = true}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    waiting_.read(cluster, events, group_of);
    if (levels_.empty() || !events.kinds_changed.empty()) rank_steps(cluster, events.kinds_changed);
    // A reserve must not keep the only job waiting (power_book.h).
    if (!plan_sizes(cluster, 0.0)) plan_sizes(cluster, cluster.power_limit.value() * kUnseenReserve);
    plan_speeds(cluster);
    emit(cluster, decision);
    waiting_.note(decision);
  }

 private:
  // Groups of jobs that wait: by kind.
  static std::size_t group_of(const ClusterJob& job) { return at(job.kind); }

  // Lists the steps of the kinds that are new or whose costs have changed; at first, of all kinds.
  void rank_steps(const ClusterState& cluster, std::vector<int> changed) {
    if (levels_.empty()) {
      changed.resize(cluster.kinds.size());
      std::iota(changed.begin(), changed.end(), 0);
    }
    levels_.resize(cluster.kinds.size());
    for (const int kind : changed) levels_[at(kind)].clear();
    const auto is_old = [&](const Step& step) { return levels_[at(step.kind)].empty(); };
    std::erase_if(doublings_, is_old);
    std::erase_if(raises_, is_old);
    const std::size_t doublings = doublings_.size();
    const std::size_t raises = raises_.size();
    for (const int kind : changed) add_steps(cluster, kind);
    sort_from(doublings_, doublings);
    sort_from(raises_, raises);
  }

  void add_steps(const ClusterState& cluster, int kind) {
    const ClusterJobKind& given = cluster.kinds[at(kind)];
    levels_[at(kind)] = {{0, -1}};
    double price = 0.0;
    for (const int gpus : given.elastic_sizes()) {
      const int level = static_cast<int>(levels_[at(kind)].size());
      levels_[at(kind)].push_back({gpus, given.size_index(gpus)});
      if (level > 1) {
        price = std::max(price, price_of(cost(cluster, kind, level - 1), cost(cluster, kind, level)));
        if (price < kNothingSaved) doublings_.push_back({price, kind, level - 1, 0});
      }
      double raise = 0.0;
      for (int speed = 0; at(speed) + 1 < given.speeds; ++speed) {
        raise = std::max(raise, price_of(cost(cluster, kind, level, speed), cost(cluster, kind, level, speed + 1)));
        if (raise < kNothingSaved) raises_.push_back({raise, kind, level, speed});
      }
    }
  }

  static void sort_from(std::vector<Step>& steps, std::size_t sorted) {
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(sorted);
    std::sort(middle, steps.end());
    std::inplace_merge(steps.begin(), middle, steps.end());
  }

  [[nodiscard]] LevelPlan& plan(int kind, int level) { return levels_[at(kind)][at(level)]; }

  [[nodiscard]] const IterationCost& cost(const ClusterState& cluster, int kind, int level, int speed = 0) const {
    return cluster.believed[at(kind)].at(at(levels_[at(kind)][at(level)].size), at(speed));
  }

  // The watts with which a job counts.
  [[nodiscard]] double watts_of(const ClusterState& cluster, int kind, int level, int speed = 0) const {
    return level == 0 ? 0.0 : cluster.counted(kind, at(levels_[at(kind)][at(level)].size), at(speed)).value();
  }

  // Gives GPUs (algorithm 1, lines 2-20) and returns whether any job has some. `more` are watts beyond the limit, for
  // the reserve of a job of whose kind nothing was metered.
  bool plan_sizes(const ClusterState& cluster, double more) {
    int gpus = cluster.gpus();
    watts_left_ = cluster.spendable_power().value() + more;
    jobs_.clear();
    for (std::vector<LevelPlan>& levels : levels_) {
      for (LevelPlan& one : levels) one = {one.gpus, one.size};
    }
    for (const int job : cluster.holding) {
      const ClusterJob& one = cluster.jobs[at(job)];
      if (cluster.is_held(job)) {
        gpus -= one.gpus;
        watts_left_ -= cluster.counted_now(job).value();
      } else {
        int level = 1;
        while (plan(one.kind, level).gpus != one.gpus) ++level;
        const double work = cluster.remaining_iterations(job);
        jobs_.push_back({job, one.kind, level, work, work * cost(cluster, one.kind, 1).energy.value()});
      }
    }
    double watts = watts_left_;
    choose(cluster, gpus, watts, more > 0.0);
    for (const Step& step : doublings_) {
      if (plan(step.kind, step.level).reaching == 0) continue;
      LevelPlan& next = plan(step.kind, step.level + 1);
      const int gpus_each = next.gpus - plan(step.kind, step.level).gpus;
      const double each = watts_of(cluster, step.kind, step.level + 1) - watts_of(cluster, step.kind, step.level);
      next.reaching = payable(std::min(plan(step.kind, step.level).reaching, gpus / gpus_each), each, watts);
      gpus -= next.reaching * gpus_each;
      watts -= next.reaching * each;
    }
    change_sizes(cluster);
    watts_left_ -= more;
    return gpus < cluster.gpus();
  }

  // Chooses which jobs have GPUs at all. The jobs that have some and those that wait are merged by the energy that they
  // have left. The least that a job takes depends only on its kind, so that when one that waits does not fit, no other
  // of its kind does.
  void choose(const ClusterState& cluster, int& gpus, double& watts, bool only_unmetered) {
    const auto take = [&](int kind, bool pinned = false) {
      LevelPlan& least = plan(kind, 1);
      const double draw = watts_of(cluster, kind, 1);
      const bool fits = least.gpus <= gpus && draw <= watts && (!only_unmetered || cluster.unmetered[at(kind)]);
      if (!fits && !pinned) return false;
      gpus -= least.gpus;
      watts -= draw;
      ++least.reaching;
      return true;
    };
    const auto is_pinned = [&](const JobPlan& one) { return cluster.jobs[at(one.job)].pinned; };
    std::ranges::sort(jobs_, {}, [&](const JobPlan& one) { return std::tuple(!is_pinned(one), one.joules, one.job); });
    auto walk = waiting_.queue.walk([&](std::size_t group, double work) {
      const int kind = static_cast<int>(group);
      const Watts starting(watts_of(cluster, kind, 1));
      return work * cost(cluster, kind, 1).energy.value() + (starting * cluster.restart_of(kind)).value();
    });
    const std::size_t running = jobs_.size();
    for (std::size_t next = 0; gpus > 0 && (next < running || !walk.done());) {
      const bool pinned = next < running && is_pinned(jobs_[next]);
      if (pinned || (next < running && walk.comes_after(jobs_[next].joules, jobs_[next].job))) {
        jobs_[next].level = take(jobs_[next].kind, pinned) ? 1 : 0;
        ++next;
      } else if (const auto [joules, job, group] = walk.front(); take(static_cast<int>(group))) {
        jobs_.push_back({job, static_cast<int>(group), 0, cluster.remaining_iterations(job), joules, 1});
        walk.pop();
      } else {
        walk.drop_group();
      }
    }
  }

  // Deals the sizes out to the jobs of each kind: those that have most keep most. Then shrinks jobs first, and lets
  // others grow while power lasts.
  void change_sizes(const ClusterState& cluster) {
    std::ranges::sort(
        jobs_, {}, [](const JobPlan& one) { return std::tuple(one.kind, -one.level, -one.now, -one.work, one.job); });
    for (JobPlan& one : jobs_) {
      std::vector<LevelPlan>& levels = levels_[at(one.kind)];
      one.level = 0;
      while (at(one.level) + 1 < levels.size() && levels[at(one.level) + 1].reaching-- > 0) ++one.level;
      if (one.level > 0) watts_left_ -= watts_of(cluster, one.kind, one.now);
    }
    // Growing costs a restart, so that a job that is nearly done is left alone.
    const auto pays = [&](const JobPlan& one) {
      const Seconds saved = cost(cluster, one.kind, one.now).time - cost(cluster, one.kind, one.level).time;
      return saved * one.work > cluster.restart_of(one.kind);
    };
    for (const bool growing : {false, true}) {
      for (JobPlan& one : jobs_) {
        if (one.level == 0 || (one.level > one.now) != growing) continue;
        const double now = watts_of(cluster, one.kind, one.now);
        const double more = watts_of(cluster, one.kind, one.level) - now;
        if (more <= std::max(0.0, watts_left_) && (one.now == 0 || !growing || pays(one))) {
          watts_left_ -= more;
        } else if (growing) {
          one.level = one.now;
        } else {
          one.level = 0;  // cannot even be profiled at a smaller size
          watts_left_ += now;
        }
      }
    }
  }

  // Raises speeds (lines 21-30), also of jobs that will be profiled now: those go up to the speed at which they would
  // run.
  void plan_speeds(const ClusterState& cluster) {
    for (const JobPlan& one : jobs_) ++plan(one.kind, one.level).having;
    for (const Step& step : raises_) {
      LevelPlan& here = plan(step.kind, step.level);
      if (here.having == 0) continue;
      const double each = watts_of(cluster, step.kind, step.level, step.speed + 1) -
                          watts_of(cluster, step.kind, step.level, step.speed);
      const int count = payable(here.having, each, watts_left_);
      if (count < here.having) {
        here.faster = count;
        return;
      }
      watts_left_ -= count * each;
      here.speed = step.speed + 1;
    }
  }

  // Adds what changes to the decision. Of the jobs that could have one speed more, those come first that have it.
  void emit(const ClusterState& cluster, Decision& decision) {
    for (JobPlan& one : jobs_) {
      one.is_faster = one.level == one.now && cluster.jobs[at(one.job)].speed == plan(one.kind, one.level).speed + 1;
    }
    // Most jobs stay as they are, whatever the others get.
    std::erase_if(jobs_, [&](const JobPlan& one) {
      const LevelPlan& here = plan(one.kind, one.level);
      return one.level == one.now && here.faster == 0 && cluster.jobs[at(one.job)].speed == here.speed;
    });
    std::ranges::sort(jobs_, {}, [](const JobPlan& one) { return std::tuple(one.kind, !one.is_faster, one.job); });
    for (const JobPlan& one : jobs_) {
      const ClusterJob& job = cluster.jobs[at(one.job)];
      LevelPlan& here = plan(one.kind, one.level);
      const bool stays = one.level == one.now;
      const bool faster = here.faster > 0 && (stays || !cluster.to_be_profiled(one.job, here.size));
      if (faster) --here.faster;
      const Assignment wanted{one.job, here.gpus, here.speed + (faster ? 1 : 0)};
      if (!stays || (here.gpus > 0 && wanted.speed != job.speed)) decision.assignments.push_back(wanted);
    }
  }

  std::vector<std::vector<LevelPlan>> levels_;  // by kind
  std::vector<Step> doublings_;                 // sorted, as are the raises
  std::vector<Step> raises_;
  WaitingJobs waiting_;  // by kind
  // Of the present decision:
  std::vector<JobPlan> jobs_;
  double watts_left_ = 0.0;
};

}  // namespace

void add_powerflow_policies(PolicyRegistry& registry) {
  registry.add("powerflow", "PowerFlow", PolicySetting::kBudget,
               [](const PolicyOptions& /*options*/) { return std::make_unique<PowerFlow>(); });
}

}  // namespace flyball
