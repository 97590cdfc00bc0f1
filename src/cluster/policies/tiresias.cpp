// Tiresias (Gu et al.: "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019), as PowerFlow compares
// with it (section 6.1): not elastic, not energy-aware, blind to how long jobs will run. With "+zeus", jobs run at the
// clock that Zeus chooses.
//
// Discretised 2D-LAS (section 3.3): what counts is attained service, a job's GPUs times the time that it held them. Jobs
// begin in the first queue and fall to the next as their service passes its threshold; those of an earlier queue come
// first, and within a queue those submitted first. A job that has to give way loses its GPUs and restarts later.
//
// Discretised 2D-Gittins (sections 3.2, 3.3; "tiresias-gittins"): the same queues, but within one the jobs of the highest
// Gittins index come first: with S the service of a job that has had a, and D the service of the queue (no limit for the
// last),
//   G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a].
// The distribution of S is that of the jobs that have finished so far; a job that has had more than all of them comes
// last. The index of a job that runs is read when something else happens, not all the time.
//
// Threshold and D are those of the authors' simulator: two queues, 3,250 GPU-seconds. Their promotion of starving jobs is
// off, as it is there (PROMOTEKNOB infinite).
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "cluster/policy_rules.h"

namespace flyball {
namespace {

constexpr std::array kThresholds = {3250.0};  // GPU-seconds, rising
// Of a threshold: a job that is woken at it has passed it, whatever was rounded.
constexpr double kRounding = 1e-6;

std::size_t queue_of(double service) {
  std::size_t queue = 0;
  while (queue < kThresholds.size() && service >= kThresholds[queue] * (1.0 - kRounding)) ++queue;
  return queue;
}

double service_of(std::size_t queue) {
  if (queue == kThresholds.size()) return std::numeric_limits<double>::infinity();
  return kThresholds[queue] - (queue == 0 ? 0.0 : kThresholds[queue - 1]);
}

// Where a job stood in the history when its index was last asked for: what waits has the same as long as nothing finishes.
struct HistoryPlace {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t jobs = SIZE_MAX;  // of the history
  double had = 0.0;
  double index = 0.0;
};

// Services of finished jobs. Index O(log of how far the job has moved in it), adding O(jobs).
class ServiceHistory {
 public:
  void add(double service) {
    const auto place = std::upper_bound(services_.begin(), services_.end(), service);
    summed_ = std::min(summed_, static_cast<std::size_t>(place - services_.begin()));
    services_.insert(place, service);
  }

  [[nodiscard]] double gittins_index(double had, double quantum, HistoryPlace& place) {
    if (place.jobs == services_.size() && place.had == had) return place.index;
    sum_up();
    place = {above(had, place.from), above(had + quantum, place.to), services_.size(), had, 0.0};
    return place.index = index_of(place.from, place.to, had, quantum);
  }

 private:
  [[nodiscard]] double index_of(std::size_t from, std::size_t to, double had, double quantum) const {
    if (from == services_.size()) return 0.0;
    const auto ending = static_cast<double>(to - from);
    double expected = sums_[to] - sums_[from] - had * ending;
    if (to < services_.size()) expected += quantum * static_cast<double>(services_.size() - to);
    return ending / expected;
  }

  // How many are at most `service`; looked for around `guess`.
  [[nodiscard]] std::size_t above(double service, std::size_t guess) const {
    std::size_t low = std::min(guess, services_.size());
    std::size_t high = low;
    for (std::size_t step = 1; high < services_.size() && services_[high] <= service; step *= 2) {
      low = high + 1;
      high = std::min(services_.size(), high + step);
    }
    for (std::size_t step = 1; low > 0 && services_[low - 1] > service; step *= 2) {
      high = low - 1;
      low = low > step ? low - step : 0;
    }
    const auto begin = services_.begin();
    return static_cast<std::size_t>(
        std::upper_bound(begin + static_cast<std::ptrdiff_t>(low), begin + static_cast<std::ptrdiff_t>(high), service) -
        begin);
  }

  void sum_up() {
    if (summed_ == services_.size()) return;
    sums_.resize(services_.size() + 1, 0.0);
    for (; summed_ < services_.size(); ++summed_) sums_[summed_ + 1] = sums_[summed_] + services_[summed_];
  }

  std::vector<double> services_;  // rising
  std::vector<double> sums_;      // of the first so many
  std::size_t summed_ = 0;        // so many of them are right
};

class Tiresias : public Policy {
 public:
  Tiresias(const SpeedRule& speed, bool gittins) : speed_(speed), gittins_(gittins) {}

  [[nodiscard]] PolicyTraits traits() const override { return {}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    for (const int job : events.finished) remember(cluster, job);
    if (ranked_.empty()) {  // also after a restart
      for (const int job : cluster.active) ranked_.emplace_back(0, 0.0, job);
    } else {
      std::erase_if(ranked_, [&](const auto& one) {
        return std::binary_search(events.finished.begin(), events.finished.end(), std::get<int>(one));
      });
      for (const int job : events.arrived) ranked_.emplace_back(0, 0.0, job);
    }
    places_.resize(cluster.jobs.size());
    for (auto& [queue, index, job] : ranked_) {
      const double had = cluster.attained_gpu_seconds(job).value();
      queue = queue_of(had);
      if (!gittins_) continue;
      index = -history_.gittins_index(had, service_of(queue), places_[static_cast<std::size_t>(job)]);
    }
    sort_again(ranked_, apart_);
    order_.clear();
    for (const auto& [queue, index, job] : ranked_) order_.push_back(job);
    const std::size_t running = run_in_order(cluster, speed_, order_, decision);
    if (running < order_.size()) wake_at_threshold(cluster, running, decision);
  }

  // Queues follow from the jobs.
  void restore(const ClusterState& cluster, const nlohmann::ordered_json& /*saved*/) override {
    for (std::size_t job = 0; job < cluster.jobs.size(); ++job) {
      if (cluster.jobs[job].phase == JobPhase::kDone) remember(cluster, static_cast<int>(job));
    }
  }

 private:
  void remember(const ClusterState& cluster, int job) {
    if (gittins_) history_.add(cluster.jobs[static_cast<std::size_t>(job)].gpu_time.value());
  }

  // Somebody waits, so that it matters when one of those that run falls to the next queue.
  void wake_at_threshold(const ClusterState& cluster, std::size_t running, Decision& decision) const {
    for (std::size_t place = 0; place < running; ++place) {
      const int job = order_[place];
      const double had = cluster.attained_gpu_seconds(job).value();
      const std::size_t queue = queue_of(had);
      if (queue == kThresholds.size()) continue;
      const int gpus = cluster.jobs[static_cast<std::size_t>(job)].requested_gpus;
      const Seconds at = cluster.now + Seconds((kThresholds[queue] - had) / gpus);
      decision.wake_at = decision.wake_at ? std::min(*decision.wake_at, at) : at;
    }
  }

  SpeedRule speed_;
  bool gittins_;
  ServiceHistory history_;
  using Rank = std::tuple<std::size_t, double, int>;  // queue, index, job
  std::vector<Rank> ranked_;                          // all active jobs, as they were ranked last
  std::vector<HistoryPlace> places_;                  // by job
  std::vector<Rank> apart_;                           // reused, as is the order
  std::vector<int> order_;
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
