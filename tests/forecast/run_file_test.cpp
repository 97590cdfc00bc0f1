// RUN.toml and the other files: what is read, and what is refused with its place and a mend.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "forecast/bill.h"
#include "forecast/forecast.h"
#include "forecast/pytorch_steps.h"
#include "forecast/recording.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

constexpr const char* kRun = R"(samples = 1000
batch = 10
[[nodes]]
[nodes.power_w]
processor = { active = 100, idle = 20 }
[nodes.stage.set_dataset]
seconds = 1
[nodes.stage.load_data]
milliseconds = 5
[nodes.stage.preprocess]
seconds = 0
[nodes.stage.model_in_out]
seconds = 1
[nodes.stage.forward]
seconds = [0.1, 0.11, 0.12]
[nodes.stage.backward]
minutes = 0.005
[nodes.stage.update]
seconds = 0.01
)";

RunDescription read(const std::string& text) {
  RunDescription run = read_run("RUN.toml", text);
  check_complete(run);
  return run;
}

std::string with(const std::string& from, const std::string& to) {
  std::string text = kRun;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void refused(const std::string& text, std::size_t line, std::size_t column, const std::string& words) {
  expect_input_error([&] { (void)read(text); }, line, column, words);
}

TEST(RunFile, ReadsUnitsListsAndDefaults) {
  const RunDescription run = read(kRun);
  EXPECT_EQ(run.nodes(), 1);
  EXPECT_DOUBLE_EQ(run.iterations_per_epoch(), 100.0);
  const NodeType& type = run.node_types[0];
  EXPECT_EQ(type.name, "node type 1");
  EXPECT_NEAR(type.stage(TrainingStage::kLoadData).times[0].value(), 0.005, 1e-12);
  EXPECT_NEAR(type.stage(TrainingStage::kBackward).times[0].value(), 0.3, 1e-12);
  EXPECT_EQ(type.stage(TrainingStage::kForward).times.size(), 3u);
  EXPECT_EQ(type.stage(TrainingStage::kSetDataset).occurrence, Occurrence::kRun);
  EXPECT_EQ(type.stage(TrainingStage::kForward).occurrence, Occurrence::kIteration);
}

TEST(RunFile, RefusesWhatCannotBe) {
  refused(with("idle = 20", "idle = -20"), 5, 36, "processor.idle is -20, it must be from 0");
  refused(with("active = 100", "active = 10"), 5, 13, "draws 20 W idle and 10 W active");
  refused(with("active = 100", "active = 100000000"), 5, 24, "watts (not milliwatts)");
  refused(with("batch = 10", "batch = 0"), 2, 9, "batch is 0");
  refused(with("batch = 10", "batch = -4"), 2, 9, "batch is -4");
  refused(with("batch = 10\n", ""), 2, 1, "batch is missing");
  refused(with("samples = 1000", "samples = 0"), 1, 11, "samples is 0");
  refused(with("samples", "sample"), 1, 1, "did you mean 'samples'?");
  refused(with("[nodes.stage.forward]\nseconds = [0.1, 0.11, 0.12]\n", ""), 3, 1, "no forward in 'node type 1'");
  refused(with("[nodes.stage.update]\nseconds = 0.01\n", ""), 3, 1, "add [nodes.stage.update]");
  refused(with("[0.1, 0.11, 0.12]", "[]"), 15, 11, "empty list");
  refused(with("[0.1, 0.11, 0.12]", "-1"), 15, 11, "it must be from 0");
  refused(with("[0.1, 0.11, 0.12]", "nan"), 15, 11, "seconds of forward is nan");
  refused(with("minutes = 0.005", "minutes = [0.005, 0.006]"), 16, 14,
          "2 measurements here, 3 of the stage in line 14");
  refused(with("stage.forward", "stage.forwards"), 14, 14, "did you mean 'forward'?");
  refused("samples = 1", 1, 1, "nodes is missing");
  refused("samples = ", 1, 11, "to mend");
}

// kRun's nodes again, the times of their iterations a sixtieth.
std::string second_type_in_minutes() {
  std::string text = kRun;
  text.erase(0, text.find("[[nodes]]"));
  for (const auto& [from, to] :
       {std::pair{"[0.1, 0.11, 0.12]", "0.00183"}, std::pair{"0.005", "0.0000833"}, std::pair{"0.01", "0.000167"}}) {
    text.replace(text.find(from), std::string(from).size(), to);
  }
  text.replace(text.find("= 5\n"), 4, "= 0.0833\n");
  return text + "[nodes.stage.communication]\nseconds = 0\n";
}

TEST(RunFile, RefusesOtherUnits) {
  // Keys that carry another unit.
  refused(with("seconds = 0.01", "hours = 0.01"), 19, 1, "write seconds = ..., milliseconds = ... or minutes = ...");
  refused(with("seconds = 0.01", "time_ms = 10"), 19, 1, "write seconds = ..., milliseconds");
  // One measurement in another unit than its neighbours.
  refused(with("[0.1, 0.11, 0.12]", "[0.1, 0.11, 120]"), 15, 23, "times the median");
  // Stages that do not add up to the iteration: 5 + 110 + 300 + 10 ms = 0.425 s.
  const auto iteration = [](const std::string& seconds) {
    return with("batch = 10", "batch = 10\niteration_seconds = " + seconds);
  };
  EXPECT_TRUE(read(iteration("0.43")).iteration);
  refused(iteration("25.5"), 17, 14, "are the stages in minutes? write minutes = ...");
  refused(iteration("0.000425"), 17, 14, "are the stages in milliseconds?");
  refused(iteration("0.00708"), 17, 14, "is iteration_seconds in minutes?");
  // Two types of nodes in two units, without iteration_seconds.
  refused(std::string(kRun) + "[nodes.stage.communication]\nseconds = 0\n" + second_type_in_minutes(), 16, 14,
          "other nodes, which would wait for most of their time");
  refused(iteration("0.1"), 17, 14, "the stages of an iteration take 0.425 s, the iteration 0.1 s");
}

TEST(RunFile, TakesWhatWaitsForLongOnceInAWhile) {
  // Another node's stall is 0.62 s of waiting, 52 times the median of 0.012 s, and shorter than two iterations of
  // 0.005 + 0.11 + 0.3 + 0.01 + 0.012 = 0.437 s. A batch that the cache does not have is loaded for 0.9 s, and
  // the model for 6 s from a disk that slept; indexing takes 1 s.
  const auto wait = [](const std::string& list) {
    return with("[nodes.stage.update]", "[nodes.stage.wait]\nseconds = " + list + "\n[nodes.stage.update]");
  };
  EXPECT_EQ(read(wait("[0.012, 0.62, 0.011]")).node_types[0].stage(TrainingStage::kWait).times.size(), 3u);
  EXPECT_EQ(read(with("milliseconds = 5", "milliseconds = [12, 900, 11]")).node_types.size(), 1u);
  const std::string model = "[nodes.stage.model_in_out]\nseconds = ";
  EXPECT_EQ(read(with(model + "1", model + "[0.1, 6, 0.1]")).node_types.size(), 1u);
  // Milliseconds among seconds are many iterations: 62 / 0.437.
  refused(wait("[0.012, 62, 0.011]"), 19, 19, "a measurement of wait is 142 times the median of all stages together");
  // Computing waits for nobody: 6 s is 55 times 0.11 s.
  refused(with("[0.1, 0.11, 0.12]", "[0.1, 0.11, 6]"), 15, 23, "a measurement of forward is 55 times the median\n");
}

TEST(RunFile, ChecksTimesOfAnEpochToo) {
  // The paper's ResNet50: an epoch of 1281167 / 8192 = 156.4 iterations takes 309 min, an iteration 118.5 s.
  std::string text = read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/examples/forecast/resnet50-mt128.toml");
  text.insert(text.find("epochs = 1"), "iteration_seconds = 118.5\n");
  const RunDescription run = read(text);
  EXPECT_THAT(doubts_of(run), ::testing::Not(::testing::Contains(::testing::HasSubstr("iteration_seconds"))));
  for (std::size_t at = text.find("minutes ="); at != std::string::npos; at = text.find("minutes =")) {
    text.replace(at, 7, "seconds");
  }
  refused(text, 40, 14, "are the stages in minutes? write minutes = ...");  // at the longest, backward
  const RunDescription unchecked = read(kRun);
  EXPECT_THAT(doubts_of(unchecked), ::testing::Contains(::testing::HasSubstr("add iteration_seconds")));
}

// The doubts about kRun with `from` written as `to`, less the two that are about measuring.
std::vector<std::string> doubts(const std::string& from, const std::string& to) {
  std::vector<std::string> list = doubts_of(read(with(from, to)));
  std::erase_if(list, [](const std::string& one) { return one.starts_with("stage times are unchecked"); });
  return list;
}

TEST(RunFile, DoubtsWhatIsPossibleAndUnlikely) {
  using ::testing::AllOf;
  using ::testing::ElementsAre;
  using ::testing::EndsWith;
  using ::testing::HasSubstr;
  using ::testing::IsEmpty;
  EXPECT_THAT(doubts("batch = 10", "batch = 12"), IsEmpty());
  // Eight nodes that share a batch of 64 as 8 each; as it stands 512 of 1000 samples an iteration, 1.95 an epoch.
  EXPECT_THAT(
      doubts("batch = 10\n[[nodes]]\n", "batch = 64\n[[nodes]]\ncount = 8\nstage.communication.seconds = 0.1\n"),
      ElementsAre(AllOf(HasSubstr("batch = 64 on each of 8 nodes makes 512 samples an iteration and 1.95 iterations"),
                        EndsWith("if all nodes share it, write 8"))));
  // Forty nodes cannot share 64 evenly. Of 4096 each, 163840 together are many, and 102.4 is no batch either.
  const std::string forty = "\n[[nodes]]\ncount = 40\nstage.communication.seconds = 0.1\n";
  EXPECT_THAT(doubts("batch = 10\n[[nodes]]\n", "batch = 64" + forty), IsEmpty());
  EXPECT_THAT(doubts("batch = 10\n[[nodes]]\n", "batch = 4096" + forty),
              ElementsAre(AllOf(HasSubstr("makes 163840 samples an iteration"),
                                EndsWith("if all nodes share it, write how many of them one node takes"))));
  // Memory of 3 and 1 W in milliwatts; as it stands 3 kW.
  EXPECT_THAT(doubts("idle = 20 }", "idle = 20 }\nmemory = { active = 3000, idle = 1000 }"),
              ElementsAre(HasSubstr("memory of 'node type 1' draws 3000 W, more than one node's usually can")));
  EXPECT_THAT(doubts("seconds = 0.01", "seconds = 0.01\npower_w = { processor = 120000 }"),
              ElementsAre(HasSubstr("processor of 'node type 1' draws 120000 W in update")));
  // Loading for 5 ms, written as 5 s: 5 + 0.42, of which all others take 0.11 + 0.3 + 0.01.
  EXPECT_THAT(
      doubts("milliseconds = 5", "seconds = 5"),
      ElementsAre(HasSubstr("load_data of 'node type 1' takes 5 s of an iteration, all other stages together 0.42 s")));
  // Forward in milliseconds where seconds are meant, 1000 times too short.
  EXPECT_THAT(doubts("seconds = [0.1, 0.11, 0.12]", "milliseconds = [0.1, 0.11, 0.12]"),
              ElementsAre(HasSubstr("takes 0.00011 s and backward 0.3 s")));
}

TEST(RunFile, ExamplesAreBeyondDoubt) {
  for (const char* name : {"two-generations", "vgg16-mt128", "vgg16-ft32", "vit-mt128", "resnet50-mt128"}) {
    const RunDescription run =
        read(read_text_file(std::string(FLYBALL_SOURCE_DIR) + "/examples/forecast/" + name + ".toml"));
    for (const std::string& doubt : doubts_of(run)) {
      EXPECT_TRUE(doubt.starts_with("stage times are unchecked") || doubt.starts_with("the interval rests"))
          << name << ": " << doubt;
    }
  }
}

TEST(RunFile, CountsMoreNodesThanAnIntHolds) {
  // 500 types of 10,000,000 nodes: 5e9, beyond 2^32. 1000 samples in batches of 10 are 1000 / 5e10 iterations.
  std::string text = "samples = 1000\nbatch = 10\n";
  for (int t = 0; t < 500; ++t) text += "[[nodes]]\ncount = 10000000\n";
  const RunDescription run = read_run("RUN.toml", text);
  EXPECT_EQ(run.nodes(), 5'000'000'000);
  EXPECT_DOUBLE_EQ(run.iterations_per_epoch(), 2e-8);
}

TEST(RunFile, RefusesRecordingsThatDoNotFit) {
  expect_input_error([] { (void)read_spans("s.csv", "iteration,stage,begin,end\n0,forward,2,1\n"); }, 2, 13,
                     "ends before");
  expect_input_error([] { (void)read_spans("s.csv", "iteration,stage,begin,end\n0,fwd,1,2\n"); }, 2, 3,
                     "unknown stage");
  RunDescription run = read(kRun);
  Recording recording{"p.csv", 1.0, {}};
  recording.add("CPU:0", Seconds(0), Seconds(8), Watts(1));
  expect_input_error(
      [&] {
        attach_recording(run.node_types[0], recording,
                         read_spans("s.csv", "iteration,stage,begin,end\n0,forward,100,101\n"));
      },
      0, 0, "lies outside the recording");
}

TEST(Carbon, HoldsRepeatsAndAverages) {
  // 100 g/kWh for 12 h, 300 g/kWh for 12 h, again and again.
  const PerKwhSeries day =
      read_carbon("c.csv", "timestamp,g_per_kwh\n2026-11-21T00:00Z,100\n2026-11-21T12:00:00,300\n");
  EXPECT_DOUBLE_EQ(day.period.value(), 86400.0);
  EXPECT_DOUBLE_EQ(mean_per_kwh(day, Seconds(0), Seconds(6 * 3600.0)), 100.0);
  EXPECT_DOUBLE_EQ(mean_per_kwh(day, Seconds(0), Seconds(86400.0)), 200.0);
  EXPECT_DOUBLE_EQ(mean_per_kwh(day, Seconds(6 * 3600.0), Seconds(12 * 3600.0)), 200.0);
  // 1.25 days from noon: 12 h at 300, 12 h at 100, 6 h at 300 = (18 x 300 + 12 x 100) / 30
  EXPECT_NEAR(mean_per_kwh(day, Seconds(12 * 3600.0), Seconds(30 * 3600.0)), 220.0, 1e-9);
  EXPECT_DOUBLE_EQ(mean_per_kwh(day, Seconds(13 * 3600.0), Seconds(0)), 300.0);
  // Noon in central Europe's summer is 10:00 UTC; a whole offset west of it, in three spellings, later by itself.
  for (const char* offset : {"-02:30", "-0230"}) {
    const PerKwhSeries zones = read_carbon("c.csv", fmt::format("timestamp,g_per_kwh\n2026-07-21T12:00+02:00,100\n"
                                                                "2026-07-21T12:00:00Z,200\n2026-07-21T12:00{},300\n",
                                                                offset));
    EXPECT_DOUBLE_EQ(zones.begins[1].value(), 2 * 3600.0);
    EXPECT_DOUBLE_EQ(zones.begins[2].value(), 4.5 * 3600.0);
  }
  EXPECT_DOUBLE_EQ(
      read_carbon("c.csv", "timestamp,g_per_kwh\n2026-07-21T12:00+02,1\n2026-07-21T12:00,2\n").begins[1].value(),
      2 * 3600.0);
  const PerKwhSeries constant = read_carbon("c.csv", "timestamp,g_per_kwh\n0,380\n");
  EXPECT_DOUBLE_EQ(mean_per_kwh(constant, Seconds(0), Seconds(1e7)), 380.0);
  Tariff tariff;
  tariff.carbon = constant;
  tariff.price_per_kwh = 0.25;
  EXPECT_NEAR(*tariff.co2_kg(Joules(36e6), Seconds(1)), 3.8, 1e-12);  // 10 kWh
  EXPECT_NEAR(*tariff.cost(Joules(36e6), Seconds(1)), 2.5, 1e-12);
  EXPECT_FALSE(Tariff{}.co2_kg(Joules(1), Seconds(1)));
}

// The headings as they stand in downloads of Electricity Maps of 2025 and of before, and in WattTime's.
TEST(Carbon, ReadsElectricityMapsAndWattTime) {
  const PerKwhSeries now = read_carbon(
      "maps.csv",
      "\xEF\xBB\xBF"
      "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO\u2082eq/kWh (direct),Carbon intensity "
      "gCO\u2082eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),Renewable energy percentage (RE%),Data "
      "source,Data "
      "estimated,Data estimation method\n"
      "2025-01-01 00:00:00,Germany,Germany,DE,250.5,300.25,50.1,49.9,\"entsoe.eu, ember-energy.org\",false,\n"
      "2025-01-01 01:00:00,Germany,Germany,DE,240,290,51,50,entsoe.eu,true,\"TIME_SLICER_AVERAGE\"\n");
  EXPECT_THAT(now.per_kwh, ElementsAre(300.25, 290.0));
  EXPECT_DOUBLE_EQ(now.begins[1].value(), 3600.0);
  EXPECT_DOUBLE_EQ(now.first.value(), 1735689600.0);  // date -u -d 2025-01-01 +%s
  const PerKwhSeries before = read_carbon(
      "maps.csv", "Datetime (UTC),Zone Id,Carbon Intensity gCO\u2082eq/kWh (direct)\n2021-01-01 00:00:00,FR,41\n");
  EXPECT_THAT(before.per_kwh, ElementsAre(41.0));
  // 1000 lb/MWh are 453.59237 g/kWh.
  const PerKwhSeries marginal =
      read_carbon("w.csv", "timestamp,MOER\n2019-02-28 00:00:00+00:00,1000\n2019-02-28 00:05:00+00:00,500\n");
  EXPECT_NEAR(marginal.per_kwh[0], 453.59237, 1e-9);
  EXPECT_DOUBLE_EQ(marginal.begins[1].value(), 300.0);
  EXPECT_NEAR(
      read_carbon("w.csv", "point_time,value,units\n2026-04-01T00:00:00+00:00,412.5,lbs_co2_per_mwh\n").per_kwh[0],
      412.5 * 0.45359237, 1e-9);
  expect_input_error([] { (void)read_carbon("w.csv", "point_time,value,units\n2026-04-01T00:00Z,1,percentile\n"); }, 2,
                     21, "another unit");
  expect_input_error([] { (void)read_carbon("maps.csv", "Datetime (UTC),Zone Id\n2021-01-01 00:00:00,FR\n"); }, 1, 1,
                     "timestamp");
}

TEST(Carbon, TheBestStartIsWhereAnEndOfTheRunMeetsARow) {
  // 300 until 6 h, 100 until 10 h, 200 until 24 h.
  const PerKwhSeries day = read_carbon(
      "c.csv", "timestamp,g_per_kwh\n0,300\n21600,100\n36000,200\n50400,200\n68400,200\n86399,300\n86400,300\n");
  EXPECT_DOUBLE_EQ(best_start(day, Seconds(3600)).value(), 21600.0);
  EXPECT_DOUBLE_EQ(best_start(day, Seconds(4 * 3600.0)).value(), 21600.0);
  // Eight hours: four at 100 and four at 200 from 6 h on; any earlier start has some at 300.
  EXPECT_DOUBLE_EQ(best_start(day, Seconds(8 * 3600.0)).value(), 21600.0);
  // 100 between 200 and 300: a run of eight hours is to end with the cheap ones.
  const PerKwhSeries evening = read_carbon("c.csv", "timestamp,g_per_kwh\n0,200\n21600,100\n36000,300\n57600,300\n");
  EXPECT_DOUBLE_EQ(best_start(evening, Seconds(8 * 3600.0)).value(), 2 * 3600.0);
  EXPECT_DOUBLE_EQ(best_start(read_carbon("c.csv", "timestamp,g_per_kwh\n0,380\n"), Seconds(1)).value(), 0.0);
}

TEST(Prices, FollowTheClockOfTheRun) {
  Tariff tariff;
  tariff.prices = read_prices("p.csv", "timestamp,price_per_kwh\n2026-11-21T00:00Z,0.1\n2026-11-21T12:00Z,-0.3\n");
  // 10 kWh in the 6 hours before noon, and then round noon.
  EXPECT_NEAR(*tariff.cost(Joules(36e6), Seconds(6 * 3600.0)), 1.0, 1e-12);
  tariff.start = Seconds(9 * 3600.0);
  EXPECT_NEAR(*tariff.cost(Joules(36e6), Seconds(6 * 3600.0)), -1.0, 1e-12);
  // The intensities begin at 03:00 of the next day: 9 h later it is noon.
  tariff.carbon = read_carbon("c.csv", "timestamp,g_per_kwh\n2026-11-22T03:00Z,100\n");
  EXPECT_NEAR(*tariff.cost(Joules(36e6), Seconds(6 * 3600.0)), -3.0, 1e-9);
  expect_input_error([] { (void)read_prices("p.csv", "timestamp,price_per_kwh\n0,1e9\n"); }, 2, 3, "a price of");
}

TEST(Carbon, RefusesWhatCannotBe) {
  const auto read_rows = [](const std::string& rows) {
    return [rows] { (void)read_carbon("c.csv", "timestamp,g_per_kwh\n" + rows); };
  };
  expect_input_error(read_rows("0,-3\n"), 2, 3, "an intensity of -3");
  expect_input_error(read_rows("0,300\n0,200\n"), 3, 1, "not after");
  expect_input_error(read_rows("2026-13-01T00:00,300\n"), 2, 1, "2026-13-01T00:00");
  expect_input_error(read_rows("2026-11-01T00:00+2:00,300\n"), 2, 1, "2026-11-01T00:00+2:00");
  expect_input_error(read_rows("2026-11-01T00:00+02:75,300\n"), 2, 1, "2026-11-01T00:00+02:75");
  expect_input_error(read_rows(""), 1, 1, "no rows");
}

// Two steps of 100 ms: 10 ms load, 30 ms forward, 40 ms backward with an all-reduce that ends 5 ms later, 10 ms update.
constexpr const char* kTrace = R"({"schemaVersion": 1, "traceEvents": [
 {"ph": "M", "name": "process_name", "args": {"name": "python"}},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1000000, "dur": 100000, "pid": 1, "tid": 1},
 {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_X.__next__", "ts": 1000000, "dur": 10000},
 {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "ts": 1010000, "dur": 30000, "args": {"name": "no name"}},
 {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward", "ts": 1040000, "dur": 20000},
 {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: AddBackward", "ts": 1060000, "dur": 20000},
 {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "ts": 1050000, "dur": 35000},
 {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD.step", "ts": 1085000, "dur": 10000},
 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "ts": 1100000, "dur": 100000},
 {"ph": "X", "cat": "cpu_op", "name": "autograd::engine::evaluate_function: MmBackward", "ts": 1150000, "dur": 40000}
]})";

TracedSteps steps_in(std::string_view text) {
  ByteSource bytes("t.json", text);
  return read_pytorch_steps(bytes);
}

TEST(PyTorchSteps, ReadsStagesFromNames) {
  const TracedSteps traced = steps_in(kTrace);
  EXPECT_EQ(traced.steps, 2u);
  EXPECT_FALSE(traced.accelerator);
  ASSERT_EQ(traced.iterations.size(), 2u);
  EXPECT_NEAR(traced.iterations[0].value(), 0.1, 1e-9);
  const auto time = [&](TrainingStage stage, std::size_t k) { return traced.times[index_of(stage)].at(k).value(); };
  EXPECT_NEAR(time(TrainingStage::kLoadData, 0), 0.010, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kForward, 0), 0.030, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kBackward, 0), 0.040, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kCommunication, 0), 0.005, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kUpdate, 0), 0.010, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kForward, 1), 0.050, 1e-9);
}

TEST(PyTorchSteps, CountsAStepOnceAndOverlappingOnesBoth) {
  // Times of 1e15 microseconds are rounded to an eighth, by which a step may end after the next begins. The device
  // works on step 1 until the host is in step 2: that is no third step.
  std::string trace = kTrace;
  const std::string step = R"("ts": 1000000, "dur": 100000,)";
  ASSERT_NE(trace.find(step), std::string::npos);
  trace.replace(trace.find(step), step.size(), R"("ts": 1000000, "dur": 100000.125,)");
  trace.insert(trace.rfind("\n]}"),
               ",\n"
               R"( {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#1", "ts": 1110000, "dur": 90000})");
  const TracedSteps traced = steps_in(trace);
  EXPECT_THAT(traced.numbers, ::testing::ElementsAre(1, 2));
  ASSERT_EQ(traced.iterations.size(), 2u);
  EXPECT_NEAR(traced.iterations[1].value(), 0.1, 1e-9);
}

TEST(PyTorchSteps, BareListWithoutSteps) {
  // As PyTorch writes it without Kineto: steps lie between the optimizer's, here 100 ms each.
  std::string trace = "[";
  for (int k = 0; k < 3; ++k) {
    trace += fmt::format(R"({{"ph": "X", "name": "Optimizer.zero_grad#SGD.zero_grad", "ts": {}, "dur": 2000}},
      {{"ph": "X", "name": "autograd::engine::evaluate_function: MmBackward", "ts": {}, "dur": 50000}},
      {{"ph": "X", "name": "Optimizer.step#SGD.step", "ts": {}, "dur": 10000}})",
                         k * 100000, k * 100000 + 40000, k * 100000 + 90000);
    trace += k < 2 ? "," : "]";
  }
  const TracedSteps traced = steps_in(trace);
  EXPECT_EQ(traced.steps, 2u);
  EXPECT_NEAR(traced.times[index_of(TrainingStage::kForward)].at(0).value(), 0.038, 1e-9);
  EXPECT_NEAR(traced.times[index_of(TrainingStage::kBackward)].at(1).value(), 0.050, 1e-9);
  EXPECT_NEAR(traced.times[index_of(TrainingStage::kUpdate)].at(1).value(), 0.012, 1e-9);
}

// Steps of one rank from number `first`: forward and backward take `works_ms`, the all-reduce from their end until 100
// ms, update 10 ms.
std::string trace_of_rank(const std::vector<int>& works_ms, int first = 7) {
  std::string trace = R"({"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 3}, "traceEvents": [)";
  int begin = 0;
  for (const int work_ms : works_ms) {
    const auto add = [&](const char* name, int from, int ms) {
      trace += fmt::format("{}{{\"ph\": \"X\", \"name\": \"{}\", \"ts\": {}, \"dur\": {}}}",
                           trace.ends_with('[') ? "" : ",", name, 1000 * (begin + from), 1000 * ms);
    };
    add(fmt::format("ProfilerStep#{}", first + begin / 110).c_str(), 0, 110);
    add("autograd::engine::evaluate_function: MmBackward", 20, work_ms - 20);
    add("nccl:all_reduce", work_ms, 100 - work_ms);
    add("Optimizer.step#SGD.step", 100, 10);
    begin += 110;
  }
  return trace + "]}";
}

TEST(PyTorchSteps, TheShortestOfTheRanksIsTheTransfer) {
  // Ranks that have worked for 60, 60 and 90 ms are all done with the all-reduce at 100 ms: it takes 10 ms, which the
  // slowest shows, and the others wait 30 ms before it, 20 ms on average. A step is 20 forward, 40, 40 or 70 backward
  // (50 on average), 20 wait, 10 transfer and 10 update: 110.
  std::vector<TracedSteps> ranks;
  for (const int work : {60, 60, 90}) ranks.push_back(steps_in(trace_of_rank({work, work})));
  EXPECT_TRUE(ranks[0].communication);
  EXPECT_TRUE(ranks[0].times[index_of(TrainingStage::kWait)].empty());
  const TracedSteps all = steps_of_ranks({"0", "1", "2"}, ranks);
  EXPECT_EQ(all.ranks, 3u);
  EXPECT_EQ(all.world_size, 3);
  ASSERT_EQ(all.steps, 2u);
  const auto time = [&](TrainingStage stage) { return all.times[index_of(stage)].at(1).value(); };
  EXPECT_NEAR(time(TrainingStage::kForward), 0.020, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kBackward), 0.050, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kCommunication), 0.010, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kWait), 0.020, 1e-9);
  EXPECT_NEAR(time(TrainingStage::kUpdate), 0.010, 1e-9);
  EXPECT_NEAR(all.iterations.at(1).value(), 0.110, 1e-9);
  // For a run of other nodes: each rank's own two steps, one rank after the other. Less their waits of 30, 30 and 0 ms
  // the iterations took 80, 80 and 110.
  const TracedSteps each = steps_of_ranks({"0", "1", "2"}, ranks, RankTimes::kEach);
  const auto milliseconds = [](const std::vector<Seconds>& times) {
    std::vector<long> rounded;
    for (const Seconds one : times) rounded.push_back(std::lround(1e3 * one.value()));
    return rounded;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(milliseconds(each.times[index_of(TrainingStage::kBackward)]), ElementsAre(40, 40, 40, 40, 70, 70));
  EXPECT_THAT(milliseconds(each.times[index_of(TrainingStage::kCommunication)]), ElementsAre(10, 10, 10, 10, 10, 10));
  EXPECT_THAT(milliseconds(each.iterations), ElementsAre(80, 80, 80, 80, 110, 110));
  EXPECT_TRUE(each.times[index_of(TrainingStage::kWait)].empty());
}

TEST(PyTorchSteps, RanksMeetInStepsOfOneNumber) {
  // Two ranks take turns in being the slow one, and the second was traced one step later. Of steps 0 to 3 and 1 to 4,
  // less the first of each, 2 and 3 are common: 60 and 90 ms of work, and 90 and 60. Either way 10 ms of transfer, a
  // wait of 30 ms for one of two, and 40 and 70 ms of backward. By position both would be slow at once and none would
  // wait.
  const std::vector<int> turns = {60, 90, 60, 90};
  const auto from = [&](int first) { return steps_in(trace_of_rank(turns, first)); };
  const TracedSteps all = steps_of_ranks({"0", "1"}, {from(0), from(1)});
  EXPECT_THAT(all.numbers, ::testing::ElementsAre(2, 3));
  ASSERT_EQ(all.steps, 2u);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(all.times[index_of(TrainingStage::kCommunication)].at(k).value(), 0.010, 1e-9);
    EXPECT_NEAR(all.times[index_of(TrainingStage::kWait)].at(k).value(), 0.015, 1e-9);
    EXPECT_NEAR(all.times[index_of(TrainingStage::kBackward)].at(k).value(), 0.055, 1e-9);
  }
  expect_input_error(
      [&] {
        (void)steps_of_ranks({"0", "1"}, {from(0), from(10)});
      },
      0, 0, "steps 11 to 13, none in common with steps 1 to 3 of 0");
  // Without numbers only the count can be held against each other.
  std::vector<TracedSteps> unnumbered = {from(0), from(0)};
  unnumbered[1].numbers.clear();
  expect_input_error([&] { (void)steps_of_ranks({"0", "1"}, unnumbered); }, 0, 0, "does not number its steps");
  unnumbered[0].numbers.clear();
  EXPECT_EQ(steps_of_ranks({"0", "1"}, unnumbered).steps, 3u);
  unnumbered[1].steps = 2;
  expect_input_error([&] { (void)steps_of_ranks({"0", "1"}, unnumbered); }, 0, 0, "2 steps, 3 in 0");
}

TEST(PyTorchSteps, RefusesWhatIsNoTrace) {
  expect_input_error([] { (void)steps_in("{"); }, 0, 0, "there is no list \"traceEvents\"");
  expect_input_error([] { (void)steps_in(R"({"traceEvents": [{"ph" "X"}]})"); }, 0, 0, "no JSON");
  expect_input_error([] { (void)steps_in(R"({"traceEvents": [{"ph": "X"}, )"); }, 0, 0, "cut off at byte 30");
  expect_input_error([] { (void)steps_in("{}"); }, 0, 0, "there is no list \"traceEvents\"");
  expect_input_error([] { (void)steps_in(R"({"traceEvents": []})"); }, 0, 0, "no ProfilerStep");
}

}  // namespace
}  // namespace flyball
