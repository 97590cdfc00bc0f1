// A planning server that asks the controller of a cluster: what that tells, that it is silent, and that it is hostile.
#include "fleet/controller_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <nlohmann/json.hpp>

#include "controller/controller_server.h"
#include "controller/controller_site.h"
#include "net/event_loop.h"
#include "net/router.h"
#include "net/server.h"
#include "server/test_server.h"

namespace flyball {
namespace {

using testing::Client;
using testing::elastic;
using testing::kAdministrator;
using testing::ServerThread;
using testing::Site;

// The controller's HTTP interface in a thread.
class ServedSite {
 public:
  explicit ServedSite(std::string socket) {
    site.engine.submit(1, elastic("a"));
    site.engine.submit(2, elastic("b"));
    site.cycles(6);
    ControllerServerOptions options;
    options.listen_host.clear();
    options.socket_path = std::move(socket);
    server_ = std::make_unique<ControllerServer>(loop_, *site.controller, options);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServedSite() {
    loop_.post([this] { server_->stop([this] { loop_.stop(); }); });
    thread_.join();
  }
  ServedSite(const ServedSite&) = delete;
  ServedSite& operator=(const ServedSite&) = delete;

  Site site{2};

 private:
  EventLoop loop_;
  std::unique_ptr<ControllerServer> server_;
  std::thread thread_;
};

// What answers every question for a status with the same text, or, where that is empty, never.
class FixedController {
 public:
  FixedController(const std::string& socket, const std::string& answer) {
    Router router;
    router.add(
        {"GET", "/v1/cluster/status", AsyncHandler([this, answer](const Request& /*request*/, const Reply& reply) {
           if (!answer.empty()) return reply.send(text_response("application/json", answer));
           if (unanswered_.empty()) asked_.set_value();
           unanswered_.push_back(reply);
         })});
    server_ = std::make_unique<HttpServer>(loop_, std::move(router), ServerLimits());
    server_->listen_unix(socket, 0600);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~FixedController() {
    loop_.post([this] { server_->stop(Seconds(0.01), [this] { loop_.stop(); }); });
    thread_.join();
  }
  FixedController(const FixedController&) = delete;
  FixedController& operator=(const FixedController&) = delete;

  void wait_until_asked() { asked_.get_future().wait(); }

 private:
  EventLoop loop_;
  std::promise<void> asked_;
  std::vector<Reply> unanswered_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

// Asks once.
ControllerWatchOptions options_of(const std::string& socket) {
  ControllerWatchOptions options;
  options.address = socket;
  options.call_limit = options.period = options.silent_after = Seconds(600);
  return options;
}

nlohmann::json whole_of(const Response& response) {
  return nlohmann::json::parse(response.body + (response.tail ? *response.tail : ""));
}

nlohmann::json told_by(const ControllerWatch& watch) {
  for (int i = 0; i < 600; ++i) {
    nlohmann::json told = whole_of(watch.response());
    if (!told["status"].is_null() || !told["trouble"].get<std::string>().empty()) return told;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ADD_FAILURE() << "the controller was never heard";
  return {};
}

nlohmann::json ask_cluster_until(Client& client, const std::function<bool(const nlohmann::json&)>& wanted) {
  nlohmann::json told;
  for (int i = 0; i < 600; ++i) {
    told = client.get("/v1/cluster");
    if (wanted(told)) return told;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ADD_FAILURE() << "it has never been as expected: " << told.dump(2);
  return told;
}

TEST(ControllerWatch, TellsWhatTheControllerToldAndWhenItIsSilent) {
  const testing::TempFolder folder;
  PlanningServerOptions options = testing::local_options();
  options.administrator_token = kAdministrator;
  options.fleet.controller.address = folder / "controller.sock";
  options.fleet.controller.period = Seconds(0.05);
  const ServerThread server(options);
  Client client(server.port(), kAdministrator);
  const nlohmann::json before =
      ask_cluster_until(client, [](const nlohmann::json& now) { return !now["trouble"].get<std::string>().empty(); });
  EXPECT_EQ(before["silent"], true);
  EXPECT_TRUE(before["age_s"].is_null());
  EXPECT_TRUE(before["status"].is_null()) << "nothing is known, which is not: nothing runs";
  {
    const ServedSite controller(folder / "controller.sock");
    const nlohmann::json told =
        ask_cluster_until(client, [](const nlohmann::json& now) { return now["silent"] == false; });
    EXPECT_EQ(told["trouble"], "");
    EXPECT_EQ(told["address"], folder / "controller.sock");
    const nlohmann::json& decisions = told["status"]["last_decisions"];
    ASSERT_EQ(decisions.size(), 2u);
    EXPECT_EQ(decisions[0]["job"], 2);
    EXPECT_EQ(decisions[0]["cause"], "job 1 has come, job 2 has come");
    EXPECT_EQ(decisions[0]["to_gpus"], 4);
    EXPECT_EQ(told["status"]["budget_w"], 1e6);
    EXPECT_EQ(told["status"]["jobs"].size(), 2u);
  }
  const nlohmann::json silent =
      ask_cluster_until(client, [](const nlohmann::json& now) { return now["silent"] == true; });
  EXPECT_GT(silent["age_s"], 5.0);
  EXPECT_NE(silent["trouble"], "");
  EXPECT_EQ(silent["status"]["jobs"].size(), 2u) << "as it told them last";
  Client stranger(server.port());
  EXPECT_EQ(stranger.ask("GET", "/v1/cluster").status, 401u) << "jobs' users and kinds are told to administrators";
  Client owner(server.port(), testing::kToken);
  EXPECT_EQ(owner.ask("GET", "/v1/cluster").status, 403u);
}

TEST(ControllerWatch, AsksNobodyWithoutAnAddress) {
  const nlohmann::json told = whole_of(ControllerWatch({}).response());
  EXPECT_EQ(told["address"], "");
  EXPECT_TRUE(told["status"].is_null());
}

TEST(ControllerWatch, WritesWhatItWasToldOnce) {
  const testing::TempFolder folder;
  nlohmann::json status = {{"last_decisions", nlohmann::json::array()}};
  for (int job = 1; job <= 150; ++job) status["last_decisions"].push_back({{"time_s", 1.8e9}, {"job", job}});
  const FixedController controller(folder / "controller.sock", status.dump());
  const ControllerWatch watch(options_of(folder / "controller.sock"));
  const nlohmann::json told = told_by(watch);
  EXPECT_EQ(told["address"], folder / "controller.sock");
  EXPECT_EQ(told["silent"], false);
  EXPECT_GE(told["age_s"], 0.0);
  EXPECT_EQ(told["status"]["budget_w"], 0.0);
  const nlohmann::json& decisions = told["status"]["last_decisions"];
  ASSERT_EQ(decisions.size(), ClusterRunStatus::kMostDecisions);
  EXPECT_EQ(decisions.back()["job"], 100) << "the newest are first";
  ASSERT_TRUE(watch.response().tail);
  EXPECT_EQ(watch.response().tail, watch.response().tail);
}

TEST(ControllerWatch, KnowsForWhichJobEachGpuIs) {
  EXPECT_TRUE(ControllerWatch({}).holders()->empty());
  const testing::TempFolder folder;
  const nlohmann::json jobs = {
      {{"job", 7},
       {"kind", "resnet"},
       {"places", {{{"node", "n1"}, {"gpus", {0, 3}}}, {{"node", "n2"}, {"gpus", {1}}}}}},
      {{"job", 8}, {"kind", std::string(61, 'x')}, {"places", {{{"node", "n2"}, {"gpus", {0}}}}}},
      {{"job", 9}, {"kind", "waits"}}};
  const FixedController controller(folder / "controller.sock", nlohmann::json({{"jobs", jobs}}).dump());
  const ControllerWatch watch(options_of(folder / "controller.sock"));
  (void)told_by(watch);
  const ControllerWatch::Holders expected = {
      {{"n1", 0}, "job 7, resnet"}, {{"n1", 3}, "job 7, resnet"}, {{"n2", 1}, "job 7, resnet"}, {{"n2", 0}, "job 8"}};
  EXPECT_EQ(*watch.holders(), expected);
}

TEST(ControllerWatch, ASilentControllersJobsHoldNothing) {
  const testing::TempFolder folder;
  const nlohmann::json jobs = {{{"job", 7}, {"places", {{{"node", "n1"}, {"gpus", {0}}}}}}};
  const FixedController controller(folder / "controller.sock", nlohmann::json({{"jobs", jobs}}).dump());
  ControllerWatchOptions options = options_of(folder / "controller.sock");
  options.silent_after = Seconds(1e-9);
  const ControllerWatch watch(options);
  EXPECT_EQ(told_by(watch)["status"]["jobs"].size(), 1u);
  EXPECT_TRUE(watch.holders()->empty());
}

// What would cost the server or its pages much, or lies beyond all clocks and clusters, is no answer.
TEST(ControllerWatch, RefusesWhatCannotBe) {
  const testing::TempFolder folder;
  const std::map<std::string, nlohmann::json> answers = {
      {"budget_w", {{"budget_w", 1e10}}},
      {"until_s", {{"until_s", 1e12}}},
      {"time_s", {{"last_decisions", {{{"time_s", -1}, {"job", 1}}}}}},
      {"planned_w", {{"last_decisions", {{{"time_s", 1}, {"job", 1}, {"planned_w", -1e10}}}}}},
      {"measured_w", {{"jobs", {{{"job", 1}, {"measured_w", 2e9}}}}}},
      {"body limit", {{"policy", std::string(3u << 20u, 'x')}}},
  };
  for (const auto& [word, answer] : answers) {
    const std::string socket = folder / "controller.sock";
    const FixedController controller(socket, answer.dump());
    const nlohmann::json told = told_by(ControllerWatch(options_of(socket)));
    EXPECT_TRUE(told["status"].is_null()) << word;
    EXPECT_NE(told["trouble"].get<std::string>().find(word), std::string::npos) << word << ": " << told["trouble"];
  }
}

TEST(ControllerWatch, EndsThoughTheControllerHangs) {
  const testing::TempFolder folder;
  auto controller = std::make_unique<FixedController>(folder / "controller.sock", "");
  auto watch = std::make_unique<ControllerWatch>(options_of(folder / "controller.sock"));
  controller->wait_until_asked();
  const std::future<void> ended = std::async(std::launch::async, [&] { watch.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(120)), std::future_status::ready) << "a question may last 600 s";
  controller.reset();
}

}  // namespace
}  // namespace flyball
