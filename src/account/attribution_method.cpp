// What the second pass found replaces, device by device, what the first one did.
#include "account/attribution_method.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "account/lagged_power.h"
#include "account/survey.h"

namespace flyball {
namespace {

constexpr double kLittleMixed = 0.01;  // of the operations' time, which the sweep may give wrongly
constexpr double kRepeated = 0.2;      // correlation; by chance it is around 1 / sqrt(operations)
constexpr std::size_t kFewReadings = 20;
constexpr double kLittleWork = 3e7;  // products, some 20 ms
constexpr double kMostWork = 3e10;   // some 20 s
constexpr int kMostRefits = 6;
constexpr double kCertainLag = 3.0;  // standard deviations
constexpr double kLeastLag = 0.002;  // of the readings' period
constexpr double kMostLag = 1.5;     // of the readings' period

using DeviceTimes = std::map<DeviceId, Seconds>;

bool is_worth_a_fit(const DeviceSurvey& survey, const MethodOptions& options) {
  if (survey.readings < kFewReadings || survey.unknowns > kMostJudged || survey.mixed < kLittleMixed) return false;
  const auto unknowns = static_cast<double>(survey.unknowns);
  const double work = survey.pairs + 20.0 * unknowns * unknowns * unknowns;
  if (work <= kLittleWork || options.sensor_window > Seconds(0)) return true;
  return survey.repeated > kRepeated && work <= kMostWork;
}

bool has_means(const MethodOptions& options, DeviceId device) {
  return device >= options.means.size() || options.means[device];
}

// Puts what `from` has of a device into the place of what `into` has. Both list the same devices and operations.
void adopt(RegressedAttribution& into, const RegressedAttribution& from, DeviceId id) {
  for (std::size_t i = 0; i < into.attribution.devices.size(); ++i) {
    if (into.attribution.devices[i].device == id) into.attribution.devices[i] = from.attribution.devices[i];
  }
  std::vector<GroupShare>& groups = into.attribution.groups;
  std::uint32_t last = 0;
  for (const GroupShare& group : groups) last = std::max(last, group.group);
  std::erase_if(groups, [id](const GroupShare& group) { return group.device == id; });
  for (const GroupShare& group : from.attribution.groups) {
    if (group.device != id) continue;
    groups.push_back(group);
    groups.back().group += last;
  }
  for (std::size_t i = 0; i < into.attribution.operations.size(); ++i) {
    OperationShare& operation = into.attribution.operations[i];
    if (operation.device != id) continue;
    operation = from.attribution.operations[i];
    if (operation.group != 0) operation.group += last;
  }
}

void number_groups(Attribution& attribution) {
  std::stable_sort(attribution.groups.begin(), attribution.groups.end(),
                   [](const GroupShare& a, const GroupShare& b) { return a.device < b.device; });
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (GroupShare& group : attribution.groups) {
    const auto number = static_cast<std::uint32_t>(numbers.size() + 1);
    numbers.emplace(std::exchange(group.group, number), number);
  }
  for (OperationShare& operation : attribution.operations) {
    if (operation.group != 0) operation.group = numbers.at(operation.group);
  }
}

double unexplained(const RegressionFit& fit) { return 1.0 - fit.explained.value_or(0.0); }

// Fits the devices that `options` names; those of which the readings seem to be late once more with their readings
// moved, which stands where it explains more.
RegressedAttribution fit_with_lags(const Traces& traces, RegressionOptions options, const DeviceTimes& periods) {
  RegressedAttribution best;
  traces([&](EventSource& events, PowerSource& power) { best = attribute_by_regression(events, power, options); });
  if (options.method == AccountMethod::kRegress || options.sensor_window > Seconds(0)) return best;
  std::vector<Seconds> moved(options.devices.size());  // by how much the latest fit moved the readings
  std::vector<RegressionFit> latest = best.fits;
  for (int round = 0; round < kMostRefits; ++round) {
    options.devices.assign(options.devices.size(), false);
    std::vector<Nanoseconds> lags(options.devices.size());
    bool any = false;
    for (const RegressionFit& fit : latest) {
      const Seconds period = periods.at(fit.device);
      const Seconds lag = moved[fit.device] + fit.lag;
      const bool tells = std::abs(fit.lag.value()) > kCertainLag * fit.lag_deviation.value() &&
                         std::abs(fit.lag / period) > kLeastLag && std::abs(lag / period) < kMostLag;
      if (!tells || fit.unknowns > kMostJudged) continue;
      moved[fit.device] = lag;
      lags[fit.device] = to_nanoseconds(lag);
      options.devices[fit.device] = any = true;
    }
    if (!any) break;
    RegressedAttribution trial;
    traces([&](EventSource& events, PowerSource& power) {
      LaggedPower earlier(power, lags);
      trial = attribute_by_regression(events, earlier, options);
    });
    latest = trial.fits;
    for (const RegressionFit& fit : trial.fits) {
      for (RegressionFit& stands : best.fits) {
        if (stands.device != fit.device || unexplained(fit) >= unexplained(stands)) continue;
        adopt(best, trial, fit.device);
        stands = fit;
        stands.moved = moved[fit.device];
      }
    }
  }
  return best;
}

}  // namespace

RegressedAttribution attribute_by_method(const Traces& traces, const MethodOptions& options) {
  SurveyedAttribution survey;
  traces([&](EventSource& events, PowerSource& power) {
    survey = survey_attribution(events, power, options.attribution, options.means);
  });
  RegressedAttribution result{std::move(survey.attribution), {}};
  if (options.method == AccountMethod::kSweep) return result;

  RegressionOptions regression{options.attribution, options.sensor_window, options.method};
  DeviceTimes periods;
  for (const DeviceSurvey& device : survey.devices) {
    if (options.method == AccountMethod::kAuto && !is_worth_a_fit(device, options)) continue;
    if (device.device >= regression.devices.size()) regression.devices.resize(device.device + 1);
    regression.devices[device.device] = true;
    periods[device.device] = device.period;
  }
  if (regression.devices.empty()) return result;

  RegressedAttribution fitted = fit_with_lags(traces, regression, periods);
  for (const RegressionFit& fit : fitted.fits) {
    // Where the sweep was kept, the survey knows its error as well or, of a sensor that a reading's segment does not
    // belong to, better.
    const bool is_judged = fit.readings > 0 && fit.unknowns <= kMostJudged && has_means(options, fit.device);
    if (fit.method != AccountMethod::kSweep || is_judged) adopt(result, fitted, fit.device);
  }
  number_groups(result.attribution);
  result.fits = std::move(fitted.fits);
  return result;
}

}  // namespace flyball
