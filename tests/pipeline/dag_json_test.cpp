#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "pipeline/pipeline_spec.h"
#include "support/expect_error.h"
#include "support/small_pipelines.h"

namespace flyball {
namespace {

const Profile& profile() {
  static const Profile instance = uniform_profile(2, {{"forward", 1}, {"backward", 2}, {"p2p", 1}});
  return instance;
}

ComputationDag dag_of(const std::string& json) { return read_dag("d.json", json, profile()); }

std::string drawn(const ComputationDag& dag) {
  return show(dag, emulate(dag, plan_durations(dag, same_clock_plan(dag, 0))));
}

TEST(DagJson, TheExampleIsOneForwardOneBackward) {
  const ComputationDag dag = dag_of(read_text_file(FLYBALL_SOURCE_DIR "/examples/dags/two-stage.json"));
  EXPECT_EQ(drawn(dag),
            drawn(scheduled_dag(ScheduleKind::k1f1b, uniform_profile(2, {{"forward", 1}, {"backward", 2}}), 2)));
}

TEST(DagJson, AStageRunsItsComputationsInTheOrderOfTheList) {
  const ComputationDag dag = dag_of(R"({"stages": 1, "computations": [
      {"name": "x", "stage": 0, "instruction": "backward", "microbatch": 1},
      {"name": "y", "stage": 0, "instruction": "forward", "microbatch": 0, "after": ["x", "x"]}]})");
  EXPECT_EQ(drawn(dag), "bb0\n");
  EXPECT_EQ(dag.edge_count(), 1u);  // said three times, kept once
}

TEST(DagJson, TransfersAreFreeOfTheStagesOrder) {
  // The transfer behind F0 runs while stage 0 computes F1.
  const ComputationDag dag = dag_of(R"({"stages": 2, "computations": [
      {"name": "F0", "stage": 0, "instruction": "forward", "microbatch": 0},
      {"name": "hop", "stage": 0, "instruction": "p2p", "after": ["F0"]},
      {"name": "F1", "stage": 0, "instruction": "forward", "microbatch": 1},
      {"name": "F0'", "stage": 1, "instruction": "forward", "microbatch": 0, "after": ["hop"]}]})");
  EXPECT_EQ(drawn(dag),
            "01.\n"
            "..0\n");
}

TEST(DagJson, NamesMayBeUsedBeforeTheyAreListedAndHoldAnyText) {
  const ComputationDag dag = dag_of(R"({"computations": [
      {"after": ["\"\u00e9\" \\"], "name": "a", "stage": 0, "instruction": "forward", "microbatch": 0},
      {"name": "\"é\" \\", "stage": 1, "instruction": "forward", "microbatch": 1, "chunk": 1}], "stages": 2})");
  EXPECT_EQ(drawn(dag), ".0\n1.\n");
  EXPECT_EQ(dag[0].chunk, 1);
}

TEST(DagJson, MicrobatchesMayBeLeftOut) {
  const ComputationDag dag =
      dag_of(R"({"stages": 1, "computations": [{"name": "a", "stage": 0, "instruction": "forward"}]})");
  EXPECT_EQ(dag[0].microbatch, -1);
}

struct WrongDag {
  const char* name;
  std::string json;
  std::size_t line;
  std::size_t column;
  const char* words;
};

class WrongDags : public testing::TestWithParam<WrongDag> {};

TEST_P(WrongDags, AreRefusedWithPlaceAndMend) {
  const WrongDag& wrong = GetParam();
  expect_input_error([&] { static_cast<void>(dag_of(wrong.json)); }, wrong.line, wrong.column, wrong.words);
}

// One computation to a line, the first on line 2; "name" begins at column 2 of it, its value at column 10.
std::string listing(const std::string& computations, const std::string& stages = "2") {
  return "{\"stages\": " + stages + ", \"computations\": [\n" + computations + "\n]}";
}

INSTANTIATE_TEST_SUITE_P(
    DagJson, WrongDags,
    testing::Values(
        WrongDag{"EmptyFile", "", 1, 1, "unexpected end of input"},
        WrongDag{"NotJson", "stages = 2", 1, 1, "invalid literal"},
        WrongDag{"Truncated", "{\"stages\": 2,\n \"computations\": [", 2, 18, "unexpected end of input"},
        WrongDag{"TrailingComma", listing("{\"name\": \"a\", \"stage\": 0, \"instruction\": \"forward\"},"), 3, 1,
                 "unexpected ']'"},
        WrongDag{"Comment", "{// stages\n\"stages\": 2}", 1, 2, "JSON has no comments"},
        WrongDag{"BadUtf8", "{\"st\xff\": 2}", 1, 5, "invalid string"},
        WrongDag{"Trailing", listing("{\"name\": \"a\", \"stage\": 0, \"instruction\": \"forward\"}") + "{}", 3, 3,
                 "expected end of input"},
        WrongDag{"Array", "[]", 1, 1, "the file is an array"}, WrongDag{"Number", " 17", 1, 2, "the file is a number"},
        WrongDag{"Null", "null", 1, 1, "the file is null"},
        WrongDag{"NoStages", "{\"computations\": []}", 1, 1, "no \"stages\""},
        WrongDag{"NoComputations", "{\"stages\": 2}", 1, 1, "no \"computations\""},
        WrongDag{"EmptyList", listing(""), 1, 1, "no \"computations\""},
        WrongDag{"ZeroStages", "{\"stages\": 0}", 1, 12, "stages is 0"},
        WrongDag{"NegativeStages", "{\"stages\":-1}", 1, 11, "stages is -1"},
        WrongDag{"HugeStages", "{\"stages\": 1000000000000}", 1, 12, "1000000000000 is no whole number"},
        WrongDag{"FractionalStages", "{\"stages\": 2.5}", 1, 12, "2.5 is no whole number"},
        WrongDag{"StagesText", "{\"stages\": \"2\"}", 1, 12, "\"stages\" cannot be a string"},
        WrongDag{"StagesBoolean", "{\"stages\": true}", 1, 12, "\"stages\" cannot be a boolean"},
        WrongDag{"MoreStagesThanProfiled",
                 listing("{\"name\": \"a\", \"stage\": 0, \"instruction\": \"forward\"}", "3"), 1, 12,
                 "stages is 3 but profile test.csv has 2"},
        WrongDag{"ComputationsObject", "{\"computations\": {}}", 1, 18, "\"computations\" cannot be an object"},
        WrongDag{"ComputationText", listing("\"F0\""), 2, 1, "a string stands among the computations"},
        WrongDag{"ComputationArray", listing("[]"), 2, 1, "an array stands among the computations"},
        WrongDag{"UnknownTopKey", "{\"stagse\": 2}", 1, 2, "did you mean 'stages'?"},
        WrongDag{"UnknownKey", listing("{\"name\": \"a\", \"satge\": 0}"), 2, 15, "did you mean 'stage'?"},
        WrongDag{"AlienKey", listing("{\"colour\": 3}"), 2, 2, "the keys here are name, stage"},
        WrongDag{"KeyTwice", listing("{\"name\": \"a\", \"name\": \"b\"}"), 2, 15, "key 'name' stands twice"},
        WrongDag{"TopKeyTwice", "{\"stages\": 2, \"stages\": 2}", 1, 15, "key 'stages' stands twice"},
        WrongDag{"NoName", listing("{\"stage\": 0, \"instruction\": \"forward\"}"), 2, 1, "has no name"},
        WrongDag{"EmptyName", listing("{\"name\": \"\"}"), 2, 10, "the name is empty"},
        WrongDag{"NoStage", listing("{\"name\": \"a\", \"instruction\": \"forward\"}"), 2, 1, "'a' has no stage"},
        WrongDag{"NoInstruction", listing("{\"name\": \"a\", \"stage\": 0}"), 2, 1, "'a' has no instruction"},
        WrongDag{"NegativeStage", listing("{\"name\": \"a\", \"stage\": -1}"), 2, 24, "stage is -1"},
        WrongDag{"HugeStage", listing("{\"name\": \"a\", \"stage\": 2000001}"), 2, 24, "2000001 is no whole number"},
        WrongDag{"StageBeyond", listing("{\"name\": \"a\", \"stage\": 2, \"instruction\": \"forward\"}"), 2, 1,
                 "'a' runs on stage 2, but there are 2 stages"},
        WrongDag{"NameNumber", listing("{\"name\": 7}"), 2, 10, "\"name\" cannot be a number"},
        WrongDag{"AfterText", listing("{\"after\": \"a\"}"), 2, 11, "\"after\" cannot be a string"},
        WrongDag{"AfterNumber", listing("{\"after\": [\"x\", 7]}"), 2, 17,
                 "a number stands among the names in \"after\""},
        WrongDag{
            "InstructionNotProfiled", listing("{\"name\": \"a\", \"stage\": 1, \"instruction\": \"forwards\"}"), 2, 1,
            "no 'forwards' for stage 1, which 'a' runs\n  to mend: profile that operation, or use one that stage 1 "
            "has: forward, backward, p2p"},
        WrongDag{"NameTwice",
                 listing("{\"name\": \"a\", \"stage\": 0, \"instruction\": \"forward\"},\n"
                         "{\"name\": \"a\", \"stage\": 1, \"instruction\": \"forward\"}"),
                 3, 10, "the name 'a' stands twice"},
        WrongDag{"UnknownName",
                 listing("{\"name\": \"F0\", \"stage\": 0, \"instruction\": \"forward\"},\n"
                         "{\"after\": [\"F1\"], \"name\": \"B0\", \"stage\": 1, \"instruction\": \"backward\"}"),
                 3, 12, "'B0' is to run after 'F1', which is not listed\n  to mend: did you mean 'F0'?"},
        WrongDag{"AfterItself",
                 listing("{\"after\": [\"a\"], \"name\": \"a\", \"stage\": 0, \"instruction\": \"forward\"}"), 2, 12,
                 "'a' is to run after itself"},
        // b runs after a on their stage, and c after b, so a cannot run after c.
        WrongDag{"Cycle",
                 listing("{\"name\": \"a\", \"stage\": 0, \"instruction\": \"forward\", \"after\": [\"c\"]},\n"
                         "{\"name\": \"b\", \"stage\": 0, \"instruction\": \"forward\"},\n"
                         "{\"name\": \"c\", \"stage\": 1, \"instruction\": \"forward\", \"after\": [\"b\"]},\n"
                         "{\"name\": \"d\", \"stage\": 1, \"instruction\": \"forward\"}"),
                 2, 10, "run in a cycle: 'a' -> 'b' -> 'c' -> 'a'"}),
    [](const auto& tested) { return tested.param.name; });

TEST(DagJson, DeepNestingIsRefusedAtTheSecondBracket) {
  expect_input_error([] { static_cast<void>(dag_of(std::string(1'000'000, '['))); }, 1, 1, "the file is an array");
}

TEST(DagJson, LongCyclesAreShortened) {
  std::string computations;
  for (int i = 0; i < 1000; ++i) {
    computations += "{\"name\": \"n" + std::to_string(i) + "\", \"stage\": 0, \"instruction\": \"forward\"" +
                    (i == 0    ? ", \"after\": [\"n999\"]},\n"
                     : i < 999 ? "},\n"
                               : "}");
  }
  expect_input_error([&] { static_cast<void>(dag_of(listing(computations))); }, 2, 10,
                     "'n18' -> 'n19' -> 'n20' -> ... -> 'n0'");
}

}  // namespace
}  // namespace flyball
