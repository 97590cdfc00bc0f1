// One pass over the CSV rows; rows with the same time become one sample.
#include "trace/jiffies_trace.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr int kMostProcessors = 65'536;
constexpr int kMostSockets = 256;    // since each interval has a share for each
constexpr double kLastSecond = 9e9;  // in nanoseconds below 2^63

}  // namespace

JiffiesTrace read_jiffies(const std::string& source, std::string_view text) {
  JiffiesTrace trace;
  CsvReader csv(source, text, {"timestamp", "kind", "id", "cpu", "busy", "system"});
  const auto count = [&csv](const char* column) {
    const long value = csv.integer(column);
    if (value < 0) throw InputError(csv.where(column), "a count of jiffies below zero", "record the trace again");
    return static_cast<std::uint64_t>(value);
  };
  while (csv.next()) {
    const double seconds = csv.number("timestamp");
    if (seconds < 0.0 || seconds > kLastSecond) {
      throw InputError(csv.where("timestamp"), "this is no time since 1970 in seconds", "record the trace again");
    }
    const Nanoseconds time = to_nanoseconds(Seconds(seconds));
    const std::string_view kind = csv.text("kind");
    const long cpu = csv.integer("cpu");
    if (cpu < 0 || cpu >= kMostProcessors) {
      throw InputError(csv.where("cpu"), fmt::format("there is no processor {}", cpu), "record the trace again");
    }
    if (trace.samples.empty() || trace.samples.back().time != time) {
      if (!trace.samples.empty() && time < trace.samples.back().time) {
        throw InputError(csv.where("timestamp"), "earlier than the row before", "sort the rows by time");
      }
      trace.samples.push_back({time, {}, {}});
    }
    JiffiesSample& sample = trace.samples.back();
    if (kind == "cpu") {
      const long socket = csv.integer("id");
      if (socket < 0 || socket >= kMostSockets) {
        throw InputError(csv.where("id"), fmt::format("there is no socket {}", socket), "record the trace again");
      }
      trace.socket_of[static_cast<int>(cpu)] = static_cast<int>(socket);
      sample.processors.push_back({static_cast<int>(cpu), count("busy"), count("system")});
    } else if (kind == "task" || kind == "monitor") {
      sample.tasks.push_back({csv.integer("id"), static_cast<int>(cpu), count("busy"), kind == "monitor"});
    } else {
      throw InputError(csv.where("kind"), fmt::format("'{}' is none of cpu, task and monitor", kind),
                       "record the trace again with: flyball record --jiffies FILE");
    }
  }
  return trace;
}

}  // namespace flyball
