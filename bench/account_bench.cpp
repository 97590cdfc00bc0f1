// How fast traces are read. Run with `make bench`; docs/performance.md holds the figures. FLYBALL_TRACE_MIB sets the
// size of the trace (default 256); it is written to TMPDIR and lies in the page cache when it is read.
#include <benchmark/benchmark.h>
#include <simdjson.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "kineto_text.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"
#include "trace/trace.h"

namespace flyball {
namespace {

class TraceFile {
 public:
  TraceFile() {
    path_ = (std::filesystem::temp_directory_path() / "flyball_bench_XXXXXX").string();
    ::close(::mkstemp(path_.data()));
    const char* size = std::getenv("FLYBALL_TRACE_MIB");
    const auto mebibytes = parse_integer(size == nullptr ? "256" : size).value_or(256);
    std::ofstream file(path_, std::ios::binary);
    entries_ = write_kineto_text(static_cast<std::size_t>(mebibytes) << 20, [&file](std::string_view text) {
      file.write(text.data(), static_cast<std::streamsize>(text.size()));
    });
  }
  ~TraceFile() { std::remove(path_.c_str()); }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t entries() const { return entries_; }

 private:
  std::string path_;
  std::uint64_t entries_ = 0;
};

struct Cost {
  double elapsed = 0.0;    // s
  double processor = 0.0;  // s

  void add(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    const double processor_begin = processor_time();
    work();
    processor += processor_time() - processor_begin;
    elapsed += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  static double processor_time() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }
};

std::uint64_t read_events(const std::string& path) {
  OperationTable operations;
  DeviceTable devices;
  const auto trace = open_event_trace(path, {}, operations, devices);
  TraceEvent event;
  std::uint64_t count = 0;
  while (trace->next(event)) ++count;
  return count;
}

// Reading to the last event, against simdjson's parsing of the same text from memory into its document (the second
// time, when its memory is there), in turns. `ratio` is our speed over simdjson's, `ratio_processor` the same in
// processor time, which a busy machine does not bend.
void kineto(benchmark::State& state) {
  const TraceFile file;
  simdjson::padded_string text;
  if (simdjson::padded_string::load(file.path()).get(text) != simdjson::SUCCESS) {
    state.SkipWithError("the trace cannot be read");
    return;
  }
  simdjson::dom::parser parser;
  const auto parse = [&] { benchmark::DoNotOptimize(parser.parse(text).error()); };
  parse();
  Cost theirs;
  Cost ours;
  std::uint64_t events = 0;
  for (auto unused : state) {
    theirs.add(parse);
    ours.add([&] { events = read_events(file.path()); });
  }
  const double bytes = static_cast<double>(text.size()) * static_cast<double>(state.iterations());
  state.counters["simdjson_MB_per_s"] = bytes / theirs.elapsed / 1e6;
  state.counters["MB_per_s"] = bytes / ours.elapsed / 1e6;
  state.counters["ratio"] = theirs.elapsed / ours.elapsed;
  state.counters["ratio_processor"] = theirs.processor / ours.processor;
  state.counters["entries"] = static_cast<double>(file.entries());
  state.counters["events"] = static_cast<double>(events);
}
BENCHMARK(kineto)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime()->UseRealTime();

}  // namespace
}  // namespace flyball

BENCHMARK_MAIN();
