// What a scheduler believes jobs to cost, and how it learns: models of each network's time and energy, fitted to what
// jobs of that network were profiled at (PowerFlow sections 4 and 5.2).
//
// Costs come from the model, which is smooth in the clock: differences between neighbouring clocks are smaller than the
// noise of a measurement. At a size that was profiled the model is scaled to what was measured there. Before anything is
// known of sizes with more GPUs, a guess stands in: each doubling is worth kGuessedScaling of two.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cluster/cluster_state.h"
#include "cluster/job_model.h"

namespace flyball {

inline constexpr double kGuessedScaling = 0.85;

// A profiled configuration: a size of a kind, on so many nodes.
struct ProfiledSize {
  int kind = 0;
  int size = 0;  // index in the kind's sizes
  int nodes = 1;

  auto operator<=>(const ProfiledSize&) const = default;
};

class CostBelief {
 public:
  // `typical`: power of one busy GPU at the highest clock, for the guess. Fills in the sheets of all kinds.
  CostBelief(const ClusterSpec& spec, const std::vector<ClusterJobKind>& kinds, std::vector<CostSheet>& believed);

  // A job was profiled; `measured` has the costs at every speed. The kinds whose believed costs changed, rising.
  [[nodiscard]] std::vector<int> learn(const ProfiledSize& what, const std::vector<IterationCost>& measured,
                                       std::vector<CostSheet>& believed);

  // Whether it was profiled: learning it again would change nothing.
  [[nodiscard]] bool knows(const ProfiledSize& what) const;

  [[nodiscard]] int fits() const { return fits_; }

 private:
  struct Network {
    std::string model;
    std::vector<int> kinds;
    std::vector<ProfiledSize> known;
    std::vector<JobMeasurement> measurements;
    std::size_t fitted_to = 0;  // of `known`, when last fitted
    JobModel fitted;
  };

  void refit(Network& network);
  void write_sheet(const Network& network, int kind, CostSheet& sheet) const;

  const ClusterSpec* spec_;
  const std::vector<ClusterJobKind>* kinds_;
  std::vector<Network> networks_;
  std::vector<std::size_t> network_of_;                            // by kind
  std::vector<std::vector<std::vector<IterationCost>>> measured_;  // by kind, size; empty: not profiled
  int fits_ = 0;
};

// How many nodes a job of that many GPUs has when it is packed.
[[nodiscard]] int packed_nodes(const ClusterSpec& spec, int gpus);

}  // namespace flyball
