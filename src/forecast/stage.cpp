// What the paper says of each stage: its group, how often it runs, and which components work in it.
#include "forecast/stage.h"

namespace flyball {

StageGroup group_of(TrainingStage stage) {
  if (stage <= TrainingStage::kTransfer) return StageGroup::kPreprocess;
  if (stage <= TrainingStage::kBackwardMemory) return StageGroup::kCompute;
  return StageGroup::kCommunicate;
}

Occurrence usual_occurrence(TrainingStage stage) {
  switch (stage) {
    case TrainingStage::kSetDataset:
    case TrainingStage::kModelInOut:
    case TrainingStage::kModelTransfer: return Occurrence::kRun;
    default: return Occurrence::kIteration;
  }
}

PerComponent<bool> usual_activity(TrainingStage stage, bool accelerator) {
  const Component compute = accelerator ? Component::kAccelerator : Component::kProcessor;
  PerComponent<bool> active{};
  const auto set = [&active](Component component) { active[index_of(component)] = true; };
  switch (stage) {
    case TrainingStage::kSetDataset:
    case TrainingStage::kLoadData:
    case TrainingStage::kModelInOut:
      set(Component::kDisk);
      set(Component::kMemory);
      break;
    case TrainingStage::kPreprocess:
      set(Component::kProcessor);
      set(Component::kMemory);
      break;
    case TrainingStage::kTransfer:
    case TrainingStage::kModelTransfer:
    case TrainingStage::kForwardMemory:
    case TrainingStage::kBackwardMemory: set(Component::kMemory); break;
    case TrainingStage::kForward:
    case TrainingStage::kBackward:
    case TrainingStage::kUpdate:
      set(compute);
      set(Component::kMemory);
      break;
    case TrainingStage::kCommunication:
      set(Component::kNetwork);
      set(Component::kProcessor);
      set(Component::kMemory);
      break;
    case TrainingStage::kWait: break;
  }
  return active;
}

}  // namespace flyball
