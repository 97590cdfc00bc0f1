// Everything but the text of print_data() goes through printable(). The progress bar is drawn first after 0.2 s, so
// that short runs show none, then every 0.1 s, and its destructor erases it.
#include "cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace flyball {
namespace {

bool smart_terminal(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

bool colour_is_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  return smart_terminal(STDERR_FILENO) && (no_color == nullptr || *no_color == '\0');
}

void print_message(std::string_view word, std::string_view colour, std::string_view foreign) {
  const std::string text = printable(foreign, LineEnds::kKept);
  const std::string line = colour_is_wanted() ? fmt::format("flyball: \x1b[{}m{}:\x1b[0m {}\n", colour, word, text)
                                              : fmt::format("flyball: {}: {}\n", word, text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void print_result(std::string_view text) { print_data(printable(text, LineEnds::kKept)); }

void print_data(std::string_view data) {
  if (std::fwrite(data.data(), 1, data.size(), stdout) != data.size() || std::fflush(stdout) != 0) {
    throw SystemError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  }
}

void print_report(std::string_view foreign) {
  const std::string text = printable(foreign, LineEnds::kKept);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void print_warning(std::string_view text) { print_message("warning", "33", text); }
void print_error(std::string_view text) { print_message("error", "31", text); }

ProgressBar::ProgressBar(std::string_view label)
    : label_(printable(label)),
      terminal_(smart_terminal(STDERR_FILENO)),
      due_(Clock::now() + std::chrono::milliseconds(200)) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::update(double share) {
  if (!terminal_ || Clock::now() < due_) return;
  due_ = Clock::now() + std::chrono::milliseconds(100);
  drawn_ = true;
  share = std::clamp(share, 0.0, 1.0);
  const std::size_t columns = std::min<std::size_t>(terminal_columns(STDERR_FILENO), 80);
  const std::size_t frame = label_.size() + 10;  // " [" "] 100 %" and the last column, which stays free
  const std::size_t width = columns > frame ? columns - frame : 0;
  const auto done = static_cast<std::size_t>(share * static_cast<double>(width));
  const std::string line =
      fmt::format("\r{} [{:#<{}}{:.<{}}] {:3.0f} %\x1b[K", label_, "", done, "", width - done, 100.0 * share);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

WorkLine::WorkLine(std::string_view label) : label_(printable(label)), begin_(std::chrono::steady_clock::now()) {
  if (smart_terminal(STDERR_FILENO)) drawer_.emplace("WorkLine", Seconds(1), [this] { return draw(); });
}

WorkLine::~WorkLine() {
  drawer_.reset();  // joins the thread
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

Seconds WorkLine::draw() {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin_).count();
  if (seconds > 0) {
    drawn_ = true;
    const std::string text = fmt::format("{}, {} s", label_, seconds);
    // A line that wraps could not be redrawn in place.
    const std::string line =
        fmt::format("\r{}\x1b[K", std::string_view(text).substr(0, terminal_columns(STDERR_FILENO) - 1));
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
  }
  return Seconds(1);
}

}  // namespace flyball
