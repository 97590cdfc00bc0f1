// Tiresias (Gu et al.: "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019), as PowerFlow compares
// with it (section 6.1): not elastic, not energy-aware, blind to how long jobs will run. With "+zeus", jobs run at the
// clock that Zeus chooses.
//
// Discretised 2D-LAS (section 3.3), by the rules and with the constants of the authors' simulator (dlas-gpu): what counts
// is attained service, a job's GPUs times the time that it held them. There are three queues. A job enters the first at
// its end and falls to the end of the next as its service reaches 3,250 and 7,200 GPU-seconds. Jobs of an earlier queue
// come first, and within a queue those that run stay ahead of those that wait; a job that does not fit is passed over. A
// job that has to give way loses its GPUs and restarts later. Promotion of starving jobs is off, as it is there.
//
// Discretised 2D-Gittins (sections 3.2, 3.3; "tiresias-gittins"): the same queues, but within one the jobs of the highest
// Gittins index come first, whether they run or wait: with S the service of a job that has had a, and D the service of
// the queue (no limit for the last),
//   G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a].
// The distribution of S is that of the jobs that have finished so far (the authors' simulator is given it beforehand, and
// takes 3,250 for every D); a job that has had more than all of them comes last. The index of a job that runs is read when
// something else happens, not all the time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cluster/policy_rules.h"

namespace flyball {
namespace {

constexpr std::array kThresholds = {3250.0, 7200.0};  // GPU-seconds, rising
constexpr std::size_t kQueues = kThresholds.size() + 1;
// Of a threshold: a job that is woken at it has passed it, whatever was rounded.
constexpr double kRounding = 1e-6;

// Whether a job that has had so much is through with the queue, which is not the last.
bool passes(double service, std::size_t queue) { return service >= kThresholds[queue] * (1.0 - kRounding); }

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
    for (Queue& queue : queues_) {
      std::erase_if(queue, [&](const Place& one) {
        return std::binary_search(events.finished.begin(), events.finished.end(), one.second);
      });
    }
    for (const int job : events.arrived) queues_.front().emplace_back(0.0, job);
    demote(cluster);
    if (gittins_) rank(cluster);
    order_.clear();
    queue_of_.resize(cluster.jobs.size());
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
      for (const auto& [index, job] : queues_[queue]) {
        order_.push_back(job);
        queue_of_[at(job)] = static_cast<std::uint8_t>(queue);
      }
    }
    const std::size_t running = run_in_order(cluster, speed_, order_, decision);
    wake_at_threshold(cluster, running, decision);
    if (gittins_) return;
    for (Queue& queue : queues_) queue.clear();
    for (const int job : order_) queues_[queue_of_[at(job)]].emplace_back(0.0, job);
  }

  [[nodiscard]] nlohmann::ordered_json save() const override { return nlohmann::ordered_json(queues_); }

  void restore(const ClusterState& cluster, const nlohmann::ordered_json& saved) override {
    saved.get_to(queues_);
    std::vector<int> all;
    for (const Queue& queue : queues_) {
      for (const auto& [index, job] : queue) all.push_back(job);
    }
    if (!std::is_permutation(all.begin(), all.end(), cluster.active.begin(), cluster.active.end())) {
      throw Error("those in the queues are not the jobs that are to be done");
    }
    for (std::size_t job = 0; job < cluster.jobs.size(); ++job) {
      if (cluster.jobs[job].phase == JobPhase::kDone) remember(cluster, static_cast<int>(job));
    }
  }

 private:
  using Place = std::pair<double, int>;  // index (the higher Gittins's, the lower), job
  using Queue = std::vector<Place>;

  static std::size_t at(int job) { return static_cast<std::size_t>(job); }

  void remember(const ClusterState& cluster, int job) {
    if (gittins_) history_.add(cluster.jobs[at(job)].gpu_time.value());
  }

  // Jobs that are through with their queue go to the end of the next; of several at once, who came first.
  void demote(const ClusterState& cluster) {
    for (std::size_t queue = 0; queue + 1 < kQueues; ++queue) {
      Queue& here = queues_[queue];
      Queue& next = queues_[queue + 1];
      const auto old_end = static_cast<std::ptrdiff_t>(next.size());
      std::erase_if(here, [&](const Place& one) {
        if (!passes(cluster.attained_gpu_seconds(one.second).value(), queue)) return false;
        next.push_back(one);
        return true;
      });
      std::sort(next.begin() + old_end, next.end(), [](const Place& a, const Place& b) { return a.second < b.second; });
    }
  }

  void rank(const ClusterState& cluster) {
    places_.resize(cluster.jobs.size());
    for (std::size_t queue = 0; queue < kQueues; ++queue) {
      for (auto& [index, job] : queues_[queue]) {
        const double had = cluster.attained_gpu_seconds(job).value();
        index = -history_.gittins_index(had, service_of(queue), places_[at(job)]);
      }
      sort_again(queues_[queue], apart_);
    }
  }

  // Those that run, the first `running` of the order, may be the ones that fall next.
  void wake_at_threshold(const ClusterState& cluster, std::size_t running, Decision& decision) const {
    for (std::size_t place = 0; place < running; ++place) {
      const int job = order_[place];
      const std::size_t queue = queue_of_[at(job)];
      if (queue + 1 == kQueues) continue;
      const double left = kThresholds[queue] - cluster.attained_gpu_seconds(job).value();
      const Seconds when = cluster.now + Seconds(left / cluster.jobs[at(job)].requested_gpus);
      decision.wake_at = decision.wake_at ? std::min(*decision.wake_at, when) : when;
    }
  }

  SpeedRule speed_;
  bool gittins_;
  ServiceHistory history_;
  std::array<Queue, kQueues> queues_;  // all active jobs
  std::vector<HistoryPlace> places_;   // by job
  // Reused:
  Queue apart_;
  std::vector<int> order_;
  std::vector<std::uint8_t> queue_of_;  // by job
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
