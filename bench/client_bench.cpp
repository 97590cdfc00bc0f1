// What the training thread pays for Flyball: the calls that stand between two computations.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "client/clock_controller.h"
#include "client/monotonic_time.h"
#include "client/session.h"

namespace flyball {
namespace {

// Takes 10 ms per call, as a driver does.
class SlowSink : public ClockSink {
 public:
  void hold(Megahertz /*clock*/) override { sleep(); }
  void release() override { sleep(); }

 private:
  static void sleep() {
    const timespec duration{0, 10'000'000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr);
  }
};

// A new clock with every call: nothing is dropped.
void set_changed_clock(benchmark::State& state) {
  ClockController controller(std::make_unique<SlowSink>());
  int mhz = 500;
  for (auto unused : state) controller.set(Megahertz(++mhz % 2 == 0 ? 1410 : 1200));
}
BENCHMARK(set_changed_clock);

void set_repeated_clock(benchmark::State& state) {
  ClockController controller(std::make_unique<SlowSink>());
  for (auto unused : state) controller.set(Megahertz(1200));
}
BENCHMARK(set_repeated_clock);

// Single calls, each a millisecond of other work after the one before, as between computations: cold caches included.
void set_after_work(benchmark::State& state) {
  ClockController controller(std::make_unique<SlowSink>());
  std::vector<double> costs;
  std::vector<char> memory(8u << 20u);
  int mhz = 500;
  for (auto unused : state) {
    for (std::size_t i = 0; i < memory.size(); i += 64) ++memory[i];
    const Nanoseconds begin = monotonic_now();
    controller.set(Megahertz(++mhz % 2 == 0 ? 1410 : 1200));
    const Nanoseconds end = monotonic_now();
    costs.push_back(static_cast<double>(end - begin));
    state.SetIterationTime(static_cast<double>(end - begin) * 1e-9);
  }
  std::sort(costs.begin(), costs.end());
  state.counters["p50_ns"] = costs[costs.size() / 2];
  state.counters["p99_ns"] = costs[costs.size() * 99 / 100];
}
BENCHMARK(set_after_work)->UseManualTime()->Iterations(2000);

// A whole instruction of a session that neither profiles nor has a schedule: what Flyball costs once it is idle.
void session_instruction(benchmark::State& state) {
  SessionOptions options;
  options.profile = false;
  SessionGpu gpu;
  gpu.clocks = {Megahertz(1410)};
  gpu.sink = std::make_unique<SlowSink>();
  gpu.meter = {"GPU:0", [] { return MeterReading{Watts(100), std::nullopt}; }};
  Session session(options, std::move(gpu));
  constexpr int kPerStep = 64;
  int left = 0;
  for (auto unused : state) {
    if (left == 0) {
      session.step_begin();
      left = kPerStep;
    }
    session.set_speed("forward");
    session.begin("forward");
    session.end("forward");
    if (--left == 0) session.step_end();
  }
}
BENCHMARK(session_instruction);

}  // namespace
}  // namespace flyball

BENCHMARK_MAIN();
