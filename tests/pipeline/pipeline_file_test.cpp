#include <gtest/gtest.h>

#include <string>

#include "pipeline/pipeline_spec.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

PipelineSpec pipeline_of(const std::string& text) { return read_pipeline("p.toml", text); }

TEST(PipelineFile, EveryKeyIsRead) {
  const PipelineSpec spec = pipeline_of(
      "schedule = \"interleaved-1f1b\"\nstages = 2\nmicrobatches = 8\nchunks = 3\nblocking_power = [70, 71.5]\n"
      "memory_limit = [6, 5]\ndata_parallel = 16\ntensor_parallel = 8\n"
      "[p2p]\ntime = 0.001\n[data_load]\ntime = 0.002\nenergy = 1\n"
      "[gradient_sync]\ntime = 0.003\nenergy = 0.0\n[optimizer_step]\ntime = 4\n");
  EXPECT_EQ(spec.schedule, ScheduleKind::kInterleaved1f1b);
  EXPECT_EQ(spec.stages, 2);
  EXPECT_EQ(spec.microbatches, 8);
  EXPECT_EQ(spec.chunks, 3);
  EXPECT_EQ(spec.blocking_power, (std::vector<Watts>{Watts(70), Watts(71.5)}));
  EXPECT_EQ(spec.memory_limit, (std::vector<int>{6, 5}));
  EXPECT_EQ(spec.data_parallel, 16);
  EXPECT_EQ(spec.tensor_parallel, 8);
  EXPECT_EQ(spec.p2p.value().time, std::vector{Seconds(0.001)});
  EXPECT_TRUE(spec.p2p.value().energy.empty());
  EXPECT_FALSE(spec.transfers_occupy_both);
  EXPECT_EQ(spec.data_load.value().energy, std::vector{Joules(1)});
  EXPECT_EQ(spec.gradient_sync.value().energy, std::vector{Joules(0)});
  EXPECT_EQ(spec.optimizer_step.value().time, std::vector{Seconds(4)});
}

TEST(PipelineFile, KeysThatAreNotStatedKeepTheirDefault) {
  const PipelineSpec spec = pipeline_of("# nothing\n");
  EXPECT_EQ(spec.schedule, ScheduleKind::k1f1b);
  EXPECT_EQ(spec.stages, 0);
  EXPECT_EQ(spec.microbatches, 0);
  EXPECT_EQ(spec.chunks, 1);
  EXPECT_TRUE(spec.blocking_power.empty());
  EXPECT_TRUE(spec.memory_limit.empty());
  EXPECT_FALSE(spec.p2p.has_value());
  EXPECT_EQ(spec.dag_file, "");
}

TEST(PipelineFile, ConstantOperationsMayDifferByStageAndLink) {
  const PipelineSpec spec = pipeline_of(
      "stages = 3\n[p2p]\ntime = [0.001, 0]\noccupies = \"both\"\n"
      "[data_load]\ntime = [0.002, 0.0, 0.003]\nenergy = [1, 0, 2]\n[gradient_sync]\ntime = [0.1]\n");
  EXPECT_EQ(spec.p2p.value().time, (std::vector{Seconds(0.001), Seconds(0)}));
  EXPECT_TRUE(spec.transfers_occupy_both);
  EXPECT_EQ(spec.data_load.value().time, (std::vector{Seconds(0.002), Seconds(0), Seconds(0.003)}));
  EXPECT_EQ(spec.data_load.value().energy, (std::vector{Joules(1), Joules(0), Joules(2)}));
  EXPECT_EQ(spec.gradient_sync.value().time, std::vector{Seconds(0.1)});
  // Who is occupied may be said of times that the profile has.
  const PipelineSpec measured = pipeline_of("[p2p]\noccupies = \"both\"\n");
  EXPECT_TRUE(measured.transfers_occupy_both);
  EXPECT_FALSE(measured.p2p.has_value());
  EXPECT_FALSE(pipeline_of("[p2p]\ntime = 1\noccupies = \"receiver\"\n").transfers_occupy_both);
}

TEST(PipelineFile, OneMemoryLimitIsForAllStages) {
  EXPECT_EQ(pipeline_of("stages = 4\nmemory_limit = 9\n").memory_limit, std::vector<int>{9});
  EXPECT_EQ(pipeline_of("stages = 4\nmemory_limit = [9]\n").memory_limit, std::vector<int>{9});
  EXPECT_EQ(pipeline_of("stages = 2\nmemory_limit = [\"60GB/6.4GB\", 3]\n").memory_limit, (std::vector<int>{9, 3}));
}

TEST(PipelineFile, TheDagsPathIsRelativeToTheFile) {
  EXPECT_EQ(pipeline_of("dag = \"a.json\"").dag_file, "a.json");
  const std::string folder = FLYBALL_SOURCE_DIR "/examples/";
  EXPECT_EQ(read_pipeline_file(folder + "pipelines/explicit-dag.toml").dag_file, folder + "dags/two-stage.json");
}

TEST(PipelineFile, TheExampleIsReadable) {
  const PipelineSpec spec = read_pipeline_file(FLYBALL_SOURCE_DIR "/examples/pipelines/gpt3-1.3b-4stage.toml");
  EXPECT_EQ(spec.microbatches, 128);
  EXPECT_TRUE(spec.optimizer_step.has_value());
}

// 0.6 over 0.2 is 2.9999999999999996 in binary; 7 GiB are 7.516 GB.
TEST(MemoryLimit, IsANumberOrMemoryOverMemory) {
  EXPECT_EQ(parse_memory_limit("9"), 9);
  EXPECT_EQ(parse_memory_limit("0.6GB/0.2GB"), 3);
  EXPECT_EQ(parse_memory_limit("60 GB / 6.4 GB"), 9);
  EXPECT_EQ(parse_memory_limit("7GiB/1GB"), 7);
  for (const char* wrong :
       {"", "0", "-1", "2.5", "x", "3GB", "3GB/", "/3GB", "3/2", "3GB/0GB", "1GB/2GB", "9TB/1B", "2000001"})
    EXPECT_EQ(parse_memory_limit(wrong), std::nullopt) << wrong;
}

struct WrongPipeline {
  const char* name;
  const char* text;
  std::size_t line;
  std::size_t column;
  const char* words;
};

class WrongPipelines : public testing::TestWithParam<WrongPipeline> {};

TEST_P(WrongPipelines, AreRefusedWithPlaceAndMend) {
  const WrongPipeline& wrong = GetParam();
  expect_input_error([&] { static_cast<void>(pipeline_of(wrong.text)); }, wrong.line, wrong.column, wrong.words);
}

INSTANTIATE_TEST_SUITE_P(
    PipelineFile, WrongPipelines,
    testing::Values(
        WrongPipeline{"Syntax", "stages = 4\nmicrobatches == 8\n", 2, 15, "p.toml:2:15: "},
        WrongPipeline{"OpenString", "schedule = \"1f1b\n", 1, 17, "p.toml:1:17: "},
        WrongPipeline{"KeyTwice", "stages = 4\nstages = 5\n", 2, 10, "cannot redefine existing integer 'stages'"},
        WrongPipeline{"UnknownKey", "stages = 4\nmicrobatch = 8\n", 2, 1, "did you mean 'microbatches'?"},
        WrongPipeline{"AlienKey", "colour = 4\n", 1, 1, "the keys are schedule, stages"},
        WrongPipeline{"UnknownKeyInTable", "[p2p]\ntmie = 1.0\n", 2, 1,
                      "'tmie' in [p2p]\n  to mend: did you mean 'time'?"},
        WrongPipeline{"UnknownSchedule", "schedule = \"1f1d\"\n", 1, 12, "did you mean '1f1b'?"},
        WrongPipeline{"AlienSchedule", "schedule = \"wavefront\"\n", 1, 12, "the schedules are gpipe, 1f1b"},
        WrongPipeline{"ScheduleNumber", "schedule = 1\n", 1, 12, "schedule is a whole number, it must be a string"},
        WrongPipeline{"StagesText", "stages = \"4\"\n", 1, 10, "stages is a string, it must be a whole number"},
        WrongPipeline{"StagesFraction", "stages = 4.0\n", 1, 10, "stages is a number, it must be a whole number"},
        WrongPipeline{"StagesDate", "stages = 2024-01-01\n", 1, 10, "stages is a date or time"},
        WrongPipeline{"ZeroStages", "stages = 0\n", 1, 10, "stages is 0, it must be from 1 to 100000"},
        WrongPipeline{"HugeStages", "stages = 1000000000\n", 1, 10, "from 1 to 100000"},
        WrongPipeline{"ZeroMicrobatches", "microbatches = 0\n", 1, 16, "microbatches is 0"},
        WrongPipeline{"NegativeMicrobatches", "microbatches = -8\n", 1, 16, "microbatches is -8"},
        WrongPipeline{"HugeMicrobatches", "microbatches = 2000000000\n", 1, 16, "from 1 to 2000000"},
        WrongPipeline{"ZeroChunks", "chunks = 0\n", 1, 10, "chunks is 0"},
        WrongPipeline{"WholeShare", "split_backward = 1.0\n", 1, 18, "split_backward is 1, it must be between 0 and 1"},
        WrongPipeline{"ShareBesideDag", "split_backward = 0.5\ndag = \"dag.json\"\n", 1, 18,
                      "split_backward is stated"},
        WrongPipeline{"ZeroReplicas", "data_parallel = 0\n", 1, 17, "data_parallel is 0"},
        WrongPipeline{"TensorParallelArray", "tensor_parallel = [8]\n", 1, 19, "tensor_parallel is an array"},
        WrongPipeline{"NegativePower", "blocking_power = -1\n", 1, 18, "blocking_power is -1, it must be from 0"},
        WrongPipeline{"NanPower", "blocking_power = nan\n", 1, 18, "blocking_power is nan"},
        WrongPipeline{"InfinitePower", "blocking_power = [70, inf]\n", 1, 23, "blocking_power is inf"},
        WrongPipeline{"PowerText", "blocking_power = [70, \"75 W\"]\n", 1, 23, "blocking_power is a string"},
        WrongPipeline{"NoPower", "blocking_power = []\n", 1, 18, "an empty array"},
        WrongPipeline{"PowersPerStage", "stages = 4\nblocking_power = [70, 71]\n", 2, 18, "2 numbers for 4 stages"},
        WrongPipeline{"NoMemory", "memory_limit = 0\n", 1, 16, "memory_limit is 0, it must be from 1 to 2000000"},
        WrongPipeline{"NegativeMemory", "memory_limit = [4, -3]\n", 1, 20, "memory_limit is -3"},
        WrongPipeline{"HugeMemory", "memory_limit = [4, 2000001]\n", 1, 20, "from 1 to 2000000"},
        WrongPipeline{"MemoryFraction", "memory_limit = 4.0\n", 1, 16, "memory_limit is a number, it must be a whole"},
        WrongPipeline{"MemoryText", "memory_limit = [4, \"3GB\"]\n", 1, 20, "'3GB' is no memory limit of at least"},
        WrongPipeline{"NoneFits", "memory_limit = \"3GB/4GB\"\n", 1, 16, "'3GB/4GB' is no memory limit of at least"},
        WrongPipeline{"MemoryEmpty", "memory_limit = []\n", 1, 16, "memory_limit is an empty array"},
        WrongPipeline{"MemoryPerStage", "stages = 4\nmemory_limit = [4, 3, 2]\n", 2, 16, "3 numbers for 4 stages"},
        WrongPipeline{"OperationNumber", "p2p = 0.001\n", 1, 7, "p2p is a number, it must be a table"},
        WrongPipeline{"NoTime", "\n[p2p]\nenergy = 1\n", 2, 1, "[p2p] has no time"},
        WrongPipeline{"ZeroTime", "[p2p]\ntime = 0\n", 2, 8, "p2p.time is 0"},
        WrongPipeline{"ZeroTimeAlone", "[p2p]\ntime = [0]\n", 2, 9, "p2p.time is 0"},
        WrongPipeline{"TimesPerLink", "stages = 3\n[p2p]\ntime = [1, 1, 1]\n", 3, 8,
                      "p2p.time has 3 numbers for 2 links"},
        WrongPipeline{"TimesPerStage", "stages = 3\n[data_load]\ntime = [1, 1]\n", 3, 8,
                      "data_load.time has 2 numbers for 3 stages"},
        WrongPipeline{"EnergyText", "[p2p]\ntime = 1\nenergy = [1, \"2\"]\n", 3, 14, "p2p.energy is a string"},
        WrongPipeline{"OccupiesWord", "[p2p]\ntime = 1\noccupies = \"all\"\n", 3, 12, "write occupies = \"both\""},
        WrongPipeline{"OccupiesElsewhere", "[data_load]\ntime = 1\noccupies = \"both\"\n", 3, 1,
                      "'occupies' in [data_load]"},
        WrongPipeline{"NegativeTime", "[optimizer_step]\ntime = -1.5\n", 2, 8, "optimizer_step.time is -1.5"},
        WrongPipeline{"HugeTime", "[p2p]\ntime = 1e7\n", 2, 8, "from 1e-09 to 1000000 seconds"},
        WrongPipeline{"NegativeEnergy", "[p2p]\ntime = 1\nenergy = -1\n", 3, 10, "p2p.energy is -1"},
        WrongPipeline{"EnergyBoolean", "[p2p]\ntime = 1\nenergy = true\n", 3, 10, "p2p.energy is a boolean"},
        WrongPipeline{"DagNumber", "dag = 3\n", 1, 7, "must be the path of a JSON file"},
        WrongPipeline{"DagNameless", "dag = \"\"\n", 1, 7, "must be the path of a JSON file"},
        WrongPipeline{"DagAndSchedule", "schedule = \"gpipe\"\ndag = \"d.json\"\n", 1, 12, "remove schedule or dag"},
        WrongPipeline{"DagAndTransfers", "dag = \"d.json\"\n[p2p]\ntime = 0.01\n", 2, 1, "remove [p2p]"},
        WrongPipeline{"DagAndMicrobatches", "dag = \"d.json\"\nmicrobatches = 4\n", 2, 16,
                      "remove microbatches or dag"}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace flyball
