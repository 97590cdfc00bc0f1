// What the training thread pays for Flyball: the calls that stand between two computations.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic_time.h"
#include "base/record.h"
#include "client/clock_controller.h"
#include "client/session.h"
#include "driver/cuda_abi.h"
#include "flyball/sim.h"
#include "net/client.h"
#include "net/event_loop.h"
#include "server/planning_server.h"
#include "sim/machine.h"
#include "sim/specification.h"

namespace flyball {
namespace {

// Takes 10 ms per call, as a driver does.
class SlowSink : public ClockSink {
 public:
  void hold(Megahertz /*clock*/) override { sleep(); }
  void release() override { sleep(); }
  void hold_limit(Watts /*limit*/) override { sleep(); }
  void release_limit() override { sleep(); }

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
template <class Call>
void measure_after_work(benchmark::State& state, Call call) {
  std::vector<double> costs;
  std::vector<char> memory(8u << 20u);
  for (auto unused : state) {
    for (std::size_t i = 0; i < memory.size(); i += 64) ++memory[i];
    const Nanoseconds begin = monotonic_now();
    call();
    const Nanoseconds end = monotonic_now();
    costs.push_back(static_cast<double>(end - begin));
    state.SetIterationTime(static_cast<double>(end - begin) * 1e-9);
  }
  std::sort(costs.begin(), costs.end());
  state.counters["p50_ns"] = costs[costs.size() / 2];
  state.counters["p99_ns"] = costs[costs.size() * 99 / 100];
}

void set_after_work(benchmark::State& state) {
  ClockController controller(std::make_unique<SlowSink>());
  int mhz = 500;
  measure_after_work(state, [&] { controller.set(Megahertz(++mhz % 2 == 0 ? 1410 : 1200)); });
}
BENCHMARK(set_after_work)->UseManualTime()->Iterations(2000);

// What an empty call costs so: the reading of the clock.
void nothing_after_work(benchmark::State& state) {
  measure_after_work(state, [] {});
}
BENCHMARK(nothing_after_work)->UseManualTime()->Iterations(2000);

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

// A planning server with one job of one stage, whose forwards run at 1410 MHz and whose backwards at 1200 MHz.
class OneStageJob {
 public:
  static constexpr std::int64_t kMicrobatches = 1000;

  OneStageJob() : server_(loop_, options()), thread_([this] { loop_.run(); }) {}
  ~OneStageJob() {
    loop_.post([this] { server_.stop([this] { loop_.stop(); }); });
    thread_.join();
  }
  OneStageJob(const OneStageJob&) = delete;
  OneStageJob& operator=(const OneStageJob&) = delete;

  [[nodiscard]] SessionOptions session() const {
    SessionOptions options;
    options.server = "http://127.0.0.1:" + std::to_string(server_.port());
    options.job.id = "bench";
    options.job.token = std::string(32, 't');
    options.job.stages = 1;
    options.job.microbatches = static_cast<int>(kMicrobatches);
    options.profile = false;
    return options;
  }

  void report_profile() const {
    const SessionOptions rank = session();
    HttpClient::Options bearer;
    bearer.token = rank.job.token;
    HttpClient client(parse_endpoint(rank.server), bearer);
    const MeasurementReport report{0,
                                   0,
                                   {{"forward", Megahertz(1410), Seconds(0.010), Joules(2.0), 5},
                                    {"backward", Megahertz(1200), Seconds(0.020), Joules(4.0), 5}}};
    post(client, "/v1/jobs/bench/measurements", to_json(report).dump());
    post(client, "/v1/jobs/bench/ranks/0/profiled", "{}");
  }

 private:
  static PlanningServerOptions options() {
    PlanningServerOptions options;
    options.listen_port = 0;
    return options;
  }
  // The session registers in the background: until it has, there is no such job.
  static void post(HttpClient& client, const std::string& path, const std::string& body) {
    for (int tries = 0; tries < 200; ++tries) {
      if (client.request("POST", path, body).status < 300) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    throw std::runtime_error("POST " + path + " was refused");
  }

  EventLoop loop_;
  PlanningServer server_;
  std::thread thread_;
};

// Takes its time for every clock, and draws 100 W.
SessionGpu two_clock_gpu() {
  SessionGpu gpu;
  gpu.clocks = {Megahertz(1410), Megahertz(1200)};
  gpu.sink = std::make_unique<SlowSink>();
  gpu.meter = {"GPU:0", [] { return MeterReading{Watts(100), std::nullopt}; }};
  return gpu;
}

// The whole call of a training loop, the type's name looked up, while a schedule is in force that changes the clock
// with every computation. `call` asks for the clock.
template <class Call>
void measure_asking(benchmark::State& state, Call call) {
  const OneStageJob job;
  Session session(job.session(), two_clock_gpu());
  job.report_profile();
  // Longer than the step that is measured: clocks of a step that takes longer than at maximum clocks are given up.
  while (session.state().schedule_version == 0) {
    session.step_begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    session.step_end();
  }
  session.step_begin();
  const std::uint64_t repeated = session.state().clocks.repeated;
  int computation = 0;
  measure_after_work(state, [&] { call(session, computation++ % 2 == 0 ? "forward" : "backward"); });
  if (session.state().clocks.repeated != repeated) state.SkipWithError("the schedule does not change the clock");
}

void session_set_speed_after_work(benchmark::State& state) {
  measure_asking(state, [](Session& session, const char* type) { session.set_speed(type); });
}
BENCHMARK(session_set_speed_after_work)->UseManualTime()->Iterations(2 * OneStageJob::kMicrobatches);  // one step

// The default stream of a simulated GPU. A busy one has work for longer than anybody measures; an idle one makes the
// simulated driver wake its thread with every call.
class SimulatedStream {
 public:
  explicit SimulatedStream(bool busy) : name_("bench-" + std::to_string(::getpid())) {
    MachineRequest request;
    request.name = name_;
    request.gpu = "a100";
    request.gpus = 1;
    machine_ = Machine::create(name_, specify_machine(request));
    ::setenv("FLYBALL_SIM", name_.c_str(), 1);
    library_ = ::dlopen(FLYBALL_SIM_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw std::runtime_error(::dlerror());
    CudaContext context = nullptr;
    const bool begun =
        call<decltype(cuInit)>("cuInit")(0) == kCudaSuccess &&
        call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0) == kCudaSuccess &&
        call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context) == kCudaSuccess;
    if (!begun) throw std::runtime_error("the simulated GPU has no context");
    if (busy) call<decltype(flyball_sim_queue_work)>("flyball_sim_queue_work")(nullptr, "forward", 1000.0);
  }
  ~SimulatedStream() {
    call<decltype(cuDevicePrimaryCtxRelease_v2)>("cuDevicePrimaryCtxRelease_v2")(0);
    Machine::remove(name_);
  }
  SimulatedStream(const SimulatedStream&) = delete;
  SimulatedStream& operator=(const SimulatedStream&) = delete;

  template <class Function>
  [[nodiscard]] Function* call(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

 private:
  std::string name_;
  std::shared_ptr<Machine> machine_;
  void* library_ = nullptr;
};

void session_set_speed_in_after_work(benchmark::State& state) {
  const SimulatedStream stream(state.range(0) != 0);
  measure_asking(state, [](Session& session, const char* type) { session.set_speed_in(type, nullptr); });
}
BENCHMARK(session_set_speed_in_after_work)
    ->ArgName("busy")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Iterations(2 * OneStageJob::kMicrobatches);

// begin_in and end_in of a computation that is watched: the session has profiled itself in the stream and has a plan.
// In the two steps that are measured, the GPU is busy with something else.
void session_watched_in_stream(benchmark::State& state) {
  const SimulatedStream stream(false);
  const auto work = stream.call<decltype(flyball_sim_queue_work)>("flyball_sim_queue_work");
  const OneStageJob job;
  SessionOptions options = job.session();
  options.profile = true;
  options.job.microbatches = StepWatch::kMostWanted;
  SessionGpu gpu;
  gpu.clocks = {Megahertz(1410), Megahertz(1200)};
  gpu.sink = std::make_unique<SlowSink>();
  gpu.meter = {"GPU:0", [] { return MeterReading{std::nullopt, Watts(100) * to_seconds(monotonic_now())}; }};
  Session session(options, std::move(gpu));
  const auto step = [&](auto around) {
    session.step_begin();
    for (int i = 0; i < 2 * StepWatch::kMostWanted; ++i) {
      const char* type = i % 2 == 0 ? "forward" : "backward";
      session.set_speed_in(type, nullptr);
      around([&] { session.begin_in(type, nullptr); });
      work(nullptr, type, i % 2 == 0 ? 0.004 : 0.008);
      around([&] { session.end_in(type, nullptr); });
    }
  };
  while (session.state().schedule_version == 0) {
    step([](auto call) { call(); });
    stream.call<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(nullptr);
    session.step_end();
  }
  work(nullptr, "forward", 1000.0);
  std::vector<double> costs;
  for (auto unused : state) {
    double sum = 0.0;
    step([&](auto call) {
      const Nanoseconds begin = monotonic_now();
      call();
      costs.push_back(static_cast<double>(monotonic_now() - begin));
      sum += costs.back();
    });
    session.step_end();
    state.SetIterationTime(1e-9 * sum / (4 * StepWatch::kMostWanted));
  }
  std::sort(costs.begin(), costs.end());
  state.counters["p50_ns"] = costs[costs.size() / 2];
  state.counters["most_ns"] = costs.back();
}
BENCHMARK(session_watched_in_stream)->UseManualTime()->Iterations(2);  // steps

// A step that the server wants to know of, beside one that it does not: each second step of this job, of 2,000
// computations. What begin and end of a computation take in the mean, by calls or in a stream whose GPU has nothing to
// do, and step_end.
void session_measured_step(benchmark::State& state) {
  const bool in_stream = state.range(0) != 0;
  const SimulatedStream stream(false);
  const OneStageJob job;
  Session session(job.session(), two_clock_gpu());
  job.report_profile();
  int steps = 0;
  while (session.state().schedule_version == 0 || steps % 2 == 1) {
    session.step_begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    session.step_end();
    ++steps;
  }
  std::array<std::vector<double>, 2> of_computation;  // not wanted, wanted
  std::array<std::vector<double>, 2> of_end;
  for (auto unused : state) {
    const auto wanted = static_cast<std::size_t>(++steps % 2 == 0);
    session.step_begin();
    const Nanoseconds begin = monotonic_now();
    for (int i = 0; i < 2 * OneStageJob::kMicrobatches; ++i) {
      const char* const type = i % 2 == 0 ? "forward" : "backward";
      in_stream ? session.begin_in(type, nullptr) : session.begin(type);
      in_stream ? session.end_in(type, nullptr) : session.end(type);
    }
    const Nanoseconds computed = monotonic_now();
    if (in_stream) stream.call<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(nullptr);
    const Nanoseconds waited = monotonic_now();
    session.step_end();
    of_end[wanted].push_back(static_cast<double>(monotonic_now() - waited));
    of_computation[wanted].push_back(static_cast<double>(computed - begin) / (2 * OneStageJob::kMicrobatches));
  }
  const auto middle = [](std::vector<double>& all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  };
  state.counters["computation_ns"] = middle(of_computation[0]);
  state.counters["wanted_ns"] = middle(of_computation[1]);
  state.counters["end_us"] = 1e-3 * middle(of_end[0]);
  state.counters["wanted_end_us"] = 1e-3 * middle(of_end[1]);
}
BENCHMARK(session_measured_step)->ArgName("stream")->Arg(0)->Arg(1)->Iterations(40);  // steps

// begin_in of a computation that another clock follows: asked for while it runs (`ahead`), or only when it has ended.
// The GPU is busy with something else until all computations of a step are queued.
void session_coming_clock_in_stream(benchmark::State& state) {
  const SimulatedStream stream(false);
  const auto work = stream.call<decltype(flyball_sim_queue_work)>("flyball_sim_queue_work");
  const OneStageJob job;
  SessionOptions options = job.session();
  options.job.microbatches = 4;  // more would be queued than clocks are asked ahead for
  options.job.clocks_ahead = state.range(0) != 0;
  options.job.switch_latency = Seconds(0.005);
  Session session(options, two_clock_gpu());
  job.report_profile();
  std::vector<double> costs;
  const auto step = [&](bool planned) {
    session.step_begin();
    work(nullptr, "forward", 0.02);
    for (int i = 0; i < 2 * options.job.microbatches; ++i) {
      const char* type = i % 2 == 0 ? "forward" : "backward";
      session.set_speed_in(type, nullptr);
      const Nanoseconds begin = monotonic_now();
      session.begin_in(type, nullptr);
      if (planned) costs.push_back(static_cast<double>(monotonic_now() - begin));
      work(nullptr, type, i % 2 == 0 ? 0.010 : 0.020);
      session.end_in(type, nullptr);
    }
    stream.call<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(nullptr);
    session.step_end();
  };
  while (session.state().schedule_version == 0) step(false);
  for (auto unused : state) {
    const std::size_t before = costs.size();
    step(true);
    const double sum = std::accumulate(costs.begin() + static_cast<std::ptrdiff_t>(before), costs.end(), 0.0);
    state.SetIterationTime(1e-9 * sum / static_cast<double>(costs.size() - before));
  }
  std::sort(costs.begin(), costs.end());
  state.counters["p50_ns"] = costs[costs.size() / 2];
  state.counters["p99_ns"] = costs[costs.size() * 99 / 100];
}
BENCHMARK(session_coming_clock_in_stream)->ArgName("ahead")->Arg(0)->Arg(1)->UseManualTime()->Iterations(50);  // steps

// The simulated driver alone.
void launch_host_function_after_work(benchmark::State& state) {
  const SimulatedStream stream(state.range(0) != 0);
  const auto launch = stream.call<decltype(cuLaunchHostFunc)>("cuLaunchHostFunc");
  measure_after_work(state, [&] {
    launch(
        nullptr, [](void*) {}, nullptr);
  });
}
BENCHMARK(launch_host_function_after_work)
    ->ArgName("busy")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Iterations(2 * OneStageJob::kMicrobatches);

}  // namespace
}  // namespace flyball

BENCHMARK_MAIN();
