// Sessions and planning server together: one of two GPUs becomes slow and recovers, and the other one's clocks follow
// without a call by the engine; or the link between them does, and is told as such. Real time passes, and a machine
// that is busy may slow any GPU down; but what is waited for comes on every machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>
#include <string>
#include <thread>

#include "client/session_fixture.h"
#include "loop/node.h"
#include "server/test_server.h"

namespace flyball {
namespace {

// Two pipelines of one stage, each with a GPU: a step takes 24 ms at the highest clock, and ends with a reduction of
// gradients, for which both wait.
class StragglerTest : public ::testing::Test {
 protected:
  explicit StragglerTest(int stages = 1) : stages_(stages) {
    for (int rank = 0; rank < 2; ++rank) sessions_[static_cast<std::size_t>(rank)] = open(rank);
  }

  std::unique_ptr<Session> open(int rank) {
    SessionOptions options;
    options.server = "127.0.0.1:" + std::to_string(server_.port());
    options.job = testing::small_job("job", 2 / stages_);
    options.job.stages = stages_;
    options.job.microbatches = 2;
    options.job.unit_time = Seconds(1e-4);
    options.rank.rank = rank;
    (stages_ == 1 ? options.rank.dp_rank : options.rank.pp_rank) = rank;
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

  const int stages_;
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

// One pipeline of two stages, which run their two microbatches one after the other. The link between them takes 2 ms,
// which only the sender waits for.
class SlowLinkTest : public StragglerTest {
 protected:
  SlowLinkTest() : StragglerTest(2) {}

  void compute(std::size_t rank, const char* type, double milliseconds) {
    sessions_[rank]->set_speed(type);
    sessions_[rank]->begin(type);
    gpus_[rank].work(milliseconds);
    sessions_[rank]->end(type);
  }
  void transfer(std::size_t rank, const char* type, double milliseconds) {
    sessions_[rank]->begin(type);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
    sessions_[rank]->end(type);
  }

  // As StragglerTest::train_until, with a link that takes so many times as long.
  template <class Condition>
  bool train_until(double slowness, Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    bool done = false;
    std::barrier iteration(2, [&]() noexcept { done = std::chrono::steady_clock::now() > deadline || condition(); });
    std::barrier link(2);
    const auto train = [&](std::size_t rank) {
      while (!done) {  // NOLINT(bugprone-infinite-loop): the barrier's function ends it
        sessions_[rank]->step_begin();
        for (int microbatch = 0; microbatch < 2; ++microbatch) {
          if (rank == 0) {
            compute(0, "forward", 4.0);
            transfer(0, "p2p", 2.0 * slowness);
            link.arrive_and_wait();
            link.arrive_and_wait();
            compute(0, "backward", 8.0);
          } else {
            link.arrive_and_wait();
            compute(1, "forward", 4.0);
            compute(1, "backward", 8.0);
            transfer(1, "p2p_back", 2.0 * slowness);
            link.arrive_and_wait();
          }
        }
        iteration.arrive_and_wait();
        sessions_[rank]->step_end();
      }
    };
    std::thread other(train, 1);
    train(0);
    other.join();
    return condition();
  }
};

TEST_F(SlowLinkTest, IsToldAsSuchAndNotAsAStraggler) {
  const auto have_plan = [&] {
    return std::all_of(sessions_.begin(), sessions_.end(),
                       [](const auto& session) { return session->state().schedule_version > 0; });
  };
  ASSERT_TRUE(train_until(1.0, have_plan));
  int steps = 0;
  ASSERT_TRUE(train_until(1.0, [&] { return ++steps > 60; }));
  // Ten times as long: an iteration takes twice its time, which breaks the promise at once.
  JobStatus status;
  bool explained = false;
  const auto is_told = [&](std::size_t links) {
    status = client_.status("job");
    explained = explained || status.promise.cause.find("communication: p2p") != std::string::npos;
    return status.slow_links.size() == links;
  };
  ASSERT_TRUE(train_until(10.0, [&] { return is_told(2) && explained; }));
  for (const SlowLink& link : status.slow_links) {
    EXPECT_EQ(link.transfer, link.rank == 0 ? PaceOf::kTransfer : PaceOf::kTransferBack);
    EXPECT_EQ(link.from_stage, link.rank);
    EXPECT_EQ(link.to_stage, 1 - link.rank);
    EXPECT_GT(link.slowdown, 2.0);  // a busy machine may have made the usual longer
    EXPECT_LT(link.slowdown, 11.0);
  }
  for (const FoundStraggler& one : status.found_stragglers) EXPECT_LT(one.slowdown, 2.0) << one.rank;
  EXPECT_TRUE(train_until(1.0, [&] { return is_told(0); }));
}

// The example trainer with two pipelines of two stages, all of them processes. The second one's GPUs compute twice as
// long for a while, and nobody announces it. The trainer itself compares what it has added up from step to step.
TEST(Loop, TheSlowPipelineOfTwoIsFound) {
  testing::Node node(2, 4);
  node.start_trainer({"--data-parallel", "2", "--straggler", "2", "--steps", "3"});
  ASSERT_TRUE(testing::wait_until([&] { return !node.trainer.running(); }, std::chrono::minutes(4)))
      << node.trainer.output();
  EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
  EXPECT_NE(node.trainer.output().find("times as long as it did when it was profiled"), std::string::npos);
  EXPECT_NE(node.trainer.output().find("computes as fast as usual again"), std::string::npos);
  EXPECT_EQ(node.windows("planned, straggler"), 1);
  EXPECT_EQ(node.windows("planned, recovered"), 1);
}

}  // namespace
}  // namespace flyball
