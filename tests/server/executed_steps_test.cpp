// EnvPipe's reconfiguration by the steps that ranks report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/record.h"
#include "server/reporting_ranks.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using namespace testing;

JobRequest envpipe_job(const std::string& id, bool executed_steps) {
  JobRequest job = small_job(id);
  job.stages = 4;
  job.microbatches = 6;
  job.planner = "envpipe";
  job.executed_steps = executed_steps;
  return job;
}

TEST(ExecutedSteps, LeadToThePlanThatEmulatedOnesLeadTo) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = envpipe_job("executed", true);
  run_profiling(client, job);
  Ranks ranks(client, job);
  ASSERT_TRUE(ranks.fetch());
  const Seconds slow = ranks.schedules()[0].iteration_time;
  int steps = 0;
  while (ranks.schedules()[0].report_steps) {
    ASSERT_LT(steps, 500);
    for (const StepReport& report : ranks.run(++steps)) ranks.report(report);
    ASSERT_TRUE(ranks.fetch());
  }
  EXPECT_GT(steps, 3);
  // It began slower than it is now, as fast as all-maximum clocks.
  const FrontierReport frontier = read_message<FrontierReport>(client.get("/v1/jobs/executed/frontier"));
  EXPECT_GT(slow, ranks.schedules()[0].iteration_time);
  EXPECT_LT(ranks.schedules()[0].iteration_time, 1.001 * frontier.max_clock_time);
  EXPECT_LT(ranks.schedules()[0].iteration_energy, frontier.max_clock_energy);

  const JobRequest emulated = envpipe_job("emulated", false);
  run_profiling(client, emulated);
  for (int rank = 0; rank < job.stages; ++rank) {
    const auto schedule = client.schedule("emulated", rank);
    ASSERT_TRUE(schedule);
    EXPECT_FALSE(schedule->report_steps);
    EXPECT_EQ(schedule->computations, ranks.schedules()[static_cast<std::size_t>(rank)].computations);
  }
}

// The server is killed in every step, in three ways in turn: when the ranks have the next schedule, when half of
// them have reported, and when all have, but the server may not have come to an adjustment. Every time the next server
// says what the last one said, and a step is lost at most.
TEST(ExecutedSteps, GoOnWhereAKilledServerWas) {
  const TempFolder folder;
  const JobRequest job = envpipe_job("job", true);
  const auto report_all = [](Ranks& ranks, int step) {
    for (const StepReport& report : ranks.run(step)) ranks.report(report);
  };
  int usual_steps = 0;
  std::vector<RankSchedule> usual;
  {
    const ServerProcess server(local_options());
    Client client(server.port(), kToken);
    run_profiling(client, job);
    Ranks ranks(client, job);
    ASSERT_TRUE(ranks.fetch());
    while (ranks.schedules()[0].report_steps && usual_steps < 500) {
      report_all(ranks, ++usual_steps);
      ASSERT_TRUE(ranks.fetch());
    }
    usual = ranks.schedules();
  }
  ASSERT_GT(usual_steps, 3);

  const PlanningServerOptions options = local_options(folder / "server.db");
  auto server = std::make_unique<ServerProcess>(options);
  auto client = std::make_unique<Client>(server->port(), kToken);
  run_profiling(*client, job);
  Ranks ranks(*client, job);
  ASSERT_TRUE(ranks.fetch());
  const auto begin_another_server = [&] {
    server->kill();
    server = std::make_unique<ServerProcess>(options);
    client = std::make_unique<Client>(server->port(), kToken);
    ranks.talk_to(*client);
  };
  const auto same_again = [&] {
    for (int rank = 0; rank < job.stages; ++rank) {
      const RankSchedule& known = ranks.schedules()[static_cast<std::size_t>(rank)];
      const auto again = client->schedule(job.id, rank, known.version - 1);
      if (!again || again->version != known.version || again->computations != known.computations ||
          again->report_steps != known.report_steps) {
        return false;
      }
    }
    return true;
  };
  enum class Death { kWithTheNextSchedule, kBetweenReports, kAfterReports };
  int steps = 0;
  int lost = 0;
  while (ranks.schedules()[0].report_steps && steps < 500) {
    const auto death = static_cast<Death>(steps % 3);
    const std::vector<StepReport> reports = ranks.run(++steps);
    if (death == Death::kBetweenReports) {
      ranks.report(reports[0]);
      ranks.report(reports[1]);
      begin_another_server();
      ASSERT_TRUE(same_again()) << "step " << steps;
      ++lost;
      continue;
    }
    for (const StepReport& report : reports) ranks.report(report);
    if (death == Death::kAfterReports) {
      begin_another_server();
      const auto now = client->schedule(job.id, 0, ranks.version() - 1);
      ASSERT_TRUE(now);
      if (now->version == ranks.version()) {
        ASSERT_TRUE(same_again()) << "step " << steps;
        ++lost;
        continue;
      }
    }
    ASSERT_TRUE(ranks.fetch());
    if (death == Death::kWithTheNextSchedule) {
      begin_another_server();
      ASSERT_TRUE(same_again()) << "step " << steps;
    }
  }
  EXPECT_EQ(steps, usual_steps + lost);
  for (std::size_t rank = 0; rank < usual.size(); ++rank) {
    EXPECT_EQ(ranks.schedules()[rank].computations, usual[rank].computations);
  }
  begin_another_server();
  EXPECT_TRUE(same_again()) << "the search is over, also after a restart";
}

// Reports of different steps, of an older version, of other pipelines and of nobody make no step.
TEST(ExecutedSteps, CountOnlyTogether) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = envpipe_job("job", true);
  run_profiling(client, job);
  Ranks ranks(client, job);
  ASSERT_TRUE(ranks.fetch());
  const std::vector<StepReport> first = ranks.run(1);
  const std::vector<StepReport> second = ranks.run(2);
  for (int rank = 0; rank < 3; ++rank) ranks.report(first[static_cast<std::size_t>(rank)]);
  ranks.report(second[3]);
  StepReport old = first[3];
  old.version = ranks.version() + 1;
  ranks.report(old);
  EXPECT_FALSE(client.schedule("job", 0, ranks.version(), 0.2));
  ranks.report(first[3]);
  EXPECT_TRUE(client.schedule("job", 0, ranks.version()));
  // What belongs to the version before changes nothing any more.
  ranks.report(second[0]);

  const auto refused = [&](const StepReport& report, unsigned status, const std::string& words) {
    const Response response = client.ask("POST", "/v1/jobs/job/steps", to_json(report).dump());
    EXPECT_EQ(response.status, status);
    EXPECT_THAT(response.body, HasSubstr(words));
  };
  ASSERT_TRUE(ranks.fetch());
  StepReport bad = ranks.run(3)[0];
  bad.begin.pop_back();
  bad.end.pop_back();
  refused(bad, 400, "stage 0 runs 12 computations");
  bad.begin[3] = Seconds(-1);
  refused(bad, 400, "begin_s[3]");
  bad = ranks.run(3)[0];
  bad.rank = 99;
  refused(bad, 409, "has not registered");
}

}  // namespace
}  // namespace flyball
