// An agent in the test's own process: its loop in a thread, GPUs in memory, sockets in a folder of its own.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/agent.h"
#include "client/agent_client.h"
#include "net/client.h"
#include "support/memory_gpu.h"
#include "support/temp_folder.h"

namespace flyball::testing {

class AgentHost {
 public:
  explicit AgentHost(std::size_t gpu_count, const std::function<void(AgentConfig&)>& adjust = {}) {
    for (std::size_t i = 0; i < gpu_count; ++i) gpus.push_back(std::make_shared<MemoryGpu>(i));
    config.socket_path = folder / "agent.sock";
    config.state_dir = folder / "state";
    config.control.call_timeout = Seconds(10);  // a busy machine is no driver that hangs
    if (adjust) adjust(config);
    start();
  }
  ~AgentHost() {
    for (const auto& gpu : gpus) {
      gpu->hang(false);
      gpu->hang_reads(false);
    }
    if (agent_) stop();
  }
  AgentHost(const AgentHost&) = delete;
  AgentHost& operator=(const AgentHost&) = delete;

  void start() {
    loop_ = std::make_unique<EventLoop>();
    AgentDevices devices;
    for (const auto& gpu : gpus) devices.gpus.push_back(gpu);
    agent_ = std::make_unique<Agent>(*loop_, config, devices);
    thread_ = std::thread([this] { loop_->run(); });
  }

  // As on SIGTERM. True when every GPU was restored.
  bool stop() {
    std::promise<bool> restored;
    loop_->post([&] { agent_->stop(Seconds(2), [&](bool all) { restored.set_value(all); }); });
    const bool all = restored.get_future().get();
    end_loop();
    return all;
  }

  // As by kill -9: nothing is restored, nothing is told.
  void kill() { end_loop(); }

  [[nodiscard]] Endpoint endpoint() const { return parse_endpoint(config.socket_path); }
  [[nodiscard]] std::uint16_t tcp_port() const { return agent_->tcp_port(); }

  // Asks until the answer is as wanted; at most ten seconds.
  [[nodiscard]] bool eventually(const std::function<bool(AgentClient&)>& wanted) const {
    AgentClient client(endpoint(), "");
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      if (wanted(client)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  TempFolder folder;
  AgentConfig config;
  std::vector<std::shared_ptr<MemoryGpu>> gpus;

 private:
  void end_loop() {
    loop_->stop();
    thread_.join();
    agent_.reset();
    loop_.reset();
  }

  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Agent> agent_;
  std::thread thread_;
};

}  // namespace flyball::testing
