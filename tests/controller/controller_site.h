// A controller on a scripted engine, in which time passes with every cycle.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/controller.h"
#include "controller/scripted_engine.h"
#include "support/temp_folder.h"

namespace flyball::testing {

inline std::string elastic(const std::string& kind, int min = 1, int max = 8) {
  return ElasticOption{kind, 1e6, min, max}.text();
}

// What is kept of a part of changes, by kind.
inline std::vector<ChangeTime> times_of(ControllerStore& store, ChangePart part) {
  std::vector<ChangeTime> times = store.change_times();
  std::erase_if(times, [part](const ChangeTime& one) { return one.part != part; });
  return times;
}

// A controller that can be killed and started again, on an engine in which time passes with every cycle.
class Site {
 public:
  explicit Site(int nodes, ControllerOptions how = a100_cluster()) : engine(nodes), given(std::move(how)) { start(); }

  void start() {
    controller.reset();
    store.reset();
    store = std::make_unique<ControllerStore>(folder / "controller.db");
    controller =
        std::make_unique<Controller>(engine, *store, given, [this](const std::string& words) { log.push_back(words); });
  }
  // One second. A controller that is killed is started again.
  void cycle() {
    now += Seconds(1.0);
    engine.tick(now);
    try {
      controller->cycle(now);
    } catch (const Killed&) {
      ++kills;
      start();
    }
  }
  void cycles(int count) {
    for (int i = 0; i < count; ++i) cycle();
  }
  int gpus(std::int64_t job) {
    int all = 0;
    for (const NodeGpus& one : engine.job(job).gpus) all += one.count;
    return all;
  }
  // How often the job was put back into the queue by us.
  int requeues(std::int64_t job) const {
    return static_cast<int>(std::ranges::count(engine.acts, "requeue " + std::to_string(job)));
  }
  std::string why(std::int64_t job) const {
    for (const ClusterJobStatus& one : controller->status().jobs) {
      if (one.job == job) return one.state + ": " + one.why;
    }
    return "there is no such job";
  }

  TempFolder folder;
  ScriptedEngine engine;
  ControllerOptions given;
  std::unique_ptr<ControllerStore> store;
  std::unique_ptr<Controller> controller;
  std::vector<std::string> log;
  Seconds now{1e9};
  int kills = 0;
};

}  // namespace flyball::testing
