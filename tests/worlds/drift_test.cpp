// Profiles that live, in virtual time: a training on boards that are not ideal, of which an operation begins to take
// longer. The client's profiler, guard and watches, and the server's job and planner are the real ones; what is left
// out are threads, messages and the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json_object.h"
#include "base/record.h"
#include "client/promise_guard.h"
#include "client/refreshed_profile.h"
#include "client/step_watch.h"
#include "server/job.h"
#include "support/figures.h"
#include "support/virtual_training.h"

namespace flyball {
namespace {

using testing::four_stages;
using testing::TrainingWindow;
using testing::TrainingWorld;
using testing::VirtualTraining;

constexpr int kNewsTake = 2;  // iterations until ranks hear of a version
constexpr Seconds kSettling{0.03};

class LivingTraining {
 public:
  explicit LivingTraining(const TrainingWorld& world) : training_(world), job_(stored(world), true) {
    training_.warm_up(training_.at_maximum());
    for (RankMeasurements& measured : training_.profile()) {
      RankRequest request;
      request.rank = request.pp_rank = measured.rank;
      job_.add_rank(request).durable = true;
      Rank& rank = ranks_.emplace_back();
      rank.place = RankPlace(request);
      MeasurementReport& report = rank.reports.emplace_back();
      report.rank = measured.rank;
      for (const MeasurementSum& sum : *measured.sums) {
        report.measurements.push_back({sum.instruction, sum.clock, sum.time / sum.samples, sum.energy / sum.samples,
                                       static_cast<std::int64_t>(sum.samples)});
      }
      report_anew(rank);
    }
    plan();
    hear();
  }

  // One iteration. Returns its time.
  double step() {
    ++iteration_;
    if (iteration_ >= published_ + kNewsTake) hear();
    VirtualTraining::Orders orders;
    std::vector<VirtualTraining::SweepStep> swept(ranks_.size());
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      const int stage = static_cast<int>(i);
      orders.push_back(rank.schedule.computations);
      rank.sets = !rank.profiler && rank.guard.may_set_clocks();
      if (rank.sets) continue;
      for (ScheduledComputation& one : orders.back()) one.clock_mhz = 0;
      if (rank.profiler) swept[i] = training_.sweep_begin(stage, *rank.profiler);
      if (!rank.profiler) training_.ask(stage, Megahertz(0));
    }
    const double time = training_.run(orders, 1).time_s;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (rank.profiler) {
        go_on_sweeping(rank, swept[i], time);
      } else {
        watch(rank, orders[i]);
        count(rank, time);
      }
    }
    if (std::exchange(drifted_, false) && job_.all_profiled() && job_.order_remeasuring()) {
      ++orders_given;
      deploy();
    }
    return time;
  }

  // Means of so many iterations at maximum clocks, after which training by plan goes on.
  TrainingWindow at_maximum(int iterations) {
    for (int stage = 0; stage < static_cast<int>(ranks_.size()); ++stage) training_.ask(stage, Megahertz(0));
    return training_.run(training_.at_maximum(), iterations);
  }
  // The same by the plan's schedules.
  TrainingWindow by_plan(int iterations) {
    VirtualTraining::Orders orders;
    for (const Rank& rank : ranks_) orders.push_back(rank.schedule.computations);
    training_.run(orders, 1);
    return training_.run(orders, iterations);
  }

  [[nodiscard]] bool is_planned() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.sets; });
  }
  [[nodiscard]] VirtualTraining& training() { return training_; }
  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] std::vector<std::vector<MeasurementReport>> profiles() const {
    std::vector<std::vector<MeasurementReport>> all;
    for (const Rank& rank : ranks_) all.push_back(rank.reports);
    return all;
  }

  int orders_given = 0;
  int plans_made = 0;
  std::set<int> swept_stages;
  std::set<std::string> swept_operations;
  int swept_iterations = 0;  // of all stages

 private:
  struct Rank {
    RankPlace place;
    RankSchedule schedule;
    PromiseGuard guard;
    StepWatch watch;
    std::vector<MeasurementReport> reports;
    PaceReport told;
    bool sets = false;
    std::int64_t followed = 0;
    std::unique_ptr<OnlineProfiler> profiler;
    std::vector<std::string> wanted;
    std::vector<InstructionMeasurement> measured;
    int asked_mhz = 0;
    int was_mhz = 0;
    Nanoseconds asked_at = 0;
    std::int64_t sequence = 0;
  };

  static StoredJob stored(const TrainingWorld& world) {
    StoredJob stored;
    stored.request.id = "job";
    stored.request.planner = "perseus";
    stored.request.stages = world.stages();
    stored.request.microbatches = world.microbatches;
    stored.request.transfers_occupy_both = true;
    return stored;
  }

  void report_anew(Rank& rank) {
    JobRank& known = *job_.find_rank(rank.place.rank);
    const auto times = std::make_shared<ComputingTimes>();
    times->set_settling(kSettling, Seconds(0));
    for (MeasurementReport& report : rank.reports) {
      report.sequence = rank.sequence++;
      report.begins_sweep = &report == &rank.reports.front();
      job_.count_report(known, report);
      for (const InstructionMeasurement& one : report.measurements) {
        for (std::uint16_t type = 0; type < 2; ++type) {
          if (common_name(one.instruction) != VirtualTraining::type_name(type)) continue;
          times->add(type, one.clock, one.time, microbatches_of(one.instruction));
        }
        if (one.instruction == "clock_change") times->set_settling(std::min(kSettling, 1.5 * one.time), one.time);
      }
    }
    rank.watch.adopt(times, iteration_);
    job_.drifted().forget(rank.place.rank);
    (void)job_.found().forget(rank.place.rank);
    job_.set_profiled(known, true);
  }

  void plan() {
    (void)job_.take_up_sweeps();
    job_.set_plan(JobPlan::make(
        "job", job_.request(), job_.measured_ranks(true), [](double) { return true; }, std::nullopt, {}, {},
        ClocksAsked::kWhenFree, OrderSeen::kAsTold, {}, job_.plan()));
    job_.trust_anew();
    ++plans_made;
    deploy();
  }

  void deploy() {
    for (const auto& [plan, runs] : job_.unprepared_runs()) {
      for (const JobPlan::Run& run : runs) plan->prepare(run);
    }
    Deployment next = job_.deployment();
    if (next.fingerprint == job_.stored().fingerprint) return;
    job_.assign_version(next, true);
    job_.publish(std::make_shared<const Deployment>(std::move(next)));
    published_ = iteration_;
  }

  void hear() {
    for (Rank& rank : ranks_) {
      const auto text = job_.schedule_for(rank.place, rank.schedule.version);
      if (!text) continue;
      rank.schedule = read_message<RankSchedule>(parse_json("the server", text->head + *text->tail));
      rank.guard.adopt(rank.schedule.version, rank.schedule.allowed_time / rank.schedule.max_clock_time,
                       rank.schedule.at_maximum);
      follow_order(rank);
    }
  }

  void follow_order(Rank& rank) {
    const auto& order = rank.schedule.remeasure;
    if (!order || order->number <= rank.followed || rank.profiler) return;
    rank.followed = order->number;
    rank.wanted.clear();
    rank.measured.clear();
    for (const DriftedOperation& one : rank.told.operations) {
      scale_operation(rank.reports, one.instruction, one.ratio);
      rank.wanted.push_back(one.instruction);
    }
    EXPECT_THAT(rank.wanted, ::testing::UnorderedElementsAreArray(order->instructions));
    report_anew(rank);
    plan();
    const std::vector<Megahertz> clocks(order->clocks_mhz.begin(), order->clocks_mhz.end());
    if (clocks.empty()) return;
    OnlineProfiler::Options options;
    options.settle = to_nanoseconds(kSettling);
    options.rises_to_stop = std::numeric_limits<int>::max();
    rank.profiler = std::make_unique<OnlineProfiler>(clocks, options);
    swept_stages.insert(rank.place.pp_rank);
  }

  void go_on_sweeping(Rank& rank, const VirtualTraining::SweepStep& step, double time) {
    ++swept_iterations;
    if (step.clock) rank.guard.count_swept(*step.clock, Seconds(time));
    for (const InstructionMeasurement& one : training_.sweep_end(rank.place.pp_rank, *rank.profiler, step)) {
      if (std::find(rank.wanted.begin(), rank.wanted.end(), common_name(one.instruction)) != rank.wanted.end()) {
        rank.measured.push_back(one);
      }
    }
    if (!rank.profiler->progress().finished) return;
    rank.profiler.reset();
    refresh_operations(rank.reports, rank.measured);
    for (const InstructionMeasurement& one : rank.measured) {
      swept_operations.insert(std::string(common_name(one.instruction)));
    }
    report_anew(rank);
    plan();
  }

  void count(Rank& rank, double time) {
    const auto report = rank.guard.count(rank.sets ? PromiseGuard::Step::kPlanned : PromiseGuard::Step::kAtMaximum,
                                         Seconds(time), false);
    if (!report || rank.guard.version() != job_.stored().version) return;
    const PromiseReport promise{rank.place.rank, rank.guard.version(), report->iterations,
                                report->time,    report->at_maximum,   report->slower};
    if (job_.take_promise(promise)) deploy();
  }

  // As a session of an engine that queues into a stream.
  void watch(Rank& rank, const std::vector<ScheduledComputation>& order) {
    const auto clock_of = [](int mhz) { return Megahertz(mhz > 0 ? mhz : 1410); };
    const auto stage = static_cast<std::size_t>(rank.place.pp_rank);
    std::size_t next = 0;
    std::size_t done[2] = {0, 0};
    for (const InstructionSpan& span : training_.spans(stage)) {
      if (span.type > 1) continue;
      const int mhz = order[next].clock_mhz;
      if (mhz != rank.asked_mhz) {
        rank.was_mhz = std::exchange(rank.asked_mhz, mhz);
        rank.asked_at = training_.asked(stage)[next];
      }
      ++next;
      rank.watch.add(span.type, clock_of(mhz), clock_of(rank.was_mhz), to_seconds(span.begin - rank.asked_at),
                     to_seconds(span.end - span.begin), microbatches_at(done[span.type]++, order.size() / 2));
    }
    rank.watch.step_end(iteration_);
    rank.told.rank = rank.place.rank;
    rank.told.cause = PaceCause::kComputation;
    if (const auto change = rank.watch.take_change(PaceOf::kComputing)) {
      rank.told.slowdown = change->slowdown;
      rank.told.since = change->since;
      if (job_.found().take(rank.told, 0.0)) deploy();
    }
    if (!rank.watch.take_drifts()) return;
    rank.told.step = iteration_;
    rank.told.operations.clear();
    for (std::uint16_t type = 0; type < 2; ++type) {
      const double ratio = rank.watch.drift(type);
      if (ratio > 0.0) rank.told.operations.push_back({VirtualTraining::type_name(type), ratio});
    }
    drifted_ = job_.drifted().take(rank.told, rank.place.pp_rank) || drifted_;
  }

  VirtualTraining training_;
  Job job_;
  std::vector<Rank> ranks_;
  std::int64_t iteration_ = 0;
  std::int64_t published_ = 0;
  bool drifted_ = false;
};

struct Ended {
  int iterations = 0;   // from the drift until the new plan is known to keep its promise
  double excess = 0.0;  // of these, over what maximum clocks take now, in iterations
};

// Trains until a plan of new measurements is kept.
Ended train_until_kept(LivingTraining& living, int plans, double maximum_s) {
  Ended ended;
  while (ended.iterations < 1000) {
    ended.excess += living.step() / maximum_s - 1.0;
    ++ended.iterations;
    if (living.plans_made >= plans && living.is_planned() &&
        living.job().promise().known().verdict == PromiseVerdict::kKept) {
      break;
    }
  }
  return ended;
}

void expect_kept_now(LivingTraining& living) {
  const TrainingWindow maximum = living.at_maximum(20);
  const TrainingWindow planned = living.by_plan(20);
  const FrontierReport report = living.job().plan()->report();
  const JobPlan::Run run{living.job().plan()->base_point(),
                         living.job().plan()->frontier().time(living.job().plan()->base_point())};
  const JobPlan::Schedule promised = living.job().plan()->schedule(run);
  EXPECT_NEAR(planned.time_s / maximum.time_s, promised.time / report.max_clock_time, 0.01);
  EXPECT_LT(planned.time_s / maximum.time_s, 1.01);
  EXPECT_NEAR(planned.energy_j / maximum.energy_j, promised.energy / report.max_clock_energy, 0.01);
  // What the plan says of an iteration's time is what it takes, but for what no profile has.
  EXPECT_NEAR(planned.time_s / promised.time.value(), 1.0, 0.01);
}

class Drift : public ::testing::TestWithParam<std::uint32_t> {};

// One operation of one stage takes 5 % longer from some iteration on: that of the slowest stage, which everything waits
// for, or of another.
TEST_P(Drift, OfOneOperationIsMeasuredAndPlannedAnew) {
  for (const int stage : {1, 2}) {
    LivingTraining living(four_stages(GetParam()));
    for (int i = 0; i < 300; ++i) living.step();
    ASSERT_TRUE(living.is_planned());
    ASSERT_EQ(living.orders_given, 0);
    ASSERT_EQ(living.plans_made, 1);
    const auto before = living.profiles();
    living.training().slow_down(stage, true, 1.05);
    const double maximum_s = living.at_maximum(10).time_s;
    const Ended ended = train_until_kept(living, 3, maximum_s);
    RecordProperty("iterations", ended.iterations);
    RecordProperty("excess", std::to_string(ended.excess));
    EXPECT_LE(ended.iterations, 250);
    EXPECT_LE(ended.excess, 3.0);
    EXPECT_EQ(living.orders_given, 1);
    EXPECT_THAT(living.swept_stages, ::testing::ElementsAre(stage));
    EXPECT_THAT(living.swept_operations, ::testing::ElementsAre("backward"));
    EXPECT_LE(living.swept_iterations, 45);
    expect_kept_now(living);
    // Nothing else has changed, and all of this has.
    const auto after = living.profiles();
    for (std::size_t i = 0; i < after.size(); ++i) {
      for (std::size_t k = 0; k < after[i][0].measurements.size(); ++k) {
        const InstructionMeasurement& was = before[i][0].measurements[k];
        const InstructionMeasurement& is = after[i][0].measurements[k];
        const bool drifted = static_cast<int>(i) == stage && common_name(was.instruction) == "backward";
        ASSERT_NEAR(is.time / was.time, drifted ? 1.05 : 1.0, drifted ? 0.01 : 1e-12)
            << "stage " << i << ' ' << was.instruction << ' ' << was.clock.value();
      }
    }
    // It ends there.
    for (int i = 0; i < 300; ++i) living.step();
    EXPECT_EQ(living.orders_given, 1);
    EXPECT_EQ(living.job().promise().known().verdict, PromiseVerdict::kKept);
    // Short sequences again: what is known is corrected, since it is too soon for another sweep.
    const int swept = living.swept_iterations;
    living.training().slow_down(stage, true, 1.0);
    const Ended back = train_until_kept(living, 4, living.at_maximum(10).time_s);
    EXPECT_LE(back.iterations, 250);
    EXPECT_EQ(living.orders_given, 2);
    EXPECT_EQ(living.swept_iterations, swept);
    expect_kept_now(living);
  }
}

// Longer sequences: all computations take longer.
TEST_P(Drift, OfAllOperationsIsMeasuredAtOnce) {
  LivingTraining living(four_stages(GetParam()));
  for (int i = 0; i < 100; ++i) living.step();
  for (int stage = 0; stage < 4; ++stage) {
    living.training().slow_down(stage, false, 1.05);
    living.training().slow_down(stage, true, 1.05);
  }
  const double maximum_s = living.at_maximum(10).time_s;
  const Ended ended = train_until_kept(living, 9, maximum_s);  // each rank reports twice
  EXPECT_LE(ended.iterations, 250);
  EXPECT_LE(ended.excess, 10.0);
  EXPECT_EQ(living.orders_given, 1);
  EXPECT_EQ(living.swept_stages.size(), 4u);
  expect_kept_now(living);
}

INSTANTIATE_TEST_SUITE_P(Boards, Drift, ::testing::Range(1u, 1u + static_cast<std::uint32_t>(testing::tries(3, 1))));

TEST(Drifts, AreNotSeenWhereThereAreNone) {
  LivingTraining living(four_stages(4));
  for (int i = 0; i < 1500; ++i) living.step();
  EXPECT_EQ(living.orders_given, 0);
  EXPECT_EQ(living.plans_made, 1);
}

}  // namespace
}  // namespace flyball
