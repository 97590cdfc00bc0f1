// PowerFlow by prices: the problem of PowerFlow's section 5.2 (least average JCT within a power limit, eqs. 18 and 19),
// solved by what its resources are worth instead of by two greedy queues (powerflow_paper.cpp). docs/decisions/0022 says
// why, and what it is worth.
//
// A second of one job's time is worth 1. Three prices are in those units:
//   - of a joule: (1 - eta) / (eta P_max), eta being the power limit over G P_max. A job then costs eta P_max JCT +
//     (1 - eta) E, which is Zeus's cost (policy_rules.h) with Zeus's eta = 1 - eta: at 1 only time counts, near 0 only
//     energy, as PowerFlow's eta is meant. It holds in quiet hours too, when the limit does not bind.
//   - of a GPU-second, so that what jobs choose is at most the GPUs there are;
//   - of a joule drawn now, beyond the first, so that what they choose is within the limit.
// At these prices every job has the size and speed of the largest gain per second (offers.h):
//   worth / T - energy E / T - gpu n,
// worth being what an iteration of it will have cost: the least of T (1 + gpu' n) + energy E at the price gpu' that GPUs
// have when the job ends. Fewer jobs are left then, so gpu' is lower the more work a job has left: a job with a share x
// of the others outlasting it reckons with kLasting + (1 - kLasting) x of the present price. That is what leads short jobs
// to take GPUs from long ones, in the proportion in which GPUs are scarce (as heSRPT, Berg et al. 2020, does for jobs
// without energies), and where no GPU is scarce nobody is hurried beyond what a joule is worth.
//
// Prices are on grids, found from where they were by doubling steps and halving intervals: O(jobs * sizes) a try, some
// ten tries. In a cluster of more than 64 GPUs they are found again every GPUs / 64 events; between those, what is new takes
// what it likes best at the prices there are, and GPUs that become free wait for it.
//
// Jobs for whom there is no GPU, or no power, wait, those with most left to pay. A restart is weighed against what a size
// gains for the rest of the job. A job that is profiled keeps its GPUs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "cluster/offers.h"
#include "cluster/policy.h"
#include "cluster/power_book.h"

namespace flyball {
namespace {

// Of the present price of a GPU, what counts for a job that all others outlast by far.
constexpr double kLasting = 0.6;
constexpr int kRanks = 8;  // by which that is rounded

// GPU prices: 0, then rising by a tenth, to where a GPU is worth more than any job.
constexpr int kGpuPrices = 180;
double gpu_price(int step) { return step == 0 ? 0.0 : 1e-3 * std::pow(1.1, step - 1); }

// What comes to the price of a joule: 0, then rising by a fifth.
constexpr int kPowerPrices = 90;
double power_price(int step) { return step == 0 ? 0.0 : 1e-5 * std::pow(1.2, step - 1); }

constexpr std::size_t kMostViews = 200'000;  // kept, some 200 bytes each

constexpr int kPatience = 64;  // GPUs per event until prices are found again

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Choice {
  int level = -1;  // of the kind's sizes; -1: none
  std::size_t offer = 0;
};

struct Candidate {
  int job = 0;
  int kind = 0;
  double work = 0.0;  // iterations left
  double cost = 0.0;  // of it, on the fewest GPUs at the thriftiest speed, with its restart
  int rank = 0;       // of kRanks: how many of the others outlast it
};

// The smallest step of `steps` that is enough, looking near `from` first; the last one where none is. What is enough stays so
// for all later steps, but for what rounding makes of it.
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

class PowerFlow : public Policy {
 public:
  [[nodiscard]] PolicyTraits traits() const override {
    return {.placement = PlacementRule::kPacked, .powers_down_nodes = true, .profiles = true, .profiles_kinds = true};
  }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    read_offers(cluster, events);
    read_energy_price(cluster);
    const std::size_t count = events.arrived.size() + events.finished.size() + events.profiled.size();
    const bool anew = count == 0 || events.budget || !events.kinds_changed.empty() || !events.power_changed.empty();
    events_ += static_cast<int>(count);
    if (!anew && events_ * kPatience <= cluster.spec.gpus() && fill_in(cluster, events, decision)) return;
    decision.clear();
    events_ = 0;
    gather(cluster);
    admit(cluster);
    find_prices(cluster);
    emit(cluster, decision);
  }

  [[nodiscard]] nlohmann::ordered_json save() const override {
    return {{"events", events_}, {"gpu_price", gpu_step_}, {"power_price", power_step_}};
  }

  void restore(const ClusterState& /*cluster*/, const nlohmann::ordered_json& saved) override {
    if (!saved.is_object()) return;
    saved.at("events").get_to(events_);
    gpu_step_ = std::clamp(saved.at("gpu_price").get<int>(), 0, kGpuPrices - 1);
    power_step_ = std::clamp(saved.at("power_price").get<int>(), 0, kPowerPrices - 1);
  }

 private:
  // ---- what is known

  void read_offers(const ClusterState& cluster, const ClusterEvents& events) {
    if (offers_.empty()) {
      offers_.resize(cluster.kinds.size());
      versions_.resize(cluster.kinds.size());
      for (int kind = 0; kind < static_cast<int>(offers_.size()); ++kind) offers_[at(kind)] = offers_of(cluster, kind);
      return;
    }
    for (const int kind : events.kinds_changed) {
      offers_[at(kind)] = offers_of(cluster, kind);
      ++versions_[at(kind)];
    }
    for (const int kind : events.power_changed) offers_[at(kind)] = offers_of(cluster, kind);
  }

  void read_energy_price(const ClusterState& cluster) {
    const double all = cluster.spec.p_max.value() * cluster.spec.gpus();
    const double eta = cluster.power_limit.value() / all;
    const double price = eta >= 1.0 ? 0.0 : (1.0 - eta) / (std::max(eta, 1e-3) * cluster.spec.p_max.value());
    if (price != energy_price_) views_.clear();
    energy_price_ = price;
  }

  [[nodiscard]] const std::vector<SizeOffers>& offers(const ClusterState& cluster, int job) const {
    return offers_[at(cluster.jobs[at(job)].kind)];
  }

  [[nodiscard]] double watts(const ClusterState& cluster, int job, const SizeOffers& size, std::size_t offer) const {
    const double running = size.speeds[offer].watts;
    return cluster.to_be_profiled(job, size.size) ? std::max(running, size.profile_watts) : running;
  }

  // What a job with GPUs counts with as it is.
  [[nodiscard]] double watts_now(const ClusterState& cluster, int job) const {
    const ClusterJob& one = cluster.jobs[at(job)];
    if (one.phase == JobPhase::kProfiling) return one.power.value();  // the meter tells
    const auto size = at(cluster.kinds[at(one.kind)].size_index(one.gpus));
    const double running = cluster.counted(one.kind, size, at(one.speed)).value();
    if (!one.to_profile) return running;
    for (const SizeOffers& each : offers(cluster, job)) {
      if (each.gpus == one.gpus) return std::max(running, each.profile_watts);
    }
    return running;
  }

  // ---- who may run

  // All jobs that are free to be changed, those first that have least to pay for.
  void gather(const ClusterState& cluster) {
    gpus_ = cluster.spec.gpus();
    watts_ = cluster.power_limit.value();
    nobody_held_ = true;
    candidates_.clear();
    for (const int job : cluster.active) {
      const ClusterJob& one = cluster.jobs[at(job)];
      if (cluster.is_held(job)) {
        gpus_ -= one.gpus;
        watts_ -= watts_now(cluster, job);
        nobody_held_ = false;
        continue;
      }
      const Offer& thriftiest = offers(cluster, job).front().speeds.front();
      Candidate next{job, one.kind, cluster.remaining_iterations(job), 0.0, 0};
      next.cost = next.work * (thriftiest.time + energy_price_ * thriftiest.energy);
      if (!one.has_gpus() && one.first_start.value() >= 0.0) next.cost += cluster.spec.restart.value();
      candidates_.push_back(next);
    }
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.job < b.job;
    });
    const auto jobs = static_cast<int>(candidates_.size());
    for (int i = 0; i < jobs; ++i) candidates_[at(i)].rank = ((jobs - i) * kRanks + jobs / 2) / jobs;
  }

  // Those for whom there is a GPU and the least power; the others are dropped from the candidates.
  void admit(const ClusterState& cluster) {
    waiting_.clear();
    std::size_t admitted = 0;
    int gpus = gpus_;
    double left = watts_;
    const auto take_those_that_fit = [&] {
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        const SizeOffers& least = offers(cluster, candidates_[i].job).front();
        const double draws = watts(cluster, candidates_[i].job, least, 0);
        if (least.gpus > gpus || draws > left) {
          waiting_.push_back(candidates_[i].job);
          continue;
        }
        gpus -= least.gpus;
        left -= draws;
        candidates_[admitted++] = candidates_[i];
      }
    };
    take_those_that_fit();
    // A reserve must not keep the only job waiting: nothing would ever be metered.
    if (admitted == 0 && nobody_held_ && !candidates_.empty()) {
      waiting_.clear();
      watts_ = left = cluster.power_limit.value() * (1.0 + kUnseenReserve);
      take_those_that_fit();
    }
    candidates_.resize(admitted);
  }

  // ---- prices

  // The steps of both prices.
  struct Steps {
    int power = 0;
    int gpu = 0;
  };

  [[nodiscard]] Prices prices_at(const Steps& steps) const {
    return {energy_price_ + power_price(steps.power), gpu_price(steps.gpu)};
  }

  // What a kind would choose at some prices, by rank.
  struct View {
    int version = -1;  // of the kind's offers
    int best = 0;      // level, for a job that need not restart
    double worth = 0.0;
    std::vector<Gain> gains;  // by level
  };
  using Page = std::vector<View>;  // at one pair of prices, by kind and rank

  // Decisions come back to the same few prices, so what was seen there is kept.
  Page& page_at(const Steps& steps) {
    const std::size_t views = offers_.size() * (kRanks + 1);
    if (views_.size() * views > kMostViews) views_.clear();
    Page& page = views_[steps.power * kGpuPrices + steps.gpu];
    page.resize(views);
    return page;
  }

  const View& view(Page& page, const Candidate& one, const Steps& steps) {
    View& seen = page[at(one.kind) * (kRanks + 1) + at(one.rank)];
    if (seen.version == versions_[at(one.kind)]) return seen;
    seen.version = versions_[at(one.kind)];
    const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
    const Prices prices = prices_at(steps);
    const double lasting = kLasting + (1.0 - kLasting) * one.rank / kRanks;
    seen.worth = least_cost(sizes, {energy_price_, prices.gpu * lasting});
    seen.gains.resize(sizes.size());
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      seen.gains[level] = best_gain(sizes[level], seen.worth, prices);
      if (level == 0 || seen.gains[level].value > seen.gains[at(seen.best)].value) seen.best = static_cast<int>(level);
    }
    return seen;
  }

  // Of sizes up to `most` GPUs. A restart is paid from what the rest of the job gains.
  Choice choose(const ClusterState& cluster, const Candidate& one, Page& page, const Steps& steps, int most) {
    const ClusterJob& job = cluster.jobs[at(one.job)];
    const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
    const View& seen = view(page, one, steps);
    const int liked = sizes[at(seen.best)].gpus;
    if (liked <= most && (job.first_start.value() < 0.0 || liked == job.gpus)) {
      return {seen.best, seen.gains[at(seen.best)].offer};
    }
    Choice best;
    double most_gained = -std::numeric_limits<double>::infinity();
    for (std::size_t level = 0; level < sizes.size() && sizes[level].gpus <= most; ++level) {
      const Offer& offer = sizes[level].speeds[seen.gains[level].offer];
      const double gained = seen.gains[level].value - restart_loss(cluster, one, sizes[level].gpus, seen.worth, offer);
      if (gained <= most_gained) continue;
      most_gained = gained;
      best = {static_cast<int>(level), seen.gains[level].offer};
    }
    return best;
  }

  // What a restart takes, spread over the rest of the job.
  [[nodiscard]] static double restart_loss(const ClusterState& cluster, const Candidate& one, int gpus, double worth,
                                           const Offer& offer) {
    const ClusterJob& job = cluster.jobs[at(one.job)];
    if (job.first_start.value() < 0.0 || gpus == job.gpus) return 0.0;
    return cluster.spec.restart.value() * worth * offer.rate / std::max(1.0, one.work * offer.time);
  }

  // What all candidates choose, into `choices`; how many GPUs that is.
  int ask(const ClusterState& cluster, const Steps& steps, std::vector<Choice>& choices) {
    Page& page = page_at(steps);
    choices.resize(candidates_.size());
    int gpus = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      choices[i] = choose(cluster, candidates_[i], page, steps, gpus_);
      gpus += size_of(i, choices[i]).gpus;
    }
    return gpus;
  }

  [[nodiscard]] const SizeOffers& size_of(std::size_t candidate, const Choice& choice) const {
    return offers_[at(candidates_[candidate].kind)][at(choice.level)];
  }

  [[nodiscard]] double watts_of(const ClusterState& cluster, std::size_t candidate, const Choice& choice) const {
    return watts(cluster, candidates_[candidate].job, size_of(candidate, choice), choice.offer);
  }

  // Choices that need no more GPUs than there are, and leave as few as the sizes allow; the watts that they draw.
  double share_gpus(const ClusterState& cluster, int power_step) {
    int asked = -1;  // the step that the choices are of
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
        const int more = size_of(i, others_[i]).gpus - size_of(i, choices_[i]).gpus;
        if (more <= 0 || more > left) continue;
        choices_[i] = others_[i];
        left -= more;
      }
    }
    double sum = 0.0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) sum += watts_of(cluster, i, choices_[i]);
    return sum;
  }

  // Where no price makes them fit (jobs that gain as much as they are given never give GPUs back): all have the fewest,
  // and the first ones of what is left what they would like if GPUs cost nothing, or what there is of it.
  void share_in_order(const ClusterState& cluster, int power_step) {
    const Steps steps{power_step, 0};
    ask(cluster, steps, others_);
    Page& page = page_at(steps);
    int left = gpus_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      choices_[i] = {0, view(page, candidates_[i], steps).gains.front().offer};
      left -= size_of(i, choices_[i]).gpus;
    }
    for (std::size_t i = 0; i < candidates_.size() && left > 0; ++i) {
      const int least = size_of(i, choices_[i]).gpus;
      while (others_[i].level > 0 && size_of(i, others_[i]).gpus - least > left) --others_[i].level;
      if (others_[i].level == 0) continue;
      choices_[i] = {others_[i].level, view(page, candidates_[i], steps).gains[at(others_[i].level)].offer};
      left -= size_of(i, choices_[i]).gpus - least;
    }
  }

  void find_prices(const ClusterState& cluster) {
    int shared = -1;  // the step that the choices are of
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
      // All of it is what admit() has made room for.
      std::fill(choices_.begin(), choices_.end(), Choice{0, 0});
      return;
    }
    spend_rest(cluster, left);
  }

  // Prices in steps, and sizes that double, leave GPUs and watts over. They cost nothing more now: the first ones take what
  // they gain by.
  void spend_rest(const ClusterState& cluster, double watts_left) {
    int gpus_left = gpus_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) gpus_left -= size_of(i, choices_[i]).gpus;
    if (gpus_left == 0 && power_step_ == 0) return;  // what they want is what they have
    const Steps steps{power_step_, gpu_step_};
    Page& page = page_at(steps);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
      const double worth = view(page, one, steps).worth;
      const Choice now = choices_[i];
      const int gpus_now = sizes[at(now.level)].gpus;
      const double watts_then = watts_left + watts_of(cluster, i, now);
      double most_gained = -std::numeric_limits<double>::infinity();
      for (std::size_t level = at(now.level); level < sizes.size(); ++level) {
        if (sizes[level].gpus - gpus_now > gpus_left) break;
        for (std::size_t offer = 0; offer < sizes[level].speeds.size(); ++offer) {
          const Offer& each = sizes[level].speeds[offer];
          if (watts(cluster, one.job, sizes[level], offer) > watts_then) continue;
          const double gained = worth * each.rate - energy_price_ * each.power -
                                restart_loss(cluster, one, sizes[level].gpus, worth, each);
          if (gained <= most_gained) continue;
          most_gained = gained;
          choices_[i] = {static_cast<int>(level), offer};
        }
      }
      gpus_left -= size_of(i, choices_[i]).gpus - gpus_now;
      watts_left = watts_then - watts_of(cluster, i, choices_[i]);
    }
  }

  // ---- decisions

  static void assign(const ClusterState& cluster, int job, int gpus, int speed, Decision& decision) {
    const ClusterJob& one = cluster.jobs[at(job)];
    if (gpus != one.gpus || (gpus > 0 && speed != one.speed)) decision.assignments.push_back({job, gpus, speed});
  }

  void emit(const ClusterState& cluster, Decision& decision) {
    for (const int job : waiting_) assign(cluster, job, 0, 0, decision);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const SizeOffers& size = size_of(i, choices_[i]);
      assign(cluster, candidates_[i].job, size.gpus, size.speeds[choices_[i].offer].speed, decision);
    }
    std::sort(decision.assignments.begin(), decision.assignments.end(),
              [](const Assignment& a, const Assignment& b) { return a.job < b.job; });
  }

  // Only jobs that have come or have been profiled, at the prices there are. False where GPUs or power are not enough.
  bool fill_in(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) {
    int gpus = cluster.free_gpus;
    double left = cluster.power_limit.value();
    for (const int job : cluster.active) {
      if (cluster.jobs[at(job)].has_gpus()) left -= watts_now(cluster, job);
    }
    const Steps steps{power_step_, gpu_step_};
    Page& page = page_at(steps);
    for (const std::vector<int>* list : {&events.arrived, &events.profiled}) {
      for (const int job : *list) {
        const ClusterJob& one = cluster.jobs[at(job)];
        if (!one.active()) continue;
        const Candidate candidate{job, one.kind, cluster.remaining_iterations(job), 0.0, kRanks / 2};
        const Choice choice = choose(cluster, candidate, page, steps, gpus + one.gpus);
        if (choice.level < 0) return false;
        const SizeOffers& size = offers(cluster, job)[at(choice.level)];
        gpus -= size.gpus - one.gpus;
        left -= watts(cluster, job, size, choice.offer) - (one.has_gpus() ? watts_now(cluster, job) : 0.0);
        if (left < 0.0) return false;
        assign(cluster, job, size.gpus, size.speeds[choice.offer].speed, decision);
      }
    }
    return true;
  }

  std::vector<std::vector<SizeOffers>> offers_;  // by kind
  std::vector<int> versions_;                    // of what they cost, to tell when it changes
  std::map<int, Page> views_;                    // by steps
  double energy_price_ = 0.0;
  int gpu_step_ = 0;
  int power_step_ = 0;
  int events_ = 0;  // since prices were found
  // Of the decision that is being made:
  int gpus_ = 0;  // that are free to be given
  double watts_ = 0.0;
  bool nobody_held_ = true;
  std::vector<Candidate> candidates_;
  std::vector<int> waiting_;
  std::vector<Choice> choices_;
  std::vector<Choice> others_;
};

}  // namespace

void add_powerflow_policies(PolicyRegistry& registry) {
  registry.add("powerflow", "PowerFlow", PolicySetting::kBudget,
               [](const PolicyOptions& /*options*/) { return std::make_unique<PowerFlow>(); });
}

}  // namespace flyball
