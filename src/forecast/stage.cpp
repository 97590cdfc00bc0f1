#include "forecast/stage.h"

namespace flyball {
namespace {

template <class Enum>
std::string_view name_in(const std::vector<std::string>& names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

}  // namespace

const std::vector<std::string>& component_names() {
  static const std::vector<std::string> names = {"processor", "accelerator", "memory", "disk", "network"};
  return names;
}

const std::vector<std::string>& training_stage_names() {
  static const std::vector<std::string> names = {"set_dataset",  "load_data",       "preprocess",    "transfer",
                                                 "model_in_out", "model_transfer",  "forward",       "forward_memory",
                                                 "backward",     "backward_memory", "communication", "update",
                                                 "wait"};
  return names;
}

const std::vector<std::string>& occurrence_names() {
  static const std::vector<std::string> names = {"run", "epoch", "iteration"};
  return names;
}

std::string_view name_of(Component component) { return name_in(component_names(), component); }
std::string_view name_of(TrainingStage stage) { return name_in(training_stage_names(), stage); }

std::string_view name_of(StageGroup group) {
  switch (group) {
    case StageGroup::kPreprocess: return "preprocess";
    case StageGroup::kCompute: return "compute";
    case StageGroup::kCommunicate: return "communicate";
  }
  return "";
}

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
