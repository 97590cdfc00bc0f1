// A planning server that asks two agents, with GPUs in memory, how their nodes are.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <thread>

#include "net/event_loop.h"
#include "net/router.h"
#include "net/server.h"
#include "server/test_server.h"
#include "support/agent_host.h"
#include "support/certificate.h"
#include "support/event_stream.h"

namespace flyball {
namespace {

using testing::AgentHost;
using testing::Client;
using ::testing::HasSubstr;
using testing::kAdministrator;
using testing::ServerEvent;
using testing::ServerThread;
using testing::small_job;

class Fleet : public ::testing::Test {
 protected:
  PlanningServerOptions options() {
    PlanningServerOptions made = testing::local_options();
    made.administrator_token = kAdministrator;
    made.fleet.nodes.addresses = {{"n1", first_.config.socket_path}, {"n2", second_.config.socket_path}};
    made.fleet.nodes.period = Seconds(0.05);
    made.fleet.nodes.silent_after = Seconds(3.0);
    return made;
  }

  // Asks until the answer is as wanted, for as long as a very busy machine may take.
  nlohmann::json ask_until(const std::string& target, const std::function<bool(const nlohmann::json&)>& wanted) {
    nlohmann::json told;
    for (int i = 0; i < 600; ++i) {
      told = client_.get(target);
      if (wanted(told)) return told;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ADD_FAILURE() << target << " has never been as expected: " << told.dump(2);
    return told;
  }

  // GPU i of a node in memory draws 100 + i W.
  AgentHost first_{2};
  AgentHost second_{3};
  ServerThread server_{options()};
  Client client_{server_.port(), kAdministrator};
};

TEST_F(Fleet, TellsNodesAndWhatTheirGpusDo) {
  LeaseRequest request;
  request.gpus = {1};
  request.job = "job";
  request.purpose = "a training";
  AgentLease lease = AgentClient(first_.endpoint(), "").lease(request);
  lease.lock_sm_clocks(1, {Megahertz(1005), Megahertz(1005)});
  const nlohmann::json told = ask_until("/v1/nodes", [](const nlohmann::json& now) {
    return now["nodes"][1]["silent"] == false && now["nodes"][0]["gpus"].size() == 2 &&
           now["nodes"][0]["gpus"][1]["asked_clock_mhz"] == 1005;
  });
  const nlohmann::json& gpu = told["nodes"][0]["gpus"][1];
  EXPECT_EQ(told["nodes"][0]["node"], "n1");
  EXPECT_EQ(gpu["job"], "job");
  EXPECT_EQ(gpu["purpose"], "a training");
  EXPECT_EQ(gpu["power_w"], 101.0);
  EXPECT_EQ(told["nodes"][1]["gpus"].size(), 3u);
  EXPECT_EQ(told["nodes"][1]["gpus"][0]["holder"], "");
  const nlohmann::json fleet = client_.get("/v1/fleet");
  EXPECT_EQ(fleet["nodes"], 2);
  EXPECT_EQ(fleet["gpus"], 5);
  EXPECT_EQ(fleet["gpus_leased"], 1);
  EXPECT_EQ(fleet["power_w"], 100.0 + 101.0 + 100.0 + 101.0 + 102.0);
  // GPU 0 may have its highest clock, 1410 MHz, and GPU 1 1005: 1207.5 MHz in the mean.
  (void)ask_until("/v1/nodes/n1/history", [](const nlohmann::json& now) {
    return !now["rows"].empty() && now["rows"].back()["asked_clock_mhz"] == 1207.5;
  });
}

TEST_F(Fleet, ASilentNodeIsToldAsSuchAndNotAsZero) {
  (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["gpus"] == 5; });
  second_.kill();
  const nlohmann::json fleet =
      ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["nodes_silent"] == 1; });
  EXPECT_EQ(fleet["gpus"], 2);
  EXPECT_EQ(fleet["power_w"], 201.0);
  const nlohmann::json node = client_.get("/v1/nodes")["nodes"][1];
  EXPECT_EQ(node["gpus"].size(), 3u) << "as they were told last";
  EXPECT_GE(node["age_s"], 3.0);
  EXPECT_NE(node["trouble"], "");
  // Rows of the history end, where the other node's go on.
  const auto rows = [&](const std::string& name) { return client_.get("/v1/nodes/" + name + "/history")["rows"]; };
  const std::size_t before = rows("n1").size();
  (void)ask_until("/v1/nodes/n1/history", [&](const nlohmann::json& now) { return now["rows"].size() > before + 1; });
  const nlohmann::json silent = rows("n2");
  const nlohmann::json answering = rows("n1");
  ASSERT_FALSE(silent.empty());
  EXPECT_LT(silent.back()["time_s"], answering.back()["time_s"]);
  for (const nlohmann::json& row : silent) EXPECT_EQ(row["power_w"], 303.0);
  second_.start();
  const nlohmann::json events =
      ask_until("/v1/nodes/n2/history", [](const nlohmann::json& now) { return now["events"].size() == 3; })["events"];
  EXPECT_EQ(events[0]["text"], "answers");
  EXPECT_THAT(events[1]["text"].get<std::string>(), ::testing::StartsWith("silent: "));
  EXPECT_EQ(events[2]["text"], "answers");
  EXPECT_EQ(client_.get("/v1/nodes/n1/history")["events"].size(), 1u) << "it has answered all the time";
}

TEST_F(Fleet, AGpuWhoseDriverRefusesToRestoreIsCountedUntilItIsRestored) {
  LeaseRequest request;
  request.gpus = {2};
  AgentLease lease = AgentClient(second_.endpoint(), "").lease(request);
  lease.lock_sm_clocks(2, {Megahertz(1005), Megahertz(1005)});
  (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["gpus_leased"] == 1; });
  EXPECT_EQ(client_.get("/v1/fleet")["gpus_unrestored"], 0) << "a lease holds it";
  second_.gpus[2]->fail_writes(std::numeric_limits<int>::max());
  EXPECT_THROW(lease.release(), Error) << "it waits for the GPU, which is not restored";
  const nlohmann::json fleet =
      ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["gpus_unrestored"] == 1; });
  EXPECT_EQ(fleet["gpus_leased"], 0);
  EXPECT_FALSE(second_.gpus[2]->at_default());
  EXPECT_EQ(client_.get("/v1/nodes")["nodes"][1]["gpus"][2]["health"], "restoring");
  second_.gpus[2]->fail_writes(0);
  (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["gpus_unrestored"] == 0; });
  EXPECT_TRUE(second_.gpus[2]->wait_default());
  const nlohmann::json events =
      ask_until("/v1/nodes/n2/history", [](const nlohmann::json& now) { return now["events"].size() == 3; })["events"];
  EXPECT_EQ(events[1]["event"], "gpu");
  EXPECT_THAT(events[1]["text"].get<std::string>(), ::testing::StartsWith("GPU 2 is not yet restored: "));
  EXPECT_EQ(events[2]["text"], "GPU 2 is well again");
}

// By a certificate of its own, which the server trusts by the file that it is given, and with a token.
TEST(FleetOverTls, AgentsAreAskedAndOthersCertificatesRefused) {
  const testing::TempFolder folder;
  const std::string token(40, 't');
  const TlsFiles files = testing::make_certificate(folder.path().string(), "agent", "IP:127.0.0.1");
  const TlsFiles other = testing::make_certificate(folder.path().string(), "other", "IP:127.0.0.1");
  AgentHost agent(2, [&](AgentConfig& config) {
    config.tcp = HostPort{"127.0.0.1", 0};
    config.tls_cert = files.certificate;
    config.tls_key = files.key;
    config.token = token;
  });
  PlanningServerOptions options = testing::local_options();
  options.fleet.nodes.addresses = {{"n1", "https://127.0.0.1:" + std::to_string(agent.tcp_port())}};
  options.fleet.nodes.token = token;
  const auto told_by = [&](const std::string& authority, const std::function<bool(const nlohmann::json&)>& wanted) {
    options.fleet.nodes.ca_file = authority;
    ServerThread server(options);
    Client client(server.port(), "");
    nlohmann::json node;
    for (int i = 0; i < 600 && (node.is_null() || !wanted(node)); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      node = client.get("/v1/nodes")["nodes"][0];
    }
    EXPECT_TRUE(wanted(node)) << node.dump(2);
    return node;
  };
  const nlohmann::json node = told_by(files.certificate, [](const nlohmann::json& now) { return !now["silent"]; });
  EXPECT_EQ(node["gpus"].size(), 2u);
  for (const std::string& authority : {other.certificate, std::string()}) {
    const nlohmann::json refused =
        told_by(authority, [](const nlohmann::json& now) { return !now["trouble"].get<std::string>().empty(); });
    EXPECT_TRUE(refused["silent"]);
    EXPECT_THAT(refused["trouble"].get<std::string>(), HasSubstr("certificate"));
    EXPECT_TRUE(refused["gpus"].empty()) << "what an agent of no known certificate says is not taken";
  }
}

TEST_F(Fleet, AJobHasTheWattsOfGpusThatAreLeasedForIt) {
  client_.post("/v1/jobs", to_json(small_job()), 201);
  LeaseRequest request;
  request.gpus = {0, 2};
  request.job = "job";
  AgentLease lease = AgentClient(second_.endpoint(), "").lease(request);
  const nlohmann::json told = ask_until("/v1/jobs/job/history", [](const nlohmann::json& now) {
    return !now["rows"].empty() && !now["rows"].back()["power_w"].is_null();
  });
  EXPECT_EQ(told["step"], "second");
  EXPECT_EQ(told["rows"].back()["power_w"], 100.0 + 102.0);
  EXPECT_TRUE(told["rows"].back()["saved_j"].is_null()) << "nothing has been compared";
  EXPECT_TRUE(told["rows"].back()["version"].is_null()) << "there is no plan";
  // Of the two GPUs one is asked to keep to 1005 MHz, the other may have its 1410.
  lease.lock_sm_clocks(2, {Megahertz(1005), Megahertz(1005)});
  const nlohmann::json clocks = ask_until("/v1/jobs/job/history", [](const nlohmann::json& now) {
    return !now["rows"].empty() && now["rows"].back()["clock_mhz"] == (1410.0 + 1005.0) / 2;
  });
  EXPECT_EQ(clocks["rows"].back()["asked_clock_mhz"], (1410.0 + 1005.0) / 2);
  lease.release();
  (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["gpus_leased"] == 0; });
  // Another job of that name knows nothing of it.
  EXPECT_EQ(client_.ask("DELETE", "/v1/jobs/job").status, 204u);
  client_.post("/v1/jobs", to_json(small_job()), 201);
  const nlohmann::json other =
      ask_until("/v1/jobs/job/history", [](const nlohmann::json& now) { return !now["rows"].empty(); });
  for (const nlohmann::json& row : other["rows"]) EXPECT_TRUE(row["power_w"].is_null()) << other.dump();
}

// Leases say which rank has which board.
TEST_F(Fleet, RanksAndStagesAreFoundByTheirLeases) {
  testing::run_profiling(client_, small_job());
  LeaseRequest request;
  request.job = "job";
  request.gpus = {0};
  request.rank = 0;
  AgentLease first = AgentClient(second_.endpoint(), "").lease(request);
  request.gpus = {2};
  request.rank = 1;
  const AgentLease last = AgentClient(second_.endpoint(), "").lease(request);
  const auto node_of = [](const nlohmann::json& told, std::size_t rank) {
    return told["ranks"][rank]["node"].get<std::string>();
  };
  const nlohmann::json ranks = ask_until("/v1/jobs/job/ranks", [&](const nlohmann::json& now) {
    return now["ranks"].size() == 2 && !node_of(now, 0).empty() && !node_of(now, 1).empty();
  })["ranks"];
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank]["rank"], rank);
    EXPECT_EQ(ranks[rank]["pp_rank"], rank);
    EXPECT_EQ(ranks[rank]["node"], "n2");
    EXPECT_EQ(ranks[rank]["gpu"], 2 * rank);
    EXPECT_EQ(ranks[rank]["power_w"], 100.0 + 2.0 * static_cast<double>(rank));
    EXPECT_EQ(ranks[rank]["slowdown"], 1.0);
  }
  for (int stage = 0; stage < 2; ++stage) {
    const nlohmann::json told = ask_until("/v1/jobs/job/history?stage=" + std::to_string(stage),
                                          [](const nlohmann::json& now) { return !now["rows"].empty(); });
    EXPECT_EQ(told["rows"].back()["power_w"], 100.0 + 2.0 * stage);
  }
  EXPECT_EQ(client_.ask("GET", "/v1/jobs/job/history?stage=2").status, 400u);
  EXPECT_EQ(client_.ask("GET", "/v1/jobs/none/ranks").status, 404u);
  const nlohmann::json listed = client_.get("/v1/jobs")["jobs"][0];
  EXPECT_EQ(listed["slow_ranks"], 0);
  first.release();
  (void)ask_until("/v1/jobs/job/ranks", [&](const nlohmann::json& now) { return node_of(now, 0).empty(); });
}

// From when the lease was granted until it is released; a node that is silent is not known, and nothing of it ends.
TEST_F(Fleet, TellsWhichJobHadWhichGpuWhen) {
  LeaseRequest request;
  request.gpus = {1};
  request.job = "job";
  request.rank = 7;
  AgentLease lease = AgentClient(first_.endpoint(), "").lease(request);
  const auto of = [](const nlohmann::json& now, const std::string& node, int gpu) {
    nlohmann::json found;
    for (const nlohmann::json& one : now["allocations"]) {
      if (one["node"] == node && one["gpu"] == gpu) found.push_back(one);
    }
    return found;
  };
  const auto last_job = [&](const nlohmann::json& now) {
    const nlohmann::json all = of(now, "n1", 1);
    return all.empty() ? nlohmann::json() : all[0];  // what lasts comes first
  };
  const nlohmann::json told = ask_until("/v1/fleet/allocations", [&](const nlohmann::json& now) {
    return last_job(now)["job"] == "job" && of(now, "n2", 2).size() == 1;
  });
  EXPECT_EQ(last_job(told)["rank"], 7);
  EXPECT_EQ(last_job(told)["ended"], false);
  EXPECT_EQ(of(told, "n1", 0)[0]["holder"], "");
  lease.release();
  const nlohmann::json later =
      ask_until("/v1/fleet/allocations", [&](const nlohmann::json& now) { return last_job(now)["job"] != "job"; });
  EXPECT_EQ(last_job(later)["holder"], "") << "nobody has it";
  const nlohmann::json both = of(later, "n1", 1);
  const auto ours = std::ranges::find_if(both, [](const nlohmann::json& one) { return one["job"] == "job"; });
  ASSERT_NE(ours, both.end());
  EXPECT_EQ((*ours)["ended"], true);
  EXPECT_EQ((*ours)["from_s"], last_job(told)["from_s"]);
  EXPECT_EQ((*ours)["until_s"], last_job(later)["from_s"]) << "it was heard without a break";
  second_.kill();
  (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["nodes_silent"] == 1; });
  const auto end_of = [&](const nlohmann::json& now, const char* node) {
    return of(now, node, 0)[0]["until_s"].get<double>();
  };
  const nlohmann::json silent = client_.get("/v1/fleet/allocations");
  const nlohmann::json after = ask_until("/v1/fleet/allocations", [&](const nlohmann::json& now) {
    return end_of(now, "n1") > end_of(silent, "n1") + 1.0;
  });
  EXPECT_EQ(end_of(after, "n2"), end_of(silent, "n2"));
  EXPECT_EQ(of(after, "n2", 0)[0]["ended"], false);
  const std::string past = "/v1/fleet/allocations?from_s=1000&until_s=2000";
  EXPECT_EQ(client_.get(past)["allocations"].size(), 0u);
  EXPECT_EQ(client_.ask("GET", "/v1/fleet/allocations?from_s=2000&until_s=1000").status, 400u);
}

// The controller of a cluster has leased all GPUs of a node at once, for whatever its jobs are. Its budget is kept.
TEST_F(Fleet, AGpuThatTheControllerHasLeasedIsItsJobs) {
  const testing::TempFolder folder;
  EventLoop loop;
  Router router;
  router.add({"GET", "/v1/cluster/status", Handler([](const Request& /*request*/) {
                return text_response(
                    "application/json",
                    R"({"budget_w": 1234,)"
                    R"( "jobs": [{"job": 7, "kind": "resnet", "places": [{"node": "n1", "gpus": [0, 1]}]}]})");
              })});
  HttpServer controller(loop, std::move(router), ServerLimits());
  controller.listen_unix(folder / "controller.sock", 0600);
  std::thread thread([&] { loop.run(); });
  {
    PlanningServerOptions made = options();
    made.fleet.controller.address = folder / "controller.sock";
    made.fleet.controller.period = Seconds(0.05);
    const ServerThread server(made);
    Client client(server.port(), kAdministrator);
    LeaseRequest request;
    request.gpus = {0};
    AgentLease lease = AgentClient(first_.endpoint(), "").lease(request);
    request.job = "a-training";
    request.gpus = {1};
    AgentLease other = AgentClient(first_.endpoint(), "").lease(request);
    std::map<std::int64_t, std::string> jobs;
    for (int i = 0; i < 600 && (jobs[0] != "job 7, resnet" || jobs[1] != "a-training"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const nlohmann::json told = client.get("/v1/fleet/allocations");
      for (const nlohmann::json& one : told["allocations"]) {
        if (one["node"] == "n1" && !one["ended"].get<bool>()) jobs[one["gpu"]] = one["job"];
      }
    }
    nlohmann::json budget;
    for (int i = 0; i < 600 && budget.is_null(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const nlohmann::json rows = client.get("/v1/fleet/history")["rows"];
      if (!rows.empty()) budget = rows.back()["budget_w"];
    }
    EXPECT_EQ(budget, 1234);
    EXPECT_EQ(jobs[0], "job 7, resnet");
    EXPECT_EQ(jobs[1], "a-training") << "the lease says itself for which job it is";
  }
  loop.post([&] { controller.stop(Seconds(0.01), [&] { loop.stop(); }); });
  thread.join();
}

TEST_F(Fleet, AllNodesTogetherHaveAPast) {
  const nlohmann::json told = ask_until("/v1/fleet/history", [](const nlohmann::json& now) {
    return !now["rows"].empty() && now["rows"].back()["nodes_silent"] == 0;
  });
  EXPECT_EQ(told["rows"].back()["power_w"], 100.0 + 101.0 + 100.0 + 101.0 + 102.0);
  EXPECT_EQ(told["rows"].back()["gpus"], 5);
  EXPECT_EQ(told["rows"].back()["gpus_leased"], 0);
  EXPECT_TRUE(told["rows"].back()["budget_w"].is_null()) << "no controller is asked";
}

// GPU i of a node draws 100 + i W: 201 W of the first node, 303 W of the second. While the second is silent, what is
// read is the first's alone, and is said not to be all.
TEST_F(Fleet, TellsTheEnergyUsedAndForHowLongItWasRead) {
  const nlohmann::json told =
      ask_until("/v1/fleet/energy", [](const nlohmann::json& now) { return now["complete_s"].get<double>() > 2.0; });
  const double read = told["read_s"];
  EXPECT_LT(read, 3000.0) << "the server has not run for the hour that was asked for";
  EXPECT_NEAR(told["until_s"].get<double>() - told["from_s"].get<double>(), 3600.0, 2.0);
  // While no more than the first node has answered, it is 201 W.
  const double complete = told["complete_s"];
  EXPECT_NEAR(told["energy_j"].get<double>(), 504.0 * complete + 201.0 * (read - complete),
              1e-6 + 102.0 * (read - complete));
  second_.kill();
  (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["nodes_silent"] == 1; });
  const nlohmann::json before = ask_until("/v1/fleet/energy", [](const nlohmann::json& now) {
    return now["read_s"].get<double>() > now["complete_s"].get<double>() + 1.0;
  });
  const nlohmann::json after = ask_until("/v1/fleet/energy", [&](const nlohmann::json& now) {
    return now["read_s"].get<double>() > before["read_s"].get<double>() + 1.0;
  });
  EXPECT_EQ(after["complete_s"], before["complete_s"]);
  const auto more = [&](const char* name) { return after[name].get<double>() - before[name].get<double>(); };
  EXPECT_NEAR(more("energy_j"), 201.0 * more("read_s"), 1e-6 * after["energy_j"].get<double>());
  const nlohmann::json past = client_.get("/v1/fleet/energy?from_s=1000&until_s=2000");
  EXPECT_TRUE(past["energy_j"].is_null()) << "it is unknown, and not zero";
  EXPECT_EQ(past["read_s"], 0.0);
}

// In the order in which it came, and with the reason that the rank gave.
TEST_F(Fleet, AJobsHistoryTellsWhatHappened) {
  JobRequest job = small_job("job", 2);
  testing::run_profiling(client_, job);
  const auto told_of = [&](const std::string& event, const std::string& words) {
    const auto has = [&](const nlohmann::json& one) {
      return one["event"] == event && one["text"].get<std::string>().find(words) != std::string::npos;
    };
    (void)ask_until("/v1/jobs/job/history",
                    [&](const nlohmann::json& now) { return std::ranges::any_of(now["events"], has); });
  };
  // From here on everything that is told has been seen to change.
  (void)ask_until("/v1/jobs/job/history",
                  [](const nlohmann::json& now) { return !now["rows"].empty() && now["rows"].back()["version"] == 1; });
  const PaceReport slow{1, 1.2, 100, PaceCause::kThrottled, "thermal"};
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/paces", to_json(slow).dump()).status, 204u);
  told_of("straggler", "rank 1 computes 1.20 times as long as when it was profiled: throttled, thermal");
  told_of("schedule", "schedules 2, of iterations that take ");
  const PaceReport usual{1, 1.0, 200, PaceCause::kUnknown, {}};
  EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/paces", to_json(usual).dump()).status, 204u);
  told_of("straggler", "rank 1 computes as fast as usual again");
  const nlohmann::json events = client_.get("/v1/jobs/job/history")["events"];
  EXPECT_TRUE(
      std::ranges::is_sorted(events, {}, [](const nlohmann::json& one) { return one["time_s"].get<double>(); }));
}

// The history has one row a second, and misses nothing of what happens between two: ranks that become slow and recover
// in any order, each told once.
TEST_F(Fleet, StragglersThatAreGoneAtOnceAreInTheHistory) {
  testing::run_profiling(client_, small_job("job", 2));
  std::vector<std::string> told;
  std::int64_t step = 100;
  const auto say = [&](int rank, double slowdown) {
    const PaceReport report{rank, slowdown, step++, PaceCause::kUnknown, {}};
    EXPECT_EQ(client_.ask("POST", "/v1/jobs/job/paces", to_json(report).dump()).status, 204u);
    told.push_back(
        slowdown > 1.0
            ? fmt::format("rank {} computes {:.2f} times as long as when it was profiled: unknown", rank, slowdown)
            : fmt::format("rank {} computes as fast as usual again", rank));
  };
  for (int round = 0; round < 3; ++round) {
    say(1, 1.2);
    say(3, 1.2);
    say(0, 1.3);  // before those that are known
    say(3, 1.4);  // the same, slower
    say(1, 1.0);  // the one in the middle
    say(2, 1.2);
    say(0, 1.0);
    say(3, 1.0);
    say(2, 1.0);
  }
  std::vector<std::string> found;
  (void)ask_until("/v1/jobs/job/history", [&](const nlohmann::json& now) {
    found.clear();
    for (const nlohmann::json& one : now["events"]) {
      if (one["event"] == "straggler") found.push_back(one["text"]);
    }
    return found.size() >= told.size();
  });
  EXPECT_EQ(found, told);
}

TEST_F(Fleet, EventsTellWhatChanges) {
  std::vector<std::string> seen;
  std::thread later([&] {
    (void)ask_until("/v1/fleet", [](const nlohmann::json& now) { return now["gpus"] == 5; });
    client_.post("/v1/jobs", to_json(small_job()), 201);
    first_.kill();
  });
  bool silent = false;
  bool job = false;
  bool talked = false;
  bool power = false;
  testing::follow_events(
      testing::RawSocket(server_.port()), "/v1/events",
      [&](const ServerEvent& event) {
        const nlohmann::json data = nlohmann::json::parse(event.data);
        if (event.name == "node" && data["node"] == "n1") {
          talked = talked || data["silent"] == false;
          silent = talked && data["silent"] == true;
        }
        // Of both nodes at first; later n1 is left out, since it is silent.
        if (event.name == "power" && data["nodes"].size() == 2) power = data["nodes"][1]["power_w"] == 303.0;
        if (event.name == "job") job = data["job"] == "job" && data["state"] == "registering";
        return !(silent && job);
      },
      kAdministrator);
  later.join();
  EXPECT_TRUE(silent);
  EXPECT_TRUE(job);
  EXPECT_TRUE(power);
}

TEST_F(Fleet, TakesTheAdministratorsToken) {
  client_.post("/v1/jobs", to_json(small_job()), 201);
  Client stranger(server_.port());
  for (const char* const target :
       {"/v1/nodes", "/v1/fleet", "/v1/nodes/n1/history", "/v1/jobs/job/history", "/v1/jobs/job/ranks",
        "/v1/fleet/history", "/v1/fleet/energy", "/v1/fleet/allocations", "/v1/events"}) {
    EXPECT_EQ(stranger.ask("GET", target).status, 401u) << target;
  }
  Client owner(server_.port(), testing::kToken);
  EXPECT_EQ(owner.ask("GET", "/v1/jobs/job/history").status, 200u);
  EXPECT_EQ(owner.ask("GET", "/v1/fleet").status, 403u);
}

// The page asks for everything else with the token that its reader has.
TEST_F(Fleet, ThePageNeedsNoTokenAndRunsNothingOfOthers) {
  Client stranger(server_.port());
  const Response page = stranger.ask("GET", "/");
  ASSERT_EQ(page.status, 200u);
  EXPECT_EQ(page.body.find("<script>"), std::string::npos) << "scripts come from files";
  for (const char* const file : {"page/page.css", "page/charts.js", "page/page.js"}) {
    EXPECT_THAT(page.body, HasSubstr(std::string("\"") + file + "\""));
    EXPECT_EQ(stranger.ask("GET", std::string("/") + file).status, 200u);
  }
  const auto policy = page.header("Content-Security-Policy");
  ASSERT_TRUE(policy);
  EXPECT_THAT(std::string(*policy), HasSubstr("default-src 'none'; script-src 'self';"));
  EXPECT_EQ(policy->find("unsafe"), std::string_view::npos);
}

TEST_F(Fleet, RefusesTimesThatAreNone) {
  const auto refused = [&](const std::string& query) { return client_.ask("GET", "/v1/nodes/n1/history" + query); };
  EXPECT_EQ(refused("?from_s=yesterday").status, 400u);
  EXPECT_EQ(refused("?from_s=-1").status, 400u);
  EXPECT_EQ(refused("?from_s=20&until_s=10").status, 400u);
  EXPECT_THAT(refused("?from_s=0&until_s=1800000000").body, HasSubstr("ask for one part after the other"));
  EXPECT_EQ(client_.ask("GET", "/v1/nodes/n9/history").status, 404u);
  EXPECT_EQ(client_.ask("GET", "/v1/jobs/none/history").status, 404u);
}

}  // namespace
}  // namespace flyball
