// Jobs that nobody comes back for, and a table that is full of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/record.h"
#include "database/database.h"
#include "server/test_server.h"

namespace flyball::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// What a server has said to its administrator.
class Lines {
 public:
  [[nodiscard]] JobBook::Log log() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
  }
  [[nodiscard]] std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

void wait_until_gone(Client& client, const std::string& job) {
  while (client.ask("GET", "/v1/jobs/" + job).status != 404u) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// Registers a job with the client's token, or none, as far as the server takes it, and its first rank.
unsigned begin_job(Client& client, std::uint16_t port, const std::string& id) {
  const Response answer = client.ask("POST", "/v1/jobs", to_json(small_job(id)).dump());
  if (answer.status != 201u) return answer.status;
  Client(port, kToken).post("/v1/jobs/" + id + "/ranks", to_json(rank_of(small_job(), 0)), 201);
  return answer.status;
}

bool is_there(std::uint16_t port, const std::string& job) {
  return Client(port, kToken).ask("GET", "/v1/jobs/" + job).status == 200u;
}

TEST(Expiry, AJobOfWhichNobodyIsHeardGoesAndStaysAway) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "server.db");
  options.book.silence = Seconds(4.0);
  Lines lines;
  options.log = lines.log();
  {
    ServerThread server(options);
    Client client(server.port(), kToken);
    run_profiling(client, small_job("silent"));
    client.post("/v1/jobs", to_json(small_job("heard")), 201);
    client.post("/v1/jobs/heard/ranks", to_json(rank_of(small_job(), 0)), 201);
    // Asking for a state is no sign of life; a rank that waits for its schedule is, however seldom it asks.
    const std::string expired = "flyball_server_jobs_expired_total{why=\"silent\"} 1\n";
    while (client.ask("GET", "/metrics").body.find(expired) == std::string::npos) {
      (void)client.ask("GET", "/v1/jobs/silent");
      EXPECT_EQ(client.ask("GET", "/v1/jobs/heard/ranks/0/schedule?wait_s=0.1").status, 204u);
    }
    EXPECT_EQ(client.ask("GET", "/v1/jobs/silent").status, 404u);
    EXPECT_EQ(client.ask("GET", "/v1/jobs/heard").status, 200u);
    EXPECT_THAT(lines.all(), Contains(HasSubstr("job silent has expired: none of its ranks has been heard for")));
  }
  options.book.silence = Seconds(0);  // none expires any more
  ServerThread again(options);
  Client client(again.port(), kToken);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/silent").status, 404u);
  // Its id is free, for its ranks, too, should they come back.
  client.post("/v1/jobs", to_json(small_job("silent")), 201);
}

TEST(Expiry, ARestartDoesNotMakeAJobYoungAgain) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "server.db");
  {
    ServerThread server(options);
    Client client(server.port(), kToken);
    for (const char* job : {"old", "young", "unknown"}) client.post("/v1/jobs", to_json(small_job(job)), 201);
  }
  {
    Database database(folder / "server.db");
    database.execute("UPDATE jobs SET heard=heard-5000 WHERE request LIKE '%\"old\"%'");
    database.execute("UPDATE jobs SET heard=0 WHERE request LIKE '%\"unknown\"%'");  // as of an older server
  }
  options.book.silence = Seconds(4000);
  options.book.return_grace = Seconds(0.2);
  ServerThread server(options);
  Client client(server.port(), kToken);
  wait_until_gone(client, "old");
  EXPECT_EQ(client.ask("GET", "/v1/jobs/young").status, 200u);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/unknown").status, 200u);
}

// What kept a job alive is on the disk: a server that is killed and comes back knows when it was heard.
TEST(Expiry, WhatWasHeardIsStored) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "server.db");
  options.book.silence = Seconds(48.0);  // the disk knows it to a second
  options.book.return_grace = Seconds(1.0);
  const auto heard = [&] {
    Store store(folder / "server.db", [](const std::function<void()>& action) { action(); });
    return store.load().at(0).job.heard;
  };
  {
    ServerThread server(options);
    Client client(server.port(), kToken);
    client.post("/v1/jobs", to_json(small_job()), 201);
  }
  const double registered = heard();
  EXPECT_GT(registered, 1.7e9);  // since 1970
  {
    ServerThread server(options);
    Client client(server.port(), kToken);
    client.post("/v1/jobs/job/ranks", to_json(rank_of(small_job(), 0)), 201);
    const std::string writes = "flyball_server_store_writes_total ";
    // The registration is one write; what the rank's asking leads to is the second.
    while (client.ask("GET", "/metrics").body.find(writes + "1\n") != std::string::npos) {
      client.ask("GET", "/v1/jobs/job/ranks/0/schedule");
    }
  }
  EXPECT_GE(heard(), registered + 1.0);
}

TEST(Expiry, AFullTableDropsTheJobThatHasWaitedLongestForItsFirstRank) {
  PlanningServerOptions options = local_options();
  options.book.jobs = 3;
  Lines lines;
  options.log = lines.log();
  ServerThread server(options);
  Client client(server.port(), kToken);
  for (const char* job : {"first", "started", "last"}) client.post("/v1/jobs", to_json(small_job(job)), 201);
  client.post("/v1/jobs/started/ranks", to_json(rank_of(small_job(), 0)), 201);
  client.post("/v1/jobs", to_json(small_job("fourth")), 201);
  wait_until_gone(client, "first");
  // However many are registered, a job with a rank stays.
  for (int i = 0; i < 50; ++i) client.post("/v1/jobs", to_json(small_job("more-" + std::to_string(i))), 201);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/started").status, 200u);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/more-49").status, 200u);
  EXPECT_THAT(lines.all(), Contains(HasSubstr("job first has expired: the server was full")));
}

// Where every job has ranks, the one makes room that has been silent for a 24th of what lets it expire: an hour of a
// day.
TEST(Expiry, AFullTableDropsTheLongestSilentJobWhereAllHaveBegun) {
  PlanningServerOptions options = local_options();
  options.book.jobs = 2;
  options.book.silence = Seconds(12.0);  // a 24th: 0.5 s
  options.book.least_silence_when_full = Seconds(0);
  Lines lines;
  options.log = lines.log();
  ServerThread server(options);
  Client client(server.port(), kToken);
  const auto begin = [&](const char* job) {
    client.post("/v1/jobs", to_json(small_job(job)), 201);
    client.post(fmt::format("/v1/jobs/{}/ranks", job), to_json(rank_of(small_job(), 0)), 201);
  };
  begin("silent");
  begin("heard");
  const std::string third = to_json(small_job("third")).dump();
  while (client.ask("POST", "/v1/jobs", third).status != 201u) {
    EXPECT_EQ(client.ask("GET", "/v1/jobs/heard/ranks/0/schedule").status, 204u);
  }
  wait_until_gone(client, "silent");
  EXPECT_EQ(client.ask("GET", "/v1/jobs/heard").status, 200u);
  EXPECT_THAT(lines.all(), Contains(HasSubstr("job silent has expired: the server was full, and none of its ranks")));
}

TEST(Expiry, AFullTableKeepsJobsThatAreHeardAndThoseThatNeverExpire) {
  PlanningServerOptions options = local_options();
  options.book.jobs = 1;
  for (const double silence : {0.0, 86'400.0}) {
    options.book.silence = Seconds(silence);
    options.book.least_silence_when_full = Seconds(0);
    ServerThread server(options);
    Client client(server.port(), kToken);
    client.post("/v1/jobs", to_json(small_job()), 201);
    client.post("/v1/jobs/job/ranks", to_json(rank_of(small_job(), 0)), 201);
    EXPECT_EQ(client.ask("POST", "/v1/jobs", to_json(small_job("other")).dump()).status, 429u);
    EXPECT_EQ(client.ask("GET", "/v1/jobs/job").status, 200u);
  }
}

// A server that was away knows of a long silence that was its own: the ranks have the time to come back, all of them.
TEST(Expiry, AFullTableKeepsJobsWhoseRanksCannotHaveComeBackYet) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "server.db");
  options.book.jobs = 2;
  options.book.silence = Seconds(2400.0);  // a 24th: 100 s
  options.book.least_silence_when_full = Seconds(0);
  {
    ServerThread server(options);
    Client client(server.port());
    for (const char* job : {"a", "b"}) EXPECT_EQ(begin_job(client, server.port(), job), 201u);
  }
  Database(folder / "server.db").execute("UPDATE jobs SET heard=heard-1000");
  {
    ServerThread server(options);
    Client client(server.port());
    EXPECT_EQ(begin_job(client, server.port(), "c"), 429u);
    EXPECT_TRUE(is_there(server.port(), "a"));
    EXPECT_TRUE(is_there(server.port(), "b"));
  }
  options.book.return_grace = Seconds(0.2);
  ServerThread server(options);
  Client client(server.port());
  // What has been heard again stays; the other one has had its time.
  EXPECT_EQ(Client(server.port(), kToken).ask("GET", "/v1/jobs/a/ranks/0/schedule").status, 204u);
  while (begin_job(client, server.port(), "c") != 201u) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(is_there(server.port(), "a"));
  EXPECT_FALSE(is_there(server.port(), "b"));
}

// Whoever holds the administrator's token is one party here, everybody else at 127.0.0.1 another.
TEST(Expiry, AStrangerMakesRoomByJobsOfHisOwn) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.book.jobs = 4;
  options.book.silence = Seconds(48.0);  // a 24th: 2 s
  options.book.least_silence_when_full = Seconds(0);
  ServerThread server(options);
  Client owner(server.port(), kAdministrator);
  Client stranger(server.port());
  EXPECT_EQ(begin_job(owner, server.port(), "paused"), 201u);  // silent for longer than any other from here on
  for (int i = 0; i < 3; ++i) EXPECT_EQ(begin_job(stranger, server.port(), fmt::format("first-{}", i)), 201u);
  for (int i = 0; i < 3; ++i) {
    while (begin_job(stranger, server.port(), fmt::format("next-{}", i)) != 201u) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_TRUE(is_there(server.port(), "paused"));
}

TEST(Expiry, WhoFillsTheTableMakesRoomForOthersUntilTheyHoldAsMany) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.book.jobs = 5;
  options.book.least_silence_when_full = Seconds(0);  // jobs of one's own go after an hour
  ServerThread server(options);
  Client owner(server.port(), kAdministrator);
  Client stranger(server.port());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(begin_job(stranger, server.port(), fmt::format("many-{}", i)), 201u);
  EXPECT_EQ(begin_job(stranger, server.port(), "many-5"), 429u);
  // 5 and 0 become 4 and 1, then 3 and 2. Then they would change places.
  EXPECT_EQ(begin_job(owner, server.port(), "one"), 201u);
  EXPECT_EQ(begin_job(owner, server.port(), "two"), 201u);
  EXPECT_EQ(begin_job(owner, server.port(), "three"), 429u);
  EXPECT_EQ(begin_job(stranger, server.port(), "many-6"), 429u);
  // The longest silent ones have gone.
  EXPECT_FALSE(is_there(server.port(), "many-0"));
  EXPECT_FALSE(is_there(server.port(), "many-1"));
  EXPECT_TRUE(is_there(server.port(), "many-2"));
}

// Of 128 places 2 are few, and 8 are kept for parties that hold less than that. Nobody has been silent for long.
TEST(Expiry, TheLastPlacesAreForThoseWhoHoldFew) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.book.jobs = 128;
  ServerThread server(options);
  Client owner(server.port(), kAdministrator);
  Client stranger(server.port());
  for (int i = 0; i < 120; ++i) EXPECT_EQ(begin_job(stranger, server.port(), fmt::format("many-{}", i)), 201u);
  const Response refused = stranger.ask("POST", "/v1/jobs", to_json(small_job("many-120")).dump());
  EXPECT_EQ(refused.status, 429u);
  EXPECT_THAT(refused.body, HasSubstr("holds 120 jobs, and keeps its last 8 places for those who hold fewer than 2"));
  EXPECT_EQ(begin_job(owner, server.port(), "one"), 201u);
  EXPECT_EQ(begin_job(owner, server.port(), "two"), 201u);
  EXPECT_EQ(begin_job(owner, server.port(), "three"), 429u);
  for (int i = 0; i < 120; ++i) EXPECT_TRUE(is_there(server.port(), fmt::format("many-{}", i)));
}

// There is room for the operations of four and a half small jobs. A stranger has two small jobs and one of twice as
// many operations, 4 in all. For the owner's small job the large one goes. A large one of the owner would leave him
// more than the stranger has, and nothing goes.
TEST(Expiry, OperationsOfAllJobsAreShared) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  JobRequest small = small_job();
  JobRequest large = small;
  large.microbatches *= 2;
  const std::int64_t one = operations_of(small);
  options.book.total_operations = 4 * one + one / 2;
  options.book.least_silence_when_full = Seconds(0);
  ServerThread server(options);
  Client owner(server.port(), kAdministrator);
  Client stranger(server.port());
  const auto begin = [&](Client& client, JobRequest request, const std::string& id) {
    request.id = id;
    const Response answer = client.ask("POST", "/v1/jobs", to_json(request).dump());
    if (answer.status == 201u)
      Client(server.port(), kToken).post("/v1/jobs/" + id + "/ranks", to_json(rank_of(request, 0)), 201);
    return answer;
  };
  EXPECT_EQ(begin(stranger, small, "first").status, 201u);
  EXPECT_EQ(begin(stranger, large, "large").status, 201u);
  EXPECT_EQ(begin(stranger, small, "last").status, 201u);
  const Response refused = begin(stranger, small, "more");
  EXPECT_EQ(refused.status, 429u);
  EXPECT_THAT(refused.body, HasSubstr(fmt::format("may have {} operations, those of all jobs have {}, and the server "
                                                  "holds {} (--total-operations)",
                                                  one, 4 * one, options.book.total_operations)));
  EXPECT_EQ(begin(owner, small, "owned").status, 201u);
  wait_until_gone(owner, "large");
  EXPECT_TRUE(is_there(server.port(), "first"));
  EXPECT_TRUE(is_there(server.port(), "last"));
  EXPECT_EQ(begin(owner, large, "again").status, 429u);
  EXPECT_TRUE(is_there(server.port(), "first"));
  EXPECT_TRUE(is_there(server.port(), "last"));
}

// A 16th of 32 places: two jobs are safe from all others, be these as many parties as they like; three are not.
TEST(Expiry, WhoHoldsFewKeepsThemAgainstManyAddresses) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "server.db");
  options.book.return_grace = Seconds(0);
  options.book.least_silence_when_full = Seconds(0);
  {
    ServerThread server(options);
    Client client(server.port());
    for (int i = 0; i < 32; ++i) EXPECT_EQ(begin_job(client, server.port(), fmt::format("job-{}", i)), 201u);
  }
  options.book.jobs = 32;
  Database(folder / "server.db").execute("UPDATE jobs SET party='192.0.2.' || max(job, 2)");
  {
    ServerThread server(options);
    Client client(server.port());
    EXPECT_EQ(begin_job(client, server.port(), "new"), 429u);
  }
  Database(folder / "server.db").execute("UPDATE jobs SET party='192.0.2.3' WHERE job<=3");
  ServerThread server(options);
  Client client(server.port());
  EXPECT_EQ(begin_job(client, server.port(), "new"), 201u);
  EXPECT_FALSE(is_there(server.port(), "job-0"));
}

// Of six jobs four have to go before there are two, and room for a third.
TEST(Expiry, ALowerLimitIsKept) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "server.db");
  options.book.silence = Seconds(2400.0);  // a 24th: 100 s
  options.book.least_silence_when_full = Seconds(0);
  options.book.return_grace = Seconds(0);
  {
    ServerThread server(options);
    Client client(server.port());
    for (int i = 0; i < 6; ++i) EXPECT_EQ(begin_job(client, server.port(), fmt::format("job-{}", i)), 201u);
  }
  options.book.jobs = 3;
  {
    ServerThread server(options);
    Client client(server.port());
    EXPECT_EQ(begin_job(client, server.port(), "new"), 429u);  // nobody has been silent for long
  }
  Database(folder / "server.db").execute("UPDATE jobs SET heard=heard-1000");
  ServerThread server(options);
  Client client(server.port());
  EXPECT_EQ(begin_job(client, server.port(), "new"), 201u);
  EXPECT_EQ(client.get("/v1/jobs")["jobs"].size(), 3u);
}

TEST(Expiry, WhoFillsTheTableDoesNotFillTheLog) {
  PlanningServerOptions options = local_options();
  options.book.jobs = 1;
  Lines lines;
  options.log = lines.log();
  ServerThread server(options);
  Client client(server.port(), kToken);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 400; ++i) client.post("/v1/jobs", to_json(small_job("job-" + std::to_string(i))), 201);
  wait_until_gone(client, "job-398");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  // Ten a second, and twenty at once.
  EXPECT_LE(static_cast<double>(lines.all().size()), 21.0 + 10.0 * took.count());
}

TEST(Expiry, AFullTableDropsAllThatHaveWaitedLong) {
  PlanningServerOptions options = local_options();
  options.book.jobs = 3;
  options.book.unstarted = Seconds(0);
  ServerThread server(options);
  Client client(server.port(), kToken);
  for (const char* job : {"a", "b", "c", "d"}) client.post("/v1/jobs", to_json(small_job(job)), 201);
  for (const char* job : {"a", "b", "c"}) wait_until_gone(client, job);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/d").status, 200u);
  EXPECT_THAT(client.ask("GET", "/metrics").body,
              HasSubstr("flyball_server_jobs_expired_total{why=\"unstarted\"} 3\n"));
}

}  // namespace
}  // namespace flyball::testing
