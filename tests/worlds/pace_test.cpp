// Whether ranks that compute slower, and links that are slower, are found on boards that are not ideal, in virtual
// time: by what an engine that runs ahead of its GPUs has noted in its streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/step_watch.h"
#include "support/figures.h"
#include "support/virtual_training.h"

namespace flyball {
namespace {

using testing::four_stages;
using testing::TrainingWorld;
using testing::VirtualTraining;

// A training by the plan of Perseus, of which every rank watches itself.
class WatchedTraining {
 public:
  explicit WatchedTraining(const TrainingWorld& world) : training_(world), watches_(world.forward_s.size()) {
    training_.warm_up(training_.at_maximum());
    const std::vector<RankMeasurements> ranks = training_.profile();
    JobRequest request;
    request.planner = "perseus";
    request.stages = world.stages();
    request.microbatches = world.microbatches;
    request.transfers_occupy_both = true;
    const auto plan = JobPlan::make("job", request, ranks, [](double) { return true; });
    const JobPlan::Run run{plan->base_point(), plan->frontier().time(plan->base_point())};
    plan->prepare(run);
    orders_ = plan->schedule(run).stages;
    for (std::size_t rank = 0; rank < watches_.size(); ++rank) watches_[rank].adopt(profile_of(ranks[rank]), 0);
    training_.warm_up(orders_);
  }

  struct Found {
    std::size_t rank = 0;
    PaceOf of = PaceOf::kComputing;
    PaceWatch::Change change;
  };

  // One iteration. Returns what ranks find in it.
  std::vector<Found> iterate() {
    training_.run(orders_, 1);
    ++step_;
    std::vector<Found> found;
    for (std::size_t rank = 0; rank < watches_.size(); ++rank) {
      watch(rank);
      if (watches_[rank].take_drifts()) ++drifts_told_;
      for (const PaceOf of : values_of<PaceOf>()) {
        if (const auto change = watches_[rank].take_change(of)) found.push_back({rank, of, *change});
      }
    }
    return found;
  }

  // Iterations until a rank finds that it computes slower, or as usual again: how many.
  std::optional<int> iterations_until(std::size_t rank, bool slow, int most) {
    for (int i = 1; i <= most; ++i) {
      for (const Found& one : iterate()) {
        if (one.rank == rank && one.of == PaceOf::kComputing && (one.change.slowdown > 1.0) == slow) return i;
      }
    }
    return std::nullopt;
  }

  VirtualTraining& training() { return training_; }
  [[nodiscard]] const StepWatch& watch_of(std::size_t rank) const { return watches_[rank]; }
  [[nodiscard]] std::int64_t step() const { return step_; }
  // How often ranks were to tell what has drifted.
  [[nodiscard]] int drifts_told() const { return drifts_told_; }

 private:
  static std::shared_ptr<const ComputingTimes> profile_of(const RankMeasurements& rank) {
    const auto times = std::make_shared<ComputingTimes>();
    for (const MeasurementSum& sum : *rank.sums) {
      const Seconds mean = sum.time / sum.samples;
      if (sum.instruction == "clock_change") {
        times->set_settling(1.5 * mean, mean);
      }
      for (std::uint16_t type = 0; type < kTypes; ++type) {
        if (VirtualTraining::type_name(type) != sum.instruction) continue;
        const PaceOf kind = value_named<PaceOf>(sum.instruction).value_or(PaceOf::kComputing);
        kind == PaceOf::kComputing ? times->add(type, sum.clock, mean) : times->add_transfer(type, kind, mean);
      }
    }
    return times;
  }

  struct Asked {
    Megahertz clock;
    Megahertz before;
    Nanoseconds at = 0;
  };

  void watch(std::size_t rank) {
    StepWatch& watch = watches_[rank];
    watch.step_begin();
    const std::vector<ScheduledComputation>& order = orders_[rank];
    std::size_t next = 0;
    Asked asked{Megahertz(order.back().clock_mhz), Megahertz(order.back().clock_mhz), 0};
    for (const InstructionSpan& span : training_.spans(rank)) {
      const std::string name = VirtualTraining::type_name(span.type);
      const bool computes = name == "forward" || name == "backward";
      if (!computes && !value_named<PaceOf>(name)) continue;
      if (computes) {
        const Megahertz clock(order[next].clock_mhz);
        if (clock != asked.clock) asked = {clock, asked.clock, training_.asked(rank)[next]};
        ++next;
      }
      if (!watch.wants(span.type)) continue;
      watch.add(span.type, asked.clock, asked.before, to_seconds(span.begin - asked.at),
                to_seconds(span.end - span.begin));
    }
    watch.step_end(step_);
  }

  static constexpr std::uint16_t kTypes = 6;
  VirtualTraining training_;
  std::vector<StepWatch> watches_;
  VirtualTraining::Orders orders_;
  std::int64_t step_ = 0;
  int drifts_told_ = 0;
};

// 10,000 iterations of four ranks, on four machines.
TEST(PaceInWorlds, NothingIsFoundWhereNothingHappens) {
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
    WatchedTraining training(four_stages(seed));
    for (int i = 0; i < testing::tries(2500, 300); ++i) {
      for (const auto& found : training.iterate()) {
        FAIL() << "seed " << seed << " iteration " << i << " rank " << found.rank << " " << name_of(found.of) << " "
               << found.change.slowdown;
      }
    }
    EXPECT_EQ(training.drifts_told(), 0) << seed;
  }
}

// Ten per cent, at ranks that change their clock with each computation as well as at those that keep it.
TEST(PaceInWorlds, ARankThatComputesSlowerIsFoundWithinFiveIterations) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    WatchedTraining training(four_stages(seed));
    for (int i = 0; i < 40; ++i) (void)training.iterate();
    for (std::size_t rank = 0; rank < 4; ++rank) {
      training.training().slow_stage(rank, 1.1);
      EXPECT_LE(training.iterations_until(rank, true, 20).value_or(99), 5) << seed << " " << rank;
      training.training().slow_stage(rank, 1.0);
      EXPECT_LE(training.iterations_until(rank, false, 20).value_or(99), 5) << seed << " " << rank;
    }
  }
}

// Backwards of a rank take 4 % longer. Two whole windows of steps say so; the present one began before.
TEST(PaceInWorlds, WhatHasDriftedIsFoundInTheStream) {
  for (std::uint32_t seed = 1; seed <= static_cast<std::uint32_t>(testing::tries(3, 1)); ++seed) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
      WatchedTraining training(four_stages(seed));
      for (int i = 0; i < 40; ++i) (void)training.iterate();
      training.training().slow_down(static_cast<int>(rank), true, 1.04);
      for (std::size_t i = 0; i < 3 * DriftWatch::kWindowSteps; ++i) (void)training.iterate();
      for (std::uint16_t type = 0; type < 2; ++type) {
        const bool backward = VirtualTraining::type_name(type) == "backward";
        for (std::size_t other = 0; other < 4; ++other) {
          const double drift = training.watch_of(other).drift(type);
          if (other == rank && backward) {
            EXPECT_NEAR(drift, 1.04, 0.01) << seed << " " << rank;
          } else {
            EXPECT_EQ(drift, 0.0) << seed << " " << rank << " " << other << " " << VirtualTraining::type_name(type);
          }
        }
      }
    }
  }
}

// Each link of a pipeline takes ten times as long for a while: the ranks at its ends find it, in its first iteration
// for a promise that is broken, and within five for good. Nobody else finds anything, and nobody computes slower.
TEST(PaceInWorlds, ASlowLinkIsFoundByItsEnds) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    WatchedTraining training(four_stages(seed));
    for (int i = 0; i < 40; ++i) (void)training.iterate();
    for (std::size_t link = 0; link < 3; ++link) {
      for (const double times : {10.0, 1.0}) {
        const std::int64_t from = training.step() + 1;
        training.training().slow_link(link, times);
        std::vector<WatchedTraining::Found> all;
        for (int i = 1; i <= 20; ++i) {
          for (const auto& found : training.iterate()) all.push_back(found);
          if (i == 1) EXPECT_NEAR(training.watch_of(link).of_transfer(PaceOf::kTransfer) / times, 1.0, 0.05);
          if (i == 5) ASSERT_EQ(all.size(), 2u) << seed << " " << link << " " << times;
        }
        ASSERT_EQ(all.size(), 2u) << seed << " " << link << " " << times;
        for (const auto& found : all) {
          EXPECT_EQ(found.rank, found.of == PaceOf::kTransfer ? link : link + 1);
          EXPECT_NE(found.of, PaceOf::kReduction);
          EXPECT_NEAR(found.change.slowdown / times, 1.0, 0.05);
          EXPECT_EQ(found.change.since, from);
        }
        EXPECT_NE(all[0].of, all[1].of);
      }
    }
  }
}

}  // namespace
}  // namespace flyball
