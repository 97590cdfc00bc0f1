// How many iterations so much money or energy buys.
#pragma once

#include <functional>
#include <optional>

#include "base/units.h"
#include "forecast/bill.h"

namespace flyball {

// One of the two.
struct Budget {
  std::optional<double> money;
  std::optional<Joules> energy;
};

// Energy and duration of a run of so many iterations. It may throw InputError for runs that never end.
struct RunCost {
  Joules energy;
  Seconds duration;
};
using CostOfIterations = std::function<RunCost(double iterations)>;

// Returns the most whole iterations that the budget pays for, at most 1e12; 0 where not even one. Energy and duration
// must rise with the iterations. Throws UsageError for money without a price, and with prices below zero, with which a
// longer run may cost less. Cost: some 60 to 80 evaluations.
[[nodiscard]] double iterations_within(const Budget& budget, const Tariff& tariff, const CostOfIterations& cost);

}  // namespace flyball
