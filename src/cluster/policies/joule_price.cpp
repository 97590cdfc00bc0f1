// Flyball's own scheduler. It solves the problem of PowerFlow's section 5.2 (least average JCT within a power limit,
// eqs. 18 and 19) by prices of the scarce resources instead of by two greedy queues (powerflow.cpp).
// docs/decisions/0022 says why, and what that gains.
//
// The unit of cost is a second of one job's time. There are three prices in this unit:
//   - A joule costs (1 - eta) / (eta P_max), where eta is the power limit over G P_max. A job then costs, up to a
//     factor, eta P_max JCT + (1 - eta) E, which is Zeus's cost (policy_rules.h) with Zeus's eta = 1 - eta. At eta = 1
//     only time counts, near 0 only energy, as PowerFlow means its eta. This price holds in quiet hours too, when the
//     limit does not bind.
//   - A GPU-second costs as much as needed for the jobs to choose no more GPUs than there are.
//   - A joule drawn now costs, in addition to the first price, as much as needed for the chosen sizes to stay within
//     the limit.
// At these prices each job takes the size and speed of the largest gain per second (offers.h),
//   worth / T - energy E / T - gpu n.
// Here worth is what an iteration of the job will have cost in the end: the least of T (1 + gpu' n) + energy E, at the
// price gpu' that GPUs will have when the job ends. Fewer jobs are left then, so that gpu' is lower the more work a job
// has left: if a share x of the other jobs outlasts it, gpu' is kLasting + (1 - kLasting) x of the present price. In
// this way short jobs take GPUs from long ones in proportion to how scarce GPUs are (as heSRPT, Berg et al. 2020, does
// for jobs without energies). Where GPUs are not scarce, no job is sped up beyond what a joule is worth.
//
// Prices lie on grids. Each price is searched for from its last value, by doubling steps and then by halving the
// interval. This tries some ten prices, each at a cost of O(jobs * sizes). In a cluster of more than 64 GPUs, prices
// are found again only every GPUs / 64 events. Between those, new jobs choose at the present prices, and GPUs that
// become free are left for them.
//
// Where GPUs or power do not suffice for all jobs, those with most left to pay wait first. A restart is weighed against
// what a size gains over the rest of the job. A job that is being profiled keeps its GPUs, and so does a pinned one, of
// which the speed is chosen as for all others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "base/index.h"
#include "cluster/policy.h"
#include "cluster/power_book.h"
#include "cluster/price_views.h"
#include "cluster/waiting_queue.h"

namespace flyball {
namespace {

// Enough for a curve. With all 18 speeds of a V100, profiling would hold a job 3.6 times as long.
constexpr int kProfiledSpeeds = 5;

constexpr int kPatience = 64;  // GPUs per event until prices are found again

struct Candidate : KindRank {  // `rank`: how many of the others outlast it
  int job = 0;
  int gpus = 0;           // that it has
  int level = -1;         // index of that number in the kind's sizes; -1: none
  bool restarts = false;  // if it gets another number of GPUs
  bool pinned = false;    // it keeps those that it has
  double work = 0.0;      // iterations left
  double cost = 0.0;      // of that work on the fewest GPUs at the thriftiest speed, with its restart
};

// The smallest of `steps` steps that is enough, searched for from `from`; the last one if none is. If a step is enough,
// all later ones are too, except for rounding.
template <typename IsEnough>
int first_enough(int steps, int from, IsEnough is_enough) {
  int low = -1;  // not enough
  int high = std::clamp(from, 0, steps - 1);
  int stride = 1;
  if (is_enough(high)) {
    while (high > 0) {
      const int next = std::max(0, high - stride);
      if (!is_enough(next)) {
        low = next;
        break;
      }
      high = next;
      stride *= 2;
    }
  } else {
    low = high;
    while (low < steps - 1) {
      high = std::min(steps - 1, low + stride);
      if (is_enough(high)) break;
      low = high;
      stride *= 2;
    }
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (is_enough(middle) ? high : low) = middle;
  }
  return high;
}

class JoulePrice : public Policy {
 public:
  [[nodiscard]] PolicyTraits traits() const override {
    return {.placement = PlacementRule::kPacked,
            .profiles = true,
            .profiles_kinds = true,
            .profiled_speeds = kProfiledSpeeds};
  }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    views_.read(cluster, events.kinds_changed, events.power_changed);
    waiting_.read(cluster, events, group_of, 2);
    choose_all(cluster, events, decision);
    waiting_.note(decision);
  }

 private:
  void choose_all(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) {
    const std::size_t count = events.arrived.size() + events.finished.size() + events.profiled.size();
    const bool anew = count == 0 || events.budget || !events.kinds_changed.empty() || !events.power_changed.empty();
    events_ += static_cast<int>(count);
    if (!anew && events_ * kPatience <= cluster.gpus() && fill_in(cluster, events, decision)) return;
    decision.clear();
    events_ = 0;
    gather(cluster);
    admit(cluster);
    find_prices(cluster);
    emit(cluster, decision);
  }

  // ---- costs

  // The speed that is assigned to a job with this choice: the chosen one or, where the job has to be profiled at the
  // size, the fastest of its profiling. As far as power is left, that includes faster speeds than the chosen one, since
  // they teach the models more.
  static int assigned_speed(const ClusterState& cluster, int job, const SizeOffers& size, const Offer& offer,
                            double& watts_left) {
    const ClusterJob& one = cluster.jobs[at(job)];
    if (size.gpus == one.gpus || !cluster.to_be_profiled(job, size.size)) return offer.speed;
    for (int speed = cluster.top_speed(job); speed > offer.speed; --speed) {
      const double more = cluster.counted(one.kind, at(size.size), at(speed)).value() - offer.watts;
      if (more > watts_left) continue;
      watts_left -= std::max(0.0, more);
      return speed;
    }
    return offer.speed;
  }

  // ---- which jobs may run

  // Leaves rank and cost open.
  [[nodiscard]] Candidate candidate_of(const ClusterState& cluster, int job) const {
    const ClusterJob& one = cluster.jobs[at(job)];
    Candidate made;
    made.job = job;
    made.kind = one.kind;
    made.gpus = one.gpus;
    made.restarts = one.first_start.value() >= 0.0;
    made.pinned = one.pinned;
    made.work = cluster.remaining_iterations(job);
    const std::vector<SizeOffers>& sizes = views_.offers(one.kind);
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      if (sizes[level].gpus == one.gpus) made.level = static_cast<int>(level);
    }
    return made;
  }

  // The cost of work on the fewest GPUs at the thriftiest speed.
  [[nodiscard]] double cost_of(std::size_t kind, double work) const {
    const Offer& thriftiest = views_.offers(static_cast<int>(kind)).front().speeds.front();
    return work * (thriftiest.time + views_.energy_price() * thriftiest.energy);
  }

  // Groups of jobs that wait: by kind, and by whether they have run before, since those cost a restart more.
  static std::size_t group_of(const ClusterJob& job) {
    return 2 * at(job.kind) + (job.first_start.value() >= 0.0 ? 1 : 0);
  }

  // Lists the jobs that have GPUs and may be changed, least cost first.
  void gather(const ClusterState& cluster) {
    gpus_ = cluster.gpus();
    watts_ = cluster.spendable_power().value();
    nobody_held_ = true;
    running_.clear();
    for (const int job : cluster.holding) {
      if (cluster.is_held(job)) {
        gpus_ -= cluster.jobs[at(job)].gpus;
        watts_ -= cluster.counted_now(job).value();
        nobody_held_ = false;
        continue;
      }
      Candidate next = candidate_of(cluster, job);
      next.cost = cost_of(at(next.kind), next.work);
      running_.push_back(next);
    }
    std::sort(running_.begin(), running_.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(!a.pinned, a.cost, a.job) < std::tuple(!b.pinned, b.cost, b.job);
    });
  }

  // Finds the candidates: the jobs for which there are GPUs and the least power. Those that run and are no candidates
  // are stopped. The least that a job takes depends only on its kind, so that when one that waits does not fit, no
  // other of its kind does.
  void admit(const ClusterState& cluster) {
    take_those_that_fit(cluster, watts_, false);
    // A reserve must not keep the only job waiting (power_book.h).
    if (candidates_.empty() && nobody_held_ && running_.size() + waiting_.queue.size() > 0) {
      watts_ = cluster.spendable_power().value() * (1.0 + kUnseenReserve);
      take_those_that_fit(cluster, watts_, true);
    }
  }

  void take_those_that_fit(const ClusterState& cluster, double left, bool only_unmetered) {
    candidates_.clear();
    stopped_.clear();
    stopped_gpus_ = 0;
    int gpus = gpus_;
    const auto fits = [&](int kind) {
      const SizeOffers& least = views_.offers(kind).front();
      return least.gpus <= gpus && least.leanest.watts <= left && (!only_unmetered || cluster.unmetered[at(kind)]);
    };
    auto walk = waiting_.queue.walk([&](std::size_t group, double work) {
      const Seconds restart = group % 2 == 1 ? cluster.restart_of(static_cast<int>(group / 2)) : Seconds(0.0);
      return cost_of(group / 2, work) + restart.value();
    });
    const auto jobs = static_cast<int>(running_.size() + waiting_.queue.size());
    const auto take = [&](Candidate one, std::size_t before) {
      const SizeOffers& least = views_.offers(one.kind).front();
      gpus -= least.gpus;
      left -= least.leanest.watts;
      one.rank = ((jobs - static_cast<int>(before)) * kRanks + jobs / 2) / jobs;
      candidates_.push_back(one);
    };
    std::size_t next = 0;  // of the jobs that run
    while (next < running_.size() || !walk.done()) {
      const bool pinned = next < running_.size() && running_[next].pinned;
      if (pinned || (next < running_.size() && walk.comes_after(running_[next].cost, running_[next].job))) {
        const Candidate& one = running_[next];
        if (pinned || fits(one.kind)) {
          take(one, next + walk.before(one.cost, one.job));
        } else {
          stopped_.push_back(one.job);
          stopped_gpus_ += one.gpus;
        }
        ++next;
        continue;
      }
      const auto [cost, job, group] = walk.front();
      if (!fits(static_cast<int>(group / 2))) {
        walk.drop_group();
        continue;
      }
      Candidate one = candidate_of(cluster, job);
      one.cost = cost;
      take(one, next + walk.before(cost, job));
      walk.pop();
    }
  }

  // ---- prices

  // The best choice of sizes up to `most` GPUs. A restart is charged against the gain over the rest of the job.
  SizeChoice choose(const ClusterState& cluster, const Candidate& one, PriceViews::Page& page, const PriceSteps& steps,
                    int most) {
    const PriceViews::View& seen = views_.view(page, one, steps);
    const std::vector<SizeOffers>& sizes = views_.offers(one.kind);
    const bool all_known =
        std::all_of(sizes.begin(), sizes.end(), [](const SizeOffers& size) { return size.unsure == 0.0; });
    if (all_known && seen.best.gpus <= most && time_lost(cluster, one, sizes[at(seen.best.level)]) == 0.0) {
      return seen.best;
    }
    const Gain* const gained_by = views_.gains(page, one);
    SizeChoice best;
    double most_gained = -std::numeric_limits<double>::infinity();
    // To stay as it is costs the job no restart, so that sizes which gain less than that even without one are skipped.
    const double least = one.level >= 0 && one.gpus <= most ? gained_by[one.level].value : most_gained;
    const auto consider = [&](std::size_t level, double value) {
      const Offer& offer = sizes[level].speeds[at(gained_by[level].offer)];
      const double gained = value - restart_loss(cluster, one, sizes[level], seen.worth, offer);
      if (gained <= most_gained) return;
      most_gained = gained;
      best = {static_cast<int>(level), gained_by[level].offer, sizes[level].gpus};
    };
    // Sizes are tried only where GPUs are left over. Otherwise, what an unmeasured size may turn out to be worth would
    // raise the price against jobs that know theirs, and all jobs would get less.
    const auto is_trial = [&](std::size_t level) {
      return steps.gpu == 0 && sizes[level].unsure > 0.0 && sizes[level].gpus != one.gpus;
    };
    for (std::size_t level = 0; level < sizes.size() && sizes[level].gpus <= most; ++level) {
      const double value = gained_by[level].value;
      if (!is_trial(level) && value >= least && value > most_gained) consider(level, value);
    }
    if (all_known || steps.gpu > 0) return best;
    const double sure = most_gained;
    for (std::size_t level = 0; level < sizes.size() && sizes[level].gpus <= most; ++level) {
      if (!is_trial(level)) continue;
      const double value = gained_by[level].value;
      const Offer& offer = sizes[level].speeds[at(gained_by[level].offer)];
      const double gross = seen.worth * offer.rate;
      if (!std::isfinite(sure)) {
        consider(level, value);
        continue;
      }
      if (gross < sizes[level].reach * (gross - value + sure)) continue;
      const double held = std::max(0.0, sure - value) * profiling_time(cluster) / std::max(1.0, one.work * offer.time);
      consider(level, value_of_trying(gross, sizes[level].unsure, gross - value, sure) - held);
    }
    return best;
  }

  // How long a job that tries a size must keep it.
  [[nodiscard]] static double profiling_time(const ClusterState& cluster) {
    return cluster.spec.profiling.value() * kProfiledSpeeds / static_cast<double>(cluster.spec.clocks.size());
  }

  // The time until a job runs with another size. It restarts, and waits for a node to wake if the jobs before it leave
  // too few GPUs of nodes that are on. If it has to wait for a node with every size, the wait counts for none. A size
  // that is tried may also cost the way back.
  [[nodiscard]] double time_lost(const ClusterState& cluster, const Candidate& one, const SizeOffers& size) const {
    if (size.gpus == one.gpus) return 0.0;
    const double restart = cluster.restart_of(one.kind).value();
    const int without_waking = one.gpus + on_;
    const bool wakes = size.gpus > without_waking && cluster.nodes_on < cluster.spec.nodes &&
                       (one.gpus > 0 || views_.offers(one.kind).front().gpus <= without_waking);
    // Restart and wake go on at the same time.
    const double change = cluster.change_of(one.kind, one.gpus, size.gpus).value();
    const double way_there = std::max(one.restarts ? change : 0.0, wakes ? cluster.spec.wake.value() : 0.0);
    return way_there + (size.unsure > 0.0 ? restart : 0.0);
  }

  // The cost of the time lost, spread over the rest of the job.
  [[nodiscard]] double restart_loss(const ClusterState& cluster, const Candidate& one, const SizeOffers& size,
                                    double worth, const Offer& offer) const {
    return time_lost(cluster, one, size) * worth * offer.rate / std::max(1.0, one.work * offer.time);
  }

  // Writes what all candidates choose into `choices`, and returns the sum of their GPUs.
  int ask(const ClusterState& cluster, const PriceSteps& steps, std::vector<SizeChoice>& choices) {
    PriceViews::Page& page = views_.page_at(steps);
    choices.resize(candidates_.size());
    on_ = cluster.free_gpus_on() + stopped_gpus_;
    int gpus = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      choices[i] = choose(cluster, candidates_[i], page, steps, gpus_);
      gpus += choices[i].gpus;
      on_ -= choices[i].gpus - candidates_[i].gpus;
    }
    return gpus;
  }

  [[nodiscard]] const SizeOffers& size_of(std::size_t candidate, const SizeChoice& choice) const {
    return views_.offers(candidates_[candidate].kind)[at(choice.level)];
  }

  [[nodiscard]] SizeChoice choice_of(std::size_t candidate, int level, int offer) const {
    return {level, offer, views_.offers(candidates_[candidate].kind)[at(level)].gpus};
  }

  [[nodiscard]] double watts_of(std::size_t candidate, const SizeChoice& choice) const {
    return size_of(candidate, choice).offer(choice.offer).watts;
  }

  // Finds choices that need no more GPUs than there are, and leave as few free as the sizes allow. Returns the watts
  // that they draw.
  double share_gpus(const ClusterState& cluster, int power_step) {
    int asked = -1;  // the GPU price at which `choices_` were made
    int used = 0;
    const auto fits = [&](int step) {
      asked = step;
      used = ask(cluster, {power_step, step}, choices_);
      return used <= gpus_;
    };
    gpu_step_ = first_enough(kGpuPrices, gpu_step_, fits);
    const bool others_known = asked == gpu_step_ - 1;
    if (others_known) std::swap(choices_, others_);
    if (asked != gpu_step_) fits(gpu_step_);
    int left = gpus_ - used;
    if (left < 0) {
      share_in_order(cluster, power_step);
    } else if (left > 0 && gpu_step_ > 0) {
      if (!others_known) ask(cluster, {power_step, gpu_step_ - 1}, others_);
      for (std::size_t i = 0; i < candidates_.size() && left > 0; ++i) {
        const int more = others_[i].gpus - choices_[i].gpus;
        if (more <= 0 || more > left) continue;
        choices_[i] = others_[i];
        left -= more;
      }
    }
    double sum = 0.0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) sum += watts_of(i, choices_[i]);
    return sum;
  }

  // Shares the GPUs if no price makes the choices fit (jobs that gain in proportion to their GPUs give none back). All
  // jobs get their fewest GPUs; then, in order, each gets what it would choose if GPUs cost nothing, as far as GPUs are
  // left.
  void share_in_order(const ClusterState& cluster, int power_step) {
    const PriceSteps steps{power_step, 0};
    ask(cluster, steps, others_);
    PriceViews::Page& page = views_.page_at(steps);
    int left = gpus_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      choices_[i] = choice_of(i, 0, views_.offer_at(page, candidates_[i], steps, 0));
      left -= choices_[i].gpus;
    }
    for (std::size_t i = 0; i < candidates_.size() && left > 0; ++i) {
      const int least = choices_[i].gpus;
      while (others_[i].level > 0 && size_of(i, others_[i]).gpus - least > left) --others_[i].level;
      if (others_[i].level == 0) continue;
      choices_[i] = choice_of(i, others_[i].level, views_.offer_at(page, candidates_[i], steps, others_[i].level));
      left -= choices_[i].gpus - least;
    }
  }

  void find_prices(const ClusterState& cluster) {
    int shared = -1;  // the power price at which `choices_` were made
    double draw = 0.0;
    const auto fits = [&](int step) {
      shared = step;
      draw = share_gpus(cluster, step);
      return draw <= watts_;
    };
    power_step_ = first_enough(kPowerPrices, power_step_, fits);
    if (shared != power_step_) fits(power_step_);
    double left = watts_ - draw;
    if (left < 0.0) {
      // admit() has made room for at least these.
      for (std::size_t i = 0; i < candidates_.size(); ++i) choices_[i] = choice_of(i, 0, kLeanest);
      return;
    }
    spend_rest(cluster, left);
  }

  // Since prices come in steps and sizes double, GPUs and watts are left over. They are free now: in order, each job
  // takes what it gains by.
  void spend_rest(const ClusterState& cluster, double watts_left) {
    int gpus_left = gpus_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) gpus_left -= choices_[i].gpus;
    if (gpus_left == 0 && power_step_ == 0) return;  // every job has what it wants
    const PriceSteps steps{power_step_, gpu_step_};
    PriceViews::Page& page = views_.page_at(steps);
    on_ = cluster.free_gpus_on() + stopped_gpus_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) on_ -= choices_[i].gpus - candidates_[i].gpus;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      const std::vector<SizeOffers>& sizes = views_.offers(one.kind);
      const double worth = views_.view(page, one, steps).worth;
      const SizeChoice now = choices_[i];
      const int gpus_now = now.gpus;
      on_ += gpus_now - one.gpus;
      const double watts_then = watts_left + watts_of(i, now);
      double most_gained = -std::numeric_limits<double>::infinity();
      for (std::size_t level = at(now.level); level < sizes.size(); ++level) {
        if (sizes[level].gpus - gpus_now > gpus_left) break;
        for (int offer = 0; offer < static_cast<int>(sizes[level].speeds.size()); ++offer) {
          const Offer& each = sizes[level].speeds[at(offer)];
          if (each.watts > watts_then) continue;
          const double gained = worth * each.rate - views_.energy_price() * each.power -
                                restart_loss(cluster, one, sizes[level], worth, each);
          if (gained <= most_gained) continue;
          most_gained = gained;
          choices_[i] = {static_cast<int>(level), offer, sizes[level].gpus};
        }
      }
      gpus_left -= choices_[i].gpus - gpus_now;
      on_ -= choices_[i].gpus - one.gpus;
      watts_left = watts_then - watts_of(i, choices_[i]);
    }
  }

  // ---- decisions

  static void assign(const ClusterState& cluster, int job, int gpus, int speed, Decision& decision) {
    const ClusterJob& one = cluster.jobs[at(job)];
    if (gpus != one.gpus || (gpus > 0 && speed != one.speed)) decision.assignments.push_back({job, gpus, speed});
  }

  void emit(const ClusterState& cluster, Decision& decision) {
    for (const int job : stopped_) assign(cluster, job, 0, 0, decision);
    double left = watts_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) left -= watts_of(i, choices_[i]);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const SizeOffers& size = size_of(i, choices_[i]);
      const Offer& offer = size.offer(choices_[i].offer);
      const int job = candidates_[i].job;
      assign(cluster, job, size.gpus, assigned_speed(cluster, job, size, offer, left), decision);
    }
    std::sort(decision.assignments.begin(), decision.assignments.end(),
              [](const Assignment& a, const Assignment& b) { return a.job < b.job; });
  }

  // Decides only about jobs that have arrived or have been profiled, at the present prices. Returns false if GPUs or
  // power do not suffice.
  bool fill_in(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) {
    int gpus = cluster.free_gpus;
    on_ = cluster.free_gpus_on();
    double left = cluster.spendable_power().value();
    for (const int job : cluster.holding) left -= cluster.counted_now(job).value();
    const PriceSteps steps{power_step_, gpu_step_};
    PriceViews::Page& page = views_.page_at(steps);
    for (const std::vector<int>* list : {&events.arrived, &events.profiled}) {
      for (const int job : *list) {
        const ClusterJob& one = cluster.jobs[at(job)];
        if (!one.active()) continue;
        Candidate candidate = candidate_of(cluster, job);
        candidate.rank = kRanks / 2;
        const SizeChoice choice = choose(cluster, candidate, page, steps, gpus + one.gpus);
        if (choice.level < 0) return false;
        const SizeOffers& size = views_.offers(one.kind)[at(choice.level)];
        gpus -= choice.gpus - one.gpus;
        on_ -= choice.gpus - one.gpus;
        const Offer& offer = size.speeds[at(choice.offer)];
        left -= offer.watts - (one.has_gpus() ? cluster.counted_now(job).value() : 0.0);
        if (left < 0.0) return false;
        assign(cluster, job, choice.gpus, assigned_speed(cluster, job, size, offer, left), decision);
      }
    }
    return true;
  }

  PriceViews views_;
  int gpu_step_ = 0;
  int power_step_ = 0;
  int events_ = 0;  // since prices were found
  WaitingJobs waiting_;
  // While a decision is made:
  int gpus_ = 0;  // that can be given
  double watts_ = 0.0;
  bool nobody_held_ = true;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> running_;
  std::vector<int> stopped_;
  int stopped_gpus_ = 0;
  int on_ = 0;  // free GPUs of nodes that are on, after the choices so far
  std::vector<SizeChoice> choices_;
  std::vector<SizeChoice> others_;
};

}  // namespace

void add_joule_price_policies(PolicyRegistry& registry) {
  registry.add("joule-price", "Joule price", PolicySetting::kBudget,
               [](const PolicyOptions& /*options*/) { return std::make_unique<JoulePrice>(); });
}

}  // namespace flyball
