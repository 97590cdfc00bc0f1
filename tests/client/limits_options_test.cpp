// Limits on power among a session's options: what the registration says of them.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/record.h"
#include "client/session_options.h"

namespace flyball {
namespace {

SessionOptions options_of(nlohmann::json json) {
  json["server"] = "127.0.0.1:4940";
  json["job"] = "job";
  json["token"] = std::string(32, 'a');
  return read_options<SessionOptions>("the options", json);
}

TEST(LimitsOptions, BecomeTheJobs) {
  const SessionOptions options = options_of({{"max_power_w", 7000}, {"max_ramp_w_per_s", 150.5}, {"ramp_window_s", 2}});
  EXPECT_EQ(options.job.limits.max_power, Watts(7000));
  EXPECT_EQ(options.job.limits.max_ramp_w_per_s, 150.5);
  EXPECT_EQ(options.job.limits.ramp_window, Seconds(2));
}

// As C has them, whose structure has a number for everything. An older server is then told nothing that it refuses.
TEST(LimitsOptions, OfZeroLimitNothing) {
  const SessionOptions options = options_of({{"max_power_w", 0}, {"max_ramp_w_per_s", 0}, {"ramp_window_s", 1}});
  EXPECT_EQ(options.job.limits, JobLimits{});
  EXPECT_FALSE(to_json(options.job).contains("limits"));
}

TEST(LimitsOptions, BelowZeroAreRefused) {
  EXPECT_THROW(options_of({{"max_power_w", -1}}), UsageError);
  EXPECT_THROW(options_of({{"max_ramp_w_per_s", -1}}), UsageError);
  EXPECT_THROW(options_of({{"ramp_window_s", 0}}), UsageError);
}

}  // namespace
}  // namespace flyball
