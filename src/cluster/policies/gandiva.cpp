// Gandiva (Xiao et al.: "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018), as PowerFlow compares
// with it (section 6.1): not elastic, not energy-aware. With "+zeus", jobs run at the clock that Zeus chooses.
//
// What is modelled of it: time slicing (section 4.1). Jobs are never refused GPUs for long: where not all that wait fit,
// all jobs take turns, in slices of one minute. A job that waits is served before those that just ran, in the order in
// which they last ran; one that does not fit in what is left of a slice is passed over for smaller ones and comes
// first in the next, when all GPUs are dealt out again. GPUs that fall free within a slice go to whoever waits. Suspended
// jobs stay in the hosts' memory, and resume within a second.
//
// What is not: two jobs packed on one GPU, which the simulator does not know; migration within a slice; growing into
// idle GPUs, which PowerFlow's comparison leaves out, too.
#include <algorithm>
#include <optional>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cluster/policy_rules.h"

namespace flyball {
namespace {

constexpr Seconds kSlice{60.0};
constexpr Seconds kResume{1.0};  // section 4.1: from 0.1 s to 1 s, by the size of the model

class Gandiva : public Policy {
 public:
  explicit Gandiva(const SpeedRule& speed) : speed_(speed) {}

  [[nodiscard]] PolicyTraits traits() const override { return {PlacementRule::kAnywhere, false, false, kResume}; }

  void decide(const ClusterState& cluster, const ClusterEvents& events, Decision& decision) override {
    std::erase_if(line_,
                  [&](int job) { return std::binary_search(events.finished.begin(), events.finished.end(), job); });
    line_.insert(line_.end(), events.arrived.begin(), events.arrived.end());
    const auto runs = [&](int job) { return cluster.jobs[static_cast<std::size_t>(job)].has_gpus(); };
    const bool slice_over = slice_end_ && *slice_end_ <= cluster.now;
    if (slice_over) std::stable_partition(line_.begin(), line_.end(), [&](int job) { return !runs(job); });
    order_ = line_;
    if (!slice_over) std::stable_partition(order_.begin(), order_.end(), runs);
    if (run_in_order(cluster, speed_, order_, decision) == order_.size()) {
      slice_end_.reset();  // nobody waits
    } else if (!slice_end_ || slice_over) {
      slice_end_ = cluster.now + kSlice;
    }
    decision.wake_at = slice_end_;
  }

  [[nodiscard]] nlohmann::ordered_json save() const override {
    return {{"line", line_},
            {"slice_end", slice_end_ ? nlohmann::ordered_json(slice_end_->value()) : nlohmann::ordered_json(nullptr)}};
  }

  void restore(const ClusterState& cluster, const nlohmann::ordered_json& saved) override {
    saved.at("line").get_to(line_);
    if (!saved.at("slice_end").is_null()) slice_end_ = Seconds(saved.at("slice_end").get<double>());
    if (!std::is_permutation(line_.begin(), line_.end(), cluster.active.begin(), cluster.active.end())) {
      throw Error("those in line are not the jobs that are to be done");
    }
  }

 private:
  SpeedRule speed_;
  std::vector<int> line_;  // all active jobs
  std::optional<Seconds> slice_end_;
  std::vector<int> order_;  // reused
};

}  // namespace

void add_gandiva_policies(PolicyRegistry& registry) {
  registry.add("gandiva", "Gandiva", PolicySetting::kClock,
               [](const PolicyOptions& options) { return std::make_unique<Gandiva>(SpeedRule::one_clock(options)); });
  registry.add("gandiva+zeus", "Gandiva + Zeus", PolicySetting::kZeusEta,
               [](const PolicyOptions& options) { return std::make_unique<Gandiva>(SpeedRule::zeus(options)); });
}

}  // namespace flyball
