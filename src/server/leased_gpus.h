// Which GPUs jobs have, by what their leases say: ranks do not tell the server where they run. Whoever takes a lease
// names its job and rank, unchecked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"
#include "server/job.h"
#include "wire/fleet_messages.h"

namespace flyball {

// What the GPUs of one job draw.
struct LeasedPower {
  std::int64_t gpus = 0;
  Watts power;                                  // of those that tell it
  std::map<std::int64_t, Watts> power_of_rank;  // likewise, of leases that name a rank
};

// Returns that of all jobs that leases of nodes that answer name, by the job's id. Cost: linear in the GPUs.
[[nodiscard]] std::map<std::string, LeasedPower> leased_power(const WatchedNodes& nodes);

// Returns what the stages draw of which ranks are known. Cost: linear in these ranks.
[[nodiscard]] std::map<int, Watts> power_of_stages(const Job& job, const LeasedPower& leased);

[[nodiscard]] PowerNow power_now(const WatchedNodes& nodes);

// Returns the job's ranks with their GPUs, where one is known. Cost: linear in the ranks and the GPUs.
[[nodiscard]] JobRanks ranks_of(const Job& job, const WatchedNodes& nodes);

}  // namespace flyball
