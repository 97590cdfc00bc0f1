// flyball top in a real terminal, on simulated boards: what its screen shows as keys are pressed. The terminal is a
// pseudo-terminal, and its screen what a small reader of ECMA-48 makes of the program's output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <termios.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cli/program.h"
#include "flyball/sim.h"
#include "sim/simulated.h"

namespace flyball::testing {
namespace {

using ::testing::StartsWith;

constexpr std::size_t kLines = 16;
constexpr std::size_t kColumns = 80;

// What a terminal of 16 lines and 80 columns shows. It refuses sequences that it does not know, and texts that are
// wider or longer than the screen: a terminal would wrap or scroll.
class Screen {
 public:
  void take(char next) {
    if (!sequence_.empty() || next == '\x1b') {
      sequence_ += next;
      const bool ends = sequence_.size() > 2 && next >= '@' && next <= '~';
      if (!ends) return;
      obey(sequence_);
      sequence_.clear();
    } else if (next == '\r') {
      column_ = 0;
    } else if (next == '\n') {
      ++line_;
      EXPECT_LT(line_, kLines) << "the screen scrolls";
      line_ = std::min(line_, kLines - 1);
    } else {
      write(next);
    }
  }

  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::vector<std::string>& line : shown_) {
      std::string row;
      for (const std::string& cell : line) row += cell;
      all += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
    }
    return all;
  }
  [[nodiscard]] bool is_other() const { return is_other_; }
  [[nodiscard]] bool has_cursor() const { return has_cursor_; }

 private:
  void write(char next) {
    // The bytes of one character, of which only the first begins otherwise than 10......, are in one cell.
    const bool goes_on = (static_cast<unsigned char>(next) & 0xc0U) == 0x80U;
    if (goes_on && column_ > 0) {
      shown_[line_][column_ - 1] += next;
      return;
    }
    ASSERT_LT(column_, kColumns) << "line " << line_ << " is wider than the terminal:\n" << text();
    shown_[line_][column_++] = std::string(1, next);
  }

  void obey(const std::string& sequence) {
    if (sequence == "\x1b[?1049h" || sequence == "\x1b[?1049l") {
      is_other_ = sequence.back() == 'h';
      shown_ = empty();
    } else if (sequence == "\x1b[?25h" || sequence == "\x1b[?25l") {
      has_cursor_ = sequence.back() == 'h';
    } else if (sequence == "\x1b[H") {
      line_ = column_ = 0;
    } else if (sequence == "\x1b[K") {
      std::fill(shown_[line_].begin() + static_cast<std::ptrdiff_t>(column_), shown_[line_].end(), " ");
    } else if (sequence == "\x1b[J") {
      std::fill(shown_[line_].begin() + static_cast<std::ptrdiff_t>(column_), shown_[line_].end(), " ");
      std::fill(shown_.begin() + static_cast<std::ptrdiff_t>(line_) + 1, shown_.end(), empty()[0]);
    } else if (sequence.back() != 'm') {  // colours
      ADD_FAILURE() << "a sequence that is not known: ESC" << sequence.substr(1);
    }
  }

  static std::vector<std::vector<std::string>> empty() {
    return std::vector<std::vector<std::string>>(kLines, std::vector<std::string>(kColumns, " "));
  }

  std::vector<std::vector<std::string>> shown_ = empty();
  std::size_t line_ = 0;
  std::size_t column_ = 0;
  std::string sequence_;   // that has begun
  bool is_other_ = false;  // than the one with the shell
  bool has_cursor_ = true;
};

// A program in a terminal.
class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& arguments) {
    winsize size{kLines, kColumns, 0, 0};
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::unsetenv("NO_COLOR");
      ::setenv("TERM", "xterm", 1);
      exec_flyball(arguments);
    }
  }
  ~OnTerminal() { ::close(terminal_); }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;

  void press(const std::string& keys) const {
    ASSERT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Follows the screen until the text on it is as wanted; fails after a minute.
  ::testing::AssertionResult shows(const std::function<bool(const std::string&)>& wanted) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!wanted(screen_.text())) {
      pollfd said{terminal_, POLLIN, 0};
      char next = 0;
      if (std::chrono::steady_clock::now() > end)
        return ::testing::AssertionFailure() << "it shows\n" << screen_.text();
      if (::poll(&said, 1, 100) <= 0) continue;
      if (::read(terminal_, &next, 1) != 1) return ::testing::AssertionFailure() << "it ended at\n" << screen_.text();
      screen_.take(next);
    }
    return ::testing::AssertionSuccess();
  }

  // The program, which has been told to, ends well and brings the terminal back to what it was.
  void ends() {
    char next = 0;
    while (::read(terminal_, &next, 1) == 1) screen_.take(next);
    EXPECT_EQ(wait_for(child_), 0);
    EXPECT_FALSE(screen_.is_other()) << "the shell's screen is not back";
    EXPECT_TRUE(screen_.has_cursor());
    EXPECT_TRUE(echoes());
  }

  [[nodiscard]] bool echoes() const {
    termios now{};
    EXPECT_EQ(::tcgetattr(terminal_, &now), 0);
    return (now.c_lflag & static_cast<tcflag_t>(ECHO)) != 0;
  }
  [[nodiscard]] const Screen& screen() const { return screen_; }

 private:
  int terminal_ = -1;
  pid_t child_ = -1;
  Screen screen_;
};

// The numbers of the GPUs in the table, in the order of its rows: lines that begin with one.
std::vector<int> gpus_of(const std::string& text) {
  std::vector<int> gpus;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::size_t figure = text.find_first_not_of(' ', begin);
    if (text[figure] < '0' || text[figure] > '9') continue;
    gpus.push_back(std::stoi(text.substr(figure)));
  }
  return gpus;
}

std::function<bool(const std::string&)> has(const std::string& words) {
  return [words](const std::string& text) { return text.find(words) != std::string::npos; };
}

std::function<bool(const std::string&)> begins_with_gpu(int gpu) {
  return [gpu](const std::string& text) { return !gpus_of(text).empty() && gpus_of(text).front() == gpu; };
}

// Sixteen boards, of which number 11 waits for another one, for which it has a higher clock than one that is
// idle. Keys come only when the
// screen shows what the ones before have done; the next look is ten minutes away.
TEST(TopScreen, ScrollsOrdersHelpsAndQuitsInATerminal) {
  const std::string folder = std::filesystem::path(FLYBALL_SIM_LIBRARY).parent_path().string();
  ::setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
  ::setenv("FLYBALL_POWERCAP_ROOT", "/nonexistent", 1);
  const SimulatedMachine machine("a100-sxm", 16);
  ASSERT_EQ(flyball_sim_block(11), FLYBALL_SIM_OK);
  OnTerminal top({"top", "--direct", "--interval", "600s"});
  ASSERT_TRUE(top.shows(has("rows 1 to ")));
  ASSERT_TRUE(top.shows(has("quits")));
  EXPECT_TRUE(top.screen().is_other());
  EXPECT_FALSE(top.screen().has_cursor());
  EXPECT_FALSE(top.echoes()) << "keys would be written onto the table";
  const std::vector<int> first = gpus_of(top.screen().text());
  ASSERT_GT(first.size(), 5u) << top.screen().text();
  ASSERT_LT(first.size(), 16u) << "they would not have to be scrolled";
  EXPECT_EQ(first.front(), 0);

  top.press("\x1b[B");
  ASSERT_TRUE(top.shows(has("rows 2 to ")));
  EXPECT_TRUE(top.shows(begins_with_gpu(1)));
  top.press("\x1b[F");
  ASSERT_TRUE(top.shows(has(" to 16 of 16")));
  EXPECT_EQ(gpus_of(top.screen().text()).back(), 15);
  EXPECT_EQ(gpus_of(top.screen().text()).size(), first.size()) << "the screen is full at the end, too";
  top.press("\x1b[H");
  ASSERT_TRUE(top.shows(begins_with_gpu(0)));

  top.press("c");
  ASSERT_TRUE(top.shows(begins_with_gpu(11)));
  top.press("g");
  ASSERT_TRUE(top.shows(begins_with_gpu(0)));

  top.press("?");
  ASSERT_TRUE(top.shows(has("q, Ctrl-C           quit")));
  // The table is cleared behind it.
  ASSERT_TRUE(top.shows([](const std::string& text) { return text.ends_with("share of the limit.\n\n\n\n"); }));
  EXPECT_THAT(top.screen().text(), StartsWith("flyball top\n"));
  top.press("x");
  ASSERT_TRUE(top.shows(has("rows 1 to ")));
  EXPECT_TRUE(top.shows(begins_with_gpu(0)));

  top.press("q");
  top.ends();
  for (const char* name : {"LD_LIBRARY_PATH", "FLYBALL_POWERCAP_ROOT"}) ::unsetenv(name);
}

}  // namespace
}  // namespace flyball::testing
