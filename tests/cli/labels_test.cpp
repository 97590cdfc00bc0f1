// flyball on profiles whose options have labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/program.h"

namespace flyball::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLabelled =
    "stage,instruction,frequency,attention_configs,mlp_configs,time,energy\n"
    "0,forward,1410,norm-12,rope-6,0.020,7.0\n"
    "0,forward,1410,norm-6,rope-6,0.021,6.6\n"
    "0,forward,1200,norm-12,rope-6,0.023,6.0\n"
    "0,backward,1410,attn-12,rope-6,0.040,14.0\n"
    "0,backward,1200,attn-12,rope-6,0.046,12.0\n";

// Clocks and labels stand in two files of one number; those of an earlier plan without labels do not stay.
TEST(LabelledProfile, PlansAreWrittenForKareus) {
  const TempFolder folder;
  write_file(folder / "p.csv", kLabelled);
  const Ran ran = run_flyball({"plan", folder / "p.csv", "--microbatches", "2", "--out", folder / "out"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("its labels, as Kareus reads them"), HasSubstr("options with labels lie on no")));
  std::string clocks;
  std::string labels;
  for (const auto& [name, text] : folder_contents(folder / "out/zeus")) {
    if (name.starts_with("freqs_pipeline_")) clocks = name.substr(15) + ":" + text;
    if (name.starts_with("scheds_pipeline_")) labels = name.substr(16) + ":" + text;
  }
  EXPECT_EQ(clocks.substr(0, 8), labels.substr(0, 8));
  EXPECT_THAT(clocks, HasSubstr("[(\"forward\", 1410), (\"backward\", 1410),"));
  EXPECT_THAT(labels, HasSubstr("[('forward', 'norm-12', 'rope-6'), ('backward', 'attn-12', 'rope-6'),"));
  EXPECT_THAT(file_text(folder / "out/plan.json"), HasSubstr(R"("labels": [["attention_configs", "norm-6"])"));

  ASSERT_EQ(run_flyball({"plan", kBertProfile, "--microbatches", "2", "--out", folder / "out"}).status, 0);
  for (const auto& [name, text] : folder_contents(folder / "out/zeus")) EXPECT_THAT(name, Not(HasSubstr("scheds")));
}

TEST(LabelledProfile, ShowsWhichLabelsThereAre) {
  const Ran text = run_flyball({"profile", "show", "-"}, kLabelled);
  EXPECT_THAT(text.out, HasSubstr("labels of the options: attention_configs, mlp_configs"));
  const auto result = run_flyball({"profile", "show", "-", "--format", "json"}, kLabelled).json();
  EXPECT_EQ(result["labels"], (nlohmann::json{"attention_configs", "mlp_configs"}));
  EXPECT_EQ(result["operations"][0]["rows"], 3);
}

// The example's profile has Kareus's columns, and is one that can be planned with.
TEST(ProfileCompose, WritesAProfileAndSaysWhatWasLeft) {
  const TempFolder folder;
  const std::string composition = "examples/segments/composition.toml";
  const Ran text = run_flyball({"profile", "compose", composition, "--out", folder / "p.csv"});
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("2 stages, 6 segments"), HasSubstr("wrote " + (folder / "p.csv"))));
  EXPECT_THAT(
      file_text(folder / "p.csv"),
      HasSubstr("stage,instruction,frequency,recompute_attention_configs,recompute_mlp_configs,attention_configs,"
                "mlp_configs,time,energy\n"));
  EXPECT_EQ(run_flyball({"plan", folder / "p.csv", "--microbatches", "4"}).status, 0);

  const auto result = run_flyball({"profile", "compose", composition, "--format", "json"}).json();
  // Four clocks; six settings in each of two segments, and of four in the backward.
  EXPECT_EQ(result["operations"][0]["combinations"], 4 * 6 * 6);
  EXPECT_EQ(result["operations"][1]["combinations"], 4 * 6 * 6 * 6 * 6);
  const auto fewer = run_flyball({"profile", "compose", composition, "--format", "json", "--tolerance", "20"}).json();
  EXPECT_LT(fewer["operations"][1]["options"], result["operations"][1]["options"]);

  const Ran wrong = run_flyball({"profile", "compose", composition, "--tolerance", "100"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(run_flyball({"profile", "compose", "examples/segments/fwd_attn.jsonl"}).status, 3);
}

}  // namespace
}  // namespace flyball::testing
