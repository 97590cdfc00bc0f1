// Jobs whose ranks run the order that a planner chooses, and jobs whose ranks do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/record.h"
#include "server/job_plan.h"
#include "server/memory_limit.h"
#include "server/order_seen.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using namespace testing;

using Names = std::vector<std::string>;

// Four stages, six microbatches. 1F1B holds 4, 3, 2, 1 microbatches.
JobRequest reordered_job(const std::string& id, const std::string& planner = {}) {
  JobRequest job = small_job(id);
  job.stages = 4;
  job.microbatches = 6;
  job.planner = planner;
  job.executes_order = true;
  return job;
}

// What 1F1B has for a stage: forwards until the pipeline is full, then one of each in turn.
Names names_of_1f1b(int stage) {
  Names names(static_cast<std::size_t>(3 - stage), "forward");
  for (int i = 3 - stage; i < 6; ++i) {
    names.emplace_back("forward");
    names.emplace_back("backward");
  }
  names.resize(12, "backward");
  return names;
}

Names names_of(const RankSchedule& schedule) {
  Names names;
  for (const ScheduledComputation& one : schedule.computations) names.push_back(one.instruction);
  return names;
}

// The most forwards without their backward.
int held(const RankSchedule& schedule) {
  int most = 0;
  int now = 0;
  for (const std::string& name : names_of(schedule)) {
    now += name == "forward" ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::vector<RankSchedule> schedules(Client& client, const JobRequest& job, std::int64_t after = 0) {
  std::vector<RankSchedule> all;
  for (int rank = 0; rank < job.stages; ++rank) {
    if (auto one = client.schedule(job.id, rank, after)) all.push_back(std::move(*one));
  }
  EXPECT_EQ(all.size(), static_cast<std::size_t>(job.stages));
  return all;
}

void report(Client& client, const std::string& job, int rank, std::int64_t version, const Names& names) {
  const OrderReport report{rank, version, names};
  const Response response = client.ask("POST", "/v1/jobs/" + job + "/orders", to_json(report).dump());
  EXPECT_EQ(response.status, 204u) << response.body;
}

// Of the same job, as "fixed", whose ranks keep its schedule's order.
std::vector<RankSchedule> schedules_in_fixed_order(Client& client, JobRequest job) {
  job.id = "fixed";
  job.order = JobOrder::kFixed;
  run_profiling(client, job);
  auto kept = schedules(client, job);
  EXPECT_EQ(kept[0].order, 0);
  return kept;
}

double max_clock_time(Client& client, const std::string& job) {
  return client.get("/v1/jobs/" + job + "/frontier").at("max_clock_time_s").get<double>();
}

TEST(Order, IsThePlannersWhereRanksExecuteItAndMemoryIsStated) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = reordered_job("job");
  job.memory_limit = {5, 4, 3, 2};
  run_profiling(client, job);
  const auto planned = schedules(client, job);
  const std::int64_t order = planned[0].order;
  EXPECT_GT(order, 0);
  int deeper = 0;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(planned[stage].order, order);
    EXPECT_LE(held(planned[stage]), 5 - static_cast<int>(stage));
    // Maximum clocks in this order are no slower than the plan, and no slower than in 1F1B's.
    EXPECT_LE(planned[stage].max_clock_time.value(), 1.000001 * planned[stage].iteration_time.value());
    EXPECT_LE(planned[stage].max_clock_time.value(), 1.000001 * max_clock_time(client, "job"));
    deeper += held(planned[stage]) > 4 - static_cast<int>(stage) ? 1 : 0;
  }
  EXPECT_GT(deeper, 0);
  EXPECT_EQ(client.status("job").planner, "joint");
  EXPECT_EQ(client.status("job").trouble, "");

  // The order of another version is the same one.
  client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{std::string("outside"), 1.1, Seconds(0), {}}));
  const auto slower = schedules(client, job, planned[0].version);
  EXPECT_EQ(slower[0].order, order);

  // In the schedule's order, the same job takes more energy and no less time.
  const auto kept = schedules_in_fixed_order(client, job);
  EXPECT_EQ(names_of(kept[0]), names_of_1f1b(0));
  EXPECT_EQ(client.status("fixed").planner, "perseus");
  EXPECT_GT(kept[0].iteration_energy, planned[0].iteration_energy);
}

// What the ranks measure in bytes is as good as microbatches that the job tells. Less memory than before is followed at
// once, down to what 1F1B holds in any case.
TEST(Order, IsThePlannersWhereRanksMeasureTheirMemory) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = reordered_job("told");
  job.memory_limit = {6, 4, 3, 2};
  run_profiling(client, job);
  const auto told = schedules(client, job);
  EXPECT_EQ(client.status("told").memory_limit_from, MemoryLimitFrom::kRequest);

  job.memory_limit.clear();
  job.id = "measured";
  run_profiling(client, job, {6, 4, 3, 2});
  const auto measured = schedules(client, job);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_GT(measured[stage].order, 0);
    EXPECT_EQ(measured[stage].order, told[stage].order);
    EXPECT_EQ(measured[stage].computations, told[stage].computations);
    EXPECT_EQ(measured[stage].iteration_energy, told[stage].iteration_energy);
  }
  JobStatus status = client.status("measured");
  EXPECT_EQ(status.planner, "joint");
  EXPECT_EQ(status.memory_limit, (std::vector{6, 4, 3, 2}));
  EXPECT_EQ(status.memory_limit_from, MemoryLimitFrom::kMeasured);

  RankRequest less = rank_of(job, 0);
  less.microbatch_bytes = 1000;
  less.activation_bytes = 3999;
  client.post("/v1/jobs/measured/ranks", to_json(less));
  const auto again = schedules(client, job, measured[0].version);
  EXPECT_EQ(held(again[0]), 4);
  EXPECT_EQ(client.status("measured").memory_limit, (std::vector{4, 4, 3, 2}));
}

// A server that is killed has it on the disk, and its successor plans the same.
TEST(Order, OfMeasuredMemoryOutlivesTheServer) {
  const TempFolder folder;
  const PlanningServerOptions options = local_options(folder / "server.db");
  auto server = std::make_unique<ServerProcess>(options);
  auto client = std::make_unique<Client>(server->port(), kToken);
  const JobRequest job = reordered_job("job");
  run_profiling(*client, job, {6, 4, 3, 2});
  const auto planned = schedules(*client, job);
  EXPECT_GT(planned[0].order, 0);
  server->kill();
  server = std::make_unique<ServerProcess>(options);
  client = std::make_unique<Client>(server->port(), kToken);
  const auto again = schedules(*client, job, planned[0].version - 1);
  EXPECT_EQ(again[0].version, planned[0].version);
  EXPECT_EQ(again[0].computations, planned[0].computations);
  EXPECT_EQ(client->status("job").memory_limit, (std::vector{6, 4, 3, 2}));
}

// Of two pipelines; 1F1B holds 4, 3, 2, 1 microbatches.
TEST(Order, KeepsToTheLeastMemoryOfAStagesRanks) {
  JobRequest job = reordered_job("job");
  job.data_parallel = 2;
  std::vector<RankRequest> ranks;
  for (int rank = 0; rank < 8; ++rank) ranks.push_back(rank_of(job, rank));
  EXPECT_EQ(limit_of_memory(job, ranks), std::vector<int>());  // nobody knows anything
  for (RankRequest& rank : ranks) {
    rank.microbatch_bytes = 1000;
    rank.activation_bytes = 5000;
  }
  ranks[0].activation_bytes = 9000;  // which its stage's other rank does not have
  ranks[1].activation_bytes = 4999;
  ranks[2].microbatch_bytes = 0;  // not known: no more than 1F1B holds
  ranks[3].activation_bytes = 0;  // nothing fits, but 1F1B runs
  EXPECT_EQ(limit_of_memory(job, ranks), (std::vector{5, 4, 2, 1}));
  ranks[0].activation_bytes = ranks[4].activation_bytes = 1'000'000;  // there are six microbatches
  EXPECT_EQ(limit_of_memory(job, ranks), (std::vector{6, 4, 2, 1}));
  ranks.resize(3);  // the others have not come yet
  EXPECT_EQ(limit_of_memory(job, ranks), (std::vector{4, 3, 2, 1}));
  job.schedule = "zb-h1";  // every stage holds as many as the first
  EXPECT_EQ(limit_of_memory(job, ranks), (std::vector{4, 4, 4, 4}));

  job.memory_limit = {8};
  EXPECT_EQ(limit_of_memory(job, ranks), std::vector<int>());
  job.memory_limit.clear();
  job.executes_order = false;
  EXPECT_EQ(limit_of_memory(job, ranks), std::vector<int>());
}

// An engine whose backwards have two parts measures each of them, and is told where every weight gradient belongs.
TEST(Order, HasAPlaceForEveryWeightGradient) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = reordered_job("split");
  job.schedule = "zb-h1";
  job.memory_limit = {4, 4, 4, 4};  // of microbatches whose weight gradient is still to come
  run_profiling(client, job);
  const auto planned = schedules(client, job);
  EXPECT_GT(planned[0].order, 0);
  EXPECT_EQ(client.status("split").planner, "joint");
  for (const RankSchedule& stage : planned) {
    std::map<std::string, std::set<int>> done;  // microbatches by instruction
    for (const ScheduledComputation& one : stage.computations) {
      if (one.instruction == "backward_input") EXPECT_TRUE(done["forward"].contains(one.microbatch));
      if (one.instruction == "backward_weight") EXPECT_TRUE(done["backward_input"].contains(one.microbatch));
      EXPECT_TRUE(done[one.instruction].insert(one.microbatch).second) << one.instruction << one.microbatch;
      EXPECT_LE(done["forward"].size() - done["backward_weight"].size(), 4u);
    }
    for (const char* name : {"forward", "backward_input", "backward_weight"}) EXPECT_EQ(done[name].size(), 6u) << name;
  }
  EXPECT_EQ(client.status("split").trouble, "");

  const auto kept = schedules_in_fixed_order(client, job);
  EXPECT_LE(planned[0].iteration_time.value(), 1.000001 * kept[0].iteration_time.value());
  EXPECT_GT(kept[0].iteration_energy, planned[0].iteration_energy);
}

TEST(Order, IsTheSchedulesWhereNobodySaysThatRanksExecuteAnother) {
  ServerThread server;
  Client client(server.port(), kToken);
  for (const std::string planner : {"joint", "envpipe"}) {
    JobRequest job = reordered_job(planner, planner);
    job.executes_order = false;
    run_profiling(client, job);
    const auto planned = schedules(client, job);
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(names_of(planned[static_cast<std::size_t>(stage)]), names_of_1f1b(stage));
      EXPECT_EQ(planned[static_cast<std::size_t>(stage)].order, 0);
    }
    EXPECT_LT(planned[0].iteration_time.value(), 1.001 * max_clock_time(client, planner));
    EXPECT_THAT(client.status(planner).trouble, HasSubstr("keeps the order of schedule 1f1b"));
    EXPECT_THAT(client.status(planner).trouble, HasSubstr("executes_order"));
  }
  // Nobody has to be told what he asked for.
  JobRequest job = reordered_job("fixed", "envpipe");
  job.executes_order = false;
  job.order = JobOrder::kFixed;
  run_profiling(client, job);
  (void)schedules(client, job);
  EXPECT_EQ(client.status("fixed").trouble, "");

  const Response refused = client.ask("POST", "/v1/jobs", R"({"stages": 2, "microbatches": 4, "order": "free"})");
  EXPECT_EQ(refused.status, 400u);
  EXPECT_THAT(refused.body, HasSubstr("set executes_order"));
}

TEST(Order, WithoutAStatedMemoryOnlyWhereItIsAskedFor) {
  JobRequest job = reordered_job("job");
  EXPECT_EQ(planner_of(job), "perseus");
  job.order = JobOrder::kFree;
  EXPECT_EQ(planner_of(job), "joint");
  job.planner = "uniform";
  EXPECT_EQ(planner_of(job), "uniform");
  job = reordered_job("job");
  job.memory_limit = {6};
  EXPECT_EQ(planner_of(job), "joint");
  job.executes_order = false;
  EXPECT_EQ(planner_of(job), "perseus");
}

// EnvPipe's plan in an order that nobody runs, of which no step would ever be reported, is given up at once. The server
// remembers that when it is started again. A new sweep gives the order another chance.
TEST(Order, IsGivenUpWhereRanksDoNotRunIt) {
  const TempFolder folder;
  const PlanningServerOptions options = local_options(folder / "server.db");
  auto server = std::make_unique<ServerProcess>(options);
  auto client = std::make_unique<Client>(server->port(), kToken);
  JobRequest job = reordered_job("job", "envpipe");
  job.executed_steps = true;
  run_profiling(*client, job);
  const auto planned = schedules(*client, job);
  ASSERT_GT(planned[0].order, 0);
  ASSERT_TRUE(planned[0].report_steps);

  // What belongs to another version changes nothing.
  report(*client, "job", 0, planned[0].version + 1, names_of_1f1b(0));
  EXPECT_FALSE(client->schedule("job", 0, planned[0].version, 0.3));
  report(*client, "job", 1, planned[0].version, names_of_1f1b(1));
  const auto given_up = schedules(*client, job, planned[0].version);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(given_up[static_cast<std::size_t>(stage)].order, 0);
    EXPECT_EQ(names_of(given_up[static_cast<std::size_t>(stage)]), names_of_1f1b(stage));
    EXPECT_TRUE(given_up[static_cast<std::size_t>(stage)].report_steps) << "they run the schedule's order";
  }
  const std::string told = client->status("job").trouble;
  EXPECT_THAT(told, HasSubstr("the ranks do not run the order that planner envpipe had chosen"));
  EXPECT_THAT(told, HasSubstr("leave out executes_order"));

  // Nor do they run 1F1B: nobody waits for steps that cannot be told.
  Names gpipe(6, "forward");
  gpipe.resize(12, "backward");
  report(*client, "job", 2, given_up[0].version, gpipe);
  const auto emulated = schedules(*client, job, given_up[0].version);
  EXPECT_FALSE(emulated[0].report_steps);
  EXPECT_LT(emulated[0].iteration_time.value(), 1.001 * max_clock_time(*client, "job"));
  EXPECT_THAT(client->status("job").trouble, HasSubstr("register the schedule"));

  server->kill();
  server = std::make_unique<ServerProcess>(options);
  client = std::make_unique<Client>(server->port(), kToken);
  const auto again = schedules(*client, job, emulated[0].version - 1);
  EXPECT_EQ(again[0].version, emulated[0].version);
  EXPECT_EQ(again[0].computations, emulated[0].computations);
  EXPECT_THAT(client->status("job").trouble, HasSubstr("register the schedule"));

  for (int rank = 0; rank < 4; ++rank) {
    for (MeasurementReport sweep : reports_of(job, rank)) {
      sweep.sequence += 1000;
      client->post("/v1/jobs/job/measurements", to_json(sweep));
    }
    (void)client->ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
  const auto anew = schedules(*client, job, again[0].version);
  EXPECT_EQ(anew[0].order, planned[0].order);
  EXPECT_EQ(client->status("job").trouble, "");
}

// Stages whose transfers occupy both of them lock up in another order unless they post these where the schedule says.
TEST(Order, MovesTransfersThatOccupyBothStagesOnlyWithRanksThatPlaceThem) {
  JobRequest job = reordered_job("job", "joint");
  EXPECT_TRUE(may_reorder(job, OrderSeen::kAsTold));
  job.transfers_occupy_both = true;
  EXPECT_FALSE(may_reorder(job, OrderSeen::kAsTold));
  job.places_transfers = true;
  EXPECT_TRUE(may_reorder(job, OrderSeen::kAsTold));
}

// A plan in the schedule's order stays, and the job says what is odd.
TEST(Order, ThatIsNotTheSchedulesIsTold) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = reordered_job("job", "perseus");
  run_profiling(client, job);
  const auto planned = schedules(client, job);
  report(client, "job", 0, planned[0].version, names_of_1f1b(0));
  EXPECT_EQ(client.status("job").trouble, "");
  report(client, "job", 0, planned[0].version, names_of_1f1b(1));
  EXPECT_THAT(client.status("job").trouble, HasSubstr("the ranks run their computations in another order"));
  EXPECT_FALSE(client.schedule("job", 0, planned[0].version, 0.3));

  const auto refused = [&](const OrderReport& one) {
    return client.ask("POST", "/v1/jobs/job/orders", to_json(one).dump()).status;
  };
  EXPECT_EQ(refused({9, 1, {}}), 409u);
  EXPECT_EQ(refused({0, 1, {"for ward"}}), 400u);
}

}  // namespace
}  // namespace flyball
