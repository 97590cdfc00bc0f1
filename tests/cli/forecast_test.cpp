// flyball forecast, run as users run it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kExample = "examples/forecast/vgg16-mt128.toml";

json forecast(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "forecast");
  arguments.insert(arguments.end(), {"--format", "json"});
  const Ran ran = run_flyball(arguments);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  return ran.json();
}

TEST(Forecast, JsonHasTotalsThatAddUp) {
  const json result = forecast({kExample, "--epochs", "100", "--carbon", "400", "--price", "0.5"});
  const double total = result.at("total_kwh");
  EXPECT_NEAR(total, 25.39, 5e-3);
  double stages = 0.0;
  for (const auto& [name, group] : result.at("stages").items()) {
    double parts = 0.0;
    for (const auto& part : group.at("parts")) parts += part.get<double>();
    EXPECT_NEAR(parts, group.at("kwh"), 1e-9) << name;
    stages += group.at("kwh").get<double>();
  }
  EXPECT_NEAR(stages, total, 1e-9);
  EXPECT_NEAR(
      result.at("components").at("processor").get<double>() + result.at("components").at("memory").get<double>(), total,
      1e-9);
  EXPECT_NEAR(result.at("node_types").at(0).at("kwh"), total, 1e-9);
  EXPECT_LT(result.at("interval").at("low_kwh"), total);
  EXPECT_GT(result.at("interval").at("high_kwh"), total);
  EXPECT_NEAR(result.at("co2_kg"), total * 0.4, 1e-9);
  EXPECT_NEAR(result.at("cost"), total * 0.5, 1e-9);
}

TEST(Forecast, TextNamesWhatItShows) {
  const Ran ran = run_flyball({"forecast", kExample, "--price", "0.3"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("total 0.2742 kWh"));
  EXPECT_THAT(ran.out, HasSubstr("the interval rests on usual spreads: list the times of several iterations"));
  EXPECT_THAT(ran.out, HasSubstr("add iteration_seconds to RUN.toml"));
  EXPECT_THAT(ran.out, HasSubstr("cost 0.08226"));
  EXPECT_THAT(ran.out, Not(HasSubstr("CO2")));
}

TEST(Forecast, WritesOneSelfContainedPage) {
  const TempFolder folder;
  const Ran ran = run_flyball({"forecast", "examples/forecast/two-generations.toml", "--out", folder / "out"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  const std::string page = file_text(folder / "out/forecast.html");
  EXPECT_THAT(page, HasSubstr("Power over time"));
  EXPECT_THAT(page, HasSubstr("by node type"));
  for (const char* name :
       {"set dataset", "load data", "preprocess", "transfer", "model in out", "forward", "backward", "communication",
        "update", "wait", "processor", "accelerator", "memory", "disk", "network", "new", "old"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format(">{}<", name))) << name;  // in the tables
  }
  EXPECT_THAT(page, Not(HasSubstr("http://")));
  // A comment in the library of charts says where it is from; tests/page/ sees that nothing is asked for.
  EXPECT_THAT(page.substr(0, page.find("</main>")), Not(HasSubstr("https://")));
  EXPECT_EQ(json::parse(file_text(folder / "out/forecast.json")).at("node_types").size(), 2u);
}

TEST(Forecast, RecordingCalibratesAndIsDrawn) {
  const TempFolder folder;
  std::string power = "# flyball power trace, version 1\ntimestamp,device,power_w\n100,CPU:0,0\n";
  for (int t = 1; t <= 40; ++t) power += fmt::format("{},CPU:0,{}\n", 100 + t, t % 4 == 0 ? 20 : 90);
  write_file(folder / "power.csv", power);
  const json result = forecast({kExample, "--calibrate", folder / "power.csv"});
  ASSERT_EQ(run_flyball({"forecast", kExample, "--calibrate", folder / "power.csv", "--out", folder / "one"}).status,
            0);
  EXPECT_THAT(file_text(folder / "one/forecast.html"), HasSubstr(R"("label":"recorded")"));  // the recorded line
  // The processor's powers are now 90 and 20 W in place of 60 and 15: table 4's times of eq. 42 give
  // 128 (90 x 53.1234 + 20 x 7.1598) / 3.6e6.
  EXPECT_NEAR(result.at("components").at("processor"), 128 * (90 * 53.1234 + 20 * 7.1598) / 3.6e6, 1e-6);

  write_file(folder / "spans.csv", "iteration,stage,begin,end\n0,forward,100,103\n1,forward,104,107\n");
  std::string run = file_text(std::string(FLYBALL_SOURCE_DIR) + "/" + kExample);
  const std::string type = "count = 128\n";
  run.replace(run.find(type), type.size(), "count = 128\nrecording = \"power.csv\"\nspans = \"spans.csv\"\n");
  write_file(folder / "run.toml", run);
  const Ran ran = run_flyball({"forecast", folder / "run.toml", "--out", folder / "out", "--format", "json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(file_text(folder / "out/forecast.html"), HasSubstr(R"("label":"recorded")"));
}

TEST(Forecast, CalibrationAloneGivesThePowers) {
  // One node without any powers in RUN.toml; the recording has 60 and 300 W of its accelerator.
  const TempFolder folder;
  std::string power = "# flyball power trace, version 1\ntimestamp,device,power_w\n0,GPU:0,0\n";
  for (int t = 1; t <= 40; ++t) power += fmt::format("{},GPU:0,{}\n", t, t % 4 == 0 ? 60 : 300);
  write_file(folder / "power.csv", power);
  std::string run = "samples = 10\nbatch = 10\n[[nodes]]\n";
  for (const char* stage : {"set_dataset", "load_data", "preprocess", "transfer", "model_in_out", "update"}) {
    run += fmt::format("[nodes.stage.{}]\nseconds = 0\n", stage);
  }
  run += "[nodes.stage.forward]\nseconds = 1\n[nodes.stage.backward]\nseconds = 2\n";
  write_file(folder / "run.toml", run);
  const Ran without = run_flyball({"forecast", folder / "run.toml"});
  EXPECT_EQ(without.status, 3);
  EXPECT_THAT(without.err, HasSubstr("--calibrate"));
  // Forward and backward run on the accelerator: 3 s of 300 W.
  EXPECT_NEAR(forecast({folder / "run.toml", "--calibrate", folder / "power.csv"}).at("total_kwh"), 900 / 3.6e6, 1e-12);

  const Ran example = run_flyball({"forecast", kExample, "--calibrate", folder / "power.csv"});
  EXPECT_EQ(example.status, 3);
  EXPECT_THAT(example.err, HasSubstr("no transfer in 'MT-2000+', which has an accelerator"));
}

TEST(Forecast, ReadsThePowerTracesThatAccountReads) {
  const TempFolder folder;
  std::string power = "timestamp, index, power.draw [W]\n";
  for (int t = 0; t < 40; ++t) power += fmt::format("2026/11/22 10:00:{:02}.000, 0, {} W\n", t, t % 4 == 0 ? 60 : 300);
  write_file(folder / "smi.csv", power);
  const Ran ran = run_flyball({"forecast", "init", "--power", folder / "smi.csv"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("accelerator = { active = 300, idle = 60 }\n"));

  const auto refused = [&](const std::string& rows, const std::string& words) {
    write_file(folder / "bad.csv", "timestamp,device," + rows);
    const Ran bad = run_flyball({"forecast", kExample, "--calibrate", folder / "bad.csv"});
    EXPECT_EQ(bad.status, 3);
    EXPECT_THAT(bad.err, HasSubstr(words));
    EXPECT_THAT(bad.err, HasSubstr("to mend: "));
  };
  refused("power_w\n1,CPU:0,5\n2,CPU:0,-5\n3,CPU:0,5\n", "bad.csv:3: negative power");
  refused("energy_j\n1,CPU:0,5\n2,CPU:0,9\n3,CPU:0,1\n4,CPU:0,6\n", "nothing is known of CPU:0 for 1 s of 3 s");
  refused("power_w\n", "no device has two readings");
  refused("watts\n1,CPU:0,5\n", "power_w");
}

TEST(Forecast, PlanAgainstAllMaximumClocks) {
  const TempFolder folder;
  ASSERT_EQ(run_flyball({"plan", "examples/profiles/bert-1.3b-a100-4stage.csv", "--microbatches", "8", "--out",
                         folder / "plan"})
                .status,
            0);
  const json plan = json::parse(file_text(folder / "plan/plan.json"));
  const json summary = json::parse(file_text(folder / "plan/summary.json"));
  const std::string file = folder / "plan/plan.json";
  const json result = forecast({"--plan", file, "--iterations", "1000", "--carbon", "500", "--price", "0.2",
                                "--pipelines", "2", "--tensor-parallel", "4"});
  const json& point = plan.at("points").at(plan.at("selected").get<std::size_t>());
  // 1,000 iterations of 2 x 4 GPUs a stage
  EXPECT_NEAR(result.at("total_kwh"), point.at("energy_j").get<double>() * 8000.0 / 3.6e6, 1e-6);
  EXPECT_NEAR(result.at("duration_s"), point.at("time_s").get<double>() * 1000.0, 1e-6);
  const double before = summary.at("baseline").at("energy").get<double>() * 8000.0 / 3.6e6;
  EXPECT_NEAR(result.at("baseline").at("total_kwh"), before, 1e-6);
  EXPECT_NEAR(result.at("saved").at("kwh"), before - result.at("total_kwh").get<double>(), 1e-9);
  EXPECT_NEAR(result.at("saved").at("co2_kg"), result.at("saved").at("kwh").get<double>() * 0.5, 1e-9);
  EXPECT_NEAR(result.at("saved").at("cost"), result.at("saved").at("kwh").get<double>() * 0.2, 1e-9);
  EXPECT_EQ(result.at("node_types").size(), 4u);

  const json slower = forecast({"--plan", file, "--iterations", "1000", "--slower", "5"});
  EXPECT_LE(slower.at("saved").at("slower_pct"), 5.0);
  EXPECT_GT(slower.at("saved").at("slower_pct"), 3.0);
  EXPECT_GT(slower.at("saved").at("pct").get<double>(), result.at("saved").at("pct").get<double>());
  const json first = forecast({"--plan", file, "--iterations", "1", "--point", "0"});
  EXPECT_NEAR(first.at("duration_s"), plan.at("points").at(0).at("time_s"), 1e-9);
}

TEST(Forecast, ClusterResult) {
  const TempFolder folder;
  write_file(folder / "c.json",
             R"({"policy": "joule-price", "jobs": 3, "energy_j": 7.2e6, "makespan_s": 3600, "avg_power_w": 2000})");
  const json result = forecast({"--cluster", folder / "c.json", "--price", "0.1"});
  EXPECT_DOUBLE_EQ(result.at("total_kwh"), 2.0);
  EXPECT_DOUBLE_EQ(result.at("cost"), 0.2);
  EXPECT_EQ(result.at("jobs"), 3);
  EXPECT_FALSE(result.contains("iterations"));
  EXPECT_THAT(run_flyball({"forecast", "--cluster", folder / "c.json"}).out, HasSubstr("3 jobs"));

  // Against another policy: 3 kWh in 2,700 s, of which 2.5 kWh busy and 0.5 kWh profiling.
  write_file(folder / "fifo.json",
             R"({"policy": "fifo", "jobs": 3, "energy_j": 10.8e6, "busy_energy_j": 9e6, "profiling_energy_j": 1.8e6,
                 "makespan_s": 2700})");
  const json saved = forecast(
      {"--cluster", folder / "c.json", "--against", folder / "fifo.json", "--price", "0.1", "--carbon", "500"});
  EXPECT_NEAR(saved.at("saved").at("kwh"), 1.0, 1e-12);
  EXPECT_NEAR(saved.at("saved").at("cost"), 0.1, 1e-12);
  EXPECT_NEAR(saved.at("saved").at("co2_kg"), 0.5, 1e-12);
  EXPECT_NEAR(saved.at("saved").at("slower_pct"), 100.0 / 3.0, 1e-9);
  const json fifo = forecast({"--cluster", folder / "fifo.json"});
  EXPECT_NEAR(fifo.at("stages").at("jobs").at("parts").at("profiling"), 0.5, 1e-12);
  EXPECT_NEAR(fifo.at("stages").at("idle").at("kwh"), 0.5, 1e-12);
  write_file(folder / "fifo.json", R"({"jobs": 4, "energy_j": 10.8e6, "makespan_s": 2700})");
  const Ran other = run_flyball({"forecast", "--cluster", folder / "c.json", "--against", folder / "fifo.json"});
  EXPECT_EQ(other.status, 3);
  EXPECT_THAT(other.err, HasSubstr("4 jobs, 3 in"));
  // With a RUN.toml, --against is a recording.
  EXPECT_EQ(run_flyball({"forecast", kExample, "--against", folder / "fifo.json"}).status, 3);

  write_file(folder / "c.json", R"({"energy_j": 7.2e6, "makespan_s": 60, "avg_power_w": 2000})");
  const Ran wrong = run_flyball({"forecast", "--cluster", folder / "c.json"});
  EXPECT_EQ(wrong.status, 3);
  EXPECT_THAT(wrong.err, HasSubstr("avg_power_w"));
}

TEST(Forecast, InitWritesWhatForecastReads) {
  const TempFolder folder;
  // The template is complete but for the times of forward and backward.
  ASSERT_EQ(run_flyball({"forecast", "init", "-o", folder / "run.toml"}).status, 0);
  const Ran empty = run_flyball({"forecast", folder / "run.toml"});
  EXPECT_EQ(empty.status, 3);
  EXPECT_THAT(empty.err, HasSubstr("forward and backward take no time"));
  const Ran profile = run_flyball({"forecast", "init", "--profile", "examples/profiles/bert-1.3b-a100-4stage.csv",
                                   "--microbatches", "32", "--nodes", "2"});
  ASSERT_EQ(profile.status, 0) << profile.err;
  EXPECT_THAT(profile.out, HasSubstr("divided by its 4 stages"));
  EXPECT_THAT(profile.out, HasSubstr("idle = 60 }  # CHANGE: idle"));  // a profile says nothing of it
  write_file(folder / "run.toml", profile.out);
  const json result = forecast({folder / "run.toml"});
  EXPECT_EQ(result.at("node_types").size(), 4u);
  EXPECT_EQ(result.at("node_types").at(0).at("count"), 2);
  EXPECT_GT(result.at("components").at("accelerator").get<double>(), 0.0);
}

TEST(Forecast, InitFromAPyTorchTrace) {
  // Three steps of 0.2 s: load 10 ms, forward 50 ms, backward 100 ms, update 30 ms. The first is left out.
  const TempFolder folder;
  std::string trace = "{\"traceEvents\": [\n";
  const auto add = [&trace](const std::string& name, int begin_ms, int ms) {
    trace += fmt::format("{}{{\"ph\": \"X\", \"name\": \"{}\", \"ts\": {}, \"dur\": {}}}",
                         trace.ends_with('[') || trace.ends_with("[\n") ? "" : ",\n", name, 1000 * begin_ms, 1000 * ms);
  };
  for (int step = 0; step < 3; ++step) {
    add(fmt::format("ProfilerStep#{}", step), 200 * step, 200);
    add("enumerate(DataLoader)#_Iter.__next__", 200 * step, 10);
    add("autograd::engine::evaluate_function: AddmmBackward0", 200 * step + 60, 100);
    add("Optimizer.step#AdamW.step", 200 * step + 165, 30);
  }
  write_file(folder / "trace.json", trace + "]}");
  const Ran ran = run_flyball({"forecast", "init", "--trace", folder / "trace.json", "-o", folder / "run.toml"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const std::string run = file_text(folder / "run.toml");
  EXPECT_THAT(run, HasSubstr("iteration_seconds = 0.2 "));
  EXPECT_THAT(run, HasSubstr("seconds = [0.1, 0.1]\n"));
  // 50000 samples in batches of 64, once: 781.25 iterations of 0.01 + 0.05 + 0.1 + 0.03 s.
  EXPECT_NEAR(forecast({folder / "run.toml"}).at("duration_s"), 781.25 * 0.19, 1e-6);

  // One that PyTorch wrote, packed.
  const Ran real = run_flyball({"forecast", "init", "--trace", "tests/trace/files/pytorch-plain.json.gz"});
  EXPECT_EQ(real.status, 0) << real.err;
  EXPECT_THAT(real.out, HasSubstr("# Stage times: 2 steps of"));
  EXPECT_THAT(real.out, HasSubstr("seconds = [0.00137461, 0.00124024]\n"));

  // Somebody who writes the backward's milliseconds as seconds is told.
  std::string wrong = run;
  wrong.replace(wrong.find("[0.1, 0.1]"), 10, "[100, 100]");
  write_file(folder / "run.toml", wrong);
  const Ran refused = run_flyball({"forecast", folder / "run.toml"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("the stages of an iteration take 100.1 s, the iteration 0.2 s"));
}

// Two steps of 110 ms of a rank whose forward and backward take `work_ms`; the all-reduce ends at 100 ms, then 10 ms
// update.
std::string rank_trace(int work_ms, const std::string& head = "") {
  std::string trace = "{" + head + R"("traceEvents": [)";
  for (int step = 0; step < 2; ++step) {
    trace += fmt::format(R"({}{{"ph": "X", "name": "ProfilerStep#{}", "ts": {}, "dur": 110000}},
{{"ph": "X", "name": "autograd::engine::evaluate_function: MmBackward", "ts": {}, "dur": {}}},
{{"ph": "X", "name": "nccl:all_reduce", "ts": {}, "dur": {}}},
{{"ph": "X", "name": "Optimizer.step#SGD.step", "ts": {}, "dur": 10000}})",
                         step == 0 ? "" : ",", step, 110'000 * step, 110'000 * step + 20'000, 1000 * (work_ms - 20),
                         110'000 * step + 1000 * work_ms, 1000 * (100 - work_ms), 110'000 * step + 100'000);
  }
  return trace + "]}";
}

TEST(Forecast, InitTakesTheWaitOutOfCommunication) {
  // A rank of 60 ms and one of 90 ms: 10 ms of transfer, and 15 ms of waiting on average. Whatever is where, an
  // iteration takes 110 ms, and 50000 samples are 50000 / 128 iterations.
  const TempFolder folder;
  write_file(folder / "0.json", rank_trace(60));
  write_file(folder / "1.json", rank_trace(90));
  const Ran both = run_flyball({"forecast", "init", "--trace", folder / "0.json", "--trace", folder / "1.json"});
  ASSERT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("count = 2\n"));
  EXPECT_THAT(both.out, HasSubstr("measured_nodes = 2  # times are means over so many\n"));
  write_file(folder / "both.toml", both.out);
  const json apart = forecast({folder / "both.toml"});
  const double iterations = 50000.0 / 128.0;
  EXPECT_NEAR(apart.at("duration_s"), 0.110 * iterations, 1e-6);
  EXPECT_NEAR(apart.at("node_types").at(0).at("wait_s"), 0.015, 1e-9);
  // eq. 36 at the guessed powers: network 15, processor 120, memory 40, disk idle 5; 10 ms on two nodes.
  EXPECT_NEAR(apart.at("stages").at("communicate").at("parts").at("communication"),
              2 * iterations * 0.010 * 180.0 / 3.6e6, 1e-9);

  // Four nodes wait for the slowest of four, not of two. Between barriers a rank takes 60 or 90 ms and 10 ms of update,
  // one as likely as the other; of four draws all are 70 ms in one case of 16: on average 98.125 ms, 13.125 ms above
  // the mean.
  const Ran four =
      run_flyball({"forecast", "init", "--trace", folder / "0.json", "--trace", folder / "1.json", "--nodes", "4"});
  ASSERT_EQ(four.status, 0) << four.err;
  EXPECT_THAT(four.out, Not(HasSubstr("stage.wait")));
  EXPECT_THAT(four.out, Not(HasSubstr("measured_nodes")));
  EXPECT_THAT(four.out, HasSubstr("iteration_seconds = 0.095  # without the wait"));  // (80 + 110) / 2 ms
  write_file(folder / "four.toml", four.out);
  const json more = forecast({folder / "four.toml"});
  EXPECT_NEAR(more.at("duration_s"), (0.098125 + 0.010) * 50000.0 / 256.0, 1e-6);
  EXPECT_NEAR(more.at("node_types").at(0).at("wait_s"), 0.013125, 1e-9);

  // Two ranks of eight, as the traces say: the wait for the other six is in the communication, so that none is derived.
  const std::string head = R"("distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, )";
  write_file(folder / "2.json", rank_trace(60, head));
  write_file(folder / "3.json", rank_trace(90, head));
  const Ran some =
      run_flyball({"forecast", "init", "--trace", folder / "2.json", "--trace", folder / "3.json", "--nodes", "40"});
  ASSERT_EQ(some.status, 0) << some.err;
  EXPECT_THAT(some.out, HasSubstr("# CHANGE: traces of 2 of 8 ranks; the wait for slower ranks is in it."));
  EXPECT_THAT(some.out, HasSubstr("more of it is in communication, above; of 8 ranks, 40 nodes wait longer\n"));
  write_file(folder / "some.toml", some.out);
  EXPECT_NEAR(forecast({folder / "some.toml"}).at("duration_s"), 0.110 * 50000.0 / 2560.0, 1e-6);

  // One rank alone: nobody can tell, which it says; the time is right all the same, since no wait is added.
  const Ran one = run_flyball({"forecast", "init", "--trace", folder / "0.json", "--nodes", "2"});
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("# CHANGE: one rank's trace; the wait for slower ranks is in it."));
  write_file(folder / "one.toml", one.out);
  EXPECT_NEAR(forecast({folder / "one.toml"}).at("duration_s"), 0.110 * iterations, 1e-6);

  EXPECT_EQ(run_flyball({"forecast", "init", "--trace", folder / "0.json", "--trace", folder / "0.json"}).status, 2);
  EXPECT_EQ(
      run_flyball({"forecast", "init", "--trace", folder / "0.json", "--trace", folder / "1.json", "--nodes", "1"})
          .status,
      2);
}

TEST(Forecast, RefusesContradictions) {
  const std::vector<std::vector<std::string>> wrong = {
      {"forecast"},
      {"forecast", kExample, "--iterations", "5"},
      {"forecast", "--plan", "p.json"},
      {"forecast", kExample, "--plan", "p.json", "--iterations", "5"},
      {"forecast", kExample, "--price", "-1"},
      {"forecast", kExample, "--start", "5s"},
      {"forecast", kExample, "--epochs", "0"},
      {"forecast", kExample, "--confidence", "99.99999999999999"},
      {"forecast", kExample, "--confidence", "0"},
  };
  for (const auto& arguments : wrong)
    EXPECT_EQ(run_flyball(arguments).status, 2) << ::testing::PrintToString(arguments);
  EXPECT_EQ(run_flyball({"forecast", kExample, "--confidence", "99.99"}).status, 0);
  EXPECT_EQ(run_flyball({"forecast", kExample, "--confidence", "1"}).status, 0);
  EXPECT_EQ(run_flyball({"forecast", kExample, "--carbon", "-5"}).status, 3);
  EXPECT_EQ(run_flyball({"forecast", "no-such-file.toml"}).status, 1);
}

TEST(Forecast, SmallRunsHaveDigitsToo) {
  // One processor of 100 W that works for 36 ms once: 3.6 J, a millionth of a kilowatt-hour, and idles for nothing.
  const TempFolder folder;
  std::string run = "samples = 10\nbatch = 10\n[[nodes]]\n[nodes.power_w]\nprocessor = { active = 100, idle = 10 }\n";
  for (const char* stage : {"set_dataset", "load_data", "preprocess", "model_in_out", "update"}) {
    run += fmt::format("[nodes.stage.{}]\nseconds = 0\n", stage);
  }
  run += "[nodes.stage.forward]\nmilliseconds = 12\n[nodes.stage.backward]\nmilliseconds = 24\n";
  write_file(folder / "run.toml", run);
  const Ran ran = run_flyball({"forecast", folder / "run.toml", "--price", "0.3"});
  EXPECT_THAT(ran.out, HasSubstr("1 epoch, 1 iterations, 0.03600 s\n"));
  EXPECT_THAT(ran.out, HasSubstr("total 0.000001000 kWh"));
  EXPECT_THAT(ran.out, HasSubstr("  backward      0.000000667"));
  EXPECT_THAT(ran.out, HasSubstr("cost 0.0000003000\n"));
}

TEST(Forecast, GpusAreCountedBeyondAnInt) {
  // 65,536 pipelines of 65,536 GPUs a stage are 2^32 times what one takes.
  const TempFolder folder;
  ASSERT_EQ(run_flyball({"plan", "examples/profiles/bert-1.3b-a100-4stage.csv", "--microbatches", "8", "--out",
                         folder / "plan"})
                .status,
            0);
  const auto kwh = [&](const std::string& pipelines) {
    return forecast({"--plan", folder / "plan/plan.json", "--iterations", "10", "--pipelines", pipelines,
                     "--tensor-parallel", pipelines});
  };
  const json many = kwh("65536");
  EXPECT_NEAR(many.at("total_kwh").get<double>() / kwh("1").at("total_kwh").get<double>() / 4294967296.0, 1.0, 1e-9);
  EXPECT_EQ(many.at("node_types").at(0).at("count"), 4294967296);
}

TEST(Forecast, BadInputIsNamedWithItsPlace) {
  const TempFolder folder;
  std::string run = file_text(std::string(FLYBALL_SOURCE_DIR) + "/" + kExample);
  run.replace(run.find("active = 60"), 11, "active = -6");
  write_file(folder / "run.toml", run);
  const Ran ran = run_flyball({"forecast", folder / "run.toml"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("run.toml:16:24: processor.active is -6"));
  EXPECT_THAT(ran.err, HasSubstr("to mend: "));
}

}  // namespace
}  // namespace flyball::testing
