// The descriptions of a job's limits on power, and of the power that its plan takes.
#include <fmt/format.h>

#include "base/record.h"
#include "wire/job_messages.h"

namespace flyball {
namespace {

constexpr double kLeastLimit = 1e-3;  // W, W/s
constexpr double kMostLimit = 1e12;
constexpr double kLatestTime = 1e11;  // s since 1970

}  // namespace

void check_periods(const JsonObject& object, std::string_view field, const std::vector<JobLimits::Period>& periods) {
  for (std::size_t i = 0; i < periods.size(); ++i) {
    const JobLimits::Period& one = periods[i];
    if (!(one.until > one.from)) {
      object.refuse(fmt::format("{}[{}].until_unix_s", field, i), "is no later than from_unix_s",
                    "exchange the two times");
    }
    if (i > 0 && one.from < periods[i - 1].until) {
      object.refuse(fmt::format("{}[{}].from_unix_s", field, i), "lies before the end of the period before",
                    "sort the periods by time, and let no two of them overlap");
    }
  }
}

Record<JobLimits::Period> description_of(const JobLimits::Period* /*type*/) {
  using R = JobLimits::Period;
  return Record<R>::request("BudgetPeriod", "A part of a power budget.")
      .field("from_unix_s", &R::from, "When the period begins, in seconds since 1970 (UTC).",
             {.needed = true, .minimum = 0, .maximum = kLatestTime})
      .field("until_unix_s", &R::until, "When the period ends, after it begins.",
             {.needed = true, .minimum = 0, .maximum = kLatestTime})
      .field("power_w", &R::power, "The most that all GPUs may draw together meanwhile.",
             {.needed = true, .minimum = kLeastLimit, .maximum = kMostLimit});
}

Record<JobLimits> description_of(const JobLimits* /*type*/) {
  using R = JobLimits;
  return Record<R>::request("JobLimits", "Limits on the power of all GPUs of a job together, as plans are emulated.")
      .field("max_power_w", &R::max_power,
             "The most that all GPUs of the job together (stages * data_parallel * tensor_parallel) may draw at any "
             "moment. If it is missing, there is no such limit.",
             {.left_out = true, .minimum = kLeastLimit, .maximum = kMostLimit})
      .field("max_ramp_w_per_s", &R::max_ramp_w_per_s,
             "The most by which the job's power, averaged over ramp_window_s, may change per second from one such "
             "window to the next, in watts per second. If it is missing, there is no such limit.",
             {.left_out = true, .minimum = kLeastLimit, .maximum = kMostLimit})
      .field("ramp_window_s", &R::ramp_window, "Time over which power is averaged for max_ramp_w_per_s.",
             {.left_out = true, .minimum = 1e-3, .maximum = 3600})
      .field("budget", &R::budget,
             "Limits on the power for periods of time, in their order, without overlap. max_power_w holds as well, and "
             "alone between the periods.",
             {.left_out = true, .most = kMostBudgetPeriods})
      .check([](const JsonObject& object, R& limits) { check_periods(object, "budget", limits.budget); });
}

Record<JobPowerStatus> description_of(const JobPowerStatus* /*type*/) {
  using R = JobPowerStatus;
  return Record<R>::answer("JobPowerStatus", "the server's answer",
                           "The power of all GPUs of the job together while no straggler is waited for, as the plan in "
                           "force is emulated.")
      .field("max_power_w", &R::max_power,
             "The limit on the peak for which the job was planned: of max_power_w and the budget's present period the "
             "lower one. Null: none.")
      .field("max_ramp_w_per_s", &R::max_ramp_w_per_s, "The limit on the ramp, in watts per second. Null: none.")
      .field("ramp_window_s", &R::ramp_window, "Time over which power is averaged for the ramp.")
      .field("kept", &R::kept, "Whether the plan keeps to these limits. If not, it is that of the lowest peak found.")
      .field("mean_w", &R::mean, "Mean power of an iteration, the longest delay of clock changes charged.")
      .field("peak_w", &R::peak, "Highest power of an iteration.")
      .field("greatest_step_w", &R::greatest_step, "Greatest change of power from one moment to the next.")
      .field("ramp_w_per_s", &R::ramp_w_per_s,
             "Greatest change per second of the power averaged over ramp_window_s, in watts per second.")
      .field(
          "swing_w", &R::swing,
          "Strongest oscillation between 0.1 and 20 Hz, from peak to peak. Null: the iteration has too many operations "
          "to tell.")
      .field("swing_hz", &R::swing_hz, "Frequency of that oscillation, in Hz.")
      .field("max_clock_peak_w", &R::max_clock_peak, "Highest power with all computations at their highest clock.")
      .field("least_time_s", &R::least_time,
             "No plan in the same order of operations that keeps to the limits has shorter iterations. Null: unknown.")
      .field("least_peak_w", &R::least_peak,
             "If the limits are not kept: the lowest peak of all plans that were looked at.")
      .field("least_ramp_w_per_s", &R::least_ramp_w_per_s,
             "If the limits are not kept: the lowest ramp of all plans that were looked at, in watts per second.")
      .field("limit_changes_after_s", &R::limit_changes_after,
             "Time until the server plans for another part of the budget. Null: it will not.");
}

}  // namespace flyball
