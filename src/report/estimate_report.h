// Shows an estimate to people and programs: as text, as JSON, and as a page.
#pragma once

#include <optional>
#include <string>

#include "forecast/estimate.h"
#include "forecast/estimate_bill.h"

namespace flyball {

struct EstimateReport {
  const Estimate* estimate = nullptr;
  const EstimateCharges* charges = nullptr;
  const EstimateBill* bill = nullptr;
  std::optional<std::string> region;  // that the intensity was taken for
  bool best_start = false;            // the tariff's start was looked for
};

[[nodiscard]] std::string estimate_text(const EstimateReport& report);

// Returns the estimate as JSON; docs/formats/forecast.md describes its keys.
[[nodiscard]] std::string estimate_json(const EstimateReport& report);

// Returns a page of HTML that needs no network: the ranges, where the energy goes, and what the figures were taken
// from. `command` is the command line that made it.
[[nodiscard]] std::string estimate_html(const EstimateReport& report, const std::string& command);

}  // namespace flyball
