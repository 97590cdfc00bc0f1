// build_dag: from schedule and profile to the DAG. Nodes are the instructions of all stages' streams; edges follow each
// stage's order and each microbatch's way through the stages, with a transfer between two GPUs where that takes time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "pipeline/instruction.h"
#include "pipeline/pipeline_spec.h"

namespace flyball {
namespace {

using Edge = ComputationDag::Edge;

class DagBuilder {
 public:
  DagBuilder(const PipelineSpec& spec, const Profile& profile, int stages)
      : spec_(spec), profile_(profile), stages_(stages), virtual_stages_(stages * spec.chunks) {}

  ComputationDag build() {
    const auto streams = make_schedule(spec_.schedule, stages_, spec_.microbatches, spec_.chunks);
    split_backward_ = spec_.schedule == ScheduleKind::kZbH1;
    for (int stage = 0; stage < stages_; ++stage) add_stream(stage, streams[static_cast<std::size_t>(stage)]);
    for (int m = 0; m < spec_.microbatches; ++m) add_dependencies(m);
    return {profile_.source, stages_, std::move(types_), std::move(nodes_), edges_};
  }

 private:
  using Key = std::array<int, 3>;  // instruction, virtual stage, microbatch

  // Options of an instruction: the chunk's own ("forward.1") before the common ones.
  int profiled_type(int stage, InstructionKind kind, int chunk) {
    const std::string name(instruction_name(kind));
    const std::string own = fmt::format("{}.{}", name, chunk);
    const OperationProfile* found = profile_.find(stage, own);
    if (found == nullptr) found = profile_.find(stage, name);
    if (found == nullptr) {
      throw InputError({profile_.source},
                       fmt::format("the profile has no '{}' for stage {}, which schedule {} needs", name, stage,
                                   schedule_name(spec_.schedule)),
                       fmt::format("profile that operation, or choose another --schedule; stage {} has: {}", stage,
                                   fmt::join(instructions_of(stage), ", ")));
    }
    return type_index({stage, found->instruction, found->options, true});
  }

  std::vector<std::string> instructions_of(int stage) const {
    std::vector<std::string> names;
    for (const OperationProfile& operation : profile_.operations) {
      if (operation.stage == stage) names.push_back(operation.instruction);
    }
    return names;
  }

  int type_index(OperationType type) {
    const auto [entry, is_new] = type_of_.try_emplace({type.stage, type.instruction}, static_cast<int>(types_.size()));
    if (is_new) types_.push_back(std::move(type));
    return entry->second;
  }

  // The type of a constant-time operation, or -1: the specification's, else the profile's.
  int constant_type(int stage, std::string_view name, const std::optional<ConstantOperation>& stated, bool occupies) {
    if (stated) {
      const Joules blocked = occupies ? spec_.blocking(stage, profile_) * stated->time : Joules(0);
      const ClockOption option{Megahertz(0), stated->time, stated->energy.value_or(blocked)};
      return type_index({stage, std::string(name), {option}, occupies});
    }
    const OperationProfile* measured = profile_.find(stage, name);
    if (measured == nullptr) return -1;
    return type_index({stage, std::string(name), {measured->options.front()}, occupies});
  }

  int add_node(int type, int microbatch, int chunk) {
    nodes_.push_back({type, microbatch, chunk});
    return static_cast<int>(nodes_.size()) - 1;
  }

  void link(int before, int after) { edges_.push_back({before, after}); }

  void add_stream(int stage, const InstructionStream& stream) {
    int previous = -1;
    const auto append = [&](int node) {
      if (previous >= 0) link(previous, node);
      previous = node;
    };
    for (const Instruction& instruction : stream) {
      const int virtual_stage = instruction.chunk * stages_ + stage;
      if (instruction.kind == InstructionKind::kForward && virtual_stage == 0) {
        const int load = constant_type(stage, kDataLoadName, spec_.data_load, true);
        if (load >= 0) append(add_node(load, instruction.microbatch, 0));
      }
      const int node = add_node(profiled_type(stage, instruction.kind, instruction.chunk), instruction.microbatch,
                                instruction.chunk);
      node_of_[{static_cast<int>(instruction.kind), virtual_stage, instruction.microbatch}] = node;
      append(node);
    }
    const int sync = constant_type(stage, kGradientSyncName, spec_.gradient_sync, true);
    if (sync >= 0) append(add_node(sync, -1, 0));
    const int step = constant_type(stage, kOptimizerStepName, spec_.optimizer_step, true);
    if (step >= 0) append(add_node(step, -1, 0));
  }

  int node(InstructionKind kind, int virtual_stage, int microbatch) const {
    const auto found = node_of_.find({static_cast<int>(kind), virtual_stage, microbatch});
    return found == node_of_.end() ? -1 : found->second;
  }

  // An edge between virtual stages, through a transfer where they lie on different GPUs and transfers take time.
  void send(int before, int after, int from_stage, int microbatch) {
    const int to_stage = types_[static_cast<std::size_t>(nodes_[static_cast<std::size_t>(after)].type)].stage;
    const int transfer = from_stage == to_stage ? -1 : constant_type(from_stage, kP2pName, spec_.p2p, false);
    if (transfer < 0) return link(before, after);
    const int hop = add_node(transfer, microbatch, 0);
    link(before, hop);
    link(hop, after);
  }

  void add_dependencies(int microbatch) {
    using enum InstructionKind;
    const InstructionKind gradient = split_backward_ ? kBackwardInput : kBackward;
    for (int v = 0; v + 1 < virtual_stages_; ++v) {
      send(node(kForward, v, microbatch), node(kForward, v + 1, microbatch), v % stages_, microbatch);
      send(node(gradient, v + 1, microbatch), node(gradient, v, microbatch), (v + 1) % stages_, microbatch);
    }
    // Same-stage dependencies (a backward after its forward, a weight gradient after its activation gradient) follow
    // from the stage's order in every schedule, but for the turn-around on the last virtual stage, which the order of
    // the streams gives as well.
  }

  const PipelineSpec& spec_;
  const Profile& profile_;
  int stages_;
  int virtual_stages_;
  bool split_backward_ = false;
  std::vector<OperationType> types_;
  std::map<std::pair<int, std::string>, int> type_of_;
  std::vector<Computation> nodes_;
  std::vector<Edge> edges_;
  std::map<Key, int> node_of_;
};

std::vector<double> numbers_of(const std::vector<Watts>& powers) {
  std::vector<double> numbers;
  for (const Watts power : powers) numbers.push_back(power.value());
  return numbers;
}

void check_blocking(const PipelineSpec& spec, int stages) {
  if (spec.blocking_power.size() <= 1 || spec.blocking_power.size() == static_cast<std::size_t>(stages)) return;
  throw UsageError(fmt::format("{} blocking powers for {} stages; give one, or one per stage (--blocking-power)",
                               spec.blocking_power.size(), stages));
}

}  // namespace

std::optional<Watts> measured_waiting(const Profile& profile, int stage) {
  const OperationProfile* waiting = profile.find(stage, kWaitingName);
  if (waiting == nullptr) return std::nullopt;
  Watts sum;
  for (const ClockOption& option : waiting->options) sum += option.energy / option.time;
  return sum / static_cast<double>(waiting->options.size());
}

Watts PipelineSpec::blocking(int stage, const Profile& profile) const {
  if (blocking_power.size() == 1) return blocking_power[0];
  if (!blocking_power.empty()) return blocking_power.at(static_cast<std::size_t>(stage));
  return measured_waiting(profile, stage).value_or(kDefaultBlockingPower);
}

std::vector<Watts> PipelineSpec::blocking_powers(int stages_of_dag, const Profile& profile) const {
  check_blocking(*this, stages_of_dag);
  std::vector<Watts> powers;
  for (int stage = 0; stage < stages_of_dag; ++stage) powers.push_back(blocking(stage, profile));
  return powers;
}

std::vector<std::string> blocking_warnings(const PipelineSpec& spec, const Profile& profile,
                                           const ComputationDag& dag) {
  constexpr double kFarOff = 0.05;
  std::vector<std::string> warnings;
  std::vector<std::string> off;
  for (int stage = 0; stage < dag.stages(); ++stage) {
    const auto measured = measured_waiting(profile, stage);
    const Watts assumed = spec.blocking(stage, profile);
    if (!measured || std::abs(assumed / *measured - 1.0) <= kFarOff) continue;
    off.push_back(fmt::format("stage {} {:.4g} W", stage, measured->value()));
  }
  if (!off.empty()) {
    warnings.push_back(fmt::format(
        "the stated blocking power is not what was measured: {}, stated {:.4g} W; energies and savings follow what is "
        "stated, leave it out to take what was measured",
        fmt::join(off, ", "), fmt::join(numbers_of(spec.blocking_power), ", ")));
  }
  const OperationType* least = nullptr;
  const ClockOption* least_option = nullptr;
  double least_share = 1.0 - 1e-9;  // operations whose energy is not stated draw just the blocking power
  for (const OperationType& type : dag.types()) {
    for (const ClockOption& option : type.options) {
      const double share = option.energy / (spec.blocking(type.stage, profile) * option.time);
      // A transfer without energy of its own was not measured.
      if (!(share < least_share) || !(option.energy > Joules(0))) continue;
      least_share = share;
      least = &type;
      least_option = &option;
    }
  }
  if (least != nullptr) {
    warnings.push_back(fmt::format(
        "a GPU that waits is to draw {:.4g} W, more than stage {} {} at {:.0f} MHz does ({:.4g} W): plans then work "
        "slowly rather than wait; check the blocking power",
        spec.blocking(least->stage, profile).value(), least->stage, least->instruction, least_option->frequency.value(),
        (least_option->energy / least_option->time).value()));
  }
  return warnings;
}

ComputationDag build_dag(const PipelineSpec& spec, const Profile& profile) {
  if (!spec.dag_file.empty()) {
    ComputationDag dag = read_dag(spec.dag_file, read_text_file(spec.dag_file), profile);
    if (spec.stages > 0 && spec.stages != dag.stages()) {
      throw UsageError(
          fmt::format("the pipeline has {} stages but {} has {}", spec.stages, spec.dag_file, dag.stages()));
    }
    check_blocking(spec, dag.stages());
    return dag;
  }
  const int stages = spec.stages > 0 ? spec.stages : profile.stages;
  if (stages > profile.stages) {
    throw InputError({profile.source},
                     fmt::format("the pipeline has {} stages but the profile only {}", stages, profile.stages),
                     "profile every stage, or correct the number of stages");
  }
  check_blocking(spec, stages);
  return DagBuilder(spec, profile, stages).build();
}

}  // namespace flyball
