// Speed of the attribution sweep, alone and against the paper's procedure to the letter on the same trace in the same
// run. docs/performance.md holds the figures.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "account/attribution.h"
#include "support/flattened_attribution.h"
#include "support/memory_traces.h"
#include "trace/event_trace.h"
#include "trace/operation_table.h"
#include "trace/power_trace.h"

namespace flyball {
namespace {

using testing::kMicrosecond;
using testing::MadeTraces;
using testing::MemoryEvents;
using testing::MemoryPower;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Attribution sweep(const MadeTraces& made, const AttributionOptions& options) {
  MemoryEvents events(made.events);
  MemoryPower power(made.power);
  return attribute(events, power, options);
}

// Processor time of both, so that a busy machine does not matter; the sweep many times, since some systems count
// processor time in steps of 10 ms.
void sweep_against_the_paper(benchmark::State& state) {
  testing::TraceShape shape;
  shape.events = static_cast<int>(state.range(0));
  shape.longest_event = state.range(1) * kMicrosecond;
  const MadeTraces made = testing::make_traces(shape, 1);
  const testing::TickPower ticks = testing::tick_power(made.power, kMicrosecond);
  constexpr int kSweeps = 200;
  double paper = 0.0;
  double ours = 0.0;
  for (auto unused : state) {
    const double begin = processor_seconds();
    benchmark::DoNotOptimize(testing::flattened_footprint(made.events, ticks, kMicrosecond));
    const double middle = processor_seconds();
    for (int i = 0; i < kSweeps; ++i) benchmark::DoNotOptimize(sweep(made, {.closed_by = kMicrosecond}));
    paper += middle - begin;
    ours += (processor_seconds() - middle) / kSweeps;
  }
  state.counters["times_faster"] = paper / ours;
  state.counters["events"] = shape.events;
}

// One event at a time, nothing kept: what a trace of any length costs.
class EndlessEvents final : public EventSource {
 public:
  explicit EndlessEvents(std::int64_t count) : count_(count) {}
  bool next(TraceEvent& event) override {
    if (at_ == count_) return false;
    const Nanoseconds begin = at_ * kMicrosecond;
    event = {begin, begin + (at_ % 7) * kMicrosecond, static_cast<DeviceId>(at_ % 2),
             static_cast<OperationId>(at_ % 500)};
    ++at_;
    return true;
  }

 private:
  std::int64_t count_;
  std::int64_t at_ = 0;
};

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void sweep_alone(benchmark::State& state) {
  const std::int64_t count = state.range(0);
  const double before = peak_megabytes();
  for (auto unused : state) {
    EndlessEvents events(count);
    MemoryPower power({{0, count * kMicrosecond, 0, Watts(300)}, {0, count * kMicrosecond, 1, Watts(200)}});
    benchmark::DoNotOptimize(attribute(events, power));
  }
  state.SetItemsProcessed(state.iterations() * count);
  state.counters["peak_rss_grown_mb"] = peak_megabytes() - before;
}

// What FLYBALL_EVENTS and FLYBALL_POWER name, once opened: for bench/peers/smaragdine_script.py.
void sweep_of_files(benchmark::State& state) {
  OperationTable operations;
  DeviceTable devices;
  const auto power = open_power_trace(std::getenv("FLYBALL_POWER"), {}, devices);
  const auto events = open_event_trace(std::getenv("FLYBALL_EVENTS"), {}, operations, devices);
  for (auto unused : state) {
    events->rewind(0);
    power->rewind(0);
    benchmark::DoNotOptimize(attribute(*events, *power));
  }
}

[[maybe_unused]] const auto* const kOfFiles =
    std::getenv("FLYBALL_EVENTS") != nullptr && std::getenv("FLYBALL_POWER") != nullptr
        ? benchmark::RegisterBenchmark("sweep_of_files", sweep_of_files) -> Unit(benchmark::kMillisecond)
        : nullptr;
BENCHMARK(sweep_alone)->Arg(100'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(sweep_against_the_paper)
    ->Args({2'000, 300})
    ->Args({20'000, 300})
    ->Args({1'000, 10'000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace flyball

BENCHMARK_MAIN();
