// The plan file that a server hands to Zeus's clients: the texts that its ranks get, and an identity by which it is
// recognised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan_file.h"

namespace flyball {

struct GivenPlan {
  std::vector<std::string> tails;  // by stage: what follows the rank in the answer (zeus_tail(), schedule_text.h)
  std::uint64_t identity = 0;      // a hash of the texts, never 0; a file with the same texts is the same plan
};

// Makes the texts of the point that the file marks as selected, or else of its first. Throws InputError where the file
// has no point, and where an option sets a power limit, since the answer has clocks alone. Other labels reach the
// trainer by a file of its own (kareus_schedules()).
[[nodiscard]] GivenPlan given_plan_of(const PlanFile& file, const std::string& source);

}  // namespace flyball
