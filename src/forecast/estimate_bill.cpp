// Costs are proportional to tokens, so that a budget buys as many times the tokens as it is of the cost.
#include "forecast/estimate_bill.h"

#include "base/error.h"

namespace flyball {
namespace {

constexpr double kJoulesOfKwh = 3.6e6;

template <class Charge>
std::optional<ValueRange> charged(const Estimate& estimate, const Charge& charge) {
  const auto low = charge(Joules(estimate.site_kwh.low * kJoulesOfKwh), Seconds(estimate.seconds.low));
  const auto middle = charge(Joules(estimate.site_kwh.middle * kJoulesOfKwh), Seconds(estimate.seconds.middle));
  const auto high = charge(Joules(estimate.site_kwh.high * kJoulesOfKwh), Seconds(estimate.seconds.high));
  if (!low || !middle || !high) return std::nullopt;
  return ValueRange{*low, *middle, *high};
}

ValueRange times(const ValueRange& range, double factor) {
  return {range.low * factor, range.middle * factor, range.high * factor};
}

}  // namespace

EstimateBill bill_of_estimate(const Estimate& estimate, const EstimateCharges& charges) {
  EstimateBill bill;
  const Tariff& tariff = charges.tariff;
  bill.co2_kg = charged(estimate, [&](Joules energy, Seconds time) { return tariff.co2_kg(energy, time); });
  bill.energy_cost = charged(estimate, [&](Joules energy, Seconds time) { return tariff.cost(energy, time); });
  if (charges.price_per_gpu_hour) bill.gpu_cost = times(estimate.gpu_hours, *charges.price_per_gpu_hour);
  if (charges.embodied) {
    bill.embodied_kg = times(estimate.gpu_hours, published_embodied_carbon().kg_per_gpu_hour());
  }
  if (bill.energy_cost && bill.gpu_cost) {
    bill.cost = ValueRange{bill.energy_cost->low + bill.gpu_cost->low, bill.energy_cost->middle + bill.gpu_cost->middle,
                           bill.energy_cost->high + bill.gpu_cost->high};
  }
  if (!charges.budget) return bill;
  const std::optional<ValueRange> whole = bill.cost ? bill.cost : bill.gpu_cost ? bill.gpu_cost : bill.energy_cost;
  if (!whole || whole->low <= 0.0) {
    throw UsageError("--budget buys nothing without a price above 0: give --gpu-hour-price or --price");
  }
  const double bought = *charges.budget * estimate.request.tokens;
  bill.budget_tokens = ValueRange{bought / whole->high, bought / whole->middle, bought / whole->low};
  return bill;
}

}  // namespace flyball
