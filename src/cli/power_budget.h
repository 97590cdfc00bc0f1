// A power budget over time, as `flyball plan --budget` reads it (docs/formats/budget.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"

namespace flyball {

// The power that all GPUs of a job together may draw from one time until another.
struct BudgetPeriod {
  std::string from;  // as in the file
  std::string until;
  Seconds length;
  Watts power;
};

// Returns the periods in the order of time, at least one. Throws SystemError where the file cannot be read, and
// InputError with line and column where it is no budget: times that do not rise, powers that are not above zero.
[[nodiscard]] std::vector<BudgetPeriod> read_power_budget(const std::filesystem::path& path);

}  // namespace flyball
