// What a scheduler believes jobs to cost, and how it learns that: models of each network's time and energy are fitted
// to measurements of jobs that were profiled (PowerFlow sections 4 and 5.2).
//
// Believed costs come from the model even where there are measurements, since the model is smooth in the clock, while
// the costs of neighbouring clocks differ by less than a measurement's noise. At a size that was profiled, the model is
// scaled to what was measured there. About sizes of which nothing is known yet, the scheduler guesses: doubling the
// GPUs speeds a job up by kGuessedScaling times two within a node, and by kGuessedScalingApart times two if it takes
// more nodes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster_state.h"
#include "cluster/job_model.h"

namespace flyball {

inline constexpr double kGuessedScaling = 0.85;
inline constexpr double kGuessedScalingApart = 0.65;

// A configuration that was profiled: a size of a kind, on so many nodes.
struct ProfiledSize {
  int kind = 0;
  int size = 0;  // index in the kind's sizes
  int nodes = 1;

  auto operator<=>(const ProfiledSize&) const = default;
};

// A profiled size with the speeds at which it was profiled, rising.
struct ProfiledSpeeds {
  ProfiledSize at;
  std::vector<int> speeds;
};

// Returns the cost of an iteration that profiling has measured at a size and speed.
using MeasuredCosts = std::function<IterationCost(const ProfiledSize& what, int speed)>;

// Not thread-safe.
class CostBelief {
 public:
  // Of no kind yet. `spec` and `kinds` must outlive this object.
  CostBelief(const ClusterSpec& spec, const std::vector<ClusterJobKind>& kinds) : spec_(&spec), kinds_(&kinds) {}

  // Must be called once for each kind, in their order. Fills its sheet with what its network is believed to cost, or
  // with guesses; a pipeline's costs are known and stay.
  void add_kind(int kind, CostSheet& sheet);

  // Learns from a job that was profiled: asks `measured` what it has shown at each of the speeds, which replaces what
  // was known of the same size and speed. Returns the kinds whose believed costs have changed, rising.
  [[nodiscard]] std::vector<int> learn(const ProfiledSpeeds& what, const MeasuredCosts& measured,
                                       std::vector<CostSheet>& believed);

  // Tells whether this size was profiled before at this speed.
  [[nodiscard]] bool knows(const ProfiledSize& what, int speed) const;

  // How many times a model was fitted.
  [[nodiscard]] int fits() const { return fits_; }

 private:
  using SpeedCosts = std::map<int, IterationCost>;
  struct Network {
    std::string model;
    std::vector<int> kinds;
    std::map<ProfiledSize, SpeedCosts> known;
    std::size_t points = 0;     // points in `known` that a fit would use
    std::size_t fitted_to = 0;  // `points` when the model was last fitted
    JobModel fitted;
  };

  void refit(Network& network);
  [[nodiscard]] std::vector<JobMeasurement> measurements(const Network& network) const;
  void add_guesses(std::vector<JobMeasurement>& points) const;
  void write_sheet(const Network& network, int kind, CostSheet& sheet) const;
  void write_size(const Network& network, int kind, int size, CostSheet& sheet) const;

  const ClusterSpec* spec_;
  const std::vector<ClusterJobKind>* kinds_;
  std::vector<Network> networks_;
  std::vector<std::size_t> network_of_;  // by kind
  int fits_ = 0;
};

// Returns on how many nodes a packed job of that many GPUs lies.
[[nodiscard]] int packed_nodes(const ClusterSpec& spec, int gpus);

}  // namespace flyball
