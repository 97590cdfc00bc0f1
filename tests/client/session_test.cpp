#include "client/session_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "base/wall_clock.h"

namespace flyball {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(SessionTest, ProfilesReportsAndRunsTheScheduleThatComesBack) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  // Every clock of the sweep, from the highest down, with both instructions.
  ASSERT_GE(server_.reports.size(), 3u);
  std::size_t with_waiting = 0;
  std::vector<Seconds> forward, backward;
  const std::size_t clocks = server_.reports.size() - 1;
  for (std::size_t i = 0; i < clocks; ++i) {
    const MeasurementReport& report = server_.reports[i];
    const Megahertz clock(1000.0 - 100.0 * static_cast<double>(i));
    EXPECT_EQ(report.sequence, static_cast<std::int64_t>(i));
    ASSERT_GE(report.measurements.size(), 2u);
    EXPECT_EQ(report.measurements[0].clock, clock);
    EXPECT_EQ(report.measurements[0].instruction, "forward");
    EXPECT_EQ(report.measurements[1].instruction, "backward");
    forward.push_back(report.measurements[0].time);
    backward.push_back(report.measurements[1].time);
    EXPECT_GT(report.measurements[0].energy, Joules(0));
    if (report.measurements.size() == 2) continue;  // a busy machine may tell nothing of a clock's waiting
    ++with_waiting;
    ASSERT_THAT(report.measurements, SizeIs(3));
    EXPECT_EQ(report.measurements[2].instruction, "waiting");
    EXPECT_EQ(report.measurements[2].clock, clock);
    EXPECT_EQ(report.measurements[2].time, Seconds(1));
    EXPECT_GT(report.measurements[2].energy, Joules(0));
  }
  EXPECT_GT(with_waiting, 0u);
  // The least of all clocks, since a busy machine delays some.
  EXPECT_GT(*std::min_element(backward.begin(), backward.end()), *std::min_element(forward.begin(), forward.end()));
  // The last report has what a clock change takes.
  ASSERT_THAT(server_.reports.back().measurements, SizeIs(1));
  const InstructionMeasurement& change = server_.reports.back().measurements[0];
  EXPECT_EQ(change.instruction, "clock_change");
  EXPECT_GT(change.time, Seconds(0));
  EXPECT_EQ(server_.reports.back().sequence, static_cast<std::int64_t>(clocks));
  EXPECT_GT(session_->state().waiting_power, Watts(0));
  EXPECT_THAT(session_->profile_csv(), HasSubstr("\n0,waiting,"));
  EXPECT_THAT(session_->measurements(), SizeIs(2 * clocks + with_waiting + 1));
  EXPECT_EQ(session_->state().phase, SessionPhase::kWaiting);
  server_.publish({900, 800, 700, 600});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  EXPECT_EQ(session_->state().phase, SessionPhase::kRunning);
  EXPECT_EQ(session_->state().planned_energy, Joules(100));
  // Long enough computations for every clock to arrive.
  (void)gpu_.take_history();
  step(20.0);
  std::vector<double> history = gpu_.take_history();
  if (!history.empty() && history.front() == 600) history.erase(history.begin());  // the step before's last
  EXPECT_THAT(history, ElementsAre(900, 800, 700, 600));

  session_.reset();
  EXPECT_TRUE(gpu_.at_default());
}

// The times of the sweep's four computations, without the operation of constant time; the profile has what the server
// answers, at the highest clock.
TEST_F(SessionTest, AsksTheServerForHandoversDuringTheSweep) {
  server_.start();
  server_.handovers = {Seconds(0.002), 40, Seconds(0.003), 0};
  SessionOptions chosen = options(true);
  chosen.job.stages = 2;
  open(chosen);
  session_->find_handovers();
  ASSERT_TRUE(rounds_until([&] {
    session_->step_begin();
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      compute("forward", 4.0);
      compute("backward", 8.0);
    }
    compute("optimizer_step", 1.0);
    session_->step_end();
    return session_->state().phase != SessionPhase::kProfiling;
  }));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  ASSERT_THAT(server_.steps, Not(IsEmpty()));
  for (const StepReport& report : server_.steps) {
    EXPECT_EQ(report.version, 0);
    ASSERT_THAT(report.begin, SizeIs(4));
    EXPECT_GT(report.begin[1], report.begin[0]);
  }
  EXPECT_THAT(session_->profile_csv(), HasSubstr("\n0,receive,1000,0.002,"));
  EXPECT_THAT(session_->profile_csv(), Not(HasSubstr("receive_back")));  // of which the server knows none
}

// An engine that measures its transfers needs nobody's help.
TEST_F(SessionTest, AsksForNoHandoversWhereTransfersAreMeasured) {
  server_.start();
  server_.handovers = {Seconds(0.002), 40, Seconds(0.003), 40};
  SessionOptions chosen = options(true);
  chosen.job.stages = 2;
  open(chosen);
  session_->find_handovers();
  ASSERT_TRUE(rounds_until([&] {
    session_->step_begin();
    compute("p2p", 1.0);
    compute("forward", 4.0);
    compute("backward", 8.0);
    session_->step_end();
    return session_->state().phase != SessionPhase::kProfiling;
  }));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_THAT(server_.steps, IsEmpty());
  EXPECT_THAT(session_->profile_csv(), Not(HasSubstr("receive")));
}

// The driver answers within microseconds, and the board's clock changes 20 ms after a computation was begun.
TEST_F(SessionTest, ADriverThatAnswersBeforeTheBoardObeysIsNoticed) {
  SessionOptions chosen = options(false);
  chosen.sweep.clock_stride = 3;  // 1000, 700 and 400 MHz
  open(chosen);
  gpu_.obey_after(20 * kMillisecond);
  ASSERT_TRUE(train_until([&] { return session_->state().phase != SessionPhase::kProfiling; }, 30.0));
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().instruction, "clock_change");
  EXPECT_NEAR(all.back().time.value(), 0.020, 0.005);
  EXPECT_LT(session_->state().clocks.ages.percentile(0.5), 10 * kMillisecond);
}

// Steps that run different computations tell nothing: what the driver's answers took counts, no more than the slowest,
// to a histogram's bucket (AgeHistogram).
TEST_F(SessionTest, WhereComputationsDoNotTellItTheDriversAnswersCount) {
  open(options(false));
  int steps = 0;
  ASSERT_TRUE(rounds_until([&] {
    session_->step_begin();
    compute("forward", 4.0);
    compute("backward", 8.0);
    if (++steps % 2 == 0) compute("forward", 4.0);
    session_->step_end();
    return session_->state().phase != SessionPhase::kProfiling;
  }));
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().instruction, "clock_change");
  EXPECT_GT(all.back().time, Seconds(0));
  EXPECT_LE(all.back().time, 1.1 * to_seconds(session_->state().clocks.ages.largest()));
}

TEST_F(SessionTest, ANewScheduleIsAdoptedWithTheNextStep) {
  server_.start();
  server_.publish({900, 900, 900, 900});
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  server_.publish({500, 500, 500, 500});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 2; }));
  step(10.0);
  EXPECT_EQ(gpu_.clock(), 500);
  EXPECT_THAT(server_.reports, IsEmpty());
}

// Times of the four computations, in the schedule's order and on one clock; steps that ran something else are left out.
TEST_F(SessionTest, TellsOfTheStepsThatTheServerWantsToKnow) {
  server_.start();
  server_.publish({900, 800, 700, 600}, true);
  SessionOptions chosen = options(true);
  chosen.profile = false;
  chosen.time_scale = 2.0;
  open(chosen);
  ASSERT_TRUE(train_until([&] { return session_->state().reconfiguring; }));
  session_->step_begin();
  compute("backward", 1.0);
  session_->step_end();
  step(2.0);
  const auto told = static_cast<std::int64_t>(session_->state().steps);
  ASSERT_TRUE(server_.wait_for(
      [&](const JobServer& server) { return !server.steps.empty() && server.steps.back().step == told; }));
  for (const StepReport& report : server_.steps) {
    EXPECT_EQ(report.version, 1);
    EXPECT_NE(report.step, told - 1);
    ASSERT_THAT(report.begin, SizeIs(4));
  }
  // 2 and 4 ms of work at lower clocks, twice as long in the GPU's time.
  const StepReport& last = server_.steps.back();
  EXPECT_GE(last.end[0] - last.begin[0], Seconds(2 * 0.002));
  EXPECT_GE(last.end[1] - last.begin[1], Seconds(2 * 0.004));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GE(last.begin[i], last.end[i - 1]);

  server_.publish({900, 800, 700, 600});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 2; }));
  EXPECT_FALSE(session_->state().reconfiguring);
  step();
  session_->set_straggler(straggler_notice(-1, Seconds(0), 1.5));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.stragglers.empty(); }));
  for (const StepReport& report : server_.steps) EXPECT_EQ(report.version, 1);
}

// Each third step, with no wait for the GPU: nothing says that the engine should measure, and nobody adjusts the plan.
TEST_F(SessionTest, TellsOfStepsNowAndThenWhereTheScheduleSaysHowOften) {
  server_.start();
  RankSchedule schedule = JobServer::schedule_of({900, 800, 700, 600});
  schedule.measured_every = 3;
  server_.publish(schedule);
  SessionOptions chosen = options(true);
  chosen.profile = false;
  chosen.time_scale = 2.0;
  open(chosen);
  ASSERT_TRUE(train_until([&] {
    EXPECT_FALSE(session_->measures_step());
    return server_.look([](const JobServer& server) { return server.steps.size() >= 4; });
  }));
  EXPECT_FALSE(session_->state().reconfiguring);
  // A step that runs something else is left out.
  while ((session_->state().steps + 1) % 3 != 0) step();
  session_->step_begin();
  compute("backward", 1.0);
  session_->step_end();
  const auto odd = static_cast<std::int64_t>(session_->state().steps);
  ASSERT_TRUE(train_until(
      [&] { return server_.look([&](const JobServer& server) { return server.steps.back().step > odd; }); }));
  ASSERT_TRUE(server_.look([&](const JobServer& server) {
    for (const StepReport& report : server.steps) {
      EXPECT_EQ(report.step % 3, 0);
      EXPECT_NE(report.step, odd);
      EXPECT_EQ(report.version, 1);
      EXPECT_EQ(report.clock, StepClock::kHost);
      EXPECT_EQ(report.begin.size(), 4u);
      // 2 ms of work at a lower clock, twice as long in the GPU's time.
      EXPECT_GE(report.end[1] - report.begin[1], Seconds(2 * 0.002));
    }
    return true;
  }));
  session_.reset();
}

// An engine that does not say what comes next is given the schedule's order.
TEST_F(SessionTest, SetsTheNextSpeedInTheOrderOfTheSchedule) {
  server_.start();
  server_.publish({900, 800, 700, 600});
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  session_->set_next_speed();  // of nothing yet
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  session_->step_begin();
  for (const double clock : {900, 800, 700, 600}) {
    session_->set_next_speed();
    EXPECT_EQ(session_->state().clocks.requested, Megahertz(clock));
  }
  session_->set_next_speed();  // the step is over
  EXPECT_EQ(session_->state().clocks.requested, Megahertz(600));
  session_->step_end();
}

// No server at first: training goes on, one word is said; when it comes, it gets everything.
// A forward with the backward's clock 5 ms after its begin, and one with it an hour after its begin, which ends before
// that: the backward's clock comes while the first runs, and after the second when it is asked for.
TEST_F(SessionTest, TheNextClockIsAskedForWhileAComputationRunsOrWhenItEnds) {
  server_.start();
  RankSchedule schedule;
  for (const int after_us : {5'000, 2'000'000'000}) {
    schedule.computations.push_back({"forward", 0, 0, 900, {}, after_us});
    schedule.computations.push_back({"backward", 0, 0, 700});
  }
  server_.publish(schedule);
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  ASSERT_TRUE(rounds_until([&] {
    step();
    return session_->state().schedule_version == 1;
  }));
  const auto comes_to_hold = [&](double mhz) { return rounds_until([&] { return gpu_.clock() == mhz; }); };
  session_->step_begin();
  session_->set_speed("forward");
  session_->begin("forward");
  EXPECT_TRUE(comes_to_hold(700));
  session_->end("forward");
  session_->set_speed("backward");
  session_->begin("backward");
  session_->end("backward");
  session_->set_speed("forward");
  session_->begin("forward");
  EXPECT_TRUE(comes_to_hold(900));
  session_->end("forward");
  session_->set_speed("backward");
  EXPECT_TRUE(comes_to_hold(700));
  session_->step_end();
  session_.reset();
}

// It plans with changes that come late, and its schedules say nothing else.
TEST_F(SessionTest, AServerThatKnowsNothingOfClocksAheadGetsAJobWithout) {
  server_.knows_clocks_ahead = false;
  server_.start();
  SessionOptions chosen = options(true);
  chosen.job.clocks_ahead = true;
  open(chosen);
  EXPECT_TRUE(server_.wait_for([](const JobServer& server) { return server.registered; }));
  EXPECT_TRUE(server_.look([](const JobServer& server) { return server.refused == 1; }));
  session_.reset();
}

TEST_F(SessionTest, TrainsWithoutItsServerAndTellsItEverythingLater) {
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  EXPECT_FALSE(session_->state().server_reachable);
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("training goes on")));
  server_.start();
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_EQ(server_.measurements_from(0), session_->measurements().size());
  ASSERT_TRUE(train_until([&] { return notices().size() == 2; }));
  EXPECT_THAT(notices()[1], HasSubstr("answers again"));
}

// The server is killed, loses what it knew, and comes back: the schedule stays in force meanwhile, the measurements are
// sent once more, and a schedule with a smaller version is taken.
TEST_F(SessionTest, AServerThatForgotIsToldAgain) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  const std::size_t reports = server_.reports.size();
  server_.publish({900, 900, 900, 900});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  server_.stop();
  ASSERT_TRUE(train_until([&] { return !session_->state().server_reachable; }));
  step(10.0);
  EXPECT_EQ(gpu_.clock(), 900);
  EXPECT_EQ(session_->state().phase, SessionPhase::kRunning);
  server_.forget();
  server_.start();
  ASSERT_TRUE(server_.wait_for([&](const JobServer& server) { return server.reports.size() == reports; }));
  EXPECT_EQ(server_.reports[0].sequence, 0);
  EXPECT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
}

// The driver refuses in the middle of the sweep: default clocks, one word, and training goes on; when it allows it
// again, so does the sweep.
TEST_F(SessionTest, ARefusedClockStopsTheSweepAndNotTheTraining) {
  open(options(false));
  ASSERT_TRUE(train_until([&] { return session_->state().sweep.clocks_done >= 1; }, 4.0));
  gpu_.refuse(true);
  ASSERT_TRUE(train_until([&] { return session_->state().clocks.failed >= 2; }, 4.0));
  EXPECT_TRUE(gpu_.at_default());
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("not permitted")));
  const int done = session_->state().sweep.clocks_done;
  for (int i = 0; i < 5; ++i) step(4.0);
  EXPECT_LE(session_->state().sweep.clocks_done, done + 1);  // one may have been complete
  gpu_.refuse(false);
  ASSERT_TRUE(train_until_swept());
  EXPECT_EQ(session_->state().phase, SessionPhase::kIdle);
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("not permitted"), HasSubstr("set again")));
  step();
  ASSERT_TRUE(train_until([&] { return gpu_.at_default(); }));
}

// A rank whose clocks are refused says why it does not profile itself, once, until they are set.
TEST_F(SessionTest, ARankThatCannotProfileItselfSaysWhy) {
  server_.start();
  gpu_.refuse(true);
  open(options(true));
  const auto says = [](const char* words) {
    return [words](const JobServer& server) { return server.rank.unprofiled_cause.find(words) != std::string::npos; };
  };
  ASSERT_TRUE(train_until([&] { return server_.look(says("its clocks are not set: not permitted;")); }, 4.0));
  const double now = now_seconds();
  const double since = server_.rank.unprofiled_since.value();
  EXPECT_GT(since, now - 60.0);
  EXPECT_LT(since, now);
  EXPECT_EQ(server_.joins, 2);
  gpu_.refuse(false);
  ASSERT_TRUE(train_until_swept());
  EXPECT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_EQ(server_.rank.unprofiled_cause, "");
  EXPECT_EQ(server_.joins, 3);
}

// A server of an earlier version refuses the reason, and gets everything else.
TEST_F(SessionTest, AnOlderServerNeedNotKnowWhyARankDoesNotProfile) {
  server_.knows_unprofiled = false;
  server_.start();
  gpu_.refuse(true);
  open(options(true));
  ASSERT_TRUE(
      train_until([&] { return server_.look([](const JobServer& server) { return server.refused > 0; }); }, 4.0));
  gpu_.refuse(false);
  ASSERT_TRUE(train_until_swept());
  EXPECT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_THAT(notices(), Not(Contains(HasSubstr("server"))));
}

// One that is told not to measure says so, too; and what its memory holds is known before its measurements are.
TEST_F(SessionTest, TellsWhatFitsIntoMemoryAndThatItDoesNotProfile) {
  server_.start();
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  EXPECT_THROW(session_->set_memory(-1, 1), UsageError);
  session_->set_memory(1000, 5999);
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.rank.activation_bytes == 5999; }));
  EXPECT_EQ(server_.rank.microbatch_bytes, 1000);
  ASSERT_TRUE(server_.wait_for(
      [](const JobServer& server) { return server.rank.unprofiled_cause.find("profile off") != std::string::npos; }));
  EXPECT_EQ(server_.rank.activation_bytes, 5999);
  EXPECT_THAT(server_.rank.clocks_mhz, Not(IsEmpty()));
  session_->profile_again();
  EXPECT_TRUE(server_.wait_for([](const JobServer& server) { return server.rank.unprofiled_cause.empty(); }));
}

// Forwards take 4 ms at 1000 MHz; then the hardware becomes three times slower: 12 ms. Sleeping never takes less, so
// that no mean of the two sweeps can be as long. Every clock stands once in the profile, and the server is told to
// forget.
TEST_F(SessionTest, ASecondSweepReplacesTheFirst) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  const std::size_t first = server_.reports.size();
  slowness_ = 3.0;
  session_->profile_again();
  EXPECT_THAT(session_->measurements(), IsEmpty());
  ASSERT_TRUE(train_until_swept());
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_TRUE(server_.wait_for([&](const JobServer& server) { return server.measurements_from(first) == all.size(); }));
  std::set<std::pair<std::string, double>> known;
  for (const InstructionMeasurement& one : all) {
    EXPECT_TRUE(known.emplace(one.instruction, one.clock.value()).second) << one.instruction << one.clock.value();
    if (one.instruction == "forward") {
      EXPECT_GE(one.time.value(), 0.012 * 1000.0 / one.clock.value());
    }
  }
  EXPECT_GE(known.size(), 6u);
  for (std::size_t i = 0; i < server_.reports.size(); ++i) {
    EXPECT_EQ(server_.reports[i].begins_sweep, i == first) << i;
    EXPECT_EQ(server_.reports[i].sequence, static_cast<std::int64_t>(i));
  }
}

// A rank before us has died; the server has counted its report 7. Ours, measured before we could tell it, are not taken
// for those.
TEST_F(SessionTest, ComesAfterTheReportsOfAnEarlierSession) {
  server_.reports.push_back({0, 7, {}, false});
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  const std::size_t measured = session_->measurements().size();
  server_.start();
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  ASSERT_EQ(server_.measurements_from(1), measured);
  EXPECT_EQ(server_.reports[1].sequence, 8);
  EXPECT_TRUE(server_.reports[1].begins_sweep);
}

// A report that the server calls bad does not keep the others back.
TEST_F(SessionTest, ARefusedReportIsLeftOut) {
  server_.refuse_next = true;
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_EQ(server_.reports.front().sequence, 1);
  // Of the sweep's first clock it has nothing: forward, backward and, if it was told, waiting.
  const std::size_t missing = session_->measurements().size() - server_.measurements_from(0);
  EXPECT_GE(missing, 2u);
  EXPECT_LE(missing, 3u);
  // A busy machine may have something to say of the counter as well.
  EXPECT_THAT(notices(), Contains(HasSubstr("not this one")).Times(1));
  EXPECT_THAT(notices(), Each(AnyOf(HasSubstr("not this one"), HasSubstr("was not told whole"))));
}

TEST_F(SessionTest, StragglersAreToldInTheBackground) {
  server_.start();
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  StragglerNotice notice;
  notice.straggler = 3;
  notice.degree = 1.2;
  session_->set_straggler(notice);
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.stragglers.empty(); }));
  EXPECT_EQ(std::get<int>(server_.stragglers[0].straggler), 3);
  EXPECT_EQ(server_.stragglers[0].degree, 1.2);
}

TEST_F(SessionTest, AWindowsEnergyIsTheCounters) {
  SessionOptions chosen = options(false);
  chosen.profile = false;
  chosen.time_scale = 10.0;
  open(chosen);
  step();
  // A machine that stalls between the window's ends and the counter's spoils a window, not all of them.
  double off = 1.0;
  for (int attempt = 0; attempt < 10 && off > 0.05; ++attempt) {
    const Nanoseconds begin = monotonic_now();
    session_->window_begin();
    const Joules before = *gpu_.read().total;
    for (int i = 0; i < 20; ++i) step();
    const Joules after = *gpu_.read().total;
    const StepsEnergy window = session_->window_end();
    off = std::abs(window.energy / (after - before) - 1.0);
    EXPECT_LE(window.time, 10.0 * to_seconds(monotonic_now() - begin));
    EXPECT_GE(window.time, Seconds(10.0 * 20 * 0.006));
  }
  EXPECT_LE(off, 0.05);
}

// 300 W are promised and the counter stops telling: the figure is less, and says so.
TEST_F(SessionTest, AWindowThatTheCounterDidNotTellWholeSaysSo) {
  SessionOptions chosen = options(false);
  chosen.profile = false;
  open(chosen);
  for (int i = 0; i < 5; ++i) step();
  session_->window_begin();
  for (int i = 0; i < 5; ++i) step();
  const StepsEnergy whole = session_->window_end();
  EXPECT_TRUE(whole.complete) << whole.problem;
  EXPECT_EQ(whole.problem, "");

  session_->window_begin();
  gpu_.fail_readings(true);
  for (int i = 0; i < 20; ++i) step();
  const StepsEnergy failed = session_->window_end();
  EXPECT_FALSE(failed.complete);
  EXPECT_THAT(failed.problem, HasSubstr("of GPU:0's readings failed: the counter fails"));
  EXPECT_THAT(notices(), ::testing::Contains(HasSubstr("the energy of this window is not complete: ")));
  gpu_.fail_readings(false);

  session_->window_begin();
  gpu_.hang_readings(true);
  for (int i = 0; i < 20; ++i) step();
  const StepsEnergy hung = session_->window_end();
  gpu_.hang_readings(false);
  EXPECT_FALSE(hung.complete);
  EXPECT_NE(hung.problem, "");
}

// The counter hangs for longer than it is waited for: what comes of the clocks that ran meanwhile is no figure, so each
// is measured once more, and what the counter does not tell then either is left out. All of it is said.
TEST_F(SessionTest, AClockThatTheCounterDidNotTellWholeIsMeasuredAgain) {
  open(options(false));
  const auto said = [&](const char* words) {
    const auto all = notices();
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [&](const std::string& one) { return one.find(words) != std::string::npos; }));
  };
  ASSERT_TRUE(train_until([&] { return session_->state().sweep.clocks_done >= 1; }));
  gpu_.hang_readings(true);
  ASSERT_TRUE(train_until([&] { return said("it is measured again") > 0; }));
  gpu_.hang_readings(false);
  ASSERT_TRUE(train_until([&] { return session_->state().phase != SessionPhase::kProfiling; }));
  std::set<double> measured;
  for (const InstructionMeasurement& one : session_->measurements()) {
    if (one.instruction != "clock_change") measured.insert(one.clock.value());
  }
  const auto done = static_cast<std::size_t>(session_->state().sweep.clocks_done);
  EXPECT_EQ(measured.size() + said("left out of the profile") + said("it is measured again"), done);
}

TEST_F(SessionTest, CallsThatDoNotFitTogetherAreRefused) {
  SessionOptions chosen = options(false);
  chosen.profile = false;
  open(chosen);
  EXPECT_THROW(session_->end("forward"), UsageError);
  EXPECT_THROW(session_->step_end(), UsageError);
  session_->step_begin();
  EXPECT_THROW(session_->step_begin(), UsageError);
  session_->begin("forward");
  EXPECT_THROW(session_->begin("backward"), UsageError);
  EXPECT_THROW(session_->end("backward"), UsageError);
  EXPECT_THROW(session_->step_end(), UsageError);
  session_->end("forward");
  EXPECT_THROW(session_->begin(""), UsageError);
  session_->step_end();
  EXPECT_THROW((void)session_->window_end(), UsageError);
  EXPECT_THROW(session_->set_straggler({}), UsageError);
  SessionOptions nameless = options(true);
  nameless.job.id.clear();
  EXPECT_THROW(open(nameless), UsageError);
}

}  // namespace
}  // namespace flyball
