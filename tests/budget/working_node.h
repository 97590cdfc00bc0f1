// A node of a cluster: simulated boards that work all the time, and the real agent of their node.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/agent_client.h"
#include "sim/simulated.h"
#include "sim/workload.h"
#include "support/agent_process.h"
#include "support/temp_folder.h"

namespace flyball::testing {

inline constexpr std::size_t kGpus = 4;
inline constexpr double kStandardLimit = 300.0;  // of an A100 PCIe, in watts

// A node with boards that work all the time, and its agent.
class Node {
 public:
  Node(const TempFolder& folder, const std::string& name, double time_scale = 20.0) : machine_(request(time_scale)) {
    const std::string own = folder / name;
    write_text_file(own + "/agent.toml", "[access]\nslow_others = true\n");
    agent.emplace(machine_.name(), own, std::vector<std::string>{"--config", own + "/agent.toml"});
    agent->start();
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      const WorkKind work = *work_named(machine_->spec(gpu), "forward");
      EXPECT_EQ(begin_work(*machine_, gpu, work, Seconds(1e6)).result, WorkResult::kDone);
    }
  }

  [[nodiscard]] double watts() const {
    double all = 0.0;
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      all += activity_of(machine_->spec(gpu), machine_.state(gpu)).power.value();
    }
    return all;
  }
  // The highest clock to which a board is locked; one that is not locked counts as locked to its highest.
  [[nodiscard]] double locked() const {
    double most = 0.0;
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      const double lock = machine_.state(gpu).applied.lock_maximum.value();
      most = std::max(most, lock > 0.0 ? lock : 1410.0);
    }
    return most;
  }
  [[nodiscard]] bool is_locked() const {
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      if (machine_.state(gpu).applied.lock_maximum.value() <= 0.0) return false;
    }
    return true;
  }
  // Whether some board may draw all that it can.
  [[nodiscard]] bool is_free() const {
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
      const BoardSettings asked = machine_.state(gpu).requested;
      if (asked.lock_maximum.value() <= 0.0 && asked.power_limit >= Watts(kStandardLimit)) return true;
    }
    return false;
  }
  [[nodiscard]] double power_limit(std::size_t gpu) const { return machine_.state(gpu).applied.power_limit.value(); }
  // What all boards together draw at each of these clocks.
  [[nodiscard]] std::vector<Watts> watts_at(const std::vector<Megahertz>& clocks) const {
    LeaseRequest request;
    request.heartbeat_timeout = Seconds(60);
    for (std::size_t gpu = 0; gpu < kGpus; ++gpu) request.gpus.push_back(gpu);
    AgentLease lease = AgentClient(agent->endpoint(), "").lease(request);
    std::vector<Watts> all;
    for (const Megahertz clock : clocks) {
      for (std::size_t gpu = 0; gpu < kGpus; ++gpu) lease.lock_sm_clocks(gpu, {Megahertz(210), clock});
      EXPECT_TRUE(wait_until([&] { return locked() == clock.value(); }));
      all.emplace_back(watts());
    }
    lease.release();
    return all;
  }

  std::optional<AgentProcess> agent;

 private:
  static MachineRequest request(double time_scale) {
    MachineRequest made;
    made.gpu = "a100";
    made.gpus = kGpus;
    made.time_scale = time_scale;
    return made;
  }

  SimulatedMachine machine_;
};

}  // namespace flyball::testing
