// What a scheduler believes jobs to cost, and how it learns: models of each network's time and energy, fitted to what
// jobs of that network were profiled at (PowerFlow sections 4 and 5.2).
//
// Costs come from the model, which is smooth in the clock: differences between neighbouring clocks are smaller than the
// noise of a measurement. At a size that was profiled the model is scaled to what was measured there. Before anything
// is known of other sizes a guess stands in: a doubling is worth kGuessedScaling of two within a node, and
// kGuessedScalingApart where it takes more nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/cluster_state.h"
#include "cluster/job_model.h"

namespace flyball {

inline constexpr double kGuessedScaling = 0.85;
inline constexpr double kGuessedScalingApart = 0.65;

// A profiled configuration: a size of a kind, on so many nodes.
struct ProfiledSize {
  int kind = 0;
  int size = 0;  // index in the kind's sizes
  int nodes = 1;

  auto operator<=>(const ProfiledSize&) const = default;
};

// And the speeds that it was profiled at, rising.
struct ProfiledSpeeds {
  ProfiledSize at;
  std::vector<int> speeds;
};

class CostBelief {
 public:
  // Fills in the sheets of all kinds with guesses.
  CostBelief(const ClusterSpec& spec, const std::vector<ClusterJobKind>& kinds, std::vector<CostSheet>& believed);

  // A job was profiled; `measured` has the costs by speed, of which those of `what` are read. What was measured before
  // at the same size and speed is replaced. The kinds whose believed costs changed, rising.
  [[nodiscard]] std::vector<int> learn(const ProfiledSpeeds& what, const std::vector<IterationCost>& measured,
                                       std::vector<CostSheet>& believed);

  // Whether all of it was profiled before.
  [[nodiscard]] bool knows(const ProfiledSpeeds& what) const;

  [[nodiscard]] int fits() const { return fits_; }

 private:
  using SpeedCosts = std::map<int, IterationCost>;
  struct Network {
    std::string model;
    std::vector<int> kinds;
    std::map<ProfiledSize, SpeedCosts> known;
    std::size_t points = 0;     // in `known`, as many of a size as a fit looks at
    std::size_t fitted_to = 0;  // of them, when last fitted
    JobModel fitted;
  };

  void refit(Network& network);
  [[nodiscard]] std::vector<JobMeasurement> measurements(const Network& network) const;
  void add_guesses(std::vector<JobMeasurement>& points) const;
  void write_sheet(const Network& network, int kind, CostSheet& sheet) const;

  const ClusterSpec* spec_;
  const std::vector<ClusterJobKind>* kinds_;
  std::vector<Network> networks_;
  std::vector<std::size_t> network_of_;  // by kind
  int fits_ = 0;
};

// How many nodes a job of that many GPUs has when it is packed.
[[nodiscard]] int packed_nodes(const ClusterSpec& spec, int gpus);

}  // namespace flyball
