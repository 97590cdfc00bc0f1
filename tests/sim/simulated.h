// Simulated machines that go away with their test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/monotonic_time.h"
#include "sim/specification.h"
#include "sim/workload.h"

namespace flyball::testing {

// A name that no other test process uses or has used: numbers of processes come again, and one that was killed has left
// its machine.
inline std::string unique_machine_name() {
  static std::atomic<int> count{0};
  static const std::string process = std::to_string(::getpid()) + "-" + std::to_string(monotonic_now());
  return "test-" + process + "-" + std::to_string(count++);
}

// A machine that FLYBALL_SIM names while it lives. Time stands still unless `time_scale` says otherwise.
class SimulatedMachine {
 public:
  explicit SimulatedMachine(const std::string& gpu = "a100", std::size_t gpus = 1, double time_scale = 0.0)
      : name_(unique_machine_name()) {
    MachineRequest request;
    request.name = name_;
    request.gpu = gpu;
    request.gpus = gpus;
    request.time_scale = time_scale;
    raise(request);
  }
  explicit SimulatedMachine(MachineRequest request) : name_(unique_machine_name()) {
    request.name = name_;
    raise(request);
  }
  ~SimulatedMachine() {
    Machine::remove(name_);
    ::unsetenv("FLYBALL_SIM");
    ::unsetenv("FLYBALL_SIM_PRIVILEGED");
  }
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Machine& operator*() const { return *machine_; }
  [[nodiscard]] Machine* operator->() const { return machine_.get(); }

  [[nodiscard]] BoardState state(std::size_t board = 0) const {
    BoardAccess access(*machine_, board);
    BoardState copy = access.state();
    access.commit();
    return copy;
  }

 private:
  void raise(const MachineRequest& request) {
    machine_ = Machine::create(name_, specify_machine(request));
    ::setenv("FLYBALL_SIM", name_.c_str(), 1);
    ::setenv("FLYBALL_SIM_PRIVILEGED", "1", 1);  // tests may run as anybody
  }

  std::string name_;
  std::shared_ptr<Machine> machine_;
};

// Waits until it holds; false after a minute, which no machine is too slow for.
inline bool wait_until(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace flyball::testing
