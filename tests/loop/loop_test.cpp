// The closed loop with everything real but the silicon, and what happens to it when parts of it are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/plan_server.h"
#include "flyball/flyball.h"
#include "loop/library.h"
#include "loop/node.h"
#include "support/figures.h"

namespace flyball {
namespace {

using namespace std::chrono_literals;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Node;
using ::testing::Not;
using testing::wait_until;

// Generous: the machine may be busy with other tests.
constexpr auto kLong = 120s;

bool train_until(Node& node, const std::string& window, int count) {
  return wait_until([&] { return node.windows(window) >= count || !node.trainer.running(); }, kLong) &&
         node.windows(window) >= count;
}

// Milliseconds of a scaled GPU are a tenth of that here, and what else the machine does meanwhile is in them: of a few
// runs one has to show the figures.
constexpr int kRunsForFigures = testing::kFiguresCount ? 4 : 0;

// Of GPUs on which an iteration takes a few milliseconds.
constexpr int kFast = 50;

// Of tests that kill at random moments.
int rounds() {
  const char* asked = std::getenv("FLYBALL_FAULT_ROUNDS");
  return asked != nullptr ? std::atoi(asked) : 3;
}

// Of those whose rounds are short: a hundred, or as many as a slow machine (or a sanitizer) manages in a minute.
class ManyRounds {
 public:
  ManyRounds() = default;
  ~ManyRounds() { ::testing::Test::RecordProperty("rounds", done_); }
  ManyRounds(const ManyRounds&) = delete;
  ManyRounds& operator=(const ManyRounds&) = delete;

  bool another() {
    if (done_ == most_ || (done_ >= 3 && !asked_ && std::chrono::steady_clock::now() - begin_ > kTime)) return false;
    ++done_;
    return true;
  }
  [[nodiscard]] int round() const { return done_; }

 private:
  static constexpr std::chrono::seconds kTime{testing::tries(60, 15)};
  const bool asked_ = std::getenv("FLYBALL_FAULT_ROUNDS") != nullptr;
  const int most_ = asked_ ? rounds() : 100;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int done_ = 0;
};

// What the trainer wrote of its windows, after it has trained to its end.
struct Figures {
  nlohmann::json at_maximum;            // clocks
  std::vector<nlohmann::json> planned;  // windows
  int adjustments = 0;
  std::string said;         // by the trainer
  std::string server_said;  // by the planning server
};

// With clocks at their default after it.
Figures train(const std::vector<std::string>& options, int gpus = 2) {
  const bool ideal = std::find(options.begin(), options.end(), "--ideal") != options.end();
  Node node(10, gpus, ideal);
  node.start_trainer(options);
  EXPECT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
  EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
  EXPECT_TRUE(node.all_at_default());
  Figures figures;
  for (const auto& record : node.records()) {
    const std::string window = record.value("window", "");
    if (window == "maximum clocks") figures.at_maximum = record;
    if (window == "planned") figures.planned.push_back(record);
    figures.adjustments += record.value("adjustments", 0);
  }
  figures.said = node.trainer.output();
  figures.server_said = node.server.output();
  EXPECT_FALSE(figures.at_maximum.is_null());
  EXPECT_EQ(figures.planned.size(), 2u);
  return figures;
}

// Trains until a run's figures are as wanted.
void expect_of_training(const std::vector<std::string>& options, const std::function<bool(const Figures&)>& wanted,
                        int gpus = 2) {
  Figures figures = train(options, gpus);
  for (int run = 1; run <= kRunsForFigures && !::testing::Test::HasFailure(); ++run) {
    if (wanted(figures)) return;
    ASSERT_LT(run, kRunsForFigures) << figures.at_maximum << nlohmann::json(figures.planned);
    figures = train(options, gpus);
  }
}

bool says(const testing::Child& child, const char* words, std::chrono::milliseconds limit) {
  return wait_until([&] { return child.output().find(words) != std::string::npos; }, limit);
}

// Starts trainings until one gives its plan up, which takes some seconds unless steps at maximum clocks differ by as
// much as the plan is too slow and the server says so; and then looks what follows.
void expect_given_up(
    const std::function<std::unique_ptr<Node>()>& start, const std::function<void(Node&)>& and_then = [](Node&) {},
    const char* server_says = "") {
  for (int run = 0; run < std::max(1, kRunsForFigures); ++run) {
    const std::unique_ptr<Node> node = start();
    const bool given_up = says(node->trainer, "longer than promised", 40s) && says(node->server, server_says, 40s);
    if (given_up) and_then(*node);
    EXPECT_EQ(node->trainer.end(SIGTERM), 1);
    // A board that answers early resets its clock after it has answered.
    EXPECT_TRUE(wait_until([&] { return node->all_at_default(); }, kLong));
    if (given_up || kRunsForFigures == 0 || ::testing::Test::HasFailure()) return;
  }
  FAIL() << "no training gave its plan up";
}

// From now on the plan follows a straggler that is fifty times as slow, so that a busy machine does not make iterations
// longer than promised, for which the ranks would give the plan up. The job may still be registering.
bool follow_a_straggler(Node& node) {
  PlanServer server(node.path("server.sock"), std::string(40, 't'));
  const StragglerNotice straggler{std::string("outside"), 50.0, Seconds(0), {}};
  return wait_until(
      [&] {
        try {
          (void)server.set_straggler("job", straggler);
          return true;
        } catch (const Error&) {
          return false;
        }
      },
      kLong);
}

// What the computations of the two GPUs take of an iteration's energy, whatever a busy machine adds to it.
double computing_joules(const nlohmann::json& window, const std::string& measured = "iteration") {
  return window.at(measured + "_j").get<double>() -
         2 * testing::kWaitingWatts * window.at(measured + "_s").get<double>();
}

bool is_as_promised(const Figures& figures) {
  return std::all_of(figures.planned.begin(), figures.planned.end(), [&](const nlohmann::json& window) {
    return computing_joules(window) < 0.99 * computing_joules(figures.at_maximum) &&
           window.at("iteration_s").get<double>() < 1.3 * figures.at_maximum.at("iteration_s").get<double>() &&
           std::abs(computing_joules(window) / computing_joules(window, "planned") - 1.0) < 0.3;
  });
}

// Only that the size is right. How exact it is, scripts/demo_loop tells.
TEST(Loop, SavesEnergyAsThePlanPromises) {
  // Enough steps for every clock: what a busy machine makes of few would lead to a plan for other GPUs.
  expect_of_training({"--windows", "2", "--steps", "4", "--steps-per-clock", "10"}, is_as_promised);
}

// The processes of the stages are done with a forward as soon as they have queued it, and ask for the backward's clock.
// Asked for in the stream, clocks come at their computations all the same, and the sweep measures these.
TEST(Loop, AnEngineThatRunsAheadOfItsGpusSavesAsPromisedWithClocksInTheStream) {
  expect_of_training({"--windows", "2", "--steps", "4", "--steps-per-clock", "10", "--launch", "stream"},
                     [](const Figures& figures) {
                       EXPECT_THAT(figures.said, Not(HasSubstr("step_end was called before")));
                       return is_as_promised(figures);
                     });
}

// EnvPipe's plan is found by steps of this very training, from one that is too slow: its critical path from when the
// stages had their input, its clocks raised a step at a time. As fast as maximum clocks in the end, for less energy.
TEST(Loop, EnvPipeFindsItsPlanOnRealSteps) {
  // The first stage has 6 % to spare, less than its valley would take.
  expect_of_training(
      {"--windows", "2", "--steps", "4", "--steps-per-clock", "10", "--planner", "envpipe", "--forward", "0.0235,0.025",
       "--backward", "0.047,0.05"},
      [](const Figures& figures) {
        return figures.adjustments >= 1 &&
               std::all_of(figures.planned.begin(), figures.planned.end(), [&](const nlohmann::json& window) {
                 return computing_joules(window) < computing_joules(figures.at_maximum) &&
                        window.at("planned_s").get<double>() < 1.3 * figures.at_maximum.at("iteration_s").get<double>();
               });
      });
}

// Four equal stages. Plain 1F1B leaves the first ones little slack between their forwards and backwards: 6.6 % are
// saved in its order, by `flyball plan` on what they measure, and 13.2 % if they may hold one more microbatch.
// The figures are of ideal boards, and of a pipeline without transfers: where these occupy both stages, planners keep
// 1F1B's order.
std::vector<std::string> four_stages(const std::vector<std::string>& more) {
  std::vector<std::string> options = {"--windows",
                                      "2",
                                      "--steps",
                                      "4",
                                      "--steps-per-clock",
                                      "4",
                                      "--forward",
                                      "0.02,0.02,0.02,0.02",
                                      "--backward",
                                      "0.04,0.04,0.04,0.04",
                                      "--microbatches",
                                      "8",
                                      "--memory-limit",
                                      "5,4,3,2",
                                      "--ideal"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

// The trainer itself compares what it has computed with what it computes in 1F1B's order.
TEST(Loop, APlannedOrderIsRunWithinItsMemoryAndSavesMore) {
  const auto saved = [](const Figures& figures) {
    return 1.0 -
           figures.planned.back().at("iteration_j").get<double>() / figures.at_maximum.at("iteration_j").get<double>();
  };
  const std::vector<int> kOf1f1b{4, 3, 2, 1};
  double saved_by_1f1b = 0.0;
  expect_of_training(
      four_stages({"--order", "own"}),
      [&](const Figures& figures) {
        saved_by_1f1b = saved(figures);
        for (const nlohmann::json& window : figures.planned) {
          EXPECT_EQ(window.at("order"), 0);
          EXPECT_EQ(window.at("most_held"), kOf1f1b);
        }
        return saved_by_1f1b < 0.08;
      },
      4);
  expect_of_training(
      four_stages({"--order", "planned", "--planner", ""}),
      [&](const Figures& figures) {
        EXPECT_EQ(figures.at_maximum.at("most_held"), kOf1f1b);
        for (const nlohmann::json& window : figures.planned) {
          EXPECT_NE(window.at("order"), 0);
          const auto held = window.at("most_held").get<std::vector<int>>();
          EXPECT_NE(held, kOf1f1b);
          for (std::size_t stage = 0; stage < held.size(); ++stage) EXPECT_LE(held[stage], kOf1f1b[stage] + 1);
        }
        return saved(figures) > saved_by_1f1b + 0.02;
      },
      4);
}

// EnvPipe's first plan is slow and in another order than 1F1B's, which is what this engine runs whatever it is told.
// The plan that it gets in the end is of 1F1B's order, and no slower than maximum clocks but for what a busy machine
// adds.
TEST(Loop, AnEngineThatIgnoresThePlannedOrderIsToldAndNotLeftSlow) {
  expect_of_training(
      four_stages({"--order", "ignored", "--planner", "envpipe"}),
      [](const Figures& figures) {
        EXPECT_THAT(figures.said, HasSubstr("does not run its computations in the order of its schedule"));
        EXPECT_THAT(figures.server_said, HasSubstr("planned again in the order of schedule 1f1b"));
        return std::all_of(figures.planned.begin(), figures.planned.end(), [&](const nlohmann::json& window) {
          EXPECT_EQ(window.at("order"), 0);
          return window.at("iteration_s").get<double>() < 1.03 * figures.at_maximum.at("iteration_s").get<double>();
        });
      },
      4);
}

// The driver begins to answer long before its boards obey, after the sweep has measured when they do: clocks come at
// the wrong computations, and iterations take longer than promised. The ranks go to default clocks by themselves, all
// run at maximum clocks, and the plan is tried again.
TEST(Loop, APlanThatIsNotKeptIsGivenUpAndTriedAgain) {
  expect_given_up(
      [] {
        auto node = std::make_unique<Node>();
        node->start_trainer({"--windows", "1000", "--steps", "4", "--switch-latency", "1e-6"});
        EXPECT_TRUE(train_until(*node, "planned", 1)) << node->trainer.output();
        for (const char* gpu : {"0", "1"}) (void)node->flyball({"sim", "fault", "--gpu", gpu, "early-answer=0.1"});
        return node;
      },
      [](Node& node) {
        EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, kLong));
        EXPECT_TRUE(wait_until([&] { return !node.all_at_default(); }, kLong)) << node.trainer.output();
      },
      "the ranks run at maximum clocks, and try the plan again");
}

// A process that runs ahead asks for a clock while its GPU is at an earlier computation. Without the stream iterations
// take longer than promised, and the plan is given up.
TEST(Loop, APlanOfAnEngineThatRunsAheadWithoutItsStreamIsGivenUp) {
  expect_given_up([] {
    auto node = std::make_unique<Node>(10, 4, true);
    node->start_trainer(four_stages({"--windows", "1000", "--launch", "ahead"}));
    return node;
  });
}

// Whenever a rank is killed, the job ends and every clock is back.
TEST(Loop, KilledRank) {
  std::mt19937 random(5);
  for (int round = 0; round < rounds(); ++round) {
    Node node;
    node.start_trainer(1000);
    ASSERT_TRUE(train_until(node, "maximum clocks", 1)) << node.trainer.output();
    // Somewhere in the sweep or after it.
    if (round % 3 > 0) ASSERT_TRUE(train_until(node, "planned", round % 3)) << node.trainer.output();
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(0, 400)(random)));
    const int stage = round % 2;
    ASSERT_GT(node.stage_process(stage), 0);
    ASSERT_EQ(::kill(node.stage_process(stage), SIGKILL), 0);
    EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, kLong));
    ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
    EXPECT_EQ(node.trainer.status(), 1);
    // Its neighbour ends as well and may be missed first.
    EXPECT_THAT(node.trainer.output(), HasSubstr(" has died"));
    EXPECT_TRUE(node.all_at_default());
  }
}

// A hundred times, with a plan in force: how long clocks outlive their rank. The agent is told by the operating system
// that the rank's connection has closed, and resets the clock in 10 ms of the GPU's time: a second is for agents and
// machines with other things to do. Here a look at the boards is a process of its own as well.
TEST(Loop, KilledRankAtAnyMoment) {
  Node node(kFast);
  node.start_trainer(1);
  ASSERT_TRUE(follow_a_straggler(node)) << node.trainer.output();
  ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
  ASSERT_EQ(node.trainer.status(), 0) << node.trainer.output();
  std::mt19937 random(17);
  std::vector<double> seconds;
  ManyRounds rounds;
  while (rounds.another()) {
    node.start_planned_trainer();
    ASSERT_TRUE(wait_until([&] { return !node.all_at_default(); }, kLong)) << node.trainer.output();
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<>(0, 30'000)(random)));
    const pid_t process = node.stage_process(rounds.round() % 2);
    ASSERT_GT(process, 0);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    ASSERT_TRUE(wait_until([&] { return node.all_at_default(); }, kLong)) << "round " << rounds.round();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
    EXPECT_EQ(node.trainer.status(), 1);
    EXPECT_TRUE(node.all_at_default());
  }
  std::sort(seconds.begin(), seconds.end());
  RecordProperty("median_ms", static_cast<int>(1e3 * seconds[seconds.size() / 2]));
  RecordProperty("longest_ms", static_cast<int>(1e3 * seconds.back()));
  if (testing::kFiguresCount) EXPECT_LT(seconds[seconds.size() / 2], 1.0) << "of " << seconds.size();
}

TEST(Loop, KilledLauncher) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  node.trainer.end(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, kLong));
}

// The training goes on without its agent; the next agent brings the clocks back, and the sessions lease anew.
TEST(Loop, KilledAgent) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  node.agent.end(SIGKILL);
  ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 3)) << node.trainer.output();
  EXPECT_THAT(node.trainer.output(), HasSubstr("clocks are at their default, training goes on"));
  node.start_agent();
  ASSERT_TRUE(
      wait_until([&] { return node.trainer.output().find("clocks are set again") != std::string::npos; }, kLong))
      << node.trainer.output();
  ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 2)) << node.trainer.output();
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

// Killed in the middle of the sweep: the sweep goes on; the next server, on the same database, gets the rest and plans.
TEST(Loop, KilledServerDuringTheSweep) {
  Node node;
  node.start_trainer(2);
  ASSERT_TRUE(train_until(node, "maximum clocks", 1)) << node.trainer.output();
  std::this_thread::sleep_for(300ms);
  node.server.end(SIGKILL);
  ASSERT_TRUE(wait_until(
      [&] { return node.trainer.output().find("the planning server cannot be used") != std::string::npos; }, kLong));
  EXPECT_TRUE(node.trainer.running());
  node.start_server();
  ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong));
  EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
  EXPECT_EQ(node.windows("planned"), 2);
  EXPECT_TRUE(node.all_at_default());
}

// Killed while the plan runs: the plan stays in force, though nobody is there who plans anew.
TEST(Loop, KilledServerWhileThePlanRuns) {
  Node node;
  node.start_trainer(1000);
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  const auto version = [&node] { return node.records().back().value("schedule_version", std::int64_t{0}); };
  const std::int64_t first = version();
  ASSERT_TRUE(follow_a_straggler(node));
  ASSERT_TRUE(wait_until([&] { return version() > first; }, kLong)) << node.trainer.output();
  node.server.end(SIGKILL);
  const int before = node.windows("planned");
  ASSERT_TRUE(train_until(node, "planned", before + 3)) << node.trainer.output();
  EXPECT_GT(version(), first);
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

// Agent or server, at a moment that nobody chose, and back after another: the job trains to its end by plan.
TEST(Loop, AgentOrServerKilledAtAnyMoment) {
  std::mt19937 random(11);
  for (int round = 0; round < rounds(); ++round) {
    Node node;
    node.start_trainer(4);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(0, 1800)(random)));
    const bool agent = round % 2 == 0;
    (agent ? node.agent : node.server).end(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<>(0, 600)(random)));
    agent ? node.start_agent() : node.start_server();
    ASSERT_TRUE(wait_until([&] { return !node.trainer.running(); }, kLong)) << node.trainer.output();
    EXPECT_EQ(node.trainer.status(), 0) << node.trainer.output();
    EXPECT_EQ(node.windows("planned"), 4);
    EXPECT_TRUE(wait_until([&] { return node.all_at_default(); }, kLong)) << round;
  }
}

// A hundred of each, one after the other, while one training goes on by its plan; back after another moment.
void kill_again_and_again(testing::Child Node::*part, void (Node::*start)()) {
  Node node(kFast);
  node.start_trainer(1'000'000);
  ASSERT_TRUE(follow_a_straggler(node)) << node.trainer.output();
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  std::mt19937 random(23);
  const auto some_time = [&] {
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<>(0, 50'000)(random)));
  };
  ManyRounds rounds;
  while (rounds.another()) {
    some_time();
    (node.*part).end(SIGKILL);
    some_time();
    (node.*start)();
    ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 1))
        << "round " << rounds.round() << ": " << node.trainer.output();
  }
  // Everything is as if nothing had been.
  ASSERT_TRUE(wait_until([&] { return !node.all_at_default(); }, kLong)) << node.trainer.output();
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

TEST(Loop, AgentKilledAgainAndAgain) { kill_again_and_again(&Node::agent, &Node::start_agent); }

TEST(Loop, ServerKilledAgainAndAgain) { kill_again_and_again(&Node::server, &Node::start_server); }

// The driver refuses clocks in the middle of an iteration: that GPU goes to its default and the training goes on; when
// the driver allows them again, so does the plan.
TEST(Loop, ClocksRefusedHalfWay) {
  Node node;
  // Changes that are all but free: where a busy machine measures long ones, a plan may have none to refuse.
  node.start_trainer({"--windows", "1000", "--steps", "4", "--switch-latency", "1e-6"});
  ASSERT_TRUE(train_until(node, "planned", 1)) << node.trainer.output();
  (void)node.flyball({"sim", "fault", "--gpu", "0", "error:nvmlDeviceSetGpuLockedClocks=4"});
  ASSERT_TRUE(wait_until(
      [&] { return node.trainer.output().find("stage 0: clocks are at their default") != std::string::npos; }, kLong))
      << node.trainer.output();
  EXPECT_TRUE(wait_until([&] { return node.at_default(0); }, kLong)) << node.trainer.output();
  ASSERT_TRUE(train_until(node, "planned", node.windows("planned") + 2)) << node.trainer.output();
  EXPECT_TRUE(node.at_default(0)) << node.trainer.output();
  // The other stage keeps its clocks; on a machine that stalls it may lose its lease for a moment, but nothing is
  // refused.
  EXPECT_THAT(node.trainer.output(), ContainsRegex("stage 0: clocks are at their default[^\n]*permission denied"));
  EXPECT_THAT(node.trainer.output(), Not(ContainsRegex("stage 1: clocks are at their default[^\n]*permission denied")));
  (void)node.flyball({"sim", "fault", "--gpu", "0", "--clear"});
  ASSERT_TRUE(wait_until(
      [&] { return node.trainer.output().find("stage 0: clocks are set again") != std::string::npos; }, kLong));
  EXPECT_EQ(node.trainer.end(SIGTERM), 1);
  EXPECT_TRUE(node.all_at_default());
}

// The C interface as a program sees it that loads it at run time.
class CInterface : public ::testing::Test, protected testing::Library {};

TEST_F(CInterface, ANullSessionDoesNothing) {
  EXPECT_EQ(function<decltype(flyball_step_begin)>("flyball_step_begin")(nullptr), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_set_speed)>("flyball_set_speed")(nullptr, "forward"), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_begin)>("flyball_begin")(nullptr, "forward"), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_end)>("flyball_end")(nullptr, "forward"), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_step_end)>("flyball_step_end")(nullptr), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_set_straggler)>("flyball_set_straggler")(nullptr, 0, 0.0, 1.0), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_set_memory)>("flyball_set_memory")(nullptr, 1, 2), FLYBALL_OK);
  EXPECT_EQ(function<decltype(flyball_order_held)>("flyball_order_held")(nullptr), 0);
  EXPECT_EQ(function<decltype(flyball_use_order)>("flyball_use_order")(nullptr, 0), FLYBALL_OK);
  const flyball_computation* computations = nullptr;
  EXPECT_EQ(function<decltype(flyball_order_in_use)>("flyball_order_in_use")(nullptr, &computations), 0u);
  flyball_session_state state{};
  state.size = sizeof state;
  EXPECT_EQ(function<decltype(flyball_session_get_state)>("flyball_session_get_state")(nullptr, &state), FLYBALL_OK);
  EXPECT_EQ(state.phase, FLYBALL_IDLE);
  double joules = 1.0;
  EXPECT_EQ(function<decltype(flyball_window_end)>("flyball_window_end")(nullptr, nullptr, &joules), FLYBALL_OK);
  EXPECT_EQ(joules, 0.0);
  function<decltype(flyball_session_close)>("flyball_session_close")(nullptr);
}

TEST_F(CInterface, WhatCannotBeOpenedSaysWhy) {
  auto* const open = function<decltype(flyball_session_open)>("flyball_session_open");
  auto* const words = function<decltype(flyball_last_error)>("flyball_last_error");
  EXPECT_EQ(open(nullptr), nullptr);
  EXPECT_THAT(words(), HasSubstr("null"));
  flyball_session_options options{};
  EXPECT_EQ(open(&options), nullptr);
  EXPECT_THAT(words(), HasSubstr("size"));
  auto* const init = function<decltype(flyball_session_options_init)>("flyball_session_options_init");
  // A caller that was compiled when the structure was shorter has other things behind it.
  options.transfers_occupy_both = -7;
  init(&options, offsetof(flyball_session_options, transfers_occupy_both));
  EXPECT_EQ(options.transfers_occupy_both, -7);
  EXPECT_EQ(options.size, offsetof(flyball_session_options, transfers_occupy_both));
  EXPECT_EQ(options.executed_steps, 1);
  init(&options, sizeof options);
  EXPECT_EQ(options.stages, 1);
  EXPECT_EQ(options.executed_steps, 1);
  EXPECT_EQ(options.transfers_occupy_both, 0);
  EXPECT_EQ(options.steps_per_clock, 5);
  EXPECT_EQ(options.settle_s, 0.03);
  EXPECT_EQ(options.time_scale, 1.0);
  EXPECT_EQ(options.blocking_w, 0.0);
  EXPECT_EQ(options.schedule, nullptr);
  options.steps_per_clock = 0;
  EXPECT_EQ(open(&options), nullptr);
  EXPECT_THAT(words(), HasSubstr("steps_per_clock"));
  options.steps_per_clock = 1;
  options.server = "127.0.0.1:9";
  options.job = "job";
  options.token = "0123456789abcdef0123456789abcdef";
  options.ca_file = "ca.pem";
  EXPECT_EQ(open(&options), nullptr);
  EXPECT_THAT(words(), HasSubstr("ca_file is for a server that is named https://"));
  // A caller that was compiled before there was a ca_file: what stands behind its structure is not the library's.
  options.size = offsetof(flyball_session_options, ca_file);
  options.gpu = 4000;
  EXPECT_EQ(open(&options), nullptr);
  EXPECT_THAT(words(), Not(HasSubstr("ca_file")));
  flyball_session_state state{};
  EXPECT_EQ(function<decltype(flyball_session_get_state)>("flyball_session_get_state")(nullptr, &state), FLYBALL_USAGE);
  EXPECT_STREQ(function<decltype(flyball_version)>("flyball_version")(), FLYBALL_VERSION);
}

// Only flyball_*: the library is loaded into programs that have a JSON reader and a formatter of their own.
TEST_F(CInterface, ShowsNoOtherNames) {
  EXPECT_FALSE(has("_ZN7flyball7SessionC1ENS_14SessionOptionsENS_10SessionGpuE"));
  EXPECT_TRUE(has("flyball_profile_csv"));
}

}  // namespace
}  // namespace flyball
