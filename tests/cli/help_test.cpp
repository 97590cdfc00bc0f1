// Help texts: what they promise must run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/program.h"
#include "support/figures.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

const std::vector<std::vector<std::string>>& commands() {
  static const std::vector<std::vector<std::string>> all = {{},
                                                            {"plan"},
                                                            {"partition"},
                                                            {"messages"},
                                                            {"emulate"},
                                                            {"profile"},
                                                            {"profile", "show"},
                                                            {"profile", "synth"},
                                                            {"profile", "fit"},
                                                            {"cluster", "compare"},
                                                            {"forecast"},
                                                            {"forecast", "init"},
                                                            {"completion"},
                                                            {"manual-pages"},
                                                            {"help"}};
  return all;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> with(std::vector<std::string> words, const std::string& last) {
  words.push_back(last);
  return words;
}

// The example command lines of a help text, continued lines joined, as words after "flyball".
std::vector<std::vector<std::string>> examples_in(const std::string& help) {
  std::vector<std::vector<std::string>> examples;
  bool continued = false;
  for (const std::string& line : lines_of(help.substr(std::min(help.size(), help.find("Examples:"))))) {
    std::istringstream words(line);
    std::string word;
    if (!continued) {
      if (!line.starts_with("  flyball ")) continue;
      words >> word;
      examples.emplace_back();
    }
    continued = false;
    while (words >> word) {
      if (word == "\\") {
        continued = true;
      } else {
        examples.back().push_back(word);
      }
    }
  }
  return examples;
}

TEST(Help, IsTheSameByOptionAndByCommand) {
  for (const auto& command : commands()) {
    std::vector<std::string> by_command{"help"};
    by_command.insert(by_command.end(), command.begin(), command.end());
    const Ran asked = run_flyball(with(command, "--help"));
    EXPECT_EQ(asked.status, 0);
    EXPECT_EQ(asked.out, run_flyball(by_command).out);
    EXPECT_THAT(asked.out, HasSubstr("Usage: flyball"));
    EXPECT_EQ(asked.err, "");
  }
}

TEST(Help, FitsEightyColumns) {
  for (const auto& command : commands()) {
    for (const std::string& line : lines_of(run_flyball(with(command, "--help")).out))
      EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(Help, ExamplesRun) {
  // In a folder of their own, since some write files.
  const TempFolder folder;
  std::filesystem::create_directory_symlink(std::filesystem::path(FLYBALL_SOURCE_DIR) / "examples",
                                            folder.path() / "examples");
  // What somebody has who says `--plan`.
  const Ran planned =
      run_flyball({"plan", "examples/profiles/bert-1.3b-a100-4stage.csv", "--microbatches", "32", "--out", "out"}, "",
                  folder.path());
  ASSERT_EQ(planned.status, 0) << planned.err;
  std::size_t count = 0;
  for (const auto& command : commands()) {
    for (const auto& example : examples_in(run_flyball(with(command, "--help")).out)) {
      // A minute under a sanitizer, of planning and simulating that these commands' own tests do on less.
      const bool is_long = example[0] == "cluster" || std::ranges::count(example, "128") > 0;
      if (!kFiguresCount && is_long) continue;
      const Ran ran = run_flyball(example, "", folder.path());
      EXPECT_EQ(ran.status, 0) << ::testing::PrintToString(example) << ran.err;
      EXPECT_FALSE(ran.out.empty());
      ++count;
    }
  }
  EXPECT_GE(count, 10u);
}

// All commands that have none below them, by their words; fish's completion lists all: 'flyball plan' 'flyball run' ...
std::vector<std::vector<std::string>> leaves() {
  std::vector<std::string> all;
  for (const std::string& line : lines_of(run_flyball({"completion", "fish"}).out)) {
    if (!line.starts_with("set -g __flyball_commands ")) continue;
    std::istringstream quoted(line.substr(line.find('\'')));
    for (std::string one; quoted >> std::ws && std::getline(quoted, one, '\'') && std::getline(quoted, one, '\'');) {
      all.push_back(one);
    }
  }
  std::vector<std::vector<std::string>> found;
  for (const std::string& name : all) {
    if (std::ranges::any_of(all, [&](const std::string& other) { return other.starts_with(name + " "); })) continue;
    std::istringstream words(name.substr(name.find(' ')));
    found.emplace_back();
    for (std::string word; words >> word;) found.back().push_back(word);
  }
  return found;
}

// docs/manual/command-line.md names these kinds: a file in a format of its own, a log until it is stopped, nothing to
// say, a script and a text for people.
TEST(Help, EveryCommandThatReportsHasAFormat) {
  EXPECT_GT(leaves().size(), 30u);
  std::vector<std::string> without_format;
  for (const std::vector<std::string>& command : leaves()) {
    if (run_flyball(with(command, "--help")).out.find("--format") != std::string::npos) continue;
    std::string words;
    for (const std::string& word : command) words += (words.empty() ? "" : " ") + word;
    without_format.push_back(words);
  }
  EXPECT_THAT(without_format, ::testing::UnorderedElementsAre("record", "forecast init", "cluster trace synth",
                                                              "cluster trace convert", "cluster run", "agent", "serve",
                                                              "sim fault", "account drop", "completion", "help"));
}

// What a newcomer reads last: the first commands to type.
TEST(Help, EndsWithTheFirstSteps) {
  const std::string help = run_flyball({"--help"}).out;
  const std::size_t steps = help.find("First steps:\n  flyball devices ");
  ASSERT_NE(steps, std::string::npos);
  for (const char* heading : {"\nMeasure:\n", "\nPlan a training job:\n", "\nThis program:\n"}) {
    EXPECT_LT(help.find(heading), steps) << heading;
  }
  EXPECT_EQ(help.find("manual-pages"), std::string::npos);  // hidden
}

TEST(Help, VersionIsOneLine) {
  const Ran ran = run_flyball({"--version"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, ::testing::MatchesRegex("flyball [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace flyball::testing
