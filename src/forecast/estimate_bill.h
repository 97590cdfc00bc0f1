// What an estimated training costs: carbon dioxide of its electricity and of its hardware, money, and what a budget
// buys. Each end of the range is charged with its own energy and its own duration. All functions are pure.
#pragma once

#include <optional>

#include "base/units.h"
#include "forecast/bill.h"
#include "forecast/estimate.h"

namespace flyball {

struct EstimateCharges {
  Tariff tariff;
  std::optional<double> price_per_gpu_hour;
  std::optional<double> budget;  // in the prices' currency
  bool embodied = false;         // hardware's making, by published_embodied_carbon()
};

struct EstimateBill {
  std::optional<ValueRange> co2_kg;
  std::optional<ValueRange> embodied_kg;
  std::optional<ValueRange> energy_cost;
  std::optional<ValueRange> gpu_cost;
  std::optional<ValueRange> cost;           // sum of both, where both are known
  std::optional<ValueRange> budget_tokens;  // what the budget buys, for the same model on the same GPUs
};

// Throws UsageError where a budget has no price to be spent at.
[[nodiscard]] EstimateBill bill_of_estimate(const Estimate& estimate, const EstimateCharges& charges);

}  // namespace flyball
