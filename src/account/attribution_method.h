// Attribution by the method that fits the traces, chosen for each device.
//
// The sweep comes first, with a survey of its error (survey.h). A regression is tried on the devices where that error
// can matter and the readings may know better: operations share readings (mixed), and their mean readings in one half
// of the readings come again in the other (repeated), or trying costs next to nothing. It stands where its powers
// predict readings that they were not fitted to, and leave less of the error than the sweep; regression.h says what of
// both is taken. Elsewhere the numbers are the sweep's.
//
// What the model of the readings may be wrong about is tried, each with a pass over the traces, and stands where it
// explains more of readings that it was not fitted to:
//
// - stamps that are late by lot, of a counter that changes in even steps (regular_power.h), where longer readings show
//   less power;
// - powers that add up, where operations run at once;
// - a counter that is late by the same time always, or that follows the power with a time constant.
//
// What is left widens the errors (widen_by_ends() in power_posterior.h).
//
// Cost: the survey's; with a regression one more pass over the traces, and what regression.h says. Where fits are cheap
// (up to some 200 operations, 2 million events), up to 50 of them; on perfect readings one.
#pragma once

#include <functional>
#include <vector>

#include "account/attribution.h"
#include "account/regression.h"
#include "base/units.h"
#include "trace/trace.h"

namespace flyball {

struct MethodOptions {
  AttributionOptions attribution{};
  AccountMethod method = AccountMethod::kAuto;
  Seconds sensor_window{};    // as in RegressionOptions
  std::vector<bool> means{};  // as in survey_attribution()
};

// Calls its argument with both traces from their begin.
using TracePass = std::function<void(EventSource&, PowerSource&)>;
using Traces = std::function<void(const TracePass&)>;

// Calls `traces` as often as the cost above says. `fits` are of the devices on which a regression was tried.
[[nodiscard]] RegressedAttribution attribute_by_method(const Traces& traces, const MethodOptions& options);

}  // namespace flyball
