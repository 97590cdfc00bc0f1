// The plan file that a server hands to Zeus's clients, as what its ranks are told, and by what it is known again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan_file.h"

namespace flyball {

struct GivenPlan {
  std::vector<std::string> tails;  // by stage, what follows the rank in the answer (zeus_tail, schedule_text.h)
  std::uint64_t identity = 0;      // of all of that, never 0: another file that says the same is the same plan
};

// Of the file's selected point, else its first. Throws InputError where the file has no point.
[[nodiscard]] GivenPlan given_plan_of(const PlanFile& file, const std::string& source);

}  // namespace flyball
