#include "client/session_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/record.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SessionOptions read(const char* json) {
  return read_options<SessionOptions>("the options", nlohmann::json::parse(json));
}

std::string refusal(const nlohmann::json& json) {
  try {
    (void)read_options<SessionOptions>("the options", json);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SessionOptions, ReachThePartsThatTheyAreFor) {
  const SessionOptions options = read(R"({"server": "https://planner:1", "ca_file": "ca.pem", "job": "run-12",
    "token": "0123456789abcdef0123456789abcdef", "registration_token": "r", "stages": 4, "microbatches": 8, "chunks": 2,
    "data_parallel": 3, "tensor_parallel": 5, "schedule": "gpipe", "planner": "max", "blocking_w": 60.5, "noise": 0.25,
    "memory_limit": [4, 3, 2, 1], "switch_latency_s": 0.01, "min_dwell_s": 0.5, "rank": 59, "dp_rank": 2, "pp_rank": 3,
    "tp_rank": 4, "gpu": 7, "clocks": "none", "profile": false, "steps_per_clock": 6, "rises_to_stop": 9,
    "clock_stride": 10, "settle_s": 0.0, "sampling_s": 0.001, "clock_poll_s": 0.0001, "time_scale": 20})");
  EXPECT_EQ(options.server, "https://planner:1");
  EXPECT_EQ(options.ca_file, "ca.pem");
  EXPECT_EQ(options.registration_token, "r");
  JobRequest job;
  job.id = "run-12";
  job.token = "0123456789abcdef0123456789abcdef";
  job.stages = 4;
  job.microbatches = 8;
  job.chunks = 2;
  job.data_parallel = 3;
  job.tensor_parallel = 5;
  job.schedule = "gpipe";
  job.planner = "max";
  job.blocking_power = {Watts(60.5)};
  job.noise = 0.25;
  job.memory_limit = {4, 3, 2, 1};
  job.switch_latency = Seconds(0.01);
  job.min_dwell = Seconds(0.5);
  job.clocks_ahead = true;  // unless the program says otherwise
  EXPECT_EQ(options.job, job);
  EXPECT_FALSE(read(R"({"clocks_ahead": false})").job.clocks_ahead);
  EXPECT_EQ(options.rank, (RankRequest{59, 2, 3, 4, {}}));
  EXPECT_EQ(options.gpu.gpu, 7u);
  EXPECT_EQ(options.gpu.clocks, "none");
  EXPECT_EQ(options.gpu.purpose.text, "run-12, rank 59");
  EXPECT_FALSE(options.profile);
  EXPECT_EQ(options.sweep.steps_per_clock, 6);
  EXPECT_EQ(options.sweep.rises_to_stop, 9);
  EXPECT_EQ(options.sweep.clock_stride, 10);
  EXPECT_EQ(options.settle, Seconds(0));
  EXPECT_EQ(options.sampling_period, Seconds(0.001));
  EXPECT_EQ(options.controller.poll_period, Seconds(0.0001));
  EXPECT_EQ(options.time_scale, 20.0);
}

TEST(SessionOptions, NoneIsNeededWithoutAServer) {
  const SessionOptions options = read("{}");
  EXPECT_EQ(options.job, JobRequest());
  EXPECT_THAT(options.job.blocking_power, IsEmpty());
  EXPECT_TRUE(options.profile);
}

TEST(SessionOptions, WaitingAtNoPowerMeansAsMeasured) {
  EXPECT_THAT(read(R"({"blocking_w": 0})").job.blocking_power, IsEmpty());
  EXPECT_THAT(read(R"({"blocking_w": []})").job.blocking_power, IsEmpty());
  EXPECT_THAT(read(R"({"blocking_w": [0, 70]})").job.blocking_power, ElementsAre(Watts(0), Watts(70)));
}

TEST(SessionOptions, OnlyPlannersThatAdjustPlansAskForExecutedSteps) {
  EXPECT_FALSE(read("{}").job.executed_steps);
  EXPECT_TRUE(read(R"({"planner": "envpipe"})").job.executed_steps);
  EXPECT_TRUE(read(R"({"planner": "envpipe-greedy"})").job.executed_steps);
  EXPECT_FALSE(read(R"({"planner": "envpipe", "executed_steps": false})").job.executed_steps);
}

TEST(SessionOptions, TransfersMayOccupyBothStages) {
  EXPECT_FALSE(read("{}").job.transfers_occupy_both);
  EXPECT_TRUE(read(R"({"transfers_occupy_both": true})").job.transfers_occupy_both);
}

TEST(SessionOptions, RefusalsNameTheOption) {
  EXPECT_THAT(refusal({{"steps_per_clock", 0}}), HasSubstr("the options: steps_per_clock: is 0, out of range"));
  EXPECT_THAT(refusal({{"clock_stride", 1.5}}), HasSubstr("clock_stride: is 1.5, not a whole number"));
  EXPECT_THAT(refusal({{"sampling_s", 0.0}}), HasSubstr("sampling_s: is 0.0, out of range"));
  EXPECT_THAT(refusal({{"settle_s", -0.1}}), HasSubstr("settle_s: is -0.1, out of range"));
  EXPECT_THAT(refusal({{"settle_s", std::nan("")}}), HasSubstr("settle_s: is nan, out of range"));
  EXPECT_THAT(refusal({{"time_scale", INFINITY}}), HasSubstr("time_scale: is inf, out of range"));
  EXPECT_THAT(refusal({{"rank", -1}}), HasSubstr("rank: is -1, out of range"));
  EXPECT_THAT(refusal({{"stage", 1}}), HasSubstr("did you mean stages?"));
  EXPECT_THAT(refusal({{"server", "planner:1"}}), HasSubstr("needs the job's id and token"));
  const std::string token(32, 't');
  EXPECT_THAT(refusal({{"server", "planner:1"}, {"job", "j"}, {"token", token}, {"ca_file", "ca.pem"}}),
              HasSubstr("ca_file is for a server that is named https://"));
}

TEST(SessionOptions, AServersJobIsOneThatItWouldTake) {
  const auto with_server = [](const char* job, const std::string& token, const std::vector<int>& memory_limit) {
    return refusal(
        {{"server", "planner:1"}, {"job", job}, {"token", token}, {"stages", 2}, {"memory_limit", memory_limit}});
  };
  const std::string token(32, 't');
  EXPECT_EQ(with_server("run-12", token, {2, 1}), "");
  EXPECT_THAT(with_server("a/b", token, {}), HasSubstr("id: holds other characters"));
  EXPECT_THAT(with_server("run-12", "short", {}), HasSubstr("token: has 5 characters"));
  EXPECT_THAT(with_server("run-12", token, {3, 2, 1}), HasSubstr("memory_limit: has 3 entries for 2 stages"));
  EXPECT_EQ(refusal({{"job", "a/b"}}), "") << "nobody else's name for it";
}

// A job's own bounds (JobMessages.RefusalsNameTheField) hold for the options that go into it.
TEST(SessionOptions, HaveTheBoundsOfTheMessageThatTheyGoInto) {
  const auto properties = record_of<SessionOptions>().schema()["properties"];
  EXPECT_EQ(properties["chunks"]["maximum"], kMostChunks);
  EXPECT_EQ(properties["rank"]["maximum"], kMostRanks - 1);
  EXPECT_FALSE(record_of<SessionOptions>().schema().contains("required"));
}

}  // namespace
}  // namespace flyball
