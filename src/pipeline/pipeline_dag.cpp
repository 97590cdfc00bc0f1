// build_dag: from schedule and profile to the DAG. Nodes are the instructions of all stages' streams; edges follow each
// stage's order and each microbatch's way through the stages, with a transfer between two GPUs where that takes time.
//
// A transfer that occupies both stages is one node that waits for both and that both wait for: after it comes what the
// sender runs next, before it what the receiver ran last. The transfers of a stage between two of its computations are
// thus posted together and go on together, as frameworks batch a send with the receive that follows it. Other orders
// place transfers elsewhere (plan/stage_orders.h). In the interleaved schedule this would be a circle; there each stage
// posts them as Megatron does (interleaved_exchanges()), and waits for both ends even if they take no time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/own_name.h"
#include "base/text.h"
#include "pipeline/instruction.h"
#include "pipeline/pipeline_spec.h"
#include "pipeline/waiting_power.h"

namespace flyball {
namespace {

using Edge = ComputationDag::Edge;

// Whether first or last microbatches are kept apart. What has fewer clocks than all have would take choices away.
bool differs(const OperationProfile& apart, const OperationProfile& all) {
  if (!apart.labels.empty() || !all.labels.empty()) return false;
  if (apart.options.size() < all.options.size()) return false;
  if (apart.options.front().frequency != all.options.front().frequency) return false;
  std::vector<double> logarithms;
  for (const ClockOption& one : apart.options) {
    const auto same = std::find_if(all.options.begin(), all.options.end(),
                                   [&](const ClockOption& other) { return other.frequency == one.frequency; });
    if (same != all.options.end()) logarithms.push_back(std::log(one.time / same->time));
  }
  return time_apart(logarithms).has_value();
}

class DagBuilder {
 public:
  DagBuilder(const PipelineSpec& spec, const Profile& profile, int stages)
      : spec_(spec), profile_(profile), stages_(stages), virtual_stages_(stages * spec.chunks) {
    for (int stage = 0; stage < stages; ++stage) blocking_.push_back(spec.blocking(stage, profile));
  }

  ComputationDag build() {
    auto streams = make_schedule(spec_.schedule, stages_, spec_.microbatches, spec_.chunks);
    split_backward_ = splits_backward(spec_);
    if (spec_.split_backward) split_backwards(streams);
    check_constant_operations();
    for (int stage = 0; stage < stages_; ++stage) add_stream(stage, streams[at(stage)]);
    if (exchanges()) {
      add_exchanges();
    } else {
      for (int m = 0; m < spec_.microbatches; ++m) add_dependencies(m);
    }
    ComputationDag dag(profile_.source, stages_, std::move(types_), std::move(nodes_), edges_);
    if (spec_.transfers_occupy_both) dag.set_transfers_occupy_both();
    return dag;
  }

 private:
  using Key = std::array<int, 3>;  // instruction, virtual stage, microbatch

  // Puts both parts in the place of each backward that is whole.
  void split_backwards(std::vector<InstructionStream>& streams) const {
    if (!split_backward_) {
      throw UsageError(fmt::format("backwards in two parts are for schedules 1f1b and zb-h1, not {}",
                                   schedule_name(spec_.schedule)));
    }
    if (!(*spec_.split_backward > 0.0 && *spec_.split_backward < 1.0)) {
      throw UsageError(fmt::format("the weight gradients' share of the backward is {:g}, it must be between 0 and 1",
                                   *spec_.split_backward));
    }
    for (InstructionStream& stream : streams) {
      InstructionStream split;
      for (const Instruction& one : stream) {
        split.push_back(one);
        if (one.kind != InstructionKind::kBackward) continue;
        split.back().kind = InstructionKind::kBackwardInput;
        split.push_back({InstructionKind::kBackwardWeight, one.microbatch, one.chunk});
      }
      stream = std::move(split);
    }
  }

  // What the profile has of an instruction: the chunk's own ("forward.1") before the common one; null without either.
  const OperationProfile* profiled(int stage, const Instruction& instruction) const {
    const std::string name(instruction_name(instruction.kind));
    const OperationProfile* own = profile_.find(stage, fmt::format("{}.{}", name, instruction.chunk));
    return own != nullptr ? own : profile_.find(stage, name);
  }

  // The type of an instruction with these options, or with those of the first or last microbatch in place of them.
  int profiled_type(int stage, InstructionKind kind, const OperationProfile* found, Microbatches of) {
    if (found == nullptr) {
      if (auto derived = derived_type(stage, kind)) return type_index(std::move(*derived));
      throw InputError({profile_.source},
                       fmt::format("the profile has no '{}' for stage {}, which schedule {} needs",
                                   instruction_name(kind), stage, schedule_name(spec_.schedule)),
                       fmt::format("profile that operation, or choose another --schedule; stage {} has: {}", stage,
                                   fmt::join(instructions_of(stage), ", ")));
    }
    const OperationProfile* apart =
        of == Microbatches::kAll ? nullptr : profile_.find(stage, own_name(found->instruction, of));
    if (apart != nullptr && differs(*apart, *found)) found = apart;
    return type_index({stage, found->instruction, found->options, true, {}, false, found->labels});
  }

  // A part of a whole backward, or a whole of both parts; none where the profile and the specification give neither.
  std::optional<OperationType> derived_type(int stage, InstructionKind kind) const {
    using enum InstructionKind;
    OperationType type{stage, std::string(instruction_name(kind)), {}};
    const OperationProfile* whole = profile_.find(stage, instruction_name(kBackward));
    if ((kind == kBackwardInput || kind == kBackwardWeight) && spec_.split_backward && whole != nullptr) {
      const double share = kind == kBackwardWeight ? *spec_.split_backward : 1.0 - *spec_.split_backward;
      for (const ClockOption& option : whole->options) {
        type.options.push_back({option.frequency, share * option.time, share * option.energy});
      }
      type.labels = whole->labels;
      return type;
    }
    const OperationProfile* input = profile_.find(stage, instruction_name(kBackwardInput));
    const OperationProfile* weight = profile_.find(stage, instruction_name(kBackwardWeight));
    if (kind != kBackward || input == nullptr || weight == nullptr || !profile_.label_columns.empty()) {
      return std::nullopt;
    }
    for (const ClockOption& one : input->options) {
      for (const ClockOption& other : weight->options) {
        if (one.frequency != other.frequency) continue;
        type.options.push_back({one.frequency, one.time + other.time, one.energy + other.energy});
      }
    }
    if (type.options.empty()) return std::nullopt;
    return type;
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

  void check_constant_operations() const {
    const int stages = stages_;
    // With chunks there is also a link from the last stage to the first; with two stages it is the one that they have.
    const int links = spec_.chunks > 1 && stages > 2 ? stages : stages - 1;
    check_count(kP2pName, spec_.p2p, links, "link");
    check_count(kDataLoadName, spec_.data_load, stages, "stage");
    check_count(kGradientSyncName, spec_.gradient_sync, stages, "stage");
    check_count(kOptimizerStepName, spec_.optimizer_step, stages, "stage");
  }

  void check_count(std::string_view name, const std::optional<ConstantOperation>& stated, int places,
                   std::string_view place) const {
    if (!stated) return;
    for (const std::size_t count : {stated->time.size(), stated->energy.size()}) {
      if (count <= 1 || count == at(places)) continue;
      throw UsageError(fmt::format("[{}] of the pipeline has {} numbers for {} {}{}; give one, or one per {}", name,
                                   count, places, place, places == 1 ? "" : "s", place));
    }
  }

  // Whether the stage draws in the operation what it draws when it waits, at all clocks together: copies and
  // collectives leave the processors idle, and what they draw follows the clock as waiting does.
  bool draws_as_waiting(int stage, const OperationProfile& measured) const {
    constexpr double kAlike = 1.25;
    if (!spec_.blocking_power.empty()) return false;
    const std::vector<PowerAtClock> waiting = measured_waiting(profile_, stage);
    if (waiting.size() < 2) return false;
    Joules energy;
    Joules waited;
    for (const ClockOption& option : measured.options) {
      energy += option.energy;
      waited += power_at(waiting, option.frequency) * option.time;
    }
    return energy <= kAlike * waited;
  }

  // The type of an operation of one stage that takes constant time, or -1: the specification's, else the profile's.
  int constant_type(int stage, std::string_view name, const std::optional<ConstantOperation>& stated) {
    if (stated) {
      const Seconds time = at_place(stated->time, stage);
      if (absent(*stated, time)) return -1;
      const Joules blocked = blocking_[at(stage)] * time;
      const Joules energy = stated->energy.empty() ? blocked : at_place(stated->energy, stage);
      return type_index({stage, std::string(name), {{Megahertz(0), time, energy}}, true});
    }
    const OperationProfile* measured = profile_.find(stage, name);
    if (measured == nullptr) return -1;
    ClockOption option = measured->options.front();
    if (draws_as_waiting(stage, *measured)) option = {Megahertz(0), option.time, blocking_[at(stage)] * option.time};
    return type_index({stage, std::string(name), {option}, true});
  }

  // The type of a transfer, or -1 where it takes no time.
  int transfer_type(int from, int to) {
    ClockOption option;
    const bool back = to == from - 1 || (from == 0 && to > 1);
    bool alike = true;  // whether a stage sends the same to either side
    if (spec_.p2p) {
      alike = spec_.p2p->time.size() == 1 && spec_.p2p->energy.size() <= 1;
      const int link = std::abs(from - to) == 1 ? std::min(from, to) : stages_ - 1;
      option.time = at_place(spec_.p2p->time, link);
      if (absent(*spec_.p2p, option.time)) return -1;
      if (!spec_.p2p->energy.empty()) option.energy = at_place(spec_.p2p->energy, link);
    } else {
      const OperationProfile* measured = back ? profile_.find(from, kP2pBackName) : nullptr;
      if (measured != nullptr) {
        alike = false;
      } else {
        measured = profile_.find(from, kP2pName);
      }
      if (measured == nullptr) return -1;
      option = measured->options.front();
      if (draws_as_waiting(from, *measured)) option.energy = Joules(0);
    }
    if (spec_.transfers_occupy_both && option.energy > Joules(0)) {
      // Either GPU draws the stated energy meanwhile. The transfer is the sender's, which is charged as waiting: what
      // both take above waiting is added to that.
      alike = false;
      const Joules stated = option.energy;
      option.energy = spec_.blocking(from, profile_) * option.time;
      for (const int stage : {from, to}) {
        option.energy += std::max(Joules(0), stated - spec_.blocking(stage, profile_) * option.time);
      }
    }
    return type_index({from, std::string(back && !alike ? kP2pBackName : kP2pName), {option}, false});
  }

  template <class Value>
  static Value at_place(const std::vector<Value>& values, int place) {
    return values.size() == 1 ? values[0] : values[at(place)];
  }
  static bool absent(const ConstantOperation& stated, Seconds time) {
    return stated.time.size() > 1 && time == Seconds(0);
  }

  int add_node(int type, int microbatch, int chunk) {
    nodes_.push_back({type, microbatch, chunk});
    return static_cast<int>(nodes_.size()) - 1;
  }

  void link(int before, int after) { edges_.push_back({before, after}); }

  void add_stream(int stage, const InstructionStream& stream) {
    int previous = -1;
    const auto append = [&](int node) {
      before_.resize(nodes_.size(), -1);
      after_.resize(nodes_.size(), -1);
      before_[at(node)] = previous;
      if (previous >= 0) {
        link(previous, node);
        after_[at(previous)] = node;
      }
      previous = node;
    };
    // If loading is stated for each stage, each loads data; otherwise the first does, where the model begins, and those
    // of which it was measured. With
    // several chunks, the first stage reads the batch for its first chunk, and any other stage reads for its last chunk
    // what the end of the model compares its output with.
    const bool everywhere =
        spec_.data_load ? spec_.data_load->time.size() > 1 : profile_.find(stage, kDataLoadName) != nullptr;
    const int loading_chunk = stage == 0 ? 0 : spec_.chunks - 1;
    std::vector<Exchange> posted;
    if (exchanges()) posted = interleaved_exchanges(stage, stages_, spec_.microbatches, spec_.chunks);
    auto exchange = posted.begin();
    // First and last are counted as the client does, in the order of running: GPipe's first backward is of the last
    // microbatch.
    std::vector<const OperationProfile*> found;
    std::map<const OperationProfile*, std::size_t> runs;
    std::map<const OperationProfile*, std::size_t> done;
    for (const Instruction& instruction : stream) ++runs[found.emplace_back(profiled(stage, instruction))];
    for (int position = 0; position < std::ssize(stream); ++position) {
      const Instruction& instruction = stream[at(position)];
      const int virtual_stage = instruction.chunk * stages_ + stage;
      const Key key{static_cast<int>(instruction.kind), virtual_stage, instruction.microbatch};
      // The stage's input goes to the first operation before the computation, if there is one.
      const auto enter_by = [&](int type) {
        if (type < 0) return;
        append(add_node(type, instruction.microbatch, instruction.chunk));
        entry_of_.try_emplace(key, previous);
      };
      const bool exchanged = exchange != posted.end() && exchange->position == position;
      if (const std::string_view receive = receive_of(instruction.kind, virtual_stage, exchanged); !receive.empty()) {
        enter_by(constant_type(stage, receive, std::nullopt));
      }
      if (instruction.kind == InstructionKind::kForward && instruction.chunk == loading_chunk &&
          (stage == 0 || everywhere)) {
        enter_by(constant_type(stage, kDataLoadName, spec_.data_load));
      }
      const OperationProfile* options = found[at(position)];
      const Microbatches of = microbatches_at(done[options]++, runs[options]);
      const int node =
          add_node(profiled_type(stage, instruction.kind, options, of), instruction.microbatch, instruction.chunk);
      node_of_[key] = node;
      append(node);
      if (exchanged) {
        const int entered = entry(instruction.kind, virtual_stage, instruction.microbatch);
        if (exchange->receive) received_[{stage, false}].push_back(entered);
        if (exchange->receive_back) received_[{stage, true}].push_back(entered);
        ++exchange;
      }
      if (exchange == posted.end() || exchange->position != position + 1) continue;
      // The forward that is sent is the last computation or, in front of a backward, the one before it.
      const Instruction& forward =
          stream[at(std::max(0, instruction.kind == InstructionKind::kForward ? position : position - 1))];
      if (exchange->send) sent_[{stage, false}].emplace_back(node, forward.microbatch);
      if (exchange->send_back) sent_[{stage, true}].emplace_back(node, instruction.microbatch);
    }
    const int sync = constant_type(stage, kGradientSyncName, spec_.gradient_sync);
    if (sync >= 0) append(add_node(sync, -1, 0));
    const int step = constant_type(stage, kOptimizerStepName, spec_.optimizer_step);
    if (step >= 0) append(add_node(step, -1, 0));
  }

  int node(InstructionKind kind, int virtual_stage, int microbatch) const {
    const auto found = node_of_.find({static_cast<int>(kind), virtual_stage, microbatch});
    return found == node_of_.end() ? -1 : found->second;
  }

  // Whether stages post transfers together and wait for both ends of all of them.
  bool exchanges() const { return spec_.transfers_occupy_both && spec_.chunks > 1 && stages_ > 1; }

  // The name of the handover before the computation; empty where its input comes from no other stage or, where stages
  // exchange, where no exchange is in front of it.
  std::string_view receive_of(InstructionKind kind, int virtual_stage, bool exchanged) const {
    using enum InstructionKind;
    if (stages_ == 1) return {};
    if (exchanges()) return !exchanged ? std::string_view() : kind == kForward ? kReceiveName : kReceiveBackName;
    if (kind == kForward) return virtual_stage > 0 ? kReceiveName : std::string_view();
    const bool takes_gradient = kind == (split_backward_ ? kBackwardInput : kBackward);
    return takes_gradient && virtual_stage + 1 < virtual_stages_ ? kReceiveBackName : std::string_view();
  }

  // The operation to which the microbatch's input goes: the handover, or the loading of data for the computation, if
  // there is one, else the computation.
  int entry(InstructionKind kind, int virtual_stage, int microbatch) const {
    const auto found = entry_of_.find({static_cast<int>(kind), virtual_stage, microbatch});
    return found == entry_of_.end() ? node(kind, virtual_stage, microbatch) : found->second;
  }

  // An edge between virtual stages, through a transfer where they lie on different GPUs and transfers take time.
  void send(int before, int after, int from_stage, int to_stage, int microbatch) {
    const int transfer = from_stage == to_stage ? -1 : transfer_type(from_stage, to_stage);
    if (transfer < 0) {
      link(before, after);
      const int last = before_[at(after)];
      const int next = after_[at(before)];
      if (exchanges() && last >= 0 && next >= 0) link(last, next);
      return;
    }
    const int hop = add_node(transfer, microbatch, 0);
    link(before, hop);
    link(hop, after);
    if (!spec_.transfers_occupy_both) return;
    if (const int last = before_[at(after)]; last >= 0) link(last, hop);
    if (const int next = after_[at(before)]; next >= 0) link(hop, next);
  }

  void add_exchanges() {
    for (const auto& [way, sent] : sent_) {
      const auto& [stage, back] = way;
      const int to = (stage + (back ? stages_ - 1 : 1)) % stages_;
      const std::vector<int>& received = received_[{to, back}];
      assert(received.size() == sent.size());
      for (std::size_t i = 0; i < sent.size(); ++i) send(sent[i].first, received[i], stage, to, sent[i].second);
    }
  }

  void add_dependencies(int microbatch) {
    using enum InstructionKind;
    const InstructionKind gradient = split_backward_ ? kBackwardInput : kBackward;
    for (int v = 0; v + 1 < virtual_stages_; ++v) {
      const int here = v % stages_;
      const int there = (v + 1) % stages_;
      send(node(kForward, v, microbatch), entry(kForward, v + 1, microbatch), here, there, microbatch);
      send(node(gradient, v + 1, microbatch), entry(gradient, v, microbatch), there, here, microbatch);
    }
    // Same-stage dependencies (a backward after its forward, a weight gradient after its activation gradient) follow
    // from the stage's order in every schedule, but for the turn-around on the last virtual stage, which the order of
    // the streams gives as well.
  }

  const PipelineSpec& spec_;
  const Profile& profile_;
  int stages_;
  int virtual_stages_;
  std::vector<Watts> blocking_;  // per stage
  bool split_backward_ = false;
  std::vector<OperationType> types_;
  std::map<std::pair<int, std::string>, int> type_of_;
  std::vector<Computation> nodes_;
  std::vector<Edge> edges_;
  std::map<Key, int> node_of_;
  std::map<Key, int> entry_of_;  // of the computations that are received or loaded for
  // Where stages exchange, by stage and whether back: the computations in front of which they receive, and those behind
  // which they send, with the microbatch of what is sent.
  std::map<std::pair<int, bool>, std::vector<int>> received_;
  std::map<std::pair<int, bool>, std::vector<std::pair<int, int>>> sent_;
  std::vector<int> before_, after_;  // per node of a stage: its neighbours in the stage's order, or -1
};

}  // namespace

std::optional<int> parse_memory_limit(std::string_view text) {
  std::optional<double> fit = parse_number(text);
  if (const std::size_t over = text.find('/'); over != std::string_view::npos) {
    const auto memory = parse_bytes(text.substr(0, over));
    const auto microbatch = parse_bytes(text.substr(over + 1));
    if (!memory || !microbatch || *microbatch <= 0.0) return std::nullopt;
    fit = std::floor(*memory / *microbatch * (1.0 + 1e-12));  // 0.6 GB over 0.2 GB is 3, not 2.99...
  }
  if (!fit || *fit != std::floor(*fit) || *fit < 1.0 || *fit > static_cast<double>(kMostOperations))
    return std::nullopt;
  return static_cast<int>(*fit);
}

bool splits_backward(const PipelineSpec& spec) {
  if (!spec.dag_file.empty()) return false;
  return spec.schedule == ScheduleKind::kZbH1 || (spec.schedule == ScheduleKind::k1f1b && spec.split_backward);
}

bool lacks_weight_share(const PipelineSpec& spec, const Profile& profile) {
  return splits_backward(spec) && !spec.split_backward && profile.find(0, "backward") != nullptr &&
         profile.find(0, "backward_weight") == nullptr;
}

PipelineSpec with_whole_backwards(PipelineSpec spec) {
  spec.schedule = ScheduleKind::k1f1b;
  spec.split_backward.reset();
  return spec;
}

ComputationDag build_dag(const PipelineSpec& spec, const Profile& profile) {
  if (!spec.dag_file.empty()) {
    ComputationDag dag = read_dag(spec.dag_file, read_text_file(spec.dag_file), profile);
    if (spec.stages > 0 && spec.stages != dag.stages()) {
      throw UsageError(
          fmt::format("the pipeline has {} stages but {} has {}", spec.stages, spec.dag_file, dag.stages()));
    }
    check_blocking(spec, dag.stages());
    add_waiting_above(dag, spec, profile);
    dag.set_clocks_asked(spec.clocks_asked);
    return dag;
  }
  const int stages = spec.stages > 0 ? spec.stages : profile.stages;
  if (stages > profile.stages) {
    throw InputError({profile.source},
                     fmt::format("the pipeline has {} stages but the profile only {}", stages, profile.stages),
                     "profile every stage, or correct the number of stages");
  }
  check_blocking(spec, stages);
  ComputationDag dag = DagBuilder(spec, profile, stages).build();
  add_waiting_above(dag, spec, profile);
  dag.set_clocks_asked(spec.clocks_asked);
  return dag;
}

}  // namespace flyball
