// flyball partition, emulate, profile and messages, run as users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Partition, FindsTheLeastImbalance) {
  const TempFolder folder;
  // 3 | 2 1 | 3: perfectly balanced.
  write_file(folder / "layers.csv", "layer,time\nembed,0.3\na,0.2\nb,0.1\nhead,0.3\n");
  const Ran ran = run_flyball({"partition", folder / "layers.csv", "--stages", "3", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  EXPECT_EQ(result.at("bounds"), (json{0, 1, 3, 4}));
  EXPECT_NEAR(result.at("imbalance"), 1.0, 1e-9);
  EXPECT_EQ(result.at("stages").at(1).at("first_layer"), "a");
  EXPECT_EQ(result.at("stages").at(1).at("last_layer"), "b");
  EXPECT_EQ(result.at("stages").at(1).at("layers"), 2);
}

TEST(Partition, TailBurdensTheLastStage) {
  const TempFolder folder;
  write_file(folder / "layers.csv", "layer,time\n0,0.1\n1,0.1\n2,0.1\n3,0.1\n4,0.1\n");
  const Ran ran =
      run_flyball({"partition", folder / "layers.csv", "--stages", "2", "--tail", "100ms", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.json().at("bounds"), (json{0, 3, 5}));
  EXPECT_NEAR(ran.json().at("imbalance"), 1.0, 1e-9);
}

TEST(Partition, RefusesAMissingLayer) {
  const TempFolder folder;
  write_file(folder / "layers.csv", "layer,time\n0,0.1\n1,0.1\n3,0.1\n");
  const Ran ran = run_flyball({"partition", folder / "layers.csv", "--stages", "2"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("layers.csv:4:1: layer 3 follows layer 1"));
}

TEST(Messages, AreListedAndDescribed) {
  const Ran list = run_flyball({"messages", "--format", "json"});
  ASSERT_EQ(list.status, 0) << list.err;
  EXPECT_THAT(list.json().at("messages"),
              ::testing::Contains(json{{"message", "StragglerNotice"}, {"interface", "server"}, {"fields", 5}}));
  const Ran one = run_flyball({"messages", "LeaseRequest", "--format", "json"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.json().at("properties").at("heartbeat_timeout_s").at("maximum"), 60);
  EXPECT_THAT(run_flyball({"messages", "LeaseRequest"}).out, HasSubstr("from 0.1 to 60"));
  EXPECT_THAT(run_flyball({"messages", "LeaseRequest", "--format", "markdown"}).out,
              HasSubstr("\n| `heartbeat_timeout_s` | s | from 0.1 to 60.0 | 0.75 | Time without a heartbeat"));
  EXPECT_THAT(run_flyball({"messages", "LeaseAlive", "--format", "markdown"}).out,
              ::testing::StartsWith("| field | unit | meaning |\n|---|---|---|\n| `id` | | The identifier"));
  EXPECT_THAT(run_flyball({"messages", "leaserequest"}).err, HasSubstr("did you mean LeaseRequest?"));
  EXPECT_THAT(run_flyball({"messages", "LeaseRequest", "--format", "openapi"}).err, HasSubstr("'server' or 'agent'"));
}

// The names come from the tables of planners and schedules; a field that may be missing may be null.
TEST(Messages, NamePlannersAndSchedulesThatThereAre) {
  const json fields = run_flyball({"messages", "JobRequest", "--format", "json"}).json().at("properties");
  const auto names = [&](const char* field) {
    return fields.at(field).at("oneOf").at(0).at("enum").get<std::vector<std::string>>();
  };
  EXPECT_THAT(names("planner"), ::testing::IsSupersetOf({"perseus", "zeus-global"}));
  EXPECT_THAT(names("schedule"), ::testing::IsSupersetOf({"gpipe", "zb-h1"}));
  EXPECT_THAT(run_flyball({"messages", "JobRequest"}).out, HasSubstr("perseus, joint, "));
  EXPECT_THAT(run_flyball({"messages", "server", "--format", "openapi"}).out, HasSubstr(R"(enum: ["gpipe","1f1b",)"));
}

json emulate(std::vector<std::string> options) {
  std::vector<std::string> arguments{"emulate", kBertProfile, "--microbatches", "8", "--format", "json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  const Ran ran = run_flyball(arguments);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return ran.json();
}

TEST(Emulate, SplitsBloatAndScalesToTheJob) {
  const json result = emulate({"--pipelines", "16", "--tensor-parallel", "8", "--straggler", "1,1.2"});
  EXPECT_EQ(result.at("gpus"), 16 * 8 * 4);
  ASSERT_EQ(result.at("emulations").size(), 2u);
  for (const json& emulation : result.at("emulations")) {
    for (const char* scope : {"pipeline", "job"}) {
      const json& split = emulation.at(scope);
      const double saved = split.at("intrinsic").get<double>() + split.at("extrinsic").get<double>();
      EXPECT_NEAR(split.at("planned"), split.at("baseline").get<double>() - saved, 1e-6);
      EXPECT_NEAR(split.at("saving_pct"), 100.0 * saved / split.at("baseline").get<double>(), 1e-9);
    }
  }
  const json& none = result.at("emulations").at(0);
  const json& slow = result.at("emulations").at(1);
  EXPECT_EQ(none.at("pipeline").at("extrinsic"), 0.0);
  EXPECT_NEAR(none.at("job").at("baseline"), 16 * 8 * none.at("pipeline").at("baseline").get<double>(), 1e-6);
  // All but the straggler are planned.
  EXPECT_GT(slow.at("pipeline").at("extrinsic").get<double>(), 0.0);
  EXPECT_NEAR(slow.at("job").at("extrinsic"), 15 * 8 * slow.at("pipeline").at("extrinsic").get<double>(), 1e-6);
}

TEST(Emulate, OnePointPlannersHaveNoExtrinsicSaving) {
  const json result = emulate({"--pipelines", "4", "--straggler", "1.2", "--planner", "envpipe"});
  EXPECT_EQ(result.at("planner"), "envpipe");
  EXPECT_EQ(result.at("emulations").at(0).at("pipeline").at("extrinsic"), 0.0);
}

constexpr const char* kRuns = "examples/runs/two-stage";

// What is predicted and what is left add up to what was measured, and the summary is that of the points.
TEST(EmulateAgainst, PartsAddUpToTheMeasuredTime) {
  const Ran ran = run_flyball({"emulate", "--against", kRuns, "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  EXPECT_EQ(result.at("fitted_to"), "every other point");
  EXPECT_EQ(result.at("stages"), 2);
  // 13 points, of which the first warms up.
  ASSERT_EQ(result.at("points").size(), 12u);
  double off = 0.0;
  for (const json& point : result.at("points")) {
    double predicted = 0.0;
    for (const char* part : {"computing", "loading", "transfers", "once", "switching"}) {
      predicted += point.at("parts").at(part).get<double>();
    }
    EXPECT_NEAR(predicted, point.at("predicted_time"), 1e-9);
    const double left = point.at("parts").at("operations").get<double>() + point.at("parts").at("rest").get<double>();
    EXPECT_NEAR(predicted + left, point.at("measured_time"), 1e-9);
    off += std::abs(100.0 * (predicted / point.at("measured_time").get<double>() - 1.0)) / 12.0;
  }
  EXPECT_NEAR(off, result.at("judged").at("mean_time_off_pct"), 1e-6);
  EXPECT_LT(off, 1.0);
  EXPECT_THAT(run_flyball({"emulate", "--against", kRuns, "--fitted-to", kRuns}).out,
              HasSubstr("predicted by what was fitted to examples/runs/two-stage"));
}

constexpr const char* kMoreRuns = "examples/runs/two-stage-by-stage";

// Of 8 points the first warms up. Only the one half of the 12 points has one at maximum clocks; the other one predicts
// its time worse than if it is told of the maximum clocks of other runs.
TEST(EmulateAgainst, IsAlsoFittedToOtherRuns) {
  const auto worst = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"emulate", "--against", kRuns, "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ran ran = run_flyball(arguments);
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.json().at("points").size(), 12u);
    return ran.json().at("judged").at("worst_time_off_pct").get<double>();
  };
  EXPECT_LT(worst({"--also-fitted-to", kMoreRuns}), worst({}));
  const Ran ran = run_flyball({"emulate", "--against", kRuns, "--also-fitted-to", kMoreRuns});
  EXPECT_THAT(ran.out, HasSubstr("that it is not in, and to examples/runs/two-stage-by-stage"));
  EXPECT_THAT(run_flyball({"emulate", "--against", kRuns, "--fitted-to", kRuns, "--fitted-to", kMoreRuns}).out,
              HasSubstr("fitted to examples/runs/two-stage and examples/runs/two-stage-by-stage"));
}

TEST(ProfileFit, TakesRunsOfOnePipelineTogether) {
  const Ran fit = run_flyball({"profile", "fit", kRuns, kMoreRuns, "--format", "json"});
  ASSERT_EQ(fit.status, 0) << fit.err;
  EXPECT_EQ(fit.json().at("points").size(), 12u + 7u);
  EXPECT_EQ(fit.json().at("runs"), "examples/runs/two-stage and examples/runs/two-stage-by-stage");
  const Ran twice = run_flyball({"profile", "fit", kRuns, "examples/runs/./two-stage"});
  EXPECT_EQ(twice.status, 3);
  EXPECT_THAT(twice.err, HasSubstr("examples/runs/./two-stage: these runs are named twice"));
  EXPECT_THAT(run_flyball({"emulate", "--against", kRuns, "--also-fitted-to", kRuns}).err, HasSubstr("named twice"));
}

TEST(ProfileFit, MakesAProfileAndAPipelineToPlanWith) {
  const TempFolder folder;
  const Ran fit = run_flyball({"profile", "fit", kRuns, "--out", folder / "fitted"});
  ASSERT_EQ(fit.status, 0) << fit.err;
  EXPECT_THAT(fit.out, HasSubstr("fitted to 12 points"));
  EXPECT_THAT(fit.out, HasSubstr("once per iteration"));
  const Ran plan = run_flyball(
      {"plan", folder / "fitted/profile.csv", "--pipeline", folder / "fitted/pipeline.toml", "--format", "json"});
  ASSERT_EQ(plan.status, 0) << plan.err;
  // The example's point 1 ran at maximum clocks, in 0.2456 s.
  EXPECT_NEAR(plan.json().at("baseline").at("time"), 0.2456, 0.0025);
}

TEST(Profile, ShowTellsHowMuchEachOperationCanSave) {
  const Ran ran = run_flyball({"profile", "show", kBertProfile, "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  EXPECT_EQ(result.at("stages"), 4);
  EXPECT_EQ(result.at("operations").size(), 8u);
  for (const json& operation : result.at("operations")) {
    EXPECT_GT(operation.at("saving_pct").get<double>(), 0.0);
    EXPECT_LT(operation.at("least_energy_frequency"), operation.at("fastest_frequency"));
  }
  EXPECT_THAT(run_flyball({"profile", "show", kBertProfile}).out, HasSubstr("forward imbalance"));
}

TEST(Profile, SynthesisIsMarkedReproducibleAndReadable) {
  const std::vector<std::string> request{"profile", "synth", "--gpu", "a40", "--workload", "bloom-3b", "--stages", "4"};
  const Ran ran = run_flyball(request);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("#"));
  EXPECT_THAT(ran.out, HasSubstr("SYNTHETIC"));
  EXPECT_EQ(ran.out, run_flyball(request).out);
  const Ran shown = run_flyball({"profile", "show", "-", "--format", "json"}, ran.out);
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.json().at("stages"), 4);
}

TEST(Profile, SynthesisedLayersCanBePartitioned) {
  const TempFolder folder;
  const Ran layers = run_flyball(
      {"profile", "synth", "--gpu", "a100", "--workload", "gpt3-1.3b", "--layers", "--out", folder / "layers.csv"});
  ASSERT_EQ(layers.status, 0) << layers.err;
  const Ran ran = run_flyball({"partition", folder / "layers.csv", "--stages", "4", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  // Perseus, table 7: GPT-3 1.3B on four A100 stages.
  EXPECT_EQ(ran.json().at("bounds"), (json{0, 6, 12, 19, 25}));
}

}  // namespace
}  // namespace flyball::testing
