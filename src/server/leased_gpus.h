// Which GPUs jobs have, by what their leases say: ranks do not tell the server where they run. Whoever takes a lease
// names its job and rank, unchecked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "server/job.h"
#include "wire/fleet_messages.h"

namespace flyball {

// Of GPUs' clocks, as far as they are known.
class MeanClocks {
 public:
  void add(const WatchedGpu& gpu);
  [[nodiscard]] std::optional<double> held() const { return held_.mean(); }  // MHz
  [[nodiscard]] std::optional<double> asked() const {
    return asked_.mean();
  }  // MHz; the highest, where none is asked for

 private:
  struct Sum {
    double sum = 0.0;
    int count = 0;
    void add(const std::optional<Megahertz>& clock);
    [[nodiscard]] std::optional<double> mean() const { return count > 0 ? std::optional(sum / count) : std::nullopt; }
  };
  Sum held_;
  Sum asked_;
};

// What the GPUs of one job draw, and their clocks.
struct LeasedGpus {
  std::int64_t gpus = 0;
  Watts power;                                  // of those that tell it
  std::map<std::int64_t, Watts> power_of_rank;  // likewise, of leases that name a rank
  MeanClocks clocks;
};

// Returns those of all jobs that leases of nodes that answer name, by the job's id. Cost: linear in the GPUs.
[[nodiscard]] std::map<std::string, LeasedGpus> leased_gpus(const WatchedNodes& nodes);

// Returns what the stages draw of which ranks are known. Cost: linear in these ranks.
[[nodiscard]] std::map<int, Watts> power_of_stages(const Job& job, const LeasedGpus& leased);

[[nodiscard]] PowerNow power_now(const WatchedNodes& nodes);

// Returns the job's ranks with their GPUs, where one is known. Cost: linear in the ranks and the GPUs.
[[nodiscard]] JobRanks ranks_of(const Job& job, const WatchedNodes& nodes);

}  // namespace flyball
