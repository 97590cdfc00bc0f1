// What traces in Chrome's Trace Event Format are made of, which ui.perfetto.dev and chrome://tracing open
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). Header only.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace flyball {

// Microseconds without an exponent and with no more decimals than nanoseconds need: readers that parse digits get the
// exact time. `time` is not negative.
[[nodiscard]] inline std::string trace_time(Nanoseconds time) {
  std::string text = fmt::format("{}", time / 1000);
  if (const Nanoseconds rest = time % 1000; rest > 0) text += fmt::format(".{:03}", rest);
  return text;
}

// Sums of powers are rounded, or what is nothing would be shown as a power of 1e-14 W.
[[nodiscard]] inline double trace_watts(Watts power) { return std::round(power.value() * 1e3) / 1e3 + 0.0; }

// A trace as text that grows by one event after the other.
class ChromeTraceText {
 public:
  // `members` stand in the trace beside its events: "\"name\":value,", or nothing.
  explicit ChromeTraceText(std::string_view members = {})
      : text_(fmt::format("{{\"displayTimeUnit\":\"ms\",{}\"traceEvents\":[", members)) {}

  // Begins an event, for the caller to end.
  std::string& next() {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    return text_;
  }

  // Adds an event that describes a process, or one of its threads where `thread` is not negative. `value` is JSON.
  void add_metadata(int process, int thread, std::string_view what, std::string_view key, std::string_view value) {
    next();
    fmt::format_to(std::back_inserter(text_), "{{\"ph\":\"M\",\"pid\":{},", process);
    if (thread >= 0) fmt::format_to(std::back_inserter(text_), "\"tid\":{},", thread);
    fmt::format_to(std::back_inserter(text_), "\"name\":\"{}\",\"args\":{{\"{}\":{}}}}}", what, key, value);
  }

  // Adds a step of a counter, which keeps its value until the next. `name` needs no escapes.
  void add_watts(int process, Nanoseconds time, std::string_view name, Watts power) {
    next();
    fmt::format_to(std::back_inserter(text_),
                   "{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":\"{}\",\"args\":{{\"W\":{}}}}}", process,
                   trace_time(time), name, trace_watts(power));
  }

  // Returns what has been added since the last call, for whoever writes the trace as it grows.
  [[nodiscard]] std::string taken() { return std::exchange(text_, {}); }
  [[nodiscard]] std::size_t size() const { return text_.size(); }

  // Returns what is left, with the end of the trace.
  [[nodiscard]] std::string finished() && {
    text_ += "\n]}\n";
    return std::move(text_);
  }

 private:
  std::string text_;
  bool first_ = true;
};

}  // namespace flyball
