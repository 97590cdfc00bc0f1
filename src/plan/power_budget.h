// A power budget over time, as `flyball plan --budget` and `flyball cluster budget --file` take it
// (docs/formats/budget.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace flyball {

// The power that all GPUs of a job or cluster together may draw from one time until another.
struct BudgetPeriod {
  std::string from;  // as in the file
  std::string until;
  Seconds length;
  Watts power;
  std::optional<Seconds> begin{};  // Unix time; none where the file has seconds since any moment
};

// Returns the periods in the order of time, at least one. `source` is the name of the file in errors. Throws InputError
// with line and column where the text is no budget: times that do not rise, powers that are not above zero. Cost:
// linear.
[[nodiscard]] std::vector<BudgetPeriod> read_power_budget(const std::string& source, std::string_view text);

// The same of a file. Throws SystemError, too, where it cannot be read.
[[nodiscard]] std::vector<BudgetPeriod> read_power_budget_file(const std::filesystem::path& path);

}  // namespace flyball
