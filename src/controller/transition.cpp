// One case for each state that the engine can show.
#include "controller/transition.h"

namespace flyball {

std::optional<GpuShape> shape_of(const EngineJob& job) {
  GpuShape shape;
  for (const NodeGpus& one : job.gpus) {
    if (shape.nodes.empty()) shape.gpus_per_node = one.count;
    if (one.count != shape.gpus_per_node) return std::nullopt;
    shape.nodes.push_back(one.node);
  }
  return shape;
}

TransitionStep next_step(const Transition& wanted, const EngineJob& seen, const TransitionFacts& facts) {
  using Step = TransitionStep;
  const bool none = wanted.target.nodes.empty();
  switch (seen.state) {
    case EngineJobState::kRunning: {
      if (!none && !facts.told && shape_of(seen) == wanted.target) return Step::kSettled;
      if (seen.restarts != wanted.restarts) return Step::kMisplaced;
      if (facts.shrinks) return facts.keeps ? Step::kTakeNodes : Step::kAskToKeep;
      const bool patient = facts.asks && facts.now - facts.asked.value_or(wanted.since) < facts.stop_within;
      return patient ? Step::kAskToStop : Step::kRequeue;
    }
    case EngineJobState::kPending:
      if (none) return seen.held ? Step::kSettled : Step::kHold;
      if (seen.wanted == wanted.target && seen.wanted_nodes == static_cast<int>(wanted.target.nodes.size())) {
        return seen.held && facts.room ? Step::kStart : Step::kWait;
      }
      return seen.held ? Step::kResize : Step::kHold;
    case EngineJobState::kCompleted:  // it did as it was asked
    case EngineJobState::kFailed:     // its start came to nothing
      return seen.restarts == wanted.restarts ? Step::kRequeue : Step::kWait;
    case EngineJobState::kChanging:
    case EngineJobState::kCancelled: break;
  }
  return Step::kWait;
}

}  // namespace flyball
