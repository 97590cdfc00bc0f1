// Wrong usage and bad input: exit status, where, what and how to mend; nothing on standard output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kGptProfile = "examples/profiles/gpt3-1.3b-a100-4stage.csv";

struct WrongUsage {
  std::vector<std::string> arguments;  // "PROFILE" stands for the example
  std::string words;
};

class Usage : public ::testing::TestWithParam<WrongUsage> {};

TEST_P(Usage, IsStatusTwoAndSaysWhatIsWanted) {
  std::vector<std::string> arguments = GetParam().arguments;
  for (std::string& argument : arguments) argument = argument == "PROFILE" ? kGptProfile : argument;
  const Ran ran = run_flyball(arguments);
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, StartsWith("flyball: error: "));
  EXPECT_THAT(ran.err, HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    CommandLine, Usage,
    ::testing::Values(
        WrongUsage{{}, "no command given"}, WrongUsage{{"profile"}, "no command given"},
        WrongUsage{{"plam"}, "did you mean plan?"}, WrongUsage{{"help", "plam"}, "there is no command 'plam'"},
        WrongUsage{{"plan"}, "PROFILE is required"}, WrongUsage{{"plan", "PROFILE"}, "add --microbatches N"},
        WrongUsage{{"plan", "PROFILE", "--microbatch", "8"}, "did you mean --microbatches?"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "0"}, "a whole number from 1"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "-4"}, "a whole number from 1"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8x"}, "not '8x'"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "9999999"}, "a whole number from 1 to 2000000"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "1999999"}, "more than 2000000 operations"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--schedule", "2f2b"}, "one of gpipe, 1f1b"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--chunks", "2"}, "interleaved-1f1b"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--planner", "oracle"}, "one of perseus"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--cost-model", "spline"}, "one of hull, exponential"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--planner", "max", "--cost-model", "hull"}, "perseus"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--target-time", "3", "--straggler", "1.2"},
                   "give one of them"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--straggler", "0.9"}, "a slowdown from 1 to 3000000"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--straggler", "nan"}, "a slowdown from 1"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--straggler", "1e300"}, "a slowdown from 1 to 3000000"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--target-time", "-1"}, "a time such as 1ms"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--unit-time", "0"}, "a time such as 1ms"},
        WrongUsage{{"cluster", "simulate", "--trace", "JOBS", "--off-after", "100000000s"}, "up to 3000000 s"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--unit-time", "5h"}, "a time such as 1ms"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--unit-time", "1s"}, "which takes"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--blocking-power", "70,80"}, "for 4 stages"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--blocking-power", "-1"}, "watts"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--blocking-power", "1000001"},
                   "watts from 0 to 1000000"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--blocking-power", "75,nan"}, "watts from 0"},
        WrongUsage{{"profile", "show", "PROFILE", "--blocking-power", "1e300"}, "watts from 0 to 1000000"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--out", ""}, "name of a file or folder, not ''"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--memory-limit", "4,3,2,0"}, "not '0'"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--memory-limit", "4,3,"}, "not ''"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--memory-limit", "4,3"}, "for 4 stages"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--memory-limit", "4,2,2,1"}, "raise the limit to 3"},
        WrongUsage{{"emulate", "PROFILE", "--microbatches", "8", "--memory-limit", "3"}, "raise the limit to 4"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--noise", "100"}, "below 100"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--zeus-files", "all"}, "add --out"},
        WrongUsage{{"plan", "PROFILE", "--microbatches", "8", "--format", "yaml"}, "one of text, json"},
        WrongUsage{{"emulate", "PROFILE", "--microbatches", "8", "--pipelines", "4", "--data-parallel", "8"},
                   "give one of them"},
        WrongUsage{{"emulate", "PROFILE", "--microbatches", "8", "--straggler", "1.1,0.5"}, "not '0.5'"},
        WrongUsage{{"emulate"}, "PROFILE is required, or --against RUNS"},
        WrongUsage{{"emulate", "PROFILE", "--against", "examples/runs/two-stage"}, "drop PROFILE"},
        WrongUsage{{"emulate", "--against", "examples/runs/two-stage", "--microbatches", "4"}, "drop --microbatches"},
        WrongUsage{{"emulate", "--against", "examples/runs/two-stage", "--schedule", "interleaved-1f1b"},
                   "recorded runs have no chunks"},
        WrongUsage{{"emulate", "PROFILE", "--microbatches", "4", "--fitted-to", "x"}, "add --against RUNS"},
        WrongUsage{{"emulate", "PROFILE", "--microbatches", "4", "--also-fitted-to", "x"}, "add --against RUNS"},
        WrongUsage{{"emulate", "--against", "x", "--fitted-to", "y", "--also-fitted-to", "z"}, "--fitted-to"},
        WrongUsage{{"profile", "fit"}, "RUNS is required"},
        WrongUsage{{"partition", "examples/layers/gpt3-1.3b-a100.csv"}, "--stages is required"},
        WrongUsage{{"partition", "examples/layers/gpt3-1.3b-a100.csv", "--stages", "99"}, "layers"},
        WrongUsage{{"profile", "synth", "--gpu", "abacus"}, "known are"},
        WrongUsage{{"profile", "synth", "--layers", "--stages", "4"}, "drop --stages"},
        WrongUsage{{"profile", "synth", "--layers", "--power-limit", "300"}, "--power-limit"},
        WrongUsage{{"profile", "synth", "--power-limit", "0"}, "--power-limit"},
        WrongUsage{{"profile", "synth", "--gpu", "a40", "--power-limit", "100"}, "a40 draws 122 W while it computes"},
        WrongUsage{{"profile", "synth", "--out", ""}, "--out"}));

struct BadInput {
  std::string text;
  std::string where;  // after the file's name
  std::string words;
};

class Input : public ::testing::TestWithParam<BadInput> {};

TEST_P(Input, IsStatusThreeWithLineColumnAndMend) {
  const TempFolder folder;
  write_file(folder / "bad.csv", GetParam().text);
  const Ran ran = run_flyball({"plan", "bad.csv", "--microbatches", "4"}, "", folder.path());
  EXPECT_EQ(ran.status, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, StartsWith("flyball: error: bad.csv" + GetParam().where + ": "));
  EXPECT_THAT(ran.err, HasSubstr(GetParam().words));
  EXPECT_THAT(ran.err, HasSubstr("\n  to mend: "));
}

constexpr const char* kHeader = "stage,instruction,frequency,time,energy\n";

INSTANTIATE_TEST_SUITE_P(
    Profile, Input,
    ::testing::Values(BadInput{"", "", "no header"}, BadInput{kHeader, ":1:1", "no rows"},
                      BadInput{"stage,instruction,frequency,time\n", ":1:1", "no column 'energy'"},
                      BadInput{std::string(kHeader) + "0,forward,1410,nan,10\n", ":2:16", "nan"},
                      BadInput{std::string(kHeader) + "0,forward,1410,-0.1,10\n", ":2:16", "-0.1"},
                      BadInput{std::string(kHeader) + "0,forward,1410,0.1,10\n0,forward,1410,0.2,9\n", ":3:11", "1410"},
                      BadInput{std::string(kHeader) + "1,forward,1410,0.1,10\n1,backward,1410,0.1,10\n", ":2:1",
                               "stage 0"},
                      BadInput{std::string(kHeader) + "0,forward,1410,0.1,10\n", "", "'backward'"}));

TEST(Failure, IsStatusOneForAFileThatIsNotThere) {
  const Ran ran = run_flyball({"plan", "no/such/file.csv", "--microbatches", "4"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("cannot read no/such/file.csv"));
}

TEST(Failure, IsStatusOneForATargetThatNoPlanMeets) {
  const Ran ran = run_flyball({"plan", kGptProfile, "--microbatches", "4", "--target-time", "10ms"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("no plan of perseus ends within 0.01 s"));
  EXPECT_THAT(ran.err, HasSubstr("to mend: "));
}

TEST(Failure, IsStatusOneForAFolderThatCannotBeMade) {
  const TempFolder folder;
  write_file(folder / "taken", "a file");
  const Ran ran = run_flyball({"plan", kGptProfile, "--microbatches", "4", "--out", folder / "taken"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("taken"));
}

TEST(Failure, StandardInputHasTheLimitOfFiles) {
  // A sparse file of one byte more than 256 MiB.
  const TempFolder folder;
  write_file(folder / "huge", "");
  std::filesystem::resize_file(folder / "huge", (256u << 20) + 1);
  const Ran ran = run_flyball_on({"plan", "-", "--microbatches", "4"}, folder / "huge");
  EXPECT_EQ(ran.status, 3);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr("<stdin>: the file is larger than 256 MiB"));
}

TEST(Failure, PipelineFileErrorsNameItsLine) {
  const TempFolder folder;
  write_file(folder / "pipeline.toml", "schedule = \"1f1b\"\nmicrobatchs = 8\n");
  const Ran ran = run_flyball({"plan", kGptProfile, "--pipeline", folder / "pipeline.toml"});
  EXPECT_EQ(ran.status, 3);
  EXPECT_THAT(ran.err, HasSubstr("pipeline.toml:2:1: "));
  EXPECT_THAT(ran.err, HasSubstr("microbatchs"));
}

}  // namespace
}  // namespace flyball::testing
