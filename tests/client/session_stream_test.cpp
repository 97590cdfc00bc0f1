// A session whose engine runs ahead of its GPU: what is asked for in a stream happens when the GPU comes to it. The
// stream is the simulated libcuda.so.1's, and what runs in it are host functions that work on the fixture's GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "client/device_timeline.h"
#include "client/session_fixture.h"
#include "driver/cuda_abi.h"
#include "driver/device_error.h"
#include "driver/stream_library.h"
#include "sim/simulated.h"
#include "support/threads.h"

namespace flyball {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The default stream of the first simulated board, in the thread that makes it. Its library stays loaded.
class Stream {
 public:
  Stream() {
    const auto path = std::filesystem::path(FLYBALL_PROGRAM).parent_path() / "sim" / "cuda" / "libcuda.so.1";
    library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) throw SystemError(::dlerror());
    EXPECT_EQ(call<decltype(cuInit)>("cuInit")(0), kCudaSuccess);
    CudaContext context = nullptr;
    EXPECT_EQ(call<decltype(cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain")(&context, 0), kCudaSuccess);
    EXPECT_EQ(call<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent")(context), kCudaSuccess);
  }
  ~Stream() {
    wait();
    const std::size_t threads = testing::thread_count();
    call<decltype(cuDevicePrimaryCtxRelease_v2)>("cuDevicePrimaryCtxRelease_v2")(0);
    testing::wait_for_threads_to_end(threads - 1);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Queues what the GPU does.
  void run(std::function<void()> action) const {
    auto queued = std::make_unique<std::function<void()>>(std::move(action));
    EXPECT_EQ(call<decltype(cuLaunchHostFunc)>("cuLaunchHostFunc")(
                  nullptr,
                  [](void* data) {
                    const std::unique_ptr<std::function<void()>> own(static_cast<std::function<void()>*>(data));
                    (*own)();
                  },
                  queued.release()),
              kCudaSuccess);
  }
  void wait() const { EXPECT_EQ(call<decltype(cuStreamSynchronize)>("cuStreamSynchronize")(nullptr), kCudaSuccess); }

 private:
  template <class Function>
  [[nodiscard]] Function* call(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  // Its events have times of the clock that the session looks at.
  testing::SimulatedMachine machine_{"a100", 1, 1.0};
  void* library_ = nullptr;
};

// What a stream waits for, until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class SessionStreamTest : public SessionTest {
 protected:
  void compute_in_stream(const char* type, double milliseconds) {
    session_->set_speed_in(type, nullptr);
    session_->begin_in(type, nullptr);
    stream_.run([this, milliseconds] { gpu_.work(slowness_ * milliseconds); });
    session_->end_in(type, nullptr);
  }

  // The whole step is queued before its first computation is done.
  void step_in_stream(double milliseconds = 1.0) {
    session_->step_begin();
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      compute_in_stream("forward", milliseconds);
      compute_in_stream("backward", 2 * milliseconds);
    }
    stream_.wait();
    session_->step_end();
  }

  // Opens a session that only runs schedules, and trains until it has this one.
  void open_with(const std::vector<int>& clocks, bool report_steps = false) {
    server_.start();
    server_.publish(clocks, report_steps);
    SessionOptions chosen = options(true);
    chosen.profile = false;
    open(chosen);
    train_until(1, clocks.back());
  }
  // Trains until it has this version of the schedule, and until the last clock of the steps before has been set: clocks
  // are asked for by a thread, which may be behind.
  void train_until(std::int64_t version, double last_mhz) {
    ASSERT_TRUE(rounds_until([&] {
      step_in_stream();
      return session_->state().schedule_version == version;
    }));
    ASSERT_TRUE(comes_to_hold(last_mhz));
    (void)gpu_.take_history();
  }
  [[nodiscard]] bool comes_to_hold(double mhz) {
    return rounds_until([&] { return gpu_.clock() == mhz; });
  }

  Stream stream_;
};

// All four computations are queued while the GPU waits for something else: no clock is set. Then each gets its own: it
// ends when its clock holds, which it would never see if a later one had been asked for before.
TEST_F(SessionStreamTest, AClockIsAskedForWhenTheGpuComesToItsComputation) {
  open_with({900, 700, 800, 600});
  Gate gate;
  stream_.run([&] { gate.pass(); });
  session_->step_begin();
  int computation = 0;
  for (const double clock : {900.0, 700.0, 800.0, 600.0}) {
    session_->set_speed_in(computation++ % 2 == 0 ? "forward" : "backward", nullptr);
    stream_.run([this, clock] { EXPECT_TRUE(comes_to_hold(clock)); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(gpu_.take_history(), IsEmpty());
  gate.open();
  stream_.wait();
  session_->step_end();
  EXPECT_THAT(gpu_.take_history(), ElementsAre(900, 700, 800, 600));
  session_.reset();
}

// Each of the first three computations ends when the clock of the next one holds, which nobody asks for before it ends
// but the schedule: it is to be asked for when the computation begins on the GPU. The process has queued all before.
TEST_F(SessionStreamTest, TheNextClockIsAskedForWhileAComputationRuns) {
  open_with({900, 700, 800, 600});
  RankSchedule ahead;
  for (const int clock : {900, 700, 800, 600}) {
    const bool backward = ahead.computations.size() % 2 == 1;
    ahead.computations.push_back({backward ? "backward" : "forward", 0, 0, clock});
    ahead.computations.back().next_clock_after_us = ahead.computations.size() < 4 ? 2000 : -1;
  }
  server_.publish(ahead);
  train_until(2, 600);
  Gate gate;
  stream_.run([&] { gate.pass(); });
  session_->step_begin();
  for (std::size_t i = 0; i < 4; ++i) {
    const char* type = i % 2 == 0 ? "forward" : "backward";
    const double own = ahead.computations[i].clock_mhz;
    const double next = ahead.computations[std::min<std::size_t>(i + 1, 3)].clock_mhz;
    session_->set_speed_in(type, nullptr);
    // Or else the next one, which is asked for 2 ms after the beginning, may overtake it on a busy machine.
    stream_.run([this, own] { EXPECT_TRUE(comes_to_hold(own)); });
    session_->begin_in(type, nullptr);
    stream_.run([this, next] { EXPECT_TRUE(comes_to_hold(next)); });
    session_->end_in(type, nullptr);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(gpu_.take_history(), IsEmpty());
  gate.open();
  stream_.wait();
  session_->step_end();
  EXPECT_THAT(gpu_.take_history(), ElementsAre(900, 700, 800, 600));
  session_.reset();
}

// Sleeping never takes less than it is asked to: a forward of 4 ms takes that and more at 1000 MHz, and a backward
// twice that, although both calls around it return before it has begun.
TEST_F(SessionStreamTest, AnEngineThatRunsAheadIsProfiledOnTheDevicesTimeline) {
  open(options(false));
  ASSERT_TRUE(rounds_until([&] {
    step_in_stream(4.0);
    return session_->state().phase != SessionPhase::kProfiling;
  }));
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_GE(all.size(), 4u);
  for (const InstructionMeasurement& one : all) {
    if (one.instruction == "forward") EXPECT_GE(one.time.value(), 0.004 * 1000.0 / one.clock.value() * 0.999);
    if (one.instruction == "backward") EXPECT_GE(one.time.value(), 0.008 * 1000.0 / one.clock.value() * 0.999);
  }
  EXPECT_THAT(notices(), IsEmpty());
  session_.reset();
}

TEST_F(SessionStreamTest, StepsThatTheServerAsksForHaveTheDevicesTimes) {
  open_with({900, 900, 900, 900}, true);
  ASSERT_TRUE(rounds_until([&] {
    step_in_stream();
    return server_.look([](const JobServer& server) { return !server.steps.empty(); });
  }));
  ASSERT_TRUE(server_.look([](const JobServer& server) {
    const StepReport& step = server.steps.back();
    if (step.begin.size() != 4) return false;
    for (std::size_t i = 0; i < 4; ++i) {
      // 1 and 2 ms at 1000 MHz.
      const double least = (i % 2 == 0 ? 0.001 : 0.002) * 1000.0 / 1000.0;
      if ((step.end[i] - step.begin[i]).value() < least) return false;
      if (i > 0 && step.begin[i] < step.end[i - 1]) return false;
    }
    return true;
  }));
  session_.reset();
}

// The step that is wanted ends before its GPU has begun, and is told of when the GPU has done it: computations of 4 and
// 8 ms, which the process has queued in no time. A server that does not know whose times these are gets them all the
// same.
TEST_F(SessionStreamTest, StepsNowAndThenHaveTheDevicesTimesAndNobodyWaits) {
  server_.knows_step_clocks = false;
  open_with({900, 700, 800, 600});
  RankSchedule schedule = JobServer::schedule_of({900, 700, 800, 600});
  schedule.measured_every = 2;
  server_.publish(schedule);
  train_until(2, 600);
  while (session_->state().steps % 2 == 0) step_in_stream();
  const auto wanted = static_cast<std::int64_t>(session_->state().steps) + 1;
  const auto known = [&](const JobServer& server) {
    return std::find_if(server.steps.begin(), server.steps.end(),
                        [&](const StepReport& one) { return one.step == wanted; });
  };
  Gate gate;
  stream_.run([&] { gate.pass(); });
  session_->step_begin();
  EXPECT_FALSE(session_->measures_step());
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    compute_in_stream("forward", 4.0);
    compute_in_stream("backward", 8.0);
  }
  session_->step_end();
  EXPECT_TRUE(server_.look([&](const JobServer& server) { return known(server) == server.steps.end(); }));
  gate.open();
  stream_.wait();
  step_in_stream();
  ASSERT_TRUE(server_.wait_for([&](const JobServer& server) { return known(server) != server.steps.end(); }));
  ASSERT_TRUE(server_.look([&](const JobServer& server) {
    const StepReport& step = *known(server);
    EXPECT_EQ(step.begin.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_GE((step.end[i] - step.begin[i]).value(), 0.999 * (i % 2 == 0 ? 0.004 : 0.008));
      if (i > 0) EXPECT_GE(step.begin[i], step.end[i - 1]);
    }
    EXPECT_GE(server.refused, 1);
    return true;
  }));
  ASSERT_TRUE(server_.look([](JobServer& server) { return server.knows_step_clocks = true; }));
  ASSERT_TRUE(rounds_until([&] {
    step_in_stream();
    return server_.look([](const JobServer& server) { return server.steps.back().clock == StepClock::kDevice; });
  }));
  session_.reset();
}

TEST_F(SessionStreamTest, AStepThatEndsBeforeItsGpuIsNotMeasuredAndSaidSo) {
  open(options(false));
  Gate gate;
  // The first step may come before the sweep is taken up.
  ASSERT_TRUE(rounds_until([&] {
    session_->step_begin();
    if (session_->measures_step()) return true;
    session_->step_end();
    return false;
  }));
  session_->begin_in("forward", nullptr);
  stream_.run([&] { gate.pass(); });
  session_->end_in("forward", nullptr);
  session_->step_end();
  gate.open();
  EXPECT_TRUE(rounds_until([&] {
    step_in_stream(1.0);
    return !notices().empty();
  }));
  EXPECT_THAT(notices(), Contains(HasSubstr("step_end was called before the GPU had done")));
  session_.reset();
}

TEST_F(SessionStreamTest, ASessionMayEndBeforeItsStreamDoes) {
  open_with({900, 700, 800, 600});
  Gate gate;
  stream_.run([&] { gate.pass(); });
  session_->step_begin();
  session_->set_speed_in("forward", nullptr);
  session_.reset();
  (void)gpu_.take_history();
  gate.open();
  stream_.wait();
  EXPECT_THAT(gpu_.take_history(), IsEmpty());
}

// Computations of 4 and 8 ms take four times as long, then a transfer of 2 ms does, and then neither. The engine waits
// for its GPU in no step that is not measured, but for the one before: what a step took is known a step later.
TEST_F(SessionStreamTest, ASlowGpuAndASlowLinkAreFoundOnTheDevicesTimeline) {
  server_.start();
  open(options(true));
  std::atomic<int> done{0};
  double slow_link = 1.0;
  int queued = 0;
  const auto step = [&] {
    ASSERT_TRUE(rounds_until([&] { return done >= queued - 1; }));
    session_->step_begin();
    const bool waits = session_->measures_step();
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      for (const auto& [type, milliseconds] : {std::pair("forward", 4.0), std::pair("backward", 8.0)}) {
        session_->set_speed_in(type, nullptr);
        session_->begin_in(type, nullptr);
        stream_.run([this, work = slowness_ * milliseconds] { gpu_.work(work); });
        session_->end_in(type, nullptr);
      }
      session_->begin_in("p2p", nullptr);
      stream_.run(
          [time = std::chrono::duration<double, std::milli>(2.0 * slow_link)] { std::this_thread::sleep_for(time); });
      session_->end_in("p2p", nullptr);
    }
    stream_.run([&done] { ++done; });
    ++queued;
    if (waits) stream_.wait();
    session_->step_end();
  };
  const auto step_until = [&](auto condition) {
    return rounds_until([&] {
      step();
      return condition();
    });
  };
  ASSERT_TRUE(step_until([&] { return session_->state().phase != SessionPhase::kProfiling; }));
  server_.publish({900, 900, 900, 900});
  ASSERT_TRUE(step_until([&] { return session_->state().schedule_version == 1; }));
  for (int i = 0; i < 40; ++i) step();
  const auto told = [&](PaceOf of, bool slow) {
    return step_until([&] {
      return server_.look([&](const JobServer& heard) {
        const auto last = std::find_if(heard.paces.rbegin(), heard.paces.rend(),
                                       [of](const PaceReport& one) { return one.of == of; });
        return last != heard.paces.rend() && (slow ? last->slowdown > 2.0 : last->slowdown == 1.0);
      });
    });
  };
  slowness_ = 4.0;
  EXPECT_TRUE(told(PaceOf::kComputing, true));
  slowness_ = 1.0;
  EXPECT_TRUE(told(PaceOf::kComputing, false));
  slow_link = 4.0;
  EXPECT_TRUE(told(PaceOf::kTransfer, true));
  EXPECT_TRUE(server_.look([](const JobServer& heard) {
    return std::all_of(heard.paces.begin(), heard.paces.end(), [](const PaceReport& one) {
      return one.slowdown == 1.0 || (one.cause == PaceCause::kCommunication) == (one.of != PaceOf::kComputing);
    });
  }));
  slow_link = 1.0;
  EXPECT_TRUE(told(PaceOf::kTransfer, false));
  EXPECT_THAT(notices(), Contains(HasSubstr("communication: p2p to stage 0 takes")));
  stream_.wait();
  session_.reset();
}

// The GPU is at the step for longer than it may be when it comes to the second clock.
TEST_F(SessionStreamTest, ClocksOfAStepThatIsLateOnTheDeviceAreGivenUp) {
  ClockController controller(std::make_unique<FakeSink>(gpu_));
  DeviceTimeline timeline(&controller);
  timeline.step_begin(10 * kMillisecond);
  timeline.set(nullptr, Megahertz(900));
  stream_.run([&] { (void)rounds_until([&] { return gpu_.clock() == 900; }); });
  stream_.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(11)); });
  timeline.set(nullptr, Megahertz(700));
  stream_.wait();
  EXPECT_TRUE(rounds_until([&] { return gpu_.at_default(); }));
  EXPECT_THAT(gpu_.take_history(), ElementsAre(900, 0));
  EXPECT_TRUE(timeline.take_late());
  EXPECT_FALSE(timeline.take_late());
}

TEST_F(SessionStreamTest, ClocksThatWereQueuedForEarlierStepsCanBeForgotten) {
  ClockController controller(std::make_unique<FakeSink>(gpu_));
  DeviceTimeline timeline(&controller);
  Gate gate;
  stream_.run([&] { gate.pass(); });
  timeline.set(nullptr, Megahertz(900));
  timeline.forget_clocks();
  timeline.set(nullptr, Megahertz(700));
  gate.open();
  stream_.wait();
  EXPECT_TRUE(rounds_until([&] { return gpu_.clock() == 700; }));
  EXPECT_THAT(gpu_.take_history(), ElementsAre(700));
}

// More than fit: those beyond are asked for at once, and moments beyond never come.
TEST_F(SessionStreamTest, TooMuchThatIsQueuedDoesNotWait) {
  ClockController controller(std::make_unique<FakeSink>(gpu_));
  DeviceTimeline timeline(&controller);
  Gate gate;
  stream_.run([&] { gate.pass(); });
  for (std::size_t i = 0; i < DeviceTimeline::kMostQueued; ++i) timeline.set(nullptr, Megahertz(700));
  timeline.set(nullptr, Megahertz(900));
  EXPECT_TRUE(comes_to_hold(900));
  timeline.note(nullptr, 0);
  gate.open();
  stream_.wait();
  EXPECT_EQ(timeline.moment(0), 0);
}

// A function that does not return holds up those behind it, but not the stream.
TEST_F(SessionStreamTest, FunctionsAreCalledInOrderBesideTheStream) {
  const StreamLibrary library;
  StreamFollower follower(library);
  StreamEvent before(library);
  StreamEvent after(library);
  Gate gate;
  std::vector<int> called;
  std::function<void()> first = [&] {
    gate.pass();
    called.push_back(1);
  };
  std::function<void()> second = [&] { called.push_back(2); };
  const auto call = [](void* data) { (*static_cast<std::function<void()>*>(data))(); };
  before.record(nullptr);
  follower.queue(nullptr, call, &first);
  stream_.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
  follower.queue(nullptr, call, &second);
  after.record(nullptr);
  stream_.wait();
  EXPECT_TRUE(after.reached());
  EXPECT_GE(after.since(before).value(), 0.003);
  EXPECT_LT(before.since(after).value(), 0.0);
  StreamEvent end(library);
  end.record(follower.stream());
  EXPECT_FALSE(end.reached());
  gate.open();
  EXPECT_TRUE(rounds_until([&] { return end.reached(); }));
  EXPECT_THAT(called, ElementsAre(1, 2));
}

TEST_F(SessionStreamTest, WhatTheDriverRefusesIsSaid) {
  DeviceTimeline timeline(nullptr);
  int nothing = 0;
  try {
    timeline.note(&nothing, 0);
    FAIL() << "a wrong stream was taken";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.fault(), DeviceFault::kDriver);
    EXPECT_THAT(error.what(), HasSubstr("cuEventRecord answers 400"));  // CUDA_ERROR_INVALID_HANDLE
  }
}

TEST_F(SessionStreamTest, WhereTheDriverRefusesNothingHasBegun) {
  open(options(false));
  int nothing = 0;
  session_->step_begin();
  EXPECT_THROW(session_->begin_in("forward", &nothing), DeviceError);
  session_->begin("forward");
  session_->end("forward");
  session_->step_end();
  session_.reset();
}

// Before anything has loaded a driver's library, as in a process that has no stream: nothing is loaded for it, and the
// calls without a stream go on.
TEST_F(SessionTest, AStreamWithoutItsLibraryIsAnError) {
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) GTEST_SKIP() << "this process has loaded one";
  open(options(false));
  // A step that begins just when the session's own thread looks at the sweep is not measured; another one is.
  ASSERT_TRUE(rounds_until([&] {
    session_->step_begin();
    if (session_->measures_step()) return true;
    session_->step_end();
    return false;
  }));
  try {
    session_->begin_in("forward", nullptr);
    FAIL() << "there is no library";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.fault(), DeviceFault::kNoDriver);
    EXPECT_THAT(error.what(), HasSubstr("has loaded neither libcuda.so.1 nor libamdhip64.so"));
  }
  session_->begin("forward");
  session_->end("forward");
  session_->step_end();
}

}  // namespace
}  // namespace flyball
