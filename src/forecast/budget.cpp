// Doubles the iterations until the budget is spent, then halves the range in which it is.
#include "forecast/budget.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace flyball {

double iterations_within(const Budget& budget, const Tariff& tariff, const CostOfIterations& cost) {
  constexpr double kMostIterations = 1e12;
  if (budget.money && !tariff.has_price()) throw UsageError("--budget of money needs --price; of energy, write 40kWh");
  if (budget.money && tariff.prices &&
      std::any_of(tariff.prices->per_kwh.begin(), tariff.prices->per_kwh.end(),
                  [](double price) { return price < 0.0; })) {
    throw UsageError("--budget with prices below zero: a longer run may cost less; write the budget in kWh");
  }
  const auto pays_for = [&](double iterations) {
    try {
      const RunCost run = cost(iterations);
      return budget.energy ? run.energy <= *budget.energy : *tariff.cost(run.energy, run.duration) <= *budget.money;
    } catch (const InputError&) {
      return false;  // a run that never ends
    }
  };
  if (!pays_for(1.0)) return 0.0;
  double low = 1.0;
  double high = 2.0;
  while (high < kMostIterations && pays_for(high)) {
    low = high;
    high *= 2.0;
  }
  if (high > kMostIterations) {
    if (pays_for(kMostIterations)) return kMostIterations;
    high = kMostIterations;
  }
  while (high - low > 1.0) {
    const double middle = std::floor(0.5 * (low + high));
    (pays_for(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace flyball
