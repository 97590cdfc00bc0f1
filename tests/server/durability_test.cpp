// What the server has acknowledged survives: sudden death at any moment, and a disk that is full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>

#include "base/index.h"
#include "base/record.h"
#include "database/database.h"
#include "server/test_server.h"

namespace flyball::testing {
namespace {

// What one client was told is done.
struct Acknowledged {
  std::map<int, std::int64_t> last_sequence;  // by rank registered
  std::int64_t straggler_sequence = -1;
  std::int64_t version = 0;

  [[nodiscard]] std::int64_t reports() const {
    std::int64_t reports = 0;
    for (const auto& [rank, sequence] : last_sequence) reports += sequence + 1;
    return reports;
  }
};

PlanningServerOptions quick_options(const std::string& database) {
  PlanningServerOptions options = local_options(database);
  options.book.planning_threads = 1;
  return options;
}

// Writes until the server dies, noting what it was told.
class Writer {
 public:
  Writer(std::uint16_t port, const JobRequest& job, Acknowledged& told)
      : client_(port, kToken), job_(job), told_(told) {}

  // Ends with an exception when the server goes away.
  void write() {
    client_.ask("POST", "/v1/jobs", to_json(job_).dump());
    for (;;) {
      for (int rank = 0; rank < job_.ranks(); ++rank) step(rank);
    }
  }

 private:
  void step(int rank) {
    const Response registered = client_.ask("POST", "/v1/jobs/job/ranks", to_json(rank_of(job_, rank)).dump());
    if (registered.status / 100 != 2) return;
    const std::int64_t last = read_message<RankRegistered>(parse_json("answer", registered.body)).last_sequence;
    // Never less than what was acknowledged, in this life or an earlier one.
    EXPECT_GE(last, told_.last_sequence.count(rank) != 0 ? told_.last_sequence[rank] : -1);
    told_.last_sequence.try_emplace(rank, -1);
    const std::int64_t next = last + 1;
    const MeasurementReport report{rank,
                                   next,
                                   {{"forward", Megahertz(1000), Seconds(0.01), Joules(2), 1},
                                    {"backward", Megahertz(1000), Seconds(0.02), Joules(4), 1}}};
    if (client_.ask("POST", "/v1/jobs/job/measurements", to_json(report).dump()).status == 200) {
      told_.last_sequence[rank] = next;
    }
    const StragglerNotice notice{0, 1.0 + static_cast<double>(next % 10), Seconds(0), std::nullopt};
    const Response noticed = client_.ask("POST", "/v1/jobs/job/stragglers", to_json(notice).dump());
    if (noticed.status == 200) {
      told_.straggler_sequence = read_message<StragglerTaken>(parse_json("answer", noticed.body)).sequence;
    }
    client_.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
    const Response schedule = client_.ask("GET", "/v1/jobs/job/ranks/0/schedule");
    if (schedule.status == 200) {
      const auto version = read_message<RankSchedule>(parse_json("answer", schedule.body)).version;
      EXPECT_GE(version, told_.version);
      told_.version = version;
    }
  }

  Client client_;
  const JobRequest& job_;
  Acknowledged& told_;
};

TEST(Durability, NothingAcknowledgedIsLostWhenTheServerIsKilled) {
  const TempFolder folder;
  const JobRequest job = small_job("job", 2);
  Acknowledged told;
  std::mt19937 random(20240611);
  const auto begin = std::chrono::steady_clock::now();
  int lives = 0;
  for (; lives < 100; ++lives) {
    ServerProcess server(quick_options(folder / "server.db"));
    {  // what earlier lives have acknowledged is there
      Client client(server.port(), kToken);
      if (lives > 0 && !told.last_sequence.empty()) {
        const JobStatus status = client.status("job");
        EXPECT_GE(status.ranks_registered, std::ssize(told.last_sequence));
        if (told.straggler_sequence >= 0) {
          ASSERT_EQ(status.stragglers.size(), 1u);
          EXPECT_GE(status.stragglers[0].sequence, told.straggler_sequence);
        }
      }
      if (told.version > 0) {
        // The plan is made again, and says under the same number what it said.
        const auto schedule = client.schedule("job", 0);
        ASSERT_TRUE(schedule);
        EXPECT_GE(schedule->version, told.version);
      }
    }
    // The kill comes from a process of its own at a random moment; this one just goes on until it happens.
    // Lives become longer where the machine is too slow for a plan, and a report or two in each, in this time.
    const bool slow = told.version == 0 || told.reports() < std::int64_t{2} * lives;
    const int most = 60 + (slow ? 10 * lives : 0);
    const int milliseconds = std::uniform_int_distribution<int>(0, most)(random);
    const pid_t killer = ::fork();
    if (killer == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      server.kill_only();
      ::_exit(0);
    }
    Writer writer(server.port(), job, told);
    EXPECT_THROW(writer.write(), SystemError);
    ::waitpid(killer, nullptr, 0);
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(100)) break;
  }
  RecordProperty("lives", lives);
  RecordProperty("reports", static_cast<int>(told.reports()));
  EXPECT_GE(lives, 10);  // a hundred unless the machine crawls
  EXPECT_GE(told.reports(), lives);
  EXPECT_GT(told.version, 0);
}

TEST(Durability, AStragglerThatLastsAWhileIsKeptWithItsEnd) {
  const TempFolder folder;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, small_job());
    client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"other", 1.1, Seconds(0), 5, Seconds(3600)}));
  }
  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  const JobStatus status = client.status("job");
  ASSERT_EQ(status.stragglers.size(), 1u);
  EXPECT_EQ(status.stragglers[0].degree, 1.1);
  ASSERT_EQ(status.stragglers[0].announced.size(), 1u);
  EXPECT_EQ(status.stragglers[0].announced[0].degree, 1.0);
  EXPECT_EQ(status.stragglers[0].announced[0].sequence, 6);
  EXPECT_NEAR(status.stragglers[0].announced[0].remaining.value(), 3600.0, 60.0);
}

TEST(Durability, SumsAreTheSameAfterARestart) {
  const TempFolder folder;
  const JobRequest job = small_job();
  std::optional<RankSchedule> before;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, job);
    before = client.schedule("job", 1);
    ASSERT_TRUE(before);
    client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"other", 1.1, Seconds(0), 5}));
    before = client.schedule("job", 1, before->version);
    ASSERT_TRUE(before);
    client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{"other", 1.3, Seconds(3600), 6}));
  }
  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  const auto after = client.schedule("job", 1, before->version - 1);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->version, before->version);
  EXPECT_EQ(after->point, before->point);
  EXPECT_EQ(after->iteration_energy, before->iteration_energy);
  EXPECT_EQ(after->computations, before->computations);
  const JobStatus status = client.status("job");
  ASSERT_EQ(status.stragglers.size(), 1u);
  EXPECT_EQ(status.stragglers[0].degree, 1.1);
  ASSERT_EQ(status.stragglers[0].announced.size(), 1u);
  EXPECT_NEAR(status.stragglers[0].announced[0].remaining.value(), 3600.0, 60.0);
  // A report from before the death still counts once.
  const auto repeated =
      read_message<MeasurementsTaken>(client.post("/v1/jobs/job/measurements", to_json(reports_of(job, 0)[0])));
  EXPECT_TRUE(repeated.duplicate);
}

// The hardware has become three times slower (a power limit, say), and takes twice the energy. Every rank measures
// again: the new sweep replaces the old one, rather than to average with it (which would make it twice as slow, and 1.5
// times as dear). Until all have finished, the old sweep counts and the schedules stay, also for a server that was
// killed meanwhile.
TEST(Durability, ASecondSweepReplacesTheFirst) {
  const TempFolder folder;
  const JobRequest job = small_job();
  const auto frontier_after = [&](Client& client, std::int64_t version) {
    EXPECT_TRUE(client.schedule("job", 0, version));
    return read_message<FrontierReport>(client.get("/v1/jobs/job/frontier"));
  };
  const auto report_again = [&](Client& client, int rank, std::size_t begin, std::size_t end) {
    const auto reports = reports_of(job, rank);
    for (std::size_t i = begin; i < end; ++i) {
      MeasurementReport report = reports[i];
      report.sequence += std::ssize(reports);
      for (InstructionMeasurement& one : report.measurements) {
        one.time = one.time * 3.0;
        one.energy = one.energy * 2.0;
      }
      client.post("/v1/jobs/job/measurements", to_json(report));
    }
    if (end < reports.size()) return;
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  };
  FrontierReport first;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, job);
    first = frontier_after(client, 0);
    report_again(client, 1, 0, 7);  // not to the end
    report_again(client, 0, 0, 20);
  }
  FrontierReport second;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    const auto kept = client.schedule("job", 0, first.version - 1);
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->version, first.version);
    report_again(client, 1, 7, 20);
    second = frontier_after(client, first.version);
  }
  EXPECT_NEAR(second.max_clock_time / first.max_clock_time, 3.0, 1e-9);
  EXPECT_NEAR(second.t_star / first.t_star, 3.0, 1e-9);
  // Computations take twice the energy; what blocking takes grows threefold: 75 W on 2 stages while the iteration
  // lasts, less what the 4 microbatches take on each of them.
  double computing = 0.0;
  double busy = 0.0;
  for (int rank = 0; rank < 2; ++rank) {
    const MeasurementReport fastest = reports_of(job, rank)[0];
    for (const InstructionMeasurement& one : fastest.measurements) {
      computing += 4 * one.energy.value();
      busy += 4 * one.time.value();
    }
  }
  const double waiting = 75.0 * (2 * first.max_clock_time.value() - busy);
  EXPECT_NEAR(first.max_clock_energy.value(), computing + waiting, 1e-6);
  EXPECT_NEAR(second.max_clock_energy.value(), 2 * computing + 3 * waiting, 1e-6);

  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  const FrontierReport again = frontier_after(client, second.version - 1);
  EXPECT_EQ(again.version, second.version);
  EXPECT_EQ(again.max_clock_time, second.max_clock_time);
  EXPECT_EQ(again.max_clock_energy, second.max_clock_energy);
}

// GPUs that wait drew 150 W in the first sweep; the second measures the same otherwise, but saw no waiting to speak of,
// so that its draw is unknown: 75 W. With maximum clocks the 2 stages wait 2 T less what the 4 microbatches take on
// each of them, and only this is charged otherwise.
TEST(Durability, ASweepWithoutWaitingForgetsWhatItDrew) {
  const TempFolder folder;
  const JobRequest job = small_job();
  const auto frontier_after = [&](Client& client, std::int64_t version) {
    EXPECT_TRUE(client.schedule("job", 0, version));
    return read_message<FrontierReport>(client.get("/v1/jobs/job/frontier"));
  };
  const auto sweep = [&](Client& client, int rank, std::int64_t number) {
    const auto reports = reports_of(job, rank);
    for (MeasurementReport report : reports) {
      if (report.sequence == 0 && number == 0) {
        report.measurements.push_back({"waiting", Megahertz(0), Seconds(1), Joules(150), 1});
      }
      report.sequence += number * std::ssize(reports);
      client.post("/v1/jobs/job/measurements", to_json(report));
    }
  };
  const auto finish = [](Client& client, int rank) {
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  };
  FrontierReport first;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    client.post("/v1/jobs", to_json(job), 201);
    for (int rank = 0; rank < 2; ++rank) {
      client.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
      sweep(client, rank, 0);
      finish(client, rank);
    }
    first = frontier_after(client, 0);
    for (int rank = 0; rank < 2; ++rank) sweep(client, rank, 1);
    finish(client, 1);
  }
  FrontierReport second;
  {
    // The second sweep is not over: a killed server still plans with the first.
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    EXPECT_EQ(frontier_after(client, first.version - 1).max_clock_energy, first.max_clock_energy);
    finish(client, 0);
    second = frontier_after(client, first.version);
  }
  double busy = 0.0;
  for (int rank = 0; rank < 2; ++rank) {
    const MeasurementReport fastest = reports_of(job, rank)[0];
    for (const InstructionMeasurement& one : fastest.measurements) busy += 4 * one.time.value();
  }
  const double waiting = 2 * first.max_clock_time.value() - busy;
  EXPECT_EQ(second.max_clock_time, first.max_clock_time);
  EXPECT_NEAR((first.max_clock_energy - second.max_clock_energy).value(), (150.0 - 75.0) * waiting, 1e-6);

  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  EXPECT_EQ(frontier_after(client, second.version - 1).max_clock_energy, second.max_clock_energy);
}

// A rank dies in the middle of its sweep; the one in its place begins anew and says so. Nothing of the first counts.
TEST(Durability, ASweepThatBeginsAnewForgetsTheHalfOfAnother) {
  const TempFolder folder;
  const JobRequest job = small_job();
  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(job), 201);
  for (int rank = 0; rank < 2; ++rank) client.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
  MeasurementReport torn = reports_of(job, 0)[0];
  for (InstructionMeasurement& one : torn.measurements) one.time = one.time * 9.0;
  client.post("/v1/jobs/job/measurements", to_json(torn));
  std::vector<Seconds> busy(2);
  for (int rank = 0; rank < 2; ++rank) {
    for (MeasurementReport report : reports_of(job, rank)) {
      report.begins_sweep = rank == 0 && report.sequence == 0;
      ++report.sequence;
      client.post("/v1/jobs/job/measurements", to_json(report));
    }
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
    const MeasurementReport fastest = reports_of(job, rank)[0];
    for (const InstructionMeasurement& one : fastest.measurements) busy[at(rank)] += one.time;
  }
  ASSERT_TRUE(client.schedule("job", 0));
  // 1F1B of 2 stages and 4 microbatches is over when the slower stage has done its 4, and the other about one.
  const auto frontier = read_message<FrontierReport>(client.get("/v1/jobs/job/frontier"));
  EXPECT_LT(frontier.max_clock_time, 5.0 * std::max(busy[0], busy[1]));
}

TEST(Durability, AFullDiskRefusesWritesAndServesReads) {
  const TempFolder folder;
  const JobRequest job = small_job("job", 2);
  std::int64_t last = 0;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, job);
    const auto schedule = client.schedule("job", 0);
    ASSERT_TRUE(schedule);
    last = client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0)))["last_sequence"];

    server.limit_files(4096);
    const auto refused = [&](const char* method, const std::string& path, const nlohmann::ordered_json& body) {
      const Response response = client.ask(method, path, body.dump());
      EXPECT_EQ(response.status, 507u) << path << response.body;
      EXPECT_EQ(response.content_type, "application/problem+json");
    };
    const MeasurementReport report{0, last + 1, {{"p2p", Megahertz(0), Seconds(0.01), Joules(1), 1}}};
    for (int attempt = 0; attempt < 3; ++attempt) {
      refused("POST", "/v1/jobs", to_json(small_job("another")));
      refused("POST", "/v1/jobs/job/measurements", to_json(report));
      refused("POST", "/v1/jobs/job/stragglers", to_json(StragglerNotice{2, 1.2, Seconds(0), 1}));
      refused("DELETE", "/v1/jobs/job", {});
    }
    EXPECT_EQ(client.ask("GET", "/v1/jobs/another").status, 404u);
    EXPECT_EQ(client.status("job").ranks_registered, 4);
    EXPECT_EQ(client.schedule("job", 0)->computations, schedule->computations);
    EXPECT_FALSE(client.schedule("job", 0, schedule->version, 0));

    server.limit_files(RLIM_INFINITY);
    // The same requests, as a client that was refused sends them again.
    EXPECT_FALSE(read_message<MeasurementsTaken>(client.post("/v1/jobs/job/measurements", to_json(report))).duplicate);
    client.post("/v1/jobs/job/stragglers", to_json(StragglerNotice{2, 1.2, Seconds(0), 1}));
    EXPECT_TRUE(client.schedule("job", 0, schedule->version));
    server.limit_files(4096);
    refused("POST", "/v1/jobs", to_json(small_job("another")));
  }
  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  EXPECT_EQ(client.post("/v1/jobs/job/ranks", to_json(rank_of(job, 0)))["last_sequence"], last + 1);
  EXPECT_EQ(client.status("job").stragglers.at(0).degree, 1.2);
  client.post("/v1/jobs", to_json(small_job("another")), 201);
}

TEST(Durability, AJobThatCannotBeReadDoesNotStopTheOthers) {
  const TempFolder folder;
  {
    ServerProcess server(quick_options(folder / "server.db"));
    Client client(server.port(), kToken);
    run_profiling(client, small_job("good"));
    for (const char* id : {"torn", "odd"}) client.post("/v1/jobs", to_json(small_job(id)), 201);
    client.post("/v1/jobs/odd/ranks", to_json(rank_of(small_job(), 1)), 201);
  }
  {
    Database database(folder / "server.db");
    database.execute("UPDATE jobs SET token='x' WHERE request LIKE '%torn%'");
    // Well-formed, but no rank of this job: it would be counted beyond the stages.
    database.execute("UPDATE ranks SET body=json_set(body,'$.pp_rank',900) WHERE rank=1 AND job=3");
  }
  {
    EventLoop loop;
    const PlanningServer server(loop, quick_options(folder / "server.db"));
    EXPECT_EQ(server.job_count(), 1u);
    ASSERT_EQ(server.troubles().size(), 2u);
    EXPECT_THAT(server.troubles()[0], ::testing::HasSubstr("(torn): column token"));
    EXPECT_THAT(server.troubles()[1], ::testing::HasSubstr("(odd): pp_rank is 900"));
  }
  ServerProcess server(quick_options(folder / "server.db"));
  Client client(server.port(), kToken);
  EXPECT_TRUE(client.schedule("good", 0));
  EXPECT_THAT(client.ask("GET", "/v1/jobs/torn").body, ::testing::HasSubstr("could not be read"));
  EXPECT_EQ(client.ask("GET", "/v1/jobs/torn").status, 404u);
  // Registered anew it would hide the row that may still be mended.
  client.post("/v1/jobs", to_json(small_job("torn")), 409);
  client.post("/v1/jobs", to_json(small_job("new")), 201);
}

TEST(Durability, TwoServersDoNotShareADatabase) {
  const TempFolder folder;
  ServerProcess server(quick_options(folder / "server.db"));
  EventLoop loop;
  try {
    PlanningServer second(loop, quick_options(folder / "server.db"));
    ADD_FAILURE() << "a second server has opened the database";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("another process"));
  }
}

}  // namespace
}  // namespace flyball::testing
