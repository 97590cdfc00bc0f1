// What the second pass found replaces, device by device, what the first one did.
#include "account/attribution_method.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "account/lagged_power.h"
#include "account/regular_power.h"
#include "account/survey.h"

namespace flyball {
namespace {

constexpr double kLittleMixed = 0.01;  // of the operations' time, which the sweep may give wrongly
constexpr double kRepeated = 0.2;      // correlation; by chance it is around 1 / sqrt(operations)
constexpr std::size_t kFewReadings = 20;
constexpr double kLittleWork = 3e7;  // products, some 20 ms
constexpr double kMostWork = 3e10;   // some 20 s
constexpr double kLeastUneven = 0.003;
// Stamps that are late look like compositions that differ, which a fit explains nearly as well in a locked loop. Stamps
// that are right explain far more than straightened ones.
constexpr double kLateStampsDoubt = 2.0;
constexpr double kByLot = -0.3;  // of DeviceSurvey::by_length
constexpr int kMostRefits = 6;
constexpr int kFewRefits = 2;
constexpr int kMostQuarters = 4;          // of the readings' period, by which lags are tried
constexpr double kWellExplained = 0.95;   // beyond, no longer lag is tried
constexpr double kPossibleLag = 2.0;      // standard deviations
constexpr double kCertainLag = 3.0;       // standard deviations
constexpr double kLeastLag = 0.002;       // of the readings' period
constexpr double kLeastSmoothing = 0.01;  // of the readings' period
constexpr double kMostLag = 1.5;          // of the readings' period

constexpr double kCheapWork = 2e8;    // products, of a fit that is made dozens of times
constexpr double kCheapEvents = 2e6;  // of a pass over the traces

using DeviceTimes = std::map<DeviceId, Seconds>;

double work_of(const DeviceSurvey& survey) {
  const auto unknowns = static_cast<double>(survey.unknowns);
  return survey.pairs + 20.0 * unknowns * unknowns * unknowns;
}

bool is_worth_a_fit(const DeviceSurvey& survey, const MethodOptions& options) {
  if (survey.readings < kFewReadings || survey.unknowns > kMostJudged || survey.mixed < kLittleMixed) return false;
  const double work = work_of(survey);
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

// W^2
double unexplained(const RegressionFit& fit) {
  return (1.0 - fit.explained.value_or(0.0)) * fit.deviation.value() * fit.deviation.value();
}

// Takes what `trial` has of the devices whose readings it explains better, or not worse by `worse`.
void take_better(RegressedAttribution& best, const RegressedAttribution& trial, double worse = 1.0) {
  for (const RegressionFit& fit : trial.fits) {
    for (RegressionFit& stands : best.fits) {
      // Where the sweep stays, it stays on the readings as they are; only stamps are put right for it, too.
      const bool is_told = fit.method != AccountMethod::kSweep || fit.straightened;
      if (stands.device != fit.device || !is_told || unexplained(fit) >= worse * unexplained(stands)) continue;
      adopt(best, trial, fit.device);
      const bool straightened = fit.straightened || stands.straightened;
      stands = fit;
      stands.straightened = straightened;
    }
  }
}

// Whether operations run at once on a device for long enough to matter.
bool overlaps(const Attribution& attribution, const DeviceShare& device) {
  constexpr double kLittle = 0.01;  // of the busy time
  double ran = 0.0;
  for (const OperationShare& share : attribution.operations) {
    if (share.device == device.device) ran += share.powered.value();
  }
  return ran > (1.0 + kLittle) * device.busy.value();
}

// Fits once more, with powers that add up, where operations run at once. Sets `options.adds` where this explains more.
void try_added(const Traces& traces, RegressionOptions& options, RegressedAttribution& best) {
  RegressionOptions added = options;
  added.devices.assign(options.devices.size(), false);
  bool any = false;
  for (const DeviceShare& device : best.attribution.devices) {
    const auto fitted = [&device](const RegressionFit& fit) {
      return fit.device == device.device && fit.readings > 0 && fit.unknowns <= kMostJudged;
    };
    if (std::none_of(best.fits.begin(), best.fits.end(), fitted) || !overlaps(best.attribution, device)) continue;
    added.devices[device.device] = any = true;
  }
  if (!any) return;
  added.adds = added.devices;
  RegressedAttribution trial;
  traces([&](EventSource& events, PowerSource& power) { trial = attribute_by_regression(events, power, added); });
  take_better(best, trial);
  options.adds.assign(options.devices.size(), false);
  for (const RegressionFit& fit : best.fits) options.adds[fit.device] = fit.adds;
}

// Fits the devices whose lag is stated once more, with their readings moved to earlier times by so much.
RegressedAttribution fit_moved(const Traces& traces, RegressionOptions options, const DeviceTimes& lags) {
  options.devices.assign(options.devices.size(), false);
  std::vector<Nanoseconds> moved(options.devices.size());
  for (const auto& [device, lag] : lags) {
    options.devices[device] = true;
    moved[device] = to_nanoseconds(lag);
  }
  RegressedAttribution trial;
  traces([&](EventSource& events, PowerSource& power) {
    LaggedPower earlier(power, moved);
    trial = attribute_by_regression(events, earlier, options);
  });
  for (RegressionFit& fit : trial.fits) fit.moved = lags.at(fit.device);
  return trial;
}

// Tries lags too long for the fit to find from where it is.
void try_long_lags(const Traces& traces, const RegressionOptions& options, const DeviceTimes& periods,
                   const std::set<DeviceId>& cheap, RegressedAttribution& best) {
  std::vector<DeviceId> late;
  for (const RegressionFit& fit : best.fits) {
    const bool is_on_time = fit.explained.value_or(0.0) >= kWellExplained &&
                            std::abs(fit.lag.value()) < kPossibleLag * fit.lag_deviation.value();
    if (!is_on_time && fit.readings > 0 && cheap.contains(fit.device)) late.push_back(fit.device);
  }
  if (late.empty()) return;
  for (int quarters = 1; quarters <= kMostQuarters; ++quarters) {
    DeviceTimes lags;
    for (const DeviceId device : late) lags[device] = (0.25 * quarters) * periods.at(device);
    take_better(best, fit_moved(traces, options, lags));
  }
}

// Follows the lags that the `latest` fits tell, until they tell none.
void refine_lags(const Traces& traces, const RegressionOptions& options, const DeviceTimes& periods,
                 RegressedAttribution& best, std::vector<RegressionFit> latest, int rounds = kFewRefits) {
  for (int round = 0; round < rounds; ++round) {
    DeviceTimes lags;
    for (const RegressionFit& fit : latest) {
      const Seconds period = periods.at(fit.device);
      const Seconds lag = fit.moved + fit.lag;
      const bool tells = std::abs(fit.lag.value()) > kCertainLag * fit.lag_deviation.value() &&
                         std::abs(fit.lag / period) > kLeastLag && std::abs(lag / period) < kMostLag;
      if (tells && fit.unknowns <= kMostJudged) lags[fit.device] = lag;
    }
    if (lags.empty()) break;
    const RegressedAttribution trial = fit_moved(traces, options, lags);
    latest = trial.fits;
    take_better(best, trial);
  }
}

// In a program of a fixed order the fit sees only a part of a lag at once, and may stop halfway: tries longer ones.
void stretch_lags(const Traces& traces, const RegressionOptions& options, const DeviceTimes& periods,
                  const std::set<DeviceId>& cheap, RegressedAttribution& best) {
  for (const double step : {1.4, 1.4, 1.4, 1.15}) {  // of the best so far
    DeviceTimes lags;
    for (const RegressionFit& fit : best.fits) {
      const Seconds lag = step * fit.moved;
      const bool is_possible = std::abs(lag / periods.at(fit.device)) < kMostLag;
      if (fit.moved != Seconds(0) && is_possible && cheap.contains(fit.device)) lags[fit.device] = lag;
    }
    if (lags.empty()) return;
    const RegressedAttribution trial = fit_moved(traces, options, lags);
    take_better(best, trial);
    refine_lags(traces, options, periods, best, trial.fits);
  }
}

// A counter that follows the power slowly looks late first. Tries time constants instead of the lags that were found,
// beginning with the lag itself, and further up or down where that explains more.
void try_smoothing(const Traces& traces, RegressionOptions& options, const DeviceTimes& periods,
                   const std::set<DeviceId>& cheap, RegressedAttribution& best) {
  constexpr double kSteps[] = {1.0, 1.4, 1.4, 0.7, 1.2, 0.85, 1.1, 0.9};  // of the best so far
  std::map<DeviceId, Seconds> delays;                                     // lag and time constant together
  for (const RegressionFit& fit : best.fits) {
    const bool is_late = fit.moved > kLeastSmoothing * periods.at(fit.device);
    if (is_late && cheap.contains(fit.device)) delays[fit.device] = fit.moved;
  }
  for (const double step : kSteps) {
    DeviceTimes lags;
    RegressionOptions trial_options = options;
    trial_options.smoothing.assign(options.devices.size(), Seconds(0));
    for (const RegressionFit& fit : best.fits) {
      const auto delay = delays.find(fit.device);
      if (delay == delays.end() || (step != 1.0 && fit.smoothing == Seconds(0))) continue;
      const Seconds base = fit.smoothing > Seconds(0) ? fit.smoothing : delay->second;
      trial_options.smoothing[fit.device] = step * base;
      lags[fit.device] = fit.smoothing > Seconds(0) ? fit.moved : Seconds(0);
    }
    if (lags.empty()) return;
    const RegressedAttribution trial = fit_moved(traces, trial_options, lags);
    take_better(best, trial);
    refine_lags(traces, trial_options, periods, best, trial.fits);
  }
}

// Fits the devices that `options` names; those of which the readings seem to be late once more with their readings
// moved, which stands where it explains more.
RegressedAttribution fit_with_lags(const Traces& as_stamped, RegressionOptions options, const DeviceTimes& periods,
                                   const DeviceTimes& uneven, const std::set<DeviceId>& cheap) {
  RegressedAttribution best;
  std::vector<Seconds> straightened;  // by device, as RegularPower has it
  const Traces traces = [&](const TracePass& pass) {
    as_stamped([&](EventSource& events, PowerSource& power) {
      if (straightened.empty()) return pass(events, power);
      RegularPower regular(power, straightened);
      pass(events, regular);
    });
  };
  traces([&](EventSource& events, PowerSource& power) { best = attribute_by_regression(events, power, options); });
  if (options.method == AccountMethod::kRegress || options.sensor_window > Seconds(0)) return best;
  if (!uneven.empty()) {
    RegressionOptions trial = options;
    trial.devices.assign(options.devices.size(), false);
    straightened.resize(options.devices.size());
    for (const auto& [device, period] : uneven) {
      straightened[device] = period;
      trial.devices[device] = true;
    }
    RegressedAttribution regular;
    traces([&](EventSource& events, PowerSource& power) { regular = attribute_by_regression(events, power, trial); });
    for (RegressionFit& fit : regular.fits) fit.straightened = true;
    take_better(best, regular, kLateStampsDoubt);
    for (const RegressionFit& fit : best.fits) {
      if (!fit.straightened) straightened[fit.device] = Seconds(0);
    }
    const auto is_left = [](Seconds period) { return period == Seconds(0); };
    if (std::all_of(straightened.begin(), straightened.end(), is_left)) straightened.clear();
  }
  try_added(traces, options, best);
  try_long_lags(traces, options, periods, cheap, best);
  refine_lags(traces, options, periods, best, best.fits, kMostRefits);
  stretch_lags(traces, options, periods, cheap, best);
  try_smoothing(traces, options, periods, cheap, best);
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
  DeviceTimes uneven;
  std::set<DeviceId> cheap;  // where many hypotheses can be tried
  double events = 0.0;
  for (const DeviceShare& device : result.attribution.devices) events += static_cast<double>(device.events);
  for (const DeviceSurvey& device : survey.devices) {
    if (options.method == AccountMethod::kAuto && !is_worth_a_fit(device, options)) continue;
    if (device.device >= regression.devices.size()) regression.devices.resize(device.device + 1);
    regression.devices[device.device] = true;
    periods[device.device] = device.period;
    const bool is_small = device.unknowns <= kMostJudged && work_of(device) <= kCheapWork;
    if (is_small && events <= kCheapEvents) cheap.insert(device.device);
    const bool by_lot = device.uneven > kLeastUneven && device.by_length < kByLot;
    if (by_lot && has_means(options, device.device)) uneven[device.device] = device.period;
  }
  if (regression.devices.empty()) return result;

  RegressedAttribution fitted = fit_with_lags(traces, regression, periods, uneven, cheap);
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
