// What the program says: results go to standard output; warnings, errors and progress to standard error. Colour and
// progress appear only where standard error is a terminal. Control characters in foreign names, which a terminal would
// obey, are escaped (see base/printable.h), except by print_data(). To be used from the main thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/periodic_thread.h"

namespace flyball {

// Writes all of `text` to standard output and flushes it. Throws SystemError when that fails (disk full, closed pipe).
// JSON with these escapes means the same as without them.
void print_result(std::string_view text);

// Writes `data` in the same way, but as it is: for CSV and other formats that have no escapes, and for a screen that we
// draw.
void print_data(std::string_view data);

// Writes all of `text` to standard error: a report that must not mix with what a measured program prints.
void print_report(std::string_view text);

// Returns the width of the terminal; 80 where the descriptor is no terminal.
[[nodiscard]] std::size_t terminal_columns(int descriptor);

// Returns the text quoted, as one word of a shell's command line.
[[nodiscard]] std::string shell_quoted(std::string_view text);

// These print "flyball: warning: ..." and "flyball: error: ..." on standard error. The word is coloured on a terminal
// unless the environment sets NO_COLOR (no-color.org).
void print_warning(std::string_view text);
void print_error(std::string_view text);

// One line that is redrawn in place, at most ten times a second and not before 0.2 s have passed, and is erased at the
// end of the object's life. Nothing is shown where standard error is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string_view label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(double share);  // in [0, 1]

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point due_;
};

// The same for work that cannot say how far it is: "reading day.csv, 12 s", from the first second on and erased at the
// end of the object's life. A thread draws it, so that nothing else may be printed meanwhile.
class WorkLine {
 public:
  explicit WorkLine(std::string_view label);
  ~WorkLine();
  WorkLine(const WorkLine&) = delete;
  WorkLine& operator=(const WorkLine&) = delete;

 private:
  [[nodiscard]] Seconds draw();

  std::string label_;
  std::chrono::steady_clock::time_point begin_;
  bool drawn_ = false;
  std::optional<PeriodicThread> drawer_;  // only on a terminal
};

}  // namespace flyball
