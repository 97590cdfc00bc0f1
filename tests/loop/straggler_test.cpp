// Sessions and planning server together: one of two GPUs becomes slow and recovers, and the other one's clocks follow
// without a call by the engine. Real time passes, and a machine that is busy may slow any GPU down; but what is waited
// for comes on every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>
#include <string>
#include <thread>

#include "client/session_fixture.h"
#include "server/test_server.h"

namespace flyball {
namespace {

// Two pipelines of one stage, each with a GPU: a step takes 24 ms at the highest clock, and ends with a reduction of
// gradients, for which both wait.
class StragglerTest : public ::testing::Test {
 protected:
  StragglerTest() {
    for (int rank = 0; rank < 2; ++rank) sessions_[static_cast<std::size_t>(rank)] = open(rank);
  }

  std::unique_ptr<Session> open(int rank) {
    SessionOptions options;
    options.server = "127.0.0.1:" + std::to_string(server_.port());
    options.job = testing::small_job("job", 2);
    options.job.stages = 1;
    options.job.microbatches = 2;
    options.job.unit_time = Seconds(1e-4);
    options.rank.rank = options.rank.dp_rank = rank;
    options.sweep.steps_per_clock = 4;
    options.sweep.rises_to_stop = 2;
    options.settle = Seconds(0);
    options.sampling_period = Seconds(0.001);
    SessionGpu gpu;
    for (double mhz = 1000; mhz >= 600; mhz -= 100) gpu.clocks.emplace_back(mhz);
    FakeGpu& board = gpus_[static_cast<std::size_t>(rank)];
    gpu.sink = std::make_unique<FakeSink>(board);
    gpu.meter = {"GPU:0", [&board] { return board.read(); }};
    return std::make_unique<Session>(options, std::move(gpu));
  }

  // Both GPUs train until the condition holds between two steps. The second one computes so many times as long.
  template <class Condition>
  bool train_until(double slowness, Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    bool done = false;
    std::barrier reduction(2, [&]() noexcept { done = std::chrono::steady_clock::now() > deadline || condition(); });
    const auto train = [&](std::size_t rank) {
      while (!done) {  // NOLINT(bugprone-infinite-loop): the barrier's function ends it
        Session& session = *sessions_[rank];
        session.step_begin();
        for (int microbatch = 0; microbatch < 2; ++microbatch) {
          for (const auto& [type, milliseconds] : {std::pair("forward", 4.0), std::pair("backward", 8.0)}) {
            session.set_speed(type);
            session.begin(type);
            gpus_[rank].work((rank == 1 ? slowness : 1.0) * milliseconds);
            session.end(type);
          }
        }
        reduction.arrive_and_wait();
        session.step_end();
      }
    };
    std::thread other(train, 1);
    train(0);
    other.join();
    return condition();
  }

  [[nodiscard]] bool is_found(int rank) {
    const auto found = client_.status("job").found_stragglers;
    return std::any_of(found.begin(), found.end(), [rank](const FoundStraggler& one) { return one.rank == rank; });
  }
  // What the first session's schedule allows and takes.
  [[nodiscard]] bool waits() {
    const SessionState state = sessions_[0]->state();
    return state.schedule_version > 0 && state.planned_time > 1.2 * normal_;
  }

  testing::ServerThread server_;
  testing::Client client_ = testing::Client(server_.port(), testing::kToken);
  std::array<FakeGpu, 2> gpus_;
  std::array<std::unique_ptr<Session>, 2> sessions_;
  Seconds normal_{1e9};
};

TEST_F(StragglerTest, OthersSlowDownAndRecoverByThemselves) {
  ASSERT_TRUE(train_until(1.0, [&] {
    return std::all_of(sessions_.begin(), sessions_.end(),
                       [](const auto& session) { return session->state().schedule_version > 0; });
  }));
  normal_ = sessions_[0]->state().planned_time;
  int steps = 0;
  ASSERT_TRUE(train_until(1.0, [&] { return ++steps > 40; }));
  // Three times as long, so that the other one runs at its slowest plan, T*.
  ASSERT_TRUE(train_until(3.0, [&] { return is_found(1) && waits(); }));
  const JobStatus status = client_.status("job");
  const auto found = std::find_if(status.found_stragglers.begin(), status.found_stragglers.end(),
                                  [](const FoundStraggler& one) { return one.rank == 1; });
  ASSERT_NE(found, status.found_stragglers.end());
  EXPECT_GT(found->slowdown, 1.1);                          // a busy machine may slow its usual pace, too
  EXPECT_NEAR(found->degree / found->slowdown, 1.0, 1e-3);  // a pipeline of one stage
  EXPECT_TRUE(status.stragglers.empty());                   // nobody announced it
  // And back.
  ASSERT_TRUE(train_until(1.0, [&] { return !is_found(1) && !waits(); }));
  for (auto& session : sessions_) session.reset();
  EXPECT_EQ(client_.status("job").state, JobState::kEnded);
}

}  // namespace
}  // namespace flyball
