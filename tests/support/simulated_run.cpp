#include "support/simulated_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "profile/random_bits.h"

namespace flyball {
namespace {

// Box-Muller: the standard library's distributions differ from one to another.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  double uniform() {  // in (0, 1)
    return (static_cast<double>(next_random_bits(state_) >> 11u) + 0.5) / 9007199254740992.0;
  }

  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

  // Mean 1, relative standard deviation `spread`.
  double factor(double spread, Noise noise) {
    if (noise == Noise::kExponential) return 1.0 + spread * (-std::log(uniform()) - 1.0);
    if (noise == Noise::kTwoPoint) return uniform() < 0.1 ? 1.0 + 3.0 * spread : 1.0 - spread / 3.0;
    const double sigma = std::sqrt(std::log1p(spread * spread));
    return std::exp(sigma * normal() - 0.5 * sigma * sigma);
  }

 private:
  std::uint64_t state_;
};

struct Node {
  std::size_t type = 0;
  double slowness = 1.0;
  double hunger = 1.0;  // factor of its powers
  bool measured = false;
};

constexpr std::array<TrainingStage, 3> kOnce = {TrainingStage::kSetDataset, TrainingStage::kModelInOut,
                                                TrainingStage::kModelTransfer};
constexpr std::array<TrainingStage, 8> kLocal = {
    TrainingStage::kLoadData,      TrainingStage::kPreprocess, TrainingStage::kTransfer,       TrainingStage::kForward,
    TrainingStage::kForwardMemory, TrainingStage::kBackward,   TrainingStage::kBackwardMemory, TrainingStage::kUpdate};

class Simulation {
 public:
  Simulation(const RunDescription& truth, const ClusterBehaviour& behaviour, int measured, Seconds step,
             std::size_t trace_steps)
      : truth_(truth), behaviour_(behaviour), measured_(measured), random_(behaviour.seed) {
    run_.step = step;
    run_.trace_w.assign(trace_steps, 0.0);
    run_.measured = truth;
    for (NodeType& type : run_.measured.node_types) {
      for (StageMeasurement& stage : type.stages) stage.times.clear();
      StageMeasurement& wait = type.stage(TrainingStage::kWait);
      wait.stated = true;
      wait.occurrence = Occurrence::kIteration;
    }
    for (std::size_t t = 0; t < truth.node_types.size(); ++t) {
      for (int n = 0; n < truth.node_types[t].count; ++n) {
        const double slowness = random_.factor(behaviour.node_spread, behaviour.node_noise);
        const double hunger = random_.factor(behaviour.node_spread, behaviour.node_noise);
        nodes_.push_back({t, slowness, hunger, n < truth.node_types[t].measured_nodes});
      }
    }
  }

  SimulatedRun run() {
    begin_run();
    const auto iterations = static_cast<int>(std::lround(truth_.epochs * truth_.iterations_per_epoch()));
    run_.iterations = iterations;
    for (int i = 0; i < iterations; ++i) iterate(i < measured_, 1.0 + behaviour_.trend * i / iterations);
    run_.duration = now_;
    // Steps that the run did not reach are no part of it.
    const auto reached = static_cast<std::size_t>(now_ / run_.step);
    run_.trace_w.resize(std::min(run_.trace_w.size(), reached));
    return std::move(run_);
  }

 private:
  Watts power(const Node& node, TrainingStage which) const {
    const NodeType& type = truth_.node_types[node.type];
    const StageMeasurement& stage = type.stage(which);
    Watts sum(0);
    for (std::size_t c = 0; c < kComponents; ++c) {
      if (!type.components[c]) continue;
      const bool works = which != TrainingStage::kWait && stage.active[c];
      sum += stage.power[c].value_or(works ? type.components[c]->active : type.components[c]->idle);
    }
    return node.hunger * sum;
  }

  void draw(const Node& node, TrainingStage which, Seconds begin, Seconds time) {
    if (time <= Seconds(0)) return;
    const Watts own = power(node, which);
    run_.energy += own * time;
    const double first = begin / run_.step;
    const double last = std::min((begin + time) / run_.step, static_cast<double>(run_.trace_w.size()));
    for (double from = first; from < last;) {
      const double until = std::min(last, std::floor(from) + 1.0);
      run_.trace_w[static_cast<std::size_t>(from)] += own.value() * (until - from);
      from = until;
    }
  }

  void measure(std::size_t type, TrainingStage which, Seconds sum) {
    NodeType& seen = run_.measured.node_types[type];
    seen.stage(which).times.push_back(sum / std::min(seen.measured_nodes, seen.count));
  }

  double jitter() { return random_.factor(behaviour_.jitter, behaviour_.jitter_noise); }

  void begin_run() {
    std::vector<Seconds> ready(nodes_.size());
    for (const TrainingStage which : kOnce) {
      std::vector<Seconds> sums(truth_.node_types.size());
      for (std::size_t n = 0; n < nodes_.size(); ++n) {
        const StageMeasurement& stage = truth_.node_types[nodes_[n].type].stage(which);
        if (!stage.stated) continue;
        const Seconds time = stage.times.front() * nodes_[n].slowness * jitter();
        draw(nodes_[n], which, ready[n], time);
        ready[n] += time;
        if (nodes_[n].measured) sums[nodes_[n].type] += time;
      }
      for (std::size_t t = 0; t < sums.size(); ++t) {
        if (truth_.node_types[t].stage(which).stated) measure(t, which, sums[t]);
      }
    }
    // They start together.
    now_ = *std::max_element(ready.begin(), ready.end());
    for (std::size_t n = 0; n < nodes_.size(); ++n) draw(nodes_[n], TrainingStage::kWait, ready[n], now_ - ready[n]);
    ready_.assign(nodes_.size(), now_);
  }

  void iterate(bool measured, double grown) {
    common_ = behaviour_.drift * common_ + std::sqrt(1.0 - behaviour_.drift * behaviour_.drift) * random_.normal();
    const double shared = grown * std::exp(behaviour_.common_jitter * common_ -
                                           0.5 * behaviour_.common_jitter * behaviour_.common_jitter);
    const std::size_t types = truth_.node_types.size();
    std::vector<PerStage<Seconds>> sums(types);
    Seconds barrier(0);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      const NodeType& type = truth_.node_types[node.type];
      const double stall = random_.uniform() < behaviour_.stall_chance ? behaviour_.stall_factor : 1.0;
      for (const TrainingStage which : kLocal) {
        const StageMeasurement& stage = type.stage(which);
        if (!stage.stated) continue;
        const bool computes = group_of(which) == StageGroup::kCompute;
        const Seconds time = stage.times.front() * node.slowness * shared * jitter() * (computes ? stall : 1.0);
        draw(node, which, ready_[n], time);
        ready_[n] += time;
        if (node.measured) sums[node.type][index_of(which)] += time;
      }
      barrier = std::max(barrier, ready_[n]);
    }
    const double congestion = jitter();
    Seconds all_reduce(0);
    for (const NodeType& type : truth_.node_types) {
      const StageMeasurement& stage = type.stage(TrainingStage::kCommunication);
      if (stage.stated) all_reduce = std::max(all_reduce, stage.times.front() * congestion);
    }
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      draw(node, TrainingStage::kWait, ready_[n], barrier - ready_[n]);
      draw(node, TrainingStage::kCommunication, barrier, all_reduce);
      if (node.measured) {
        sums[node.type][index_of(TrainingStage::kWait)] += barrier - ready_[n];
        sums[node.type][index_of(TrainingStage::kCommunication)] += all_reduce;
      }
      ready_[n] = barrier + all_reduce;
    }
    now_ = barrier + all_reduce;
    if (!measured) return;
    for (std::size_t t = 0; t < types; ++t) {
      for (std::size_t s = 0; s < kTrainingStages; ++s) {
        const auto which = static_cast<TrainingStage>(s);
        const StageMeasurement& stage = run_.measured.node_types[t].stages[s];
        if (stage.stated && stage.occurrence == Occurrence::kIteration) measure(t, which, sums[t][s]);
      }
    }
  }

  const RunDescription& truth_;
  ClusterBehaviour behaviour_;
  int measured_;
  Random random_;
  std::vector<Node> nodes_;
  std::vector<Seconds> ready_;
  Seconds now_;
  double common_ = 0.0;
  SimulatedRun run_;
};

}  // namespace

SimulatedRun simulate_run(const RunDescription& truth, const ClusterBehaviour& behaviour, int measured_iterations,
                          Seconds step, std::size_t trace_steps) {
  return Simulation(truth, behaviour, measured_iterations, step, trace_steps).run();
}

}  // namespace flyball
