// A real training of two stages, whose sessions report now and then what an iteration took: what the server then tells
// is compared with what the trainer has timed itself around each call. Real time passes, and a busy machine may make
// any computation longer; both see the same.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic_time.h"
#include "client/session_fixture.h"
#include "server/test_server.h"
#include "wire/iteration_messages.h"

namespace flyball {
namespace {

constexpr double kScale = 10.0;   // of the GPUs' time
constexpr Seconds kDelay{0.020};  // of this machine's
constexpr std::size_t kDelayed = 1;
constexpr Seconds kReadings{2e-6};  // of the clock, in the GPUs' time, and of rounding

// What the trainer saw of a computation: from before begin to after end, and from after begin to before end.
struct Timed {
  Nanoseconds outer = 0;
  Nanoseconds inner = 0;
};

// Two microbatches in 1F1B.
class MeasuredIterationTest : public ::testing::Test {
 protected:
  MeasuredIterationTest() {
    for (int rank = 0; rank < 2; ++rank) sessions_[static_cast<std::size_t>(rank)] = open(rank);
  }

  std::unique_ptr<Session> open(int rank) {
    SessionOptions options;
    options.server = "127.0.0.1:" + std::to_string(server_.port());
    options.job = testing::small_job();
    options.job.microbatches = 2;
    options.job.unit_time = Seconds(1e-3);
    options.rank.rank = options.rank.pp_rank = rank;
    options.time_scale = kScale;
    options.sweep.steps_per_clock = 2;
    options.sweep.rises_to_stop = 2;
    options.settle = Seconds(0);
    options.sampling_period = Seconds(0.001);
    SessionGpu gpu;
    for (double mhz = 1000; mhz >= 600; mhz -= 200) gpu.clocks.emplace_back(mhz);
    FakeGpu& board = gpus_[static_cast<std::size_t>(rank)];
    gpu.sink = std::make_unique<FakeSink>(board);
    gpu.meter = {"GPU:0", [&board] { return board.read(); }};
    return std::make_unique<Session>(options, std::move(gpu));
  }

  // Between two steps of both stages.
  template <class Condition>
  bool train_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    bool done = false;
    std::barrier both(2, [&]() noexcept {
      for (auto& [what, there] : there_) there = false;
      done = std::chrono::steady_clock::now() > deadline || condition();
    });
    const auto train = [&](std::size_t stage) {
      while (!done) {  // NOLINT(bugprone-infinite-loop): the barrier's function ends it
        step(stage);
        both.arrive_and_wait();
      }
    };
    std::thread other(train, 1);
    train(0);
    other.join();
    return condition();
  }

  void step(std::size_t stage) {
    static constexpr std::array<const char*, 4> kOrders[] = {{"F0", "F1", "B0", "B1"}, {"F0", "B0", "F1", "B1"}};
    Session& session = *sessions_[stage];
    session.step_begin();
    std::vector<Timed> timed;
    for (const char* const what : kOrders[stage]) {
      const bool forward = what[0] == 'F';
      const std::size_t before = forward ? 0 : 1;
      if (stage != before) wait_for(what);
      const char* const type = forward ? "forward" : "backward";
      session.set_speed(type);
      const Nanoseconds called = monotonic_now();
      session.begin(type);
      const Nanoseconds begun = monotonic_now();
      gpus_[stage].work(forward ? 4.0 : 8.0);
      if (stage == 1 && timed.size() == kDelayed && delays_) std::this_thread::sleep_for(duration_of(kDelay));
      const Nanoseconds done = monotonic_now();
      session.end(type);
      timed.push_back({monotonic_now() - called, done - begun});
      if (stage == before) tell(what);
    }
    session.step_end();
    timed_[stage][static_cast<std::int64_t>(timed_[stage].size()) + 1] = std::move(timed);
  }

  void wait_for(const std::string& what) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return there_[what]; });
  }
  void tell(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    there_[what] = true;
    changed_.notify_all();
  }

  MeasuredIteration told() { return read_message<MeasuredIteration>(client_.get("/v1/jobs/job/iteration")); }

  testing::ServerThread server_;
  testing::Client client_ = testing::Client(server_.port(), testing::kToken);
  std::array<FakeGpu, 2> gpus_;
  std::array<std::unique_ptr<Session>, 2> sessions_;
  std::array<std::map<std::int64_t, std::vector<Timed>>, 2> timed_;  // by stage and step
  std::atomic<bool> delays_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, bool> there_;  // what has been sent to the other stage in this step
};

// The plan follows something outside that is fifty times as slow, so that neither the delay nor a busy machine breaks a
// promise.
TEST_F(MeasuredIterationTest, IsWhatTheTrainerHasTimedAndHasADelayWhereItWas) {
  ASSERT_TRUE(train_until(
      [&] { return sessions_[0]->state().schedule_version > 0 && sessions_[1]->state().schedule_version > 0; }));
  client_.post("/v1/jobs/job/stragglers", {{"straggler", "outside"}, {"degree", 50.0}});
  delays_ = true;
  std::int64_t since = 0;
  ASSERT_TRUE(train_until([&] {
    const std::int64_t version = sessions_[0]->state().schedule_version;
    if (since == 0 && version == sessions_[1]->state().schedule_version && version > 1) {
      since = static_cast<std::int64_t>(sessions_[0]->state().steps) + 1;
    }
    return since > 0 && told().step > since;
  }));
  EXPECT_FALSE(sessions_[0]->measures_step());
  const MeasuredIteration one = told();
  ASSERT_EQ(one.clocks, std::vector(2, StepClock::kHost));
  const IterationOperations& all = one.operations;
  std::array<std::size_t, 2> place{};
  for (std::size_t i = 0; i < all.type.size(); ++i) {
    ASSERT_TRUE(all.measured_begin[i] && all.measured_time[i]);
    const auto stage = static_cast<std::size_t>(one.types[static_cast<std::size_t>(all.type[i])].stage);
    const std::size_t at = place[stage]++;
    const Timed& timed = timed_[stage].at(one.step).at(at);
    EXPECT_GE(*all.measured_time[i], kScale * to_seconds(timed.inner) - kReadings);
    EXPECT_LE(*all.measured_time[i], kScale * to_seconds(timed.outer) + kReadings);
    if (stage == 1 && at == kDelayed) EXPECT_GE(*all.measured_time[i], kScale * kDelay);
    // The stages' clocks are aligned: nothing begins before what it waits for.
    for (const int before : all.waits_for[i]) {
      const auto p = static_cast<std::size_t>(before);
      EXPECT_GE(*all.measured_begin[i] + kReadings, *all.measured_begin[p] + *all.measured_time[p]);
    }
  }
  EXPECT_EQ(place, (std::array<std::size_t, 2>{4, 4}));
  for (auto& session : sessions_) session.reset();
}

}  // namespace
}  // namespace flyball
