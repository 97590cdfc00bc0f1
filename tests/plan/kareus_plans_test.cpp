// The plans that Kareus's authors publish (github.com/ml-energy/kareus): what they hold, and that ours are written
// alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "plan/zeus_frequencies.h"
#include "support/kareus_files.h"
#include "support/pipelines.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

using testing::PythonPlan;
using testing::read_python_plan;

// Two stages, eight microbatches: Llama 3.2 3B on A100s.
constexpr int kMicrobatches = 8;

// "scheds_pipeline_00324.py" beside "freqs_pipeline_00324.py".
std::vector<std::filesystem::path> clock_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("freqs_pipeline_")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::filesystem::path label_file(const std::filesystem::path& clocks) {
  return clocks.parent_path() / ("scheds" + clocks.filename().string().substr(5));
}

// The list without its comments, and with one kind of quotes.
std::string list_of(std::string text) {
  std::replace(text.begin(), text.end(), '"', '\'');
  const std::size_t comments = text.find("\n#");
  return comments == std::string::npos ? text : text.substr(0, comments + 1);
}

const std::vector<std::string> kColumns = {"recompute_attention_configs", "recompute_mlp_configs", "attention_configs",
                                           "mlp_configs"};

// Every clock and set of labels that the plan gives to a stage's forwards and backwards becomes an option, in Kareus's
// columns: a forward has the last two of them. Times and energies are made up, and different.
std::string profile_with_options_of(const PythonPlan& clocks, const PythonPlan& labels) {
  std::set<std::string> rows;
  for (std::size_t s = 0; s < clocks.stages.size(); ++s) {
    for (std::size_t k = 0; k < clocks.stages[s].size(); ++k) {
      const std::vector<std::string>& tuple = labels.stages[s][k];
      std::string row = std::to_string(s) + "," + tuple[0] + "," + clocks.stages[s][k][1] + ",";
      if (tuple.size() == 3) row += ",,";
      for (std::size_t l = 1; l < tuple.size(); ++l) row += tuple[l] + ",";
      rows.insert(row);
    }
  }
  std::string text = "stage,instruction,frequency";
  for (const std::string& column : kColumns) text += "," + column;
  text += ",time,energy\n";
  int number = 0;
  for (const std::string& row : rows) text += row + "0." + std::to_string(1000 + ++number) + ",30\n";
  return text;
}

// The option of a type with this clock and these labels.
std::uint16_t option_with(const OperationType& type, const std::string& clock, const std::vector<std::string>& tuple) {
  for (std::size_t k = 0; k < type.options.size(); ++k) {
    const OptionLabels& labels = type.labels.of(k);
    const bool same = std::equal(labels.begin(), labels.end(), tuple.begin() + 1, tuple.end(),
                                 [](const Label& label, const std::string& value) { return label.value == value; });
    if (same && type.options[k].frequency == Megahertz(std::stod(clock))) return static_cast<std::uint16_t>(k);
  }
  ADD_FAILURE() << "no option of " << clock << " MHz";
  return 0;
}

// The computations of each stage stand in the order of our 1F1B. A profile of the plan's own options and a plan of it
// give back both of the authors' files, byte by byte but for Zeus's kind of quotes.
TEST(KareusPlans, AreReadAndWrittenBack) {
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  const auto files = clock_files(*data / "kareus-osdi26/kareus");
  ASSERT_EQ(files.size(), 10u);
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.string());
    const std::string clock_text = read_text_file(file);
    const std::string label_text = read_text_file(label_file(file));
    const PythonPlan clocks = read_python_plan(clock_text);
    const PythonPlan labels = read_python_plan(label_text);
    const Profile profile = read_profile("kareus.csv", profile_with_options_of(clocks, labels));
    EXPECT_EQ(profile.label_columns, kColumns);
    const ComputationDag dag = testing::dag_of(profile, kMicrobatches);
    ASSERT_EQ(std::ssize(clocks.stages), dag.stages());
    ClockPlan plan(static_cast<std::size_t>(dag.size()), 0);
    for (int s = 0; s < dag.stages(); ++s) {
      const auto& tuples = labels.stages[static_cast<std::size_t>(s)];
      ASSERT_EQ(tuples.size(), dag.stage_order(s).size());
      for (std::size_t k = 0; k < tuples.size(); ++k) {
        const int i = dag.stage_order(s)[k];
        ASSERT_EQ(dag.type_of(i).instruction, tuples[k][0]);
        const std::string& clock = clocks.stages[static_cast<std::size_t>(s)][k][1];
        plan[static_cast<std::size_t>(i)] = option_with(dag.type_of(i), clock, tuples[k]);
      }
    }
    EXPECT_EQ(list_of(zeus_frequencies(dag, plan, "")), list_of(clock_text));
    EXPECT_EQ(kareus_schedules(dag, plan, ""), list_of(label_text));
  }
}

// Iteration time = (cost with P2P - cost) / 170 W: two stages that would draw 85 W blocked. Slower plans cost less.
TEST(KareusPlans, AreFrontiers) {
  const auto data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  for (const auto& [folder, count] : {std::pair<std::string, std::size_t>{"kareus", 10}, {"perseus", 3}}) {
    const auto files = clock_files(*data / "kareus-osdi26" / folder);
    ASSERT_EQ(files.size(), count);
    double time_before = 1e9;
    double cost_before = 0.0;
    for (const std::filesystem::path& file : files) {
      SCOPED_TRACE(file.string());
      const PythonPlan plan = read_python_plan(read_text_file(file));
      ASSERT_EQ(plan.stages.size(), 2u);
      for (const auto& stage : plan.stages) {
        ASSERT_EQ(stage.size(), 2u * kMicrobatches);
        for (const auto& tuple : stage) {
          ASSERT_EQ(tuple.size(), 2u);
          const int clock = std::stoi(tuple[1]);
          EXPECT_TRUE(clock >= 900 && clock <= 1410 && clock % 15 == 0) << clock;
        }
      }
      const double cost = plan.comments.at("total cost");
      const double time = (plan.comments.at("total cost with P2P") - cost) / 170.0;
      EXPECT_LT(time, time_before);
      EXPECT_GT(cost, cost_before);
      time_before = time;
      cost_before = cost;
    }
  }
}

}  // namespace
}  // namespace flyball
