// The scheduler without the simulator: driven by a host that does what it is told at once.
#include "cluster/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "cluster/small_cluster.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A network of which each doubling of GPUs is 1.8 times as fast, and the low clock takes 1.5 times as long for half the
// power.
IterationCost cost_of(int network, int gpus, bool fast) {
  const Seconds time((1.0 + network) * std::pow(1.8, -std::log2(gpus)) * (fast ? 1.0 : 1.5));
  return {time, Watts((fast ? 200.0 : 100.0) * gpus) * time};
}

ClusterJobKind kind_of(int network) {
  ClusterJobKind kind;
  kind.model = "network " + std::to_string(network);
  kind.batch_size = 64.0;
  kind.sizes = {1, 2, 4};
  kind.clocks = {Megahertz(1000.0), Megahertz(2000.0)};
  kind.speeds = 2;
  kind.memory_gib = {0.0, 0.0, 0.0};
  return kind;
}

CostSheet sheet_of(int network) {
  CostSheet sheet(3, 2);
  for (std::size_t size = 0; size < 3; ++size) {
    for (std::size_t speed = 0; speed < 2; ++speed) sheet.at(size, speed) = cost_of(network, 1 << size, speed == 1);
  }
  return sheet;
}

// Jobs start when they are told to, profiling ends when end_profiling() is called, and no iteration is ever done.
class PromptHost : public SchedulerHost {
 public:
  PromptHost(const std::string& policy, bool learns, int kinds_known)
      : scheduler(small_setup().spec, Watts(700.0), policy, {}, *this) {
    for (int kind = 0; kind < kinds_known; ++kind) scheduler.add_kind(kind_of(kind), sheet_of(kind));
    Scheduler::Knowledge knowledge;
    knowledge.profiles = knowledge.models = learns;
    scheduler.begin(knowledge);
  }

  void settle(int job) override { scheduler.state().jobs[at(job)].since = scheduler.state().now; }
  void stopped(int job) override { said.push_back("stop " + std::to_string(job)); }
  void moves(int /*job*/) override {}
  void started(int job, bool /*resumes*/) override {
    ClusterJob& one = scheduler.state().jobs[at(job)];
    said.push_back("start " + std::to_string(job) + " on " + std::to_string(one.gpus));
    one.first_start = scheduler.state().now;
    one.phase = one.to_profile ? JobPhase::kProfiling : JobPhase::kRunning;
    one.power = cost_of(one.kind, one.gpus, one.speed == 1).power();
    scheduler.metered(job, one.speed);
  }
  void changed_speed(int job) override { said.push_back("speed of " + std::to_string(job)); }
  void changed_partner(int /*job*/) override {}
  void emptied(int /*node*/) override {}

  int submit(int kind, int gpus = 1) {
    if (at(kind) >= scheduler.state().kinds.size()) {
      EXPECT_EQ(scheduler.add_kind(kind_of(kind), sheet_of(kind)), kind);
    }
    ClusterJob job;
    job.kind = kind;
    job.requested_gpus = gpus;
    job.submit = job.since = scheduler.state().now;
    job.iterations = 1e6;
    const int id = scheduler.add_job(job);
    scheduler.arrived(id);
    return id;
  }
  void end_profiling() {
    const std::vector<int> holding = scheduler.state().holding;
    for (const int job : holding) {
      ClusterJob& one = scheduler.state().jobs[at(job)];
      if (one.phase != JobPhase::kProfiling) continue;
      scheduler.learn(job, {0, 1}, [](const ProfiledSize& what, int speed) {
        return cost_of(what.kind, 1 << what.size, speed == 1);
      });
      scheduler.profiled(job, true);
      one.phase = JobPhase::kRunning;
    }
  }
  void decide(double now) {
    scheduler.state().now = Seconds(now);
    while (scheduler.is_due()) scheduler.decide();
  }
  [[nodiscard]] std::vector<std::pair<int, int>> sizes_and_speeds() const {
    std::vector<std::pair<int, int>> all;
    for (const ClusterJob& job : scheduler.state().jobs) all.emplace_back(job.gpus, job.speed);
    return all;
  }

  Scheduler scheduler;
  std::vector<std::string> said;
};

// Told of six free GPUs where there are four, FIFO gives two and four away. The larger job is placed first, and the
// other one finds no place. The first one runs all the same, and the other one gets its GPUs when that has ended.
TEST(Scheduler, LosesNoJobByADecisionThatCannotBeCarriedOut) {
  PromptHost host("fifo", false, 0);
  const int small = host.submit(0, 2);
  const int large = host.submit(0, 4);
  host.scheduler.state().free_gpus = 6;
  EXPECT_THROW(host.scheduler.decide(), Error);
  EXPECT_THAT(host.said, ElementsAre("start 1 on 4"));
  EXPECT_EQ(host.scheduler.state().free_gpus, 0);
  EXPECT_TRUE(host.scheduler.is_due());
  host.decide(2.0);
  EXPECT_FALSE(host.scheduler.state().jobs[at(small)].has_gpus());
  host.scheduler.finished(large);
  host.decide(3.0);
  EXPECT_THAT(host.said, ElementsAre("start 1 on 4", "start 0 on 2"));
}

// Two nodes of two GPUs and 700 W: a job alone gets all four GPUs at 400 W or 800 W, a second one two of them.
TEST(Scheduler, TellsItsHostWhatToDo) {
  PromptHost host("powerflow", false, 0);
  const int first = host.submit(0);
  host.decide(1.0);
  EXPECT_THAT(host.said, ElementsAre("start 0 on 4"));
  EXPECT_EQ(host.scheduler.state().jobs[at(first)].speed, 0);  // 800 W would be too much
  host.said.clear();
  host.submit(1);
  host.decide(2.0);
  EXPECT_THAT(host.said, ElementsAre("stop 0", "start 0 on 2", "start 1 on 2"));
  host.said.clear();
  host.scheduler.finished(first);
  host.decide(3.0);
  EXPECT_THAT(host.said, ElementsAre("stop 1", "start 1 on 4"));
}

// The same, but the first job would rather stay on node 1. Without a word of that it gets the lowest, and so where
// node 1 is away.
TEST(Scheduler, LeavesAJobOnNodesThatItPrefers) {
  for (const char* policy : {"powerflow", "joule-price"}) {
    for (const bool prefers : {true, false}) {
      PromptHost host(policy, false, 0);
      const int first = host.submit(0);
      host.decide(1.0);
      ASSERT_EQ(host.scheduler.state().jobs[at(first)].gpus, 4) << policy;
      if (prefers) host.scheduler.prefer({{first, {1, 0}}});
      const int second = host.submit(0);
      host.decide(2.0);
      ASSERT_EQ(host.scheduler.state().jobs[at(first)].gpus, 2) << policy;
      const Placement& placement = host.scheduler.placement();
      EXPECT_EQ(placement.blocks(first)[0], (GpuBlock{prefers ? 1 : 0, 0, 2})) << policy;
      EXPECT_EQ(placement.blocks(second)[0], (GpuBlock{prefers ? 0 : 1, 0, 2})) << policy;
    }
  }
  PromptHost host("powerflow", false, 0);
  const int first = host.submit(0);
  host.decide(1.0);
  host.scheduler.prefer({{first, {1, 0}}});
  host.scheduler.set_away(1, true);
  host.decide(2.0);
  EXPECT_EQ(host.scheduler.placement().blocks(first)[0], (GpuBlock{0, 0, 2}));
}

// Whole nodes of two GPUs are given up at another cost than a restart's, where that was measured; parts of them, and
// what a job gets, are not.
TEST(Scheduler, KnowsWhatAChangeCosts) {
  PromptHost host("joule-price", false, 1);
  ClusterState& state = host.scheduler.state();
  state.kinds[0].restart = Seconds(30.0);
  EXPECT_EQ(state.change_of(0, 4, 2), Seconds(30.0));
  state.kinds[0].shrink = Seconds(4.0);
  EXPECT_EQ(state.change_of(0, 4, 2), Seconds(4.0));
  EXPECT_EQ(state.change_of(0, 4, 1), Seconds(30.0));
  EXPECT_EQ(state.change_of(0, 2, 4), Seconds(30.0));
  EXPECT_EQ(state.change_of(0, 0, 2), Seconds(30.0));
}

// Two nodes of two GPUs. What runs already is taken over where it lies, and the rest is dealt out around it.
TEST(Scheduler, AdoptsJobsThatRun) {
  PromptHost host("joule-price", false, 2);
  const auto adopt = [&](int kind, const std::vector<int>& nodes, int gpus) {
    ClusterJob job;
    job.kind = kind;
    job.iterations = 1e6;
    return host.scheduler.adopted(host.scheduler.add_job(job), nodes, gpus, 0);
  };
  EXPECT_FALSE(adopt(0, {0, 1}, 1));  // a job on two nodes has all their GPUs
  EXPECT_FALSE(adopt(0, {}, 1));
  EXPECT_TRUE(adopt(0, {1}, 2));
  EXPECT_FALSE(adopt(0, {0, 1}, 2));  // node 1 is taken, and node 0 is free again
  EXPECT_TRUE(adopt(1, {0}, 1));
  EXPECT_FALSE(adopt(1, {0}, 2));
  EXPECT_EQ(host.scheduler.state().free_gpus, 1);
  EXPECT_THAT(host.scheduler.placement().blocks(2), ElementsAre(GpuBlock{1, 0, 2}));
  host.scheduler.finished(2);
  host.decide(1.0);
  int held = 0;
  for (const ClusterJob& job : host.scheduler.state().jobs) held += job.gpus;
  EXPECT_EQ(held, 4);
}

// A job that is cancelled in the decision in which it comes to wait is not given GPUs.
TEST(Scheduler, ForgetsJobsThatAreCancelledAsSoonAsTheyWait) {
  for (const char* const policy : {"joule-price", "powerflow"}) {
    PromptHost host(policy, false, 1);
    const int first = host.submit(0);
    host.decide(1.0);
    host.scheduler.preempted(first);
    host.scheduler.cancelled(first);
    host.submit(0);
    host.decide(2.0);
    EXPECT_EQ(host.scheduler.state().jobs[at(first)].gpus, 0) << policy;
    EXPECT_EQ(host.scheduler.state().jobs[1].gpus, 4) << policy;
  }
}

// Jobs of a node that goes away start again elsewhere. The GPUs that are left, and those that come back, are dealt out.
TEST(Scheduler, DealsWithNodesThatGoAndCome) {
  for (const std::string& policy : policy_names()) {
    PromptHost host(policy, false, 0);
    host.submit(0, 2);
    host.submit(1, 2);
    host.decide(1.0);
    const auto held = [&] {
      int gpus = 0;
      for (const ClusterJob& job : host.scheduler.state().jobs) gpus += job.gpus;
      return gpus;
    };
    EXPECT_EQ(held(), 4) << policy;
    host.scheduler.set_away(1, true);
    host.scheduler.set_away(1, true);
    EXPECT_EQ(host.scheduler.state().free_gpus, 2 - held()) << policy;
    host.decide(2.0);
    EXPECT_EQ(held(), 2) << policy;
    for (int job = 0; job < 2; ++job) {
      for (const GpuBlock& block : host.scheduler.placement().blocks(job)) EXPECT_EQ(block.node, 0) << policy;
    }
    host.scheduler.set_away(1, false);
    host.decide(3.0);
    EXPECT_EQ(held(), 4) << policy;
    EXPECT_EQ(host.scheduler.state().free_gpus, 0) << policy;
  }
}

// A job that is cancelled leaves its GPUs, or the line; one that loses its GPUs gets some again.
TEST(Scheduler, DealsWithJobsThatAreCancelledOrPreempted) {
  for (const char* policy : {"powerflow", "joule-price", "afs"}) {
    PromptHost host(policy, false, 0);
    for (int job = 0; job < 3; ++job) host.submit(job, 4);
    host.decide(1.0);
    const auto gpus = [&](int job) { return host.scheduler.state().jobs[at(job)].gpus; };
    const int running = host.scheduler.state().holding.front();
    host.scheduler.preempted(running);
    EXPECT_EQ(gpus(running), 0) << policy;
    host.decide(2.0);
    EXPECT_EQ(host.scheduler.state().free_gpus, 0) << policy;
    host.scheduler.cancelled(2);
    host.decide(3.0);
    host.scheduler.cancelled(0);
    host.decide(4.0);
    EXPECT_EQ(gpus(0) + gpus(2), 0) << policy;
    EXPECT_EQ(gpus(1), 4) << policy;
    EXPECT_THAT(host.scheduler.state().active, ElementsAre(1)) << policy;
  }
}

TEST(Scheduler, LeavesJobsInTransitionAlone) {
  for (const char* policy : {"powerflow", "joule-price", "afs"}) {
    PromptHost host(policy, false, 0);
    const int first = host.submit(0);
    host.decide(1.0);
    const int gpus = host.scheduler.state().jobs[at(first)].gpus;
    EXPECT_GT(gpus, 2) << policy;
    host.scheduler.state().jobs[at(first)].in_transition = true;
    host.submit(1);
    host.decide(2.0);
    EXPECT_EQ(host.scheduler.state().jobs[at(first)].gpus, gpus) << policy;
    host.scheduler.state().jobs[at(first)].in_transition = false;
    host.submit(2);
    host.decide(3.0);
    EXPECT_LT(host.scheduler.state().jobs[at(first)].gpus, gpus) << policy;
  }
}

// A pipeline of three GPUs on a node that is away draws 300 or 600 W, an elastic job on the other node's two GPUs 200 W
// at the low clock and 400 W at the high one.
TEST(Scheduler, ChoosesOnlyTheSpeedOfPinnedJobs) {
  for (const char* policy : {"powerflow", "joule-price", "afs"}) {
    PromptHost host(policy, false, 1);
    host.scheduler.set_away(1, true);
    ClusterJobKind kind;
    kind.model = "pipeline";
    kind.elastic = false;
    kind.sizes = {3};
    kind.speeds = 2;
    kind.memory_gib = {0.0};
    CostSheet costs(1, 2);
    costs.at(0, 0) = {Seconds(1.5), Joules(450.0)};
    costs.at(0, 1) = {Seconds(1.0), Joules(600.0)};
    ClusterJob pipeline;
    pipeline.kind = host.scheduler.add_kind(kind, costs);
    pipeline.iterations = 1e6;
    const int pinned = host.scheduler.add_job(pipeline);
    host.scheduler.pinned(pinned, 3, 1);
    const int elastic = host.submit(0);
    const auto job = [&](int which) -> const ClusterJob& { return host.scheduler.state().jobs[at(which)]; };
    const auto decide = [&](double now, double limit) {
      host.scheduler.limit_changed(Watts(limit));
      host.decide(now);
      EXPECT_EQ(job(pinned).gpus, 3) << policy;
    };
    decide(1.0, 1200.0);
    EXPECT_EQ(job(pinned).speed, 1) << policy;
    EXPECT_EQ(job(elastic).gpus, 2) << policy;
    if (std::string(policy) == "afs") continue;  // which chooses no speeds
    decide(2.0, 550.0);
    EXPECT_EQ(job(pinned).speed, 0) << policy;
    EXPECT_GT(job(elastic).gpus, 0) << policy;
    decide(3.0, 250.0);  // less than it draws at least
    EXPECT_EQ(job(pinned).speed, 0) << policy;
    EXPECT_EQ(job(elastic).gpus, 0) << policy;
    decide(4.0, 1200.0);
    EXPECT_EQ(job(pinned).speed, 1) << policy;
    host.scheduler.finished(pinned);
    host.scheduler.set_away(1, false);
    host.decide(5.0);
    EXPECT_EQ(host.scheduler.state().gpus(), 4) << policy;
    EXPECT_EQ(job(elastic).gpus, 4) << policy;
  }
}

// A policy that takes no notice of transitions is refused. Under Tiresias a job that has had 7,200 GPU-seconds gives
// way to one that has had none.
TEST(Scheduler, RefusesToTouchAJobInTransition) {
  PromptHost host("tiresias", false, 0);
  const int first = host.submit(0, 4);
  host.decide(0.0);
  ASSERT_EQ(host.scheduler.state().jobs[at(first)].gpus, 4);
  host.scheduler.state().jobs[at(first)].in_transition = true;
  host.submit(1, 4);
  try {
    host.decide(1800.0);
    FAIL() << "the job has " << host.scheduler.state().jobs[at(first)].gpus << " GPUs";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is in transition"));
  }
}

// Whether the kinds of jobs are known from the beginning or come with their first job: the same is decided.
TEST(Scheduler, HearsOfKindsAsTheyCome) {
  constexpr int kKinds = 6;
  for (const bool learns : {false, true}) {
    for (const char* policy : {"powerflow", "joule-price", "afs"}) {
      std::mt19937 random(11);
      PromptHost known(policy, learns, kKinds);
      PromptHost told(policy, learns, 0);
      int kinds = 0;
      for (int event = 1; event <= 300; ++event) {
        const auto& running = known.scheduler.state().holding;
        const int what = static_cast<int>(random() % 8);
        if (what < 3 || running.empty()) {
          const int kind =
              kinds < kKinds && random() % 4 == 0 ? kinds++ : static_cast<int>(random() % at(std::max(1, kinds)));
          kinds = std::max(kinds, kind + 1);
          EXPECT_EQ(known.submit(kind), told.submit(kind));
        } else if (what < 6) {
          const int job = running[random() % running.size()];
          known.scheduler.finished(job);
          told.scheduler.finished(job);
        } else {
          known.end_profiling();
          told.end_profiling();
        }
        known.decide(10.0 * event);
        told.decide(10.0 * event);
        ASSERT_EQ(known.said, told.said) << policy << " at event " << event;
        ASSERT_EQ(known.sizes_and_speeds(), told.sizes_and_speeds()) << policy << " at event " << event;
      }
      EXPECT_EQ(kinds, kKinds);
      EXPECT_GT(told.said.size(), 100u);
    }
  }
}

}  // namespace
}  // namespace flyball
