// What a terminal shows while a command works, and that nothing else does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "cli/program.h"
#include "support/temp_folder.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLayers = "layer,time\na,1\nb,1\nc,2\n";

// Partitions layers that come through a pipe, which is filled when `is_seen` holds for what the terminal has shown. So
// the command works for as long as it takes to see it work, however fast the machine is.
template <class Seen>
std::string shown_until(const Seen& is_seen) {
  const TempFolder folder;
  const std::string pipe = folder / "layers.csv";
  if (::mkfifo(pipe.c_str(), 0600) != 0) throw std::runtime_error("cannot make a pipe");
  winsize size{24, 80, 0, 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    exec_flyball({"partition", pipe, "--stages", "2"});
  }
  std::string shown;
  std::array<char, 4096> block{};
  bool filled = false;
  std::ofstream file(pipe);  // waits until the command has opened it
  for (ssize_t count = 0; (count = ::read(terminal, block.data(), block.size())) > 0;) {
    shown.append(block.data(), static_cast<std::size_t>(count));
    if (filled || !is_seen(shown)) continue;
    filled = true;
    file << kLayers;
    file.close();
  }
  ::close(terminal);
  EXPECT_EQ(wait_for(child), 0) << shown;
  return shown;
}

TEST(Progress, WorkThatCannotSayHowFarItIsTellsItsTime) {
  const std::string shown =
      shown_until([](const std::string& text) { return text.find("splitting layers, 2 s") != std::string::npos; });
  // Redrawn in place, and erased before the result: 1 + 1 against 2 seconds.
  EXPECT_THAT(shown, HasSubstr("\rsplitting layers, 1 s\x1b[K\rsplitting layers, 2 s\x1b[K"));
  EXPECT_GT(shown.find("imbalance"), shown.rfind("\r\x1b[K"));
  EXPECT_NE(shown.rfind("\r\x1b[K"), std::string::npos);
}

TEST(Progress, WorkThatKnowsHowFarItIsShowsABar) {
  // A day of jobs under every policy, which is more work than fits into the 0.2 s before a bar shows.
  const Ran ran = run_on_terminal({"cluster", "compare", "--trace", "examples/cluster/day.csv", "--eta", "0.7"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_THAT(ran.out, HasSubstr("\rsimulating ["));
  EXPECT_THAT(ran.out, HasSubstr("] "));
  EXPECT_GT(ran.out.find("compared with"), ran.out.rfind("\r\x1b[K"));
}

TEST(Progress, NothingOfItIsWrittenElsewhere) {
  const Ran ran = run_flyball({"cluster", "compare", "--trace", "examples/cluster/day.csv", "--eta", "0.7"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, Not(HasSubstr("simulating")));
}

}  // namespace
}  // namespace flyball::testing
