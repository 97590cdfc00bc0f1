// A pipeline job that a controller moves along its frontier: a real planning server, a real agent, boards that work all
// the time, and ranks that do nothing but set the clocks that the pace in force allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "budget/working_node.h"
#include "cluster/ground_truth.h"
#include "cluster/simulator.h"
#include "controller/controller.h"
#include "controller/job_paces.h"
#include "controller/scripted_engine.h"
#include "server/test_server.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::Client;
using testing::kAdministrator;
using testing::kGpus;
using testing::Node;
using testing::ScriptedEngine;
using testing::ServerThread;
using testing::TempFolder;
using testing::wait_until;

constexpr std::int64_t kJob = 7;

PlanningServerOptions with_administrator() {
  PlanningServerOptions options = testing::local_options();
  options.administrator_token = kAdministrator;
  return options;
}

// How much slower than its own pace the server lets the job run.
double degree_of(const JobStatus& status) {
  double degree = 1.0;
  for (const StragglerState& one : status.stragglers) degree = std::max(degree, one.degree);
  return degree;
}

// Four stages, of which each has a board. Iterations that are d times as long have clocks that are d * d times as low:
// the boards of this test draw what they do at work, without waiting.
class Ranks {
 public:
  Ranks(const Node& node, std::uint16_t port)
      : thread_([&node, port, this] {
          Client client(port, testing::kToken);
          LeaseRequest request;
          request.heartbeat_timeout = Seconds(60);
          for (std::size_t gpu = 0; gpu < kGpus; ++gpu) request.gpus.push_back(gpu);
          AgentLease lease = AgentClient(node.agent->endpoint(), "").lease(request);
          double before = 0.0;
          while (!stopping_) {
            const double degree = degree_of(client.status("slurm-7"));
            if (degree != std::exchange(before, degree)) {
              for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
                lease.lock_sm_clocks(gpu,
                                     {Megahertz(210), Megahertz(15.0 * std::floor(1410.0 / (degree * degree) / 15.0))});
              }
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  ~Ranks() {
    stopping_ = true;
    thread_.join();
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

 private:
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

class PipelinePaces : public ::testing::Test {
 protected:
  PipelinePaces() {
    JobRequest job = testing::small_job("slurm-7");
    job.stages = kGpus;
    Client client(server_.port(), kAdministrator);
    const std::string path = "/v1/jobs/slurm-7";
    client.post("/v1/jobs", to_json(job), 201);
    for (int rank = 0; rank < job.ranks(); ++rank) {
      client.post(path + "/ranks", to_json(testing::rank_of(job, rank)), 201);
      for (MeasurementReport report : testing::reports_of(job, rank)) {
        for (auto& one : report.measurements) {  // short iterations, of which the mean watts are soon known
          one.time = one.time * 0.05;
          one.energy = one.energy * 0.05;
        }
        client.post(path + "/measurements", to_json(report));
      }
      EXPECT_EQ(client.ask("POST", path + "/ranks/" + std::to_string(rank) + "/profiled", "{}").status, 204u);
    }
    EXPECT_TRUE(client.schedule("slurm-7", 0));
    ElasticOption option{"gpt3", 1e6};
    option.pipeline = true;
    engine_.run(kJob, option.text(), "n1", kGpus).gpus[0].indices = {0, 1, 2, 3};
    ranks_.emplace(node_, server_.port());
    start();
  }

  void start() {
    NodeAgentsOptions agents;
    agents.pattern = folder_ / "{node}/agent.sock";
    agents.period = Seconds(0.2);
    agents_ = std::make_unique<NodeAgents>(agents);
    JobPacesOptions plans;
    plans.server = "127.0.0.1:" + std::to_string(server_.port());
    plans.token = kAdministrator;
    plans.period = Seconds(0.05);
    plans.lasts = Seconds(1.5);
    plans_ = std::make_unique<JobPaces>(plans);
    store_ = std::make_unique<ControllerStore>("");
    ControllerOptions options;
    options.spec.gpu = "a100";
    complete_spec(options.spec, load_ground_truth("a100"));
    options.budget = Watts(1e6);
    options.agents = agents_.get();
    options.plans = plans_.get();
    controller_ = std::make_unique<Controller>(engine_, *store_, options, [](const std::string&) {});
  }
  // As SIGKILL does, but for the threads.
  void kill() {
    controller_.reset();
    plans_.reset();
    agents_.reset();
    store_.reset();
  }
  bool cycle_until(const std::function<bool()>& holds) {
    return wait_until([&] {
      now_ += Seconds(1.0);
      controller_->cycle(now_);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return holds();
    });
  }
  [[nodiscard]] ClusterJobStatus job() const { return controller_->status().jobs.at(0); }
  [[nodiscard]] double degree() { return degree_of(client_.status("slurm-7")); }

  TempFolder folder_;
  Node node_{folder_, "n1", 1.0};  // whose counters go by the wall's clock
  ServerThread server_{with_administrator()};
  Client client_{server_.port(), kAdministrator};
  ScriptedEngine engine_{1, kGpus};
  std::unique_ptr<NodeAgents> agents_;
  std::unique_ptr<JobPaces> plans_;
  std::unique_ptr<ControllerStore> store_;
  std::unique_ptr<Controller> controller_;
  std::optional<Ranks> ranks_;
  Seconds now_{1e9};
};

TEST_F(PipelinePaces, FollowTheBudget) {
  ASSERT_TRUE(cycle_until([&] { return job().state == "running" && job().measured && node_.is_locked(); }));
  EXPECT_TRUE(job().pipeline);
  EXPECT_EQ(degree(), 1.0);
  const Seconds own = job().step;
  const double before = node_.watts();
  const Watts others = controller_->status().others;
  const Watts budget = others + Watts(before * 0.8);
  controller_->order_budget({budget, {}});
  ASSERT_TRUE(cycle_until([&] { return node_.watts() <= before * 0.8; }));
  EXPECT_GT(degree(), 1.0);
  ASSERT_TRUE(cycle_until([&] { return job().measured && *job().measured + others <= budget && job().step > own; }));
  EXPECT_GT(job().energy, Joules(0.0));
  controller_->order_budget({Watts(1e6), {}});
  EXPECT_TRUE(cycle_until([&] { return degree() == 1.0 && node_.locked() == 1410 && job().step == own; }));
  EXPECT_TRUE(engine_.acts.empty());  // it is neither held nor put back
}

// The next controller finds the job at the pace that the first one gave it.
TEST_F(PipelinePaces, EndAWhileAfterTheController) {
  ASSERT_TRUE(cycle_until([&] { return job().state == "running" && job().measured && node_.is_locked(); }));
  const Watts budget = controller_->status().others + Watts(node_.watts() * 0.8);
  const auto lower = [&] {
    controller_->order_budget({budget, {}});
    return cycle_until([&] { return degree() > 1.0; });
  };
  ASSERT_TRUE(lower());
  kill();
  EXPECT_TRUE(wait_until([&] { return degree() == 1.0 && node_.locked() == 1410; }));
  start();
  ASSERT_TRUE(lower());
  const double given = degree();
  kill();
  start();
  ASSERT_TRUE(cycle_until([&] { return job().state == "running"; }));
  EXPECT_TRUE(degree() == given || degree() == 1.0);
  EXPECT_TRUE(engine_.acts.empty());
}

TEST_F(PipelinePaces, OfAPlanForOtherGpusAreLeftAlone) {
  ASSERT_TRUE(cycle_until([&] { return job().state == "running"; }));
  engine_.job(kJob).gpus[0] = {"n1", 2, {0, 1}};
  ASSERT_TRUE(cycle_until([&] { return job().state == "left alone"; }));
  EXPECT_EQ(job().why, "it has 2 GPUs, and its plan is for 4");
}

TEST(PipelinePacesOptions, TakeAgents) {
  JobPacesOptions where;
  where.server = "127.0.0.1:1";
  JobPaces plans(where);
  ScriptedEngine engine(1, kGpus);
  ControllerStore store("");
  ControllerOptions options = testing::a100_cluster();
  options.plans = &plans;
  EXPECT_THROW(Controller(engine, store, options, [](const std::string&) {}), UsageError);
}

}  // namespace
}  // namespace flyball
