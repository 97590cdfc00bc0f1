// Qualified names form a tree whose nodes are found by (parent, name); a node gets an operation when the first event of
// its name is shown. Events are handed out in batches, once no lane can still give an earlier one. An event that lasts
// very long is cut in two, so that later ones do not pile up behind it. Tables are direct-mapped arrays: an entry is
// overwritten by a later one with the same lowest bits of its key.
#include "trace/event_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace flyball {
namespace {

// The part of a backward operation's name in TensorFlow that its forward has too, so that both are in one layer.
std::string_view below_gradients(std::string_view name) {
  constexpr std::string_view kScope = "gradients/";
  const std::size_t at = name.rfind(kScope);
  if (at == std::string_view::npos || (at > 0 && name[at - 1] != '/')) return name;
  const std::string_view below = name.substr(at + kScope.size());
  return below.empty() ? name : below;
}

std::size_t slot(std::int64_t key, std::size_t size) { return static_cast<std::size_t>(key) & (size - 1); }

}  // namespace

EventSweep::EventSweep(std::unique_ptr<EventRecords> records, const EventTraceOptions& options,
                       OperationTable& operations)
    : records_(std::move(records)),
      operations_(operations),
      kernel_names_(options.kernel_names),
      frames_(options.frames),
      shift_(options.shift),
      read_stats_(records_->stats),
      nodes_(1) {
  add_inputs();
  reset();
}

void EventSweep::rewind(Nanoseconds shift) {
  shift_ = shift;
  reset();
}

void EventSweep::reset() {
  at_ = 0;
  stats_ = read_stats_;
  const Nanoseconds shift = records_->base_time + shift_;
  stats_.first += shift;
  stats_.last += shift;
  for (StepSpan& step : stats_.steps) step = {step.begin + shift, step.end + shift};
  lanes_.assign(records_->lanes.size(), {});
  launches_.assign(records_->has_runtime ? kTableSize : 0, {});
  externals_.assign(0, {});
  forwards_.assign(0, {});
  recent_edges_.assign(kBatch, ~std::uint64_t{0});
  waiting_.clear();
  pending_.clear();
  ready_.clear();
  ready_at_ = 0;
  now_ = std::numeric_limits<Nanoseconds>::min();
  at_end_ = false;
}

EventSweep::NodeId EventSweep::child(NodeId parent, std::uint32_t name) {
  const std::uint32_t depth = nodes_[parent].depth + 1;
  if (depth > kDeepest) return parent;
  const auto [place, fresh] =
      children_.try_emplace(std::uint64_t{parent} << 32 | name, static_cast<NodeId>(nodes_.size()));
  if (fresh) nodes_.push_back({parent, depth, name});
  return place->second;
}

// The place of a module by its path from the model on. What a program marks between two modules stays between them if
// one contains the other; any other module that is called there, as one that two parents share, stands at its own
// place.
EventSweep::NodeId EventSweep::module_place(const Frame& around, std::uint32_t path) {
  std::string_view rest = records_->names[path];
  NodeId place = around.outside;
  if (around.in_model) {
    const std::string_view outer = records_->names[around.path];
    if (outer.empty() || rest == outer || (rest.starts_with(outer) && rest[outer.size()] == '/')) {
      place = around.base;
      rest.remove_prefix(std::min(rest.size(), outer.empty() ? 0 : outer.size() + 1));
    }
  }
  while (!rest.empty() && nodes_[place].depth < kDeepest) {
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (!part.empty()) place = child(place, records_->names.intern(part));
  }
  return place;
}

// PyTorch numbers the modules of a class over the whole program. Here they are numbered within their parent, in the
// order in which they first run, so that the same module has the same name in every block.
std::uint32_t EventSweep::sibling_name(NodeId parent, const EventRecord& module) {
  const std::uint64_t key = std::uint64_t{parent} << 32;
  const auto [place, fresh] = siblings_.try_emplace(key | module.name, 0);
  if (fresh) {
    const std::uint32_t number = sibling_counts_[key | module.module]++;
    place->second = records_->names.intern(fmt::format("{}_{}", records_->names[module.module], number));
  }
  return place->second;
}

std::string EventSweep::qualified(NodeId node) const {
  std::vector<std::string_view> parts;
  for (; node != 0; node = nodes_[node].parent) parts.push_back(records_->names[nodes_[node].name]);
  std::string name;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!name.empty()) name += '/';
    name += *part;
  }
  return name;
}

OperationId EventSweep::operation(NodeId node, Phase phase) {
  OperationId& id = nodes_[node].operations[static_cast<std::size_t>(phase)];
  if (id == kNoOperation) {
    const std::string name = qualified(node);
    id = operations_.intern(name.empty() ? "(unnamed)" : name, phase);
  }
  return id;
}

// TensorFlow's operations have their full names, and state their inputs.
void EventSweep::add_inputs() {
  const auto id = [this](std::uint32_t name) { return operation(named_nodes_[name], records_->named_phases[name]); };
  named_nodes_.resize(records_->named.size());
  for (std::uint32_t name = 0; name < records_->named.size(); ++name) {
    if (!records_->named[name]) continue;
    named_nodes_[name] = child(0, records_->names.intern(below_gradients(records_->names[name])));
    id(name);
  }
  for (const auto& [from, to] : records_->inputs) {
    if (from < records_->named.size() && records_->named[from]) operations_.add_edge(id(from), id(to), EdgeKind::kData);
  }
}

void EventSweep::add_edge(OperationId from, OperationId to, EdgeKind kind) {
  // A program repeats itself: most edges are known, and most of those were seen lately.
  const std::uint64_t key = std::uint64_t{from} << 32 | to;
  std::uint64_t& recent = recent_edges_[(key * 0x9E3779B97F4A7C15u) >> 52];
  if (recent == key) return;
  recent = key;
  operations_.add_edge(from, to, kind);
}

void EventSweep::count_drop(const std::string& reason) {
  for (DroppedEvents& dropped : stats_.dropped) {
    if (dropped.reason == reason) {
      ++dropped.count;
      return;
    }
  }
  stats_.dropped.push_back({reason, 1});
}

void EventSweep::emit(const TraceEvent& event) { pending_.push_back(event); }

void EventSweep::show(std::uint32_t lane, Frame& frame, Nanoseconds begin, Nanoseconds end) {
  if (begin == end && (frame.begin != frame.end || frame.shown)) return;
  if (!frame.works && !(frames_ && frame.node != 0)) return;
  frame.shown = true;
  Lane& state = lanes_[lane];
  const OperationId id = operation(frame.node, frame.phase);
  if (state.previous != id) {
    if (state.previous != kNoOperation) add_edge(state.previous, id, EdgeKind::kOrder);
    state.previous = id;
  }
  if (state.forward != 0 && frame.phase == Phase::kBackward) {
    const OperationId forward = nodes_[state.forward].operations[static_cast<std::size_t>(state.forward_phase)];
    if (forward != kNoOperation) operations_.add_edge(forward, id, EdgeKind::kBackward);
    state.forward = 0;
  }
  emit({begin, end, records_->lanes[lane].device, id});
}

// Ends the top of the stack.
void EventSweep::pop(std::uint32_t lane, Nanoseconds end) {
  Lane& state = lanes_[lane];
  Frame& top = state.stack.back();
  if (end >= state.since) {
    show(lane, top, state.since, end);
    state.since = end;
  }
  state.stack.pop_back();
}

// Ends what has ended on a lane by `now`.
void EventSweep::advance(std::uint32_t lane, Nanoseconds now) {
  Lane& state = lanes_[lane];
  while (!state.stack.empty() && state.stack.back().end <= now) pop(lane, state.stack.back().end);
}

// Ends what has ended on a lane when a call begins. Calls of one thread nest or follow each other, but their times are
// rounded. If a call begins before the one around it ends, and ends after it, the greater part decides whether it is
// inside.
void EventSweep::arrive(std::uint32_t lane, const EventRecord& record) {
  advance(lane, record.begin);
  if (record.kind == RecordKind::kBegin) return;
  std::vector<Frame>& stack = lanes_[lane].stack;
  while (!stack.empty() && stack.back().end != kNoEnd && record.end > stack.back().end &&
         record.end - stack.back().end > stack.back().end - record.begin) {
    pop(lane, record.begin);
  }
}

void EventSweep::push(std::uint32_t lane, const EventRecord& record) {
  Lane& state = lanes_[lane];
  Frame frame;
  frame.begin = record.begin;
  frame.end = record.kind == RecordKind::kBegin ? kNoEnd : record.end;
  frame.name = record.name;
  frame.works = record.kind != RecordKind::kScope;
  frame.phase = record.phase;
  const Frame outside;
  const Frame& top = state.stack.empty() ? outside : state.stack.back();
  frame.base = top.base;
  frame.scope = top.scope;
  frame.outside = top.outside;
  frame.path = top.path;
  frame.in_model = top.in_model;
  frame.module = top.module;
  frame.sequence = top.sequence;
  if (top.phase != Phase::kUnknown && (record.phase == Phase::kUnknown || record.phase == Phase::kForward)) {
    frame.phase = top.phase;
  }
  NodeId parent = record.kind == RecordKind::kNamedCall ? 0 : top.node;
  const bool known_tie = record.link != kNoLink && record.link == top.sequence;
  if (record.kind == RecordKind::kOperation && record.tied && !known_tie && record.link != kNoLink) {
    const Forward* forward = forwards_.empty() ? nullptr : &forwards_[slot(record.link, kTableSize)];
    if (forward != nullptr && forward->sequence == record.link) {
      parent = frame.base = frame.scope = forward->scope;
      frame.outside = forward->outside;
      frame.in_model = false;  // modules that are computed once more stand at their own places
      frame.module = 0;
      frame.sequence = record.link;
      state.forward = forward->node;
      state.forward_phase = forward->phase;
    } else {
      ++stats_.untied_backward;
    }
  } else if (record.kind == RecordKind::kOperation && record.module != 0 && record.module != top.module) {
    frame.module = record.module;
    parent = frame.scope = child(top.base, record.module);
  }
  // The engine's call and the function that it evaluates have the same name.
  const bool same = frame.phase == Phase::kBackward && top.name == record.name && parent == top.node && parent != 0;
  const bool scope = record.kind == RecordKind::kScope;
  if (scope && record.tied) {
    frame.node = module_place(top, record.name);
    frame.path = record.name;
    frame.in_model = true;
  } else {
    const std::uint32_t name = scope && record.module != 0 ? sibling_name(parent, record) : record.name;
    frame.node = same ? top.node : child(parent, name);
    if (!same && frame.node == parent) ++stats_.too_deep;
    if (scope && !top.in_model && top.outside == top.base) frame.outside = frame.node;
  }
  if (scope) frame.base = frame.scope = frame.node;

  if (record.kind == RecordKind::kOperation) {
    if (record.external != 0) {
      if (externals_.empty()) externals_.assign(kTableSize, {});
      externals_[slot(record.external, kTableSize)] = {record.external, frame.node, frame.phase};
    }
    if (record.link != kNoLink && !record.tied) {
      if (forwards_.empty()) forwards_.assign(kTableSize, {});
      forwards_[slot(record.link, kTableSize)] = {record.link, frame.scope, frame.node, frame.outside, frame.phase};
    }
  }
  if (!state.stack.empty() && record.begin > state.since) show(lane, state.stack.back(), state.since, record.begin);
  state.since = record.begin;
  state.stack.push_back(frame);
}

void EventSweep::end_begun(std::uint32_t lane, const EventRecord& record) {
  Lane& state = lanes_[lane];
  auto match = std::find_if(state.stack.rbegin(), state.stack.rend(), [&](const Frame& frame) {
    return frame.end == kNoEnd && (record.name == 0 || frame.name == record.name);
  });
  if (match == state.stack.rend()) return count_drop("an end (E) without a beginning");
  const auto left = static_cast<std::size_t>(state.stack.rend() - match) - 1;  // how many stay on the stack
  while (state.stack.size() > left) {
    Frame& top = state.stack.back();
    if (top.begin == record.begin) top.end = record.begin;  // a call of no length may still be shown
    pop(lane, record.begin);
  }
}

void EventSweep::launch(const EventRecord& record) {
  Lane& state = lanes_[record.lane];
  if (record.link == kNoLink) return;
  Launch& entry = launches_[slot(record.link, kTableSize)];
  entry = {record.link, 0, Phase::kUnknown};
  if (!state.stack.empty()) {
    const Frame& top = state.stack.back();
    entry.node = top.node;
    entry.phase = top.phase;
  }
}

const EventSweep::Launch* EventSweep::launch_of(const EventRecord& kernel) const {
  if (kernel.link == kNoLink || launches_.empty()) return nullptr;
  const Launch& entry = launches_[slot(kernel.link, kTableSize)];
  return entry.key == kernel.link ? &entry : nullptr;
}

void EventSweep::take_kernel(const EventRecord& record) {
  const Launch* launch = launch_of(record);
  if (launch == nullptr && record.link != kNoLink && records_->has_runtime) {
    if (waiting_.size() >= kMaxWaiting) settle_waiting(std::numeric_limits<Nanoseconds>::max());
    waiting_.push_back(record);
    return;
  }
  show_kernel(record, launch);
}

void EventSweep::show_kernel(const EventRecord& record, const Launch* launch) {
  if (launch == nullptr && record.external != 0 && !externals_.empty()) {
    const Launch& entry = externals_[slot(record.external, kTableSize)];
    if (entry.key == record.external) launch = &entry;
  }
  NodeId node = launch == nullptr ? 0 : launch->node;
  const Phase phase = launch == nullptr ? Phase::kUnknown : launch->phase;
  if (launch == nullptr) ++stats_.untied_kernels;
  if (node == 0 || kernel_names_) node = child(node, record.name);
  const OperationId id = operation(node, phase);
  Lane& state = lanes_[record.lane];
  if (state.previous != id) {
    if (state.previous != kNoOperation) add_edge(state.previous, id, EdgeKind::kOrder);
    state.previous = id;
  }
  emit({record.begin, record.end, records_->lanes[record.lane].device, id});
}

// Handles kernels whose launch has come, or whose time is up.
void EventSweep::settle_waiting(Nanoseconds now) {
  std::size_t left = 0;
  for (const EventRecord& kernel : waiting_) {
    const Launch* launch = launch_of(kernel);
    if (launch != nullptr || kernel.begin < now - kPatience) {
      show_kernel(kernel, launch);
    } else {
      waiting_[left++] = kernel;
    }
  }
  waiting_.resize(left);
}

void EventSweep::take(const EventRecord& record) {
  now_ = record.begin;
  if (records_->lanes[record.lane].dropped) return count_drop("outside every device (a process that names none)");
  switch (record.kind) {
    case RecordKind::kDevice: return take_kernel(record);
    case RecordKind::kNamed:
      return emit({record.begin, record.end, records_->lanes[record.lane].device,
                   operation(named_nodes_[record.name], record.phase)});
    case RecordKind::kRuntime: {
      arrive(record.lane, record);
      const std::vector<Frame>& stack = lanes_[record.lane].stack;
      // A call inside an operation is the operation's work.
      const bool inside = !stack.empty() && stack.back().works;
      launch(record);
      if (!inside) push(record.lane, record);
      return;
    }
    case RecordKind::kEnd: advance(record.lane, record.begin); return end_begun(record.lane, record);
    default: arrive(record.lane, record); return push(record.lane, record);
  }
}

// Moves events to ready_ before which no other can come.
void EventSweep::release() {
  Nanoseconds bound = at_end_ ? kNoEnd : now_;
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (at_end_) {
      // Operations that were begun and never ended end with the trace.
      for (Frame& frame : lanes_[lane].stack) {
        if (frame.end != kNoEnd) continue;
        ++stats_.unfinished;
        frame.end = std::max(read_stats_.last, frame.begin);
      }
    }
    advance(lane, at_end_ ? kNoEnd : now_);
    if (!lanes_[lane].stack.empty()) bound = std::min(bound, lanes_[lane].since);
  }
  settle_waiting(at_end_ ? kNoEnd : now_);
  if (!waiting_.empty()) bound = std::min(bound, waiting_.front().begin);
  if (pending_.size() > kMaxPending && !at_end_) {
    settle_waiting(kNoEnd);
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      Lane& state = lanes_[lane];
      if (state.stack.empty() || state.since >= now_) continue;
      show(lane, state.stack.back(), state.since, now_);
      state.since = now_;
    }
    bound = now_;
  }
  const auto earlier = [](const TraceEvent& a, const TraceEvent& b) { return a.begin < b.begin; };
  if (!std::is_sorted(pending_.begin(), pending_.end(), earlier)) {  // events without nesting come sorted
    std::stable_sort(pending_.begin(), pending_.end(), earlier);
  }
  const auto end = std::partition_point(pending_.begin(), pending_.end(),
                                        [bound](const TraceEvent& event) { return event.begin <= bound; });
  ready_.assign(pending_.begin(), end);
  ready_at_ = 0;
  pending_.erase(pending_.begin(), end);
}

bool EventSweep::next(TraceEvent& event) {
  while (ready_at_ == ready_.size()) {
    if (at_end_) return false;
    const std::size_t goal = pending_.size() + kBatch;
    std::size_t taken = 0;  // scopes give no event
    while (pending_.size() < goal && taken++ < 16 * kBatch) {
      if (at_ == records_->records.size()) {
        at_end_ = true;
        break;
      }
      take(records_->records[at_++]);
    }
    release();
  }
  event = ready_[ready_at_++];
  const Nanoseconds shift = records_->base_time + shift_;
  event.begin += shift;
  event.end += shift;
  return true;
}

}  // namespace flyball
