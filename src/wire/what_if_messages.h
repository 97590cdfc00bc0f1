// What somebody asks a server to plan without a job for it.
#pragma once

#include <string>
#include <vector>

#include "base/record.h"
#include "base/units.h"

namespace flyball {

inline constexpr std::size_t kLongestProfile = 1u << 20u;  // bytes

// POST /v1/what-if. The answer is plan_set_json() (plan/plan_set.h).
struct WhatIfRequest {
  std::string job;                    // whose measurements and pipeline are taken; empty: those below
  std::string profile;                // as CSV text
  std::string schedule;               // empty: the job's, or 1f1b
  int microbatches = 0;               // 0: the job's
  int chunks = 0;                     // 0: the job's, or 1
  std::vector<Watts> blocking_power;  // one for all stages, or one per stage; empty: the job's, or as measured
  std::string planner;                // "all" for all of them; empty: the main one
};

[[nodiscard]] Record<WhatIfRequest> description_of(const WhatIfRequest*);

}  // namespace flyball
