// Flyball's own scheduler: the problem of PowerFlow's section 5.2 (least average JCT within a power limit, eqs. 18 and 19),
// solved by what its resources are worth, a joule among them, instead of by two greedy queues (powerflow.cpp).
// docs/decisions/0022 says why, and what it is worth.
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
constexpr std::size_t kRankCount = kRanks + 1;

// 0, then rising by a tenth, to where a GPU is worth more than any job.
constexpr int kGpuPrices = 180;

// What comes to the price of a joule: 0, then rising by a fifth.
constexpr int kPowerPrices = 90;

std::vector<double> rising_prices(int steps, double first, double factor) {
  std::vector<double> prices{0.0};
  for (int step = 1; step < steps; ++step) prices.push_back(first * std::pow(factor, step - 1));
  return prices;
}

constexpr std::size_t kMostViews = 200'000;  // kept, some 150 bytes each

constexpr int kPatience = 64;  // GPUs per event until prices are found again

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Choice {
  int level = -1;  // of the kind's sizes; -1: none
  int offer = 0;
  int gpus = 0;
};

struct Candidate {
  int job = 0;
  int kind = 0;
  int gpus = 0;           // that it has
  int level = -1;         // of the kind's sizes, of that many; -1: none
  bool restarts = false;  // where it gets another number
  int rank = 0;           // of kRanks: how many of the others outlast it
  double work = 0.0;      // iterations left
  double cost = 0.0;      // of it, on the fewest GPUs at the thriftiest speed, with its restart
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

class JoulePrice : public Policy {
 public:
  [[nodiscard]] PolicyTraits traits() const override {
    return {.placement = PlacementRule::kPacked, .profiles = true, .profiles_kinds = true};
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
      first_gain_ = {0};
      for (int kind = 0; kind < static_cast<int>(offers_.size()); ++kind) {
        offers_[at(kind)] = offers_of(cluster, kind);
        for (std::size_t rank = 0; rank < kRankCount; ++rank) {
          first_gain_.push_back(first_gain_.back() + offers_[at(kind)].size());
        }
      }
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
    if (price != energy_price_) {
      pages_.clear();
      worths_.clear();
    }
    energy_price_ = price;
  }

  [[nodiscard]] const std::vector<SizeOffers>& offers(const ClusterState& cluster, int job) const {
    return offers_[at(cluster.jobs[at(job)].kind)];
  }

  [[nodiscard]] double watts(const ClusterState& cluster, int job, const SizeOffers& size, int offer) const {
    const double running = size.speeds[at(offer)].watts;
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

  // Without its rank and its cost.
  [[nodiscard]] Candidate candidate_of(const ClusterState& cluster, int job) const {
    const ClusterJob& one = cluster.jobs[at(job)];
    Candidate made;
    made.job = job;
    made.kind = one.kind;
    made.gpus = one.gpus;
    made.restarts = one.first_start.value() >= 0.0;
    made.work = cluster.remaining_iterations(job);
    const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      if (sizes[level].gpus == one.gpus) made.level = static_cast<int>(level);
    }
    return made;
  }

  // All jobs that are free to be changed, those first that have least to pay for.
  void gather(const ClusterState& cluster) {
    gpus_ = cluster.spec.gpus();
    watts_ = cluster.spendable_power().value();
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
      Candidate next = candidate_of(cluster, job);
      next.cost = next.work * (thriftiest.time + energy_price_ * thriftiest.energy);
      if (next.gpus == 0 && next.restarts) next.cost += cluster.spec.restart.value();
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
      watts_ = left = cluster.spendable_power().value() * (1.0 + kUnseenReserve);
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
    return {energy_price_ + power_prices_[at(steps.power)], gpu_prices_[at(steps.gpu)]};
  }

  // What a kind would choose at some prices, by rank.
  struct View {
    int version = -1;  // of the kind's offers
    Choice best;       // of a job that need not restart
    double worth = 0.0;
  };
  // At one pair of prices.
  struct Page {
    std::vector<View> views;  // by kind and rank
    std::vector<Gain> gains;  // and level
  };
  struct Worth {
    int version = -1;  // of the kind's offers
    double value = 0.0;
  };

  // Decisions come back to the same few prices, so what was seen there is kept.
  Page& page_at(const Steps& steps) {
    const std::size_t views = offers_.size() * kRankCount;
    if (pages_.size() * views > kMostViews) pages_.clear();
    Page& page = pages_[steps.power * kGpuPrices + steps.gpu];
    page.views.resize(views);
    page.gains.resize(first_gain_.back());
    return page;
  }

  static std::size_t view_index(const Candidate& one) { return at(one.kind) * kRankCount + at(one.rank); }
  [[nodiscard]] Gain* gains(Page& page, const Candidate& one) const {
    return page.gains.data() + first_gain_[view_index(one)];
  }

  const View& view(Page& page, const Candidate& one, const Steps& steps) {
    View& seen = page.views[view_index(one)];
    if (seen.version != versions_[at(one.kind)]) look(seen, gains(page, one), one, steps);
    return seen;
  }

  int offer_at(Page& page, const Candidate& one, const Steps& steps, int level) {
    (void)view(page, one, steps);
    return gains(page, one)[level].offer;
  }

  void look(View& seen, Gain* gains, const Candidate& one, const Steps& steps) {
    const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
    const Prices prices = prices_at(steps);
    seen.version = versions_[at(one.kind)];
    seen.worth = worth_of(one, steps.gpu);
    std::size_t best = 0;
    for (std::size_t level = 0; level < sizes.size(); ++level) {
      gains[level] = best_gain(sizes[level], seen.worth, prices);
      if (gains[level].value > gains[best].value) best = level;
    }
    seen.best = {static_cast<int>(best), gains[best].offer, sizes[best].gpus};
  }

  // The price of power is not for long, and has no part in it.
  double worth_of(const Candidate& one, int gpu_step) {
    worths_.resize(kGpuPrices * offers_.size() * kRankCount);
    Worth& seen = worths_[at(gpu_step) * offers_.size() * kRankCount + view_index(one)];
    if (seen.version != versions_[at(one.kind)]) {
      const double lasting = kLasting + (1.0 - kLasting) * one.rank / kRanks;
      seen.version = versions_[at(one.kind)];
      seen.value = least_cost(offers_[at(one.kind)], {energy_price_, gpu_prices_[at(gpu_step)] * lasting});
    }
    return seen.value;
  }

  // Of sizes up to `most` GPUs. A restart is paid from what the rest of the job gains.
  Choice choose(const ClusterState& cluster, const Candidate& one, Page& page, const Steps& steps, int most) {
    const View& seen = view(page, one, steps);
    if (seen.best.gpus <= most && (!one.restarts || seen.best.gpus == one.gpus)) return seen.best;
    const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
    const Gain* const gained_by = gains(page, one);
    Choice best;
    double most_gained = -std::numeric_limits<double>::infinity();
    // Staying as it is costs no restart: what gains less than that without one is not looked at.
    const double least = one.level >= 0 && one.gpus <= most ? gained_by[one.level].value : most_gained;
    for (std::size_t level = 0; level < sizes.size() && sizes[level].gpus <= most; ++level) {
      if (gained_by[level].value < least || gained_by[level].value <= most_gained) continue;
      const Offer& offer = sizes[level].speeds[at(gained_by[level].offer)];
      const double gained = gained_by[level].value - restart_loss(cluster, one, sizes[level].gpus, seen.worth, offer);
      if (gained <= most_gained) continue;
      most_gained = gained;
      best = {static_cast<int>(level), gained_by[level].offer, sizes[level].gpus};
    }
    return best;
  }

  // What a restart takes, spread over the rest of the job.
  [[nodiscard]] static double restart_loss(const ClusterState& cluster, const Candidate& one, int gpus, double worth,
                                           const Offer& offer) {
    if (!one.restarts || gpus == one.gpus) return 0.0;
    return cluster.spec.restart.value() * worth * offer.rate / std::max(1.0, one.work * offer.time);
  }

  // What all candidates choose, into `choices`; how many GPUs that is.
  int ask(const ClusterState& cluster, const Steps& steps, std::vector<Choice>& choices) {
    Page& page = page_at(steps);
    choices.resize(candidates_.size());
    int gpus = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      choices[i] = choose(cluster, candidates_[i], page, steps, gpus_);
      gpus += choices[i].gpus;
    }
    return gpus;
  }

  [[nodiscard]] const SizeOffers& size_of(std::size_t candidate, const Choice& choice) const {
    return offers_[at(candidates_[candidate].kind)][at(choice.level)];
  }

  [[nodiscard]] Choice choice_of(std::size_t candidate, int level, int offer) const {
    return {level, offer, offers_[at(candidates_[candidate].kind)][at(level)].gpus};
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
        const int more = others_[i].gpus - choices_[i].gpus;
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
      choices_[i] = choice_of(i, 0, offer_at(page, candidates_[i], steps, 0));
      left -= choices_[i].gpus;
    }
    for (std::size_t i = 0; i < candidates_.size() && left > 0; ++i) {
      const int least = choices_[i].gpus;
      while (others_[i].level > 0 && size_of(i, others_[i]).gpus - least > left) --others_[i].level;
      if (others_[i].level == 0) continue;
      choices_[i] = choice_of(i, others_[i].level, offer_at(page, candidates_[i], steps, others_[i].level));
      left -= choices_[i].gpus - least;
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
      for (std::size_t i = 0; i < candidates_.size(); ++i) choices_[i] = choice_of(i, 0, 0);
      return;
    }
    spend_rest(cluster, left);
  }

  // Prices in steps, and sizes that double, leave GPUs and watts over. They cost nothing more now: the first ones take what
  // they gain by.
  void spend_rest(const ClusterState& cluster, double watts_left) {
    int gpus_left = gpus_;
    for (std::size_t i = 0; i < candidates_.size(); ++i) gpus_left -= choices_[i].gpus;
    if (gpus_left == 0 && power_step_ == 0) return;  // what they want is what they have
    const Steps steps{power_step_, gpu_step_};
    Page& page = page_at(steps);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Candidate& one = candidates_[i];
      const std::vector<SizeOffers>& sizes = offers_[at(one.kind)];
      const double worth = view(page, one, steps).worth;
      const Choice now = choices_[i];
      const int gpus_now = now.gpus;
      const double watts_then = watts_left + watts_of(cluster, i, now);
      double most_gained = -std::numeric_limits<double>::infinity();
      for (std::size_t level = at(now.level); level < sizes.size(); ++level) {
        if (sizes[level].gpus - gpus_now > gpus_left) break;
        for (int offer = 0; offer < static_cast<int>(sizes[level].speeds.size()); ++offer) {
          const Offer& each = sizes[level].speeds[at(offer)];
          if (watts(cluster, one.job, sizes[level], offer) > watts_then) continue;
          const double gained = worth * each.rate - energy_price_ * each.power -
                                restart_loss(cluster, one, sizes[level].gpus, worth, each);
          if (gained <= most_gained) continue;
          most_gained = gained;
          choices_[i] = {static_cast<int>(level), offer, sizes[level].gpus};
        }
      }
      gpus_left -= choices_[i].gpus - gpus_now;
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
      assign(cluster, candidates_[i].job, size.gpus, size.speeds[at(choices_[i].offer)].speed, decision);
    }
    std::sort(decision.assignments.begin(), decision.assignments.end(),
              [](const Assignment& a, const Assignment& b) { return a.job < b.job; });
  }

  // Only jobs that have come or have been profiled, at the prices there are. False where GPUs or power are not enough.
  bool fill_in(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) {
    int gpus = cluster.free_gpus;
    double left = cluster.spendable_power().value();
    for (const int job : cluster.active) {
      if (cluster.jobs[at(job)].has_gpus()) left -= watts_now(cluster, job);
    }
    const Steps steps{power_step_, gpu_step_};
    Page& page = page_at(steps);
    for (const std::vector<int>* list : {&events.arrived, &events.profiled}) {
      for (const int job : *list) {
        const ClusterJob& one = cluster.jobs[at(job)];
        if (!one.active()) continue;
        Candidate candidate = candidate_of(cluster, job);
        candidate.rank = kRanks / 2;
        const Choice choice = choose(cluster, candidate, page, steps, gpus + one.gpus);
        if (choice.level < 0) return false;
        const SizeOffers& size = offers(cluster, job)[at(choice.level)];
        gpus -= choice.gpus - one.gpus;
        left -= watts(cluster, job, size, choice.offer) - (one.has_gpus() ? watts_now(cluster, job) : 0.0);
        if (left < 0.0) return false;
        assign(cluster, job, choice.gpus, size.speeds[at(choice.offer)].speed, decision);
      }
    }
    return true;
  }

  std::vector<std::vector<SizeOffers>> offers_;  // by kind
  std::vector<int> versions_;                    // of what they cost, to tell when it changes
  std::vector<std::size_t> first_gain_;          // of a page's views, by view_index(), and all
  std::map<int, Page> pages_;                    // by steps
  std::vector<Worth> worths_;                    // by GPU step, kind and rank
  const std::vector<double> gpu_prices_ = rising_prices(kGpuPrices, 1e-3, 1.1);
  const std::vector<double> power_prices_ = rising_prices(kPowerPrices, 1e-5, 1.2);
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

void add_joule_price_policies(PolicyRegistry& registry) {
  registry.add("joule-price", "Joule price", PolicySetting::kBudget,
               [](const PolicyOptions& /*options*/) { return std::make_unique<JoulePrice>(); });
}

}  // namespace flyball
