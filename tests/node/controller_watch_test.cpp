// A planning server that asks the controller of a cluster: what that tells, and that it is silent.
#include "fleet/controller_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <nlohmann/json.hpp>

#include "controller/controller_server.h"
#include "controller/controller_site.h"
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
  const WatchedController told = ControllerWatch({}).told();
  EXPECT_EQ(told.address, "");
  EXPECT_FALSE(told.status);
}

}  // namespace
}  // namespace flyball
