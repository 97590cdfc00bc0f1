// Plans that somebody wants to look at, of a profile and of what a job has measured.
//
// Every forward and backward takes 0.1 s at 1400 MHz and 40 J, or 0.125 s at 1000 MHz and 25 J; a stage that waits
// draws 50 W. At maximum clocks an iteration of two stages and M microbatches takes (M + 1) * 0.2 s, of which each
// stage waits for 0.2 s: 4 M * 40 J and 2 * 0.2 s * 50 W.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/test_server.h"
#include "support/raw_socket.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using namespace testing;
using Json = nlohmann::ordered_json;

constexpr const char* kPath = "/v1/what-if";

std::string profile_text(int stages = 2) {
  std::string text = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < stages; ++stage) {
    for (const char* instruction : {"forward", "backward"}) {
      text += fmt::format("{0},{1},1400,0.1,40\n{0},{1},1000,0.125,25\n", stage, instruction);
    }
  }
  return text;
}

Json of_profile(int microbatches) {
  return {{"profile", profile_text()}, {"microbatches", microbatches}, {"blocking_power_w", 50}};
}

void expect_at_maximum(const nlohmann::json& set, int microbatches) {
  const nlohmann::json& maximum = set.at("iterations").at(0);
  EXPECT_NEAR(maximum.at("energy_j"), 4 * microbatches * 40 + 20, 1e-9);
  const nlohmann::json& perseus = set.at("plans").at(0);
  EXPECT_EQ(perseus.at("planner"), "perseus");
  EXPECT_NEAR(perseus.at("points").at(0).at("time_s"), (microbatches + 1) * 0.2, 1e-9);
  EXPECT_LT(perseus.at("points").at(0).at("energy_j"), maximum.at("energy_j")) << "some computations can wait";
  EXPECT_EQ(set.at("orders").at(0).at("type").get<std::string>().size(), static_cast<std::size_t>(4 * microbatches));
}

TEST(WhatIf, PlansAProfile) {
  ServerThread server;
  Client client(server.port());
  expect_at_maximum(client.post(kPath, of_profile(2)), 2);
  expect_at_maximum(client.post(kPath, of_profile(8)), 8);
  EXPECT_TRUE(client.get("/v1/jobs").at("jobs").empty()) << "nothing is left of it";
}

TEST(WhatIf, PlansWithEveryPlanner) {
  ServerThread server;
  Json request = of_profile(4);
  request["planner"] = "all";
  const nlohmann::json set = Client(server.port()).post(kPath, request);
  std::vector<std::string> planners;
  for (const nlohmann::json& plan : set.at("plans")) planners.push_back(plan.at("planner"));
  EXPECT_EQ(planners.front(), "perseus");
  EXPECT_THAT(planners, IsSupersetOf({"joint", "envpipe", "uniform", "zeus-global", "zeus-per-stage", "max"}));
  EXPECT_TRUE(set.at("not_planned").empty());
}

// What the job has measured, with its own number of microbatches and with another. Its own plan stays.
TEST(WhatIf, PlansWhatAJobHasMeasured) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = small_job("job");
  job.microbatches = 2;
  job.blocking_power = {Watts(50)};
  client.post("/v1/jobs", to_json(job), 201);
  const Response early = client.ask("POST", kPath, Json{{"job", "job"}}.dump());
  EXPECT_EQ(early.status, 409u) << early.body;
  for (int rank = 0; rank < 2; ++rank) {
    client.post("/v1/jobs/job/ranks", to_json(RankRequest{rank, 0, rank, 0, {}}), 201);
    MeasurementReport report{rank, 0, {}};
    for (const char* instruction : {"forward", "backward"}) {
      report.measurements.push_back({instruction, Megahertz(1400), Seconds(0.1), Joules(40), 5});
      report.measurements.push_back({instruction, Megahertz(1000), Seconds(0.125), Joules(25), 5});
    }
    client.post("/v1/jobs/job/measurements", to_json(report));
    client.ask("POST", "/v1/jobs/job/ranks/" + std::to_string(rank) + "/profiled", "{}");
  }
  const auto schedule = client.schedule("job", 0);
  ASSERT_TRUE(schedule);
  expect_at_maximum(client.post(kPath, {{"job", "job"}}), 2);
  expect_at_maximum(client.post(kPath, {{"job", "job"}, {"microbatches", 16}}), 16);
  const auto after = client.schedule("job", 0);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->version, schedule->version);
}

TEST(WhatIf, SaysWhatItCannotPlan) {
  ServerThread server;
  Client client(server.port());
  const auto refused = [&](const Json& request, unsigned status, const std::string& words) {
    const Response response = client.ask("POST", kPath, request.dump());
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(response.body, HasSubstr(words));
  };
  refused(Json::object(), 400, "one of the two");
  refused({{"job", "a"}, {"profile", profile_text()}, {"microbatches", 2}}, 400, "one of the two");
  refused({{"job", "nobody"}}, 404, "nobody");
  refused({{"profile", profile_text()}}, 400, "microbatches");
  refused({{"profile", "stage,instruction\n0,forward\n"}, {"microbatches", 2}}, 400, "frequency");
  refused({{"profile", "<script>"}, {"microbatches", 2}}, 400, "the profile");
  refused({{"profile", profile_text()}, {"microbatches", 65'536}}, 400, "ask for");
  refused({{"profile", profile_text()}, {"microbatches", 3}, {"schedule", "backwards"}}, 400, "backwards");
  refused({{"profile", profile_text()}, {"microbatches", 3}, {"schedule", "interleaved-1f1b"}, {"chunks", 2}}, 400,
          "microbatches");
  refused({{"profile", profile_text()}, {"microbatches", 3}, {"planner", "oracle"}}, 400, "oracle");
  refused({{"profile", profile_text()}, {"microbatches", 3}, {"oracle", 1}}, 400, "oracle");
}

// Where registering takes a token, so does planning a profile; a job is planned for its own token alone.
TEST(WhatIf, AsksForTheRightToken) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.registration_token = "registration-registration-registration";
  ServerThread server(options);
  const std::string profile = of_profile(2).dump();
  const auto status = [&](const std::string& token, const std::string& body) {
    return Client(server.port(), token).ask("POST", kPath, body).status;
  };
  EXPECT_EQ(status("", profile), 401u);
  EXPECT_EQ(status("registration-registration-registration", profile), 200u);
  EXPECT_EQ(status(kAdministrator, profile), 200u);
  Client(server.port(), kAdministrator).post("/v1/jobs", to_json(small_job("job")), 201);
  const std::string job = Json{{"job", "job"}}.dump();
  EXPECT_EQ(status("", job), 401u);
  EXPECT_EQ(status("registration-registration-registration", job), 403u);
  EXPECT_EQ(status(kToken, job), 409u) << "it is the job's, which has no plan yet";
}

// What the job is planned with: two microbatches on the first stage, one on the last, and 5 % of noise.
TEST(WhatIf, KeepsToTheJobsMemoryAndNoise) {
  ServerThread server;
  Client client(server.port(), kToken);
  JobRequest job = small_job("job");
  job.microbatches = 8;
  job.memory_limit = {2, 1};
  job.noise = 0.05;
  job.planner = "joint";
  run_profiling(client, job);
  ASSERT_TRUE(client.schedule("job", 0));
  const nlohmann::json frontier = client.get("/v1/jobs/job/frontier");
  const nlohmann::json set = client.post(kPath, {{"job", "job"}, {"planner", "joint"}});
  const nlohmann::json& plan = set.at("plans").at(0);
  EXPECT_EQ(plan.at("points_in_all"), frontier.at("points").size());
  EXPECT_EQ(plan.at("points").at(0).at("time_s"), frontier.at("points").at(0).at("time_s"));
  EXPECT_EQ(plan.at("points").at(0).at("energy_j"), frontier.at("points").at(0).at("energy_j"));
}

// What takes every planner seconds: 19,200 computations of 41 clocks.
std::string large_request() {
  std::string profile = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 8; ++stage) {
    for (const char* instruction : {"forward", "backward"}) {
      for (int k = 0; k <= 40; ++k) {
        profile += fmt::format("{},{},{},{},{}\n", stage, instruction, 1410 - 15 * k, 0.1 + 0.001 * stage + 0.002 * k,
                               40.0 - 0.8 * k + 0.008 * k * k);
      }
    }
  }
  return Json{{"profile", profile}, {"microbatches", 1200}, {"planner", "all"}}.dump();
}

// Whether it comes true before a test has to give up.
template <class Good>
bool asked_until(Good good) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (std::chrono::steady_clock::now() < until) {
    if (good()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

// One plan waits for a planner's thread, behind another one: for so long that it is not the first on its way there.
bool waits_one(std::uint16_t port) {
  Client client(port);
  for (int i = 0; i < 50; ++i) {
    const std::string metrics = client.ask("GET", "/metrics").body;
    if (metrics.find("flyball_server_plans_waiting 1\n") == std::string::npos) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// Two requests that take a planner for long: one is planned and one waits. A third is refused, a job of two
// microbatches is planned meanwhile, and when the two have gone there is room again.
TEST(WhatIf, TwoOfOneClientAtOnceAndJobsFirst) {
  ServerThread server;
  const std::string body = large_request();
  const std::string request = "POST " + std::string(kPath) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " +
                              "application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  Client client(server.port());
  {
    const RawSocket first(server.port());
    const RawSocket second(server.port());
    first.send(request);
    second.send(request);
    ASSERT_TRUE(asked_until([&] { return waits_one(server.port()); }));
    const Response refused = client.ask("POST", kPath, of_profile(2).dump());
    EXPECT_EQ(refused.status, 503u) << refused.body;
    EXPECT_EQ(refused.header("Retry-After"), "5");
    Client rank(server.port(), kToken);
    run_profiling(rank, small_job("job"));
    EXPECT_TRUE(rank.schedule("job", 0));
    EXPECT_TRUE(waits_one(server.port())) << "jobs first";
  }
  EXPECT_TRUE(asked_until([&] { return client.ask("POST", kPath, of_profile(2).dump()).status == 200; }));
}

// Who waits for a plan when the server stops is told so, whether it is being planned or not.
TEST(WhatIf, EndsWithTheServer) {
  auto server = std::make_unique<ServerThread>();
  const std::uint16_t port = server->port();
  const std::string large = large_request();
  const auto ask = [&] { return Client(port).ask("POST", kPath, large).status; };
  auto first = std::async(std::launch::async, ask);
  auto second = std::async(std::launch::async, ask);
  EXPECT_TRUE(asked_until([&] { return waits_one(port); }));
  server.reset();
  EXPECT_EQ(first.get(), 503u);
  EXPECT_EQ(second.get(), 503u);
}

}  // namespace
}  // namespace flyball
