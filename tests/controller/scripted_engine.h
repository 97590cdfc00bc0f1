// A cluster engine in memory: jobs are put where they ask to be as soon as they may start and there is room. Any act
// can be made to fail, as if the controller had been killed before it or just after it.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/cluster_engine.h"
#include "controller/controller.h"
#include "controller/elastic_option.h"

namespace flyball::testing {

// Of nodes with A100s whose clock is not set.
inline ControllerOptions a100_cluster() {
  ControllerOptions made;
  made.spec.gpu = "a100";
  made.spec.clocks = {Megahertz(1410.0)};
  made.spec.voltage_break = Megahertz(1200.0);
  made.spec.idle = Watts(50.0);
  made.spec.busy = Watts(100.0);
  made.spec.limit = Watts(400.0);
  made.spec.p_max = Watts(300.0);
  made.spec.memory_gib = 80.0;
  made.budget = Watts(1e6);
  return made;
}

// Not of the family flyball::Error: nothing catches it, as nothing catches SIGKILL.
struct Killed {};

class ScriptedEngine : public ClusterEngine {
 public:
  explicit ScriptedEngine(int nodes, int gpus = 4) {
    for (int node = 1; node <= nodes; ++node)
      view.nodes.push_back({"n" + std::to_string(node), true, "idle", false, gpus});
  }

  EngineJob& submit(std::int64_t id, const std::string& comment, bool held = true) {
    EngineJob job;
    job.id = id;
    job.user = 1000;
    job.comment = held && !comment.empty() ? comment + ";" + std::string(kHeldForUs) : comment;
    job.held = held;
    job.wanted.gpus_per_node = 1;
    view.jobs.push_back(job);
    return view.jobs.back();
  }
  // A job that runs there, ours or not.
  EngineJob& run(std::int64_t id, const std::string& comment, const std::string& node, int gpus) {
    EngineJob& job = submit(id, comment, false);
    job.state = EngineJobState::kRunning;
    job.gpus = {{node, gpus, {}}};
    job.first_node = node;
    return job;
  }
  EngineJob& job(std::int64_t id) { return *std::ranges::find(view.jobs, id, &EngineJob::id); }
  void end(std::int64_t id, EngineJobState state = EngineJobState::kCompleted) {
    job(id).state = state;
    job(id).gpus.clear();
  }

  // As Slurm does with a job that it cannot launch.
  void fail_to_launch(std::int64_t id) {
    EngineJob& one = job(id);
    one.state = EngineJobState::kPending;
    one.held = one.engine_failed = true;
    one.gpus.clear();
    ++one.restarts;
  }

  EngineNode& node(const std::string& name) { return *std::ranges::find(view.nodes, name, &EngineNode::name); }
  void set_state(EngineNode& one, NodePower power, std::optional<Seconds> idle_since = std::nullopt) {
    one.power = power;
    one.idle_since = idle_since;
    switched_at[one.name] = now;
  }

  // Lets time pass: what may start, starts; nodes are off two seconds after the order, and back after `wake`.
  void tick(Seconds to) {
    now = to;
    for (EngineNode& one : view.nodes) {
      const Seconds since = now - switched_at[one.name];
      if (one.power == NodePower::kGoingOff && since >= Seconds(2.0)) set_state(one, NodePower::kOff);
      if (one.power == NodePower::kWaking && since >= wake) set_state(one, NodePower::kOn, now);
      if (used(one.name) > 0) one.idle_since.reset();
      if (used(one.name) == 0 && !one.idle_since && one.power == NodePower::kOn) one.idle_since = now;
    }
    for (EngineJob& one : view.jobs) {
      if (one.state != EngineJobState::kPending || one.held || one.wanted.nodes.empty()) continue;
      const bool room = std::ranges::all_of(
          one.wanted.nodes, [&](const std::string& node) { return used(node) + one.wanted.gpus_per_node <= 4; });
      if (!room) continue;
      for (const std::string& name : one.wanted.nodes) starts_on_sleepers += node(name).power != NodePower::kOn;
      one.state = EngineJobState::kRunning;
      one.first_node = one.wanted.nodes.front();
      for (const std::string& node : one.wanted.nodes) one.gpus.push_back({node, one.wanted.gpus_per_node, {}});
      ++starts[one.id];
    }
  }
  int used(const std::string& node) const {
    int gpus = 0;
    for (const EngineJob& one : view.jobs) {
      for (const NodeGpus& here : one.gpus) gpus += here.node == node ? here.count : 0;
    }
    return gpus;
  }

  EngineView observe() override {
    if (is_away) throw SystemError("Unable to contact slurm controller");
    return view;
  }
  void hold(const EngineJob& seen) override {
    act("hold", seen, [](EngineJob& one) { one.held = true; });
  }
  void requeue_held(const EngineJob& seen) override {
    act("requeue", seen, [&](EngineJob& one) {
      if (one.state == EngineJobState::kPending) throw SystemError("Job is pending execution");
      one.state = EngineJobState::kPending;
      one.held = true;
      one.gpus.clear();
      ++one.restarts;
    });
  }
  void resize(const EngineJob& seen, const GpuShape& shape) override {
    act("resize", seen, [&](EngineJob& one) {
      one.wanted = shape;
      one.wanted_nodes = static_cast<int>(shape.nodes.size());
    });
  }
  void start(const EngineJob& seen) override {
    on_start();
    if (starts_refused > 0) {
      --starts_refused;
      throw SystemError("Socket timed out on send/recv operation");
    }
    act("start", seen, [](EngineJob& one) { one.held = one.engine_failed = false; });
  }
  void keep_nodes(const EngineJob& seen, const std::vector<std::string>& kept) override {
    if (takes_refused > 0) {
      --takes_refused;
      throw SystemError("Job update not available right now, the DB index is being set");
    }
    act("take", seen, [&](EngineJob& one) {
      if (std::ranges::count(kept, one.first_node) == 0) throw SystemError("Invalid node name specified");
      std::erase_if(one.gpus, [&](const NodeGpus& has) { return std::ranges::count(kept, has.node) == 0; });
    });
  }
  void resume(const EngineNode& node) override {
    resumed.push_back(node.name);
    for (EngineNode& one : view.nodes) {
      if (one.name == node.name) one = {one.name, true, "idle", false, one.gpus};
    }
  }
  void set_power(const std::vector<std::string>& nodes, bool on) override {
    std::string names;
    for (const std::string& name : nodes) names += (names.empty() ? "" : ",") + name;
    act((on ? "on " : "off ") + names, [&] {
      for (const std::string& name : nodes) {
        // As Slurm does: an order to wake is lost while the node goes off.
        if (on && node(name).power == NodePower::kOff) set_state(node(name), NodePower::kWaking);
        if (!on && node(name).power == NodePower::kOn) set_state(node(name), NodePower::kGoingOff);
      }
    });
  }
  void explain(const EngineJob& /*seen*/, const std::string& /*words*/) override {}

  EngineView view;
  std::vector<std::string> acts;  // "start 3"
  std::map<std::int64_t, int> starts;
  std::vector<std::string> resumed;  // nodes
  int kill_at = -1;                  // the act at which the controller is killed; -1: none
  bool kill_after = false;           // once it is done, rather than before
  bool refuses = false;              // every act fails
  bool is_away = false;              // it does not answer
  int starts_refused = 0;            // the next so many fail
  int takes_refused = 0;             // likewise
  Seconds wake{10.0};                // that a node takes to
  int starts_on_sleepers = 0;        // on nodes that were not on
  Seconds now{0.0};
  std::map<std::string, Seconds> switched_at;
  std::function<void()> on_start = [] {};

 private:
  template <class Do>
  void act(const std::string& what, const EngineJob& seen, const Do& done) {
    act(what + " " + std::to_string(seen.id), [&] { done(job(seen.id)); });
  }
  template <class Do>
  void act(const std::string& what, const Do& done) {
    if (refuses) throw SystemError("Slurm backup controller in standby mode");
    const bool last = static_cast<int>(acts.size()) == kill_at;
    if (last) kill_at = -1;
    if (last && !kill_after) throw Killed();
    acts.push_back(what);
    done();
    if (last) throw Killed();
  }
};

}  // namespace flyball::testing
