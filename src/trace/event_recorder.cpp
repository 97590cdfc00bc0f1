// Kinds are found by a switch over the first letter of an entry's category, for entries come by the million; the lane
// of the last entry and TensorFlow's parsed names are remembered, since they repeat. Devices are given to lanes at the
// end, because the entries that name processes and threads may come last.
#include "trace/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/xprof_names.h"

namespace flyball {
namespace {

constexpr std::string_view kEvaluate = "autograd::engine::evaluate_function: ";
constexpr std::string_view kModule = "nn.Module: ";
constexpr std::string_view kModulePath = "flyball.module: ";  // of flyball.torch.annotate: then "encoder.layer.3"
constexpr std::string_view kStream = "Stream";                // XProf's lines of what a GPU did
constexpr std::string_view kXlaLine = "XLA Ops";              // and of XLA's operations, for devices without streams
constexpr char kSeparator = '\x1f';  // between parts of a key; stands in no JSON string unescaped

bool is_step(std::string_view name) { return name.starts_with("ProfilerStep"); }
// What PyTorch puts around a model whose replicas run in parallel; its names are to be those of the model alone.
bool is_parallel(std::string_view name) {
  return name == "DataParallel.forward" || name == "DistributedDataParallel.forward";
}

bool is_optimizer(std::string_view name) { return name.starts_with("Optimizer."); }

// "Conv2d_17" -> "Conv2d"
std::string_view module_class(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  const bool numbered = end != std::string_view::npos && end > 0 && end + 1 < name.size() && name[end] == '_';
  return numbered ? name.substr(0, end) : std::string_view();
}

// "TOP(Net)::forward.layer(Sequential)::forward.0(Layer)::forward." -> "layer/0"
std::string module_path(std::string_view hierarchy) {
  std::string path;
  while (!hierarchy.empty()) {
    std::size_t depth = 0;
    std::size_t end = 0;
    while (end < hierarchy.size() && (hierarchy[end] != '.' || depth > 0)) {
      if (hierarchy[end] == '(') ++depth;
      if (hierarchy[end] == ')' && depth > 0) --depth;
      ++end;
    }
    std::string_view part = hierarchy.substr(0, end);
    hierarchy.remove_prefix(std::min(end + 1, hierarchy.size()));
    part = part.substr(0, part.find('('));
    if (part.empty() || part.starts_with(':') || part.starts_with('<') || part == "TOP" || part == "SELF") continue;
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

std::string_view before_colon(std::string_view name) { return name.substr(0, name.rfind(':')); }

// TensorFlow's phases by name and type: what computes gradients is below a scope "gradients", what applies them has a
// type that says so.
Phase tensorflow_phase(std::string_view name, std::string_view type) {
  if (name.starts_with("gradients/") || contains(name, "/gradients/")) return Phase::kBackward;
  if (type.starts_with("Apply") || type.starts_with("ResourceApply") || type.starts_with("SparseApply") ||
      type.starts_with("ResourceSparseApply")) {
    return Phase::kOptimizer;
  }
  return Phase::kForward;
}

}  // namespace

std::string device_in(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const auto& [word, kind] : {std::pair<const char*, const char*>{"GPU", "GPU"},
                                   {"CUDA", "GPU"},
                                   {"TPU", "TPU"},
                                   {"DRAM", "DRAM"},
                                   {"CPU", "CPU"}}) {
    const std::string_view name(word);
    for (std::size_t at = upper.find(name); at != std::string::npos; at = upper.find(name, at + 1)) {
      if (at > 0 && std::isalnum(static_cast<unsigned char>(upper[at - 1])) != 0) continue;
      std::size_t digits = at + name.size();
      while (digits < upper.size() && (upper[digits] == ' ' || upper[digits] == ':' || upper[digits] == '_')) ++digits;
      std::size_t end = digits;
      while (end < upper.size() && end - digits < 4 && std::isdigit(static_cast<unsigned char>(upper[end])) != 0) ++end;
      std::string number = upper.substr(digits, end - digits);
      number.erase(0, std::min(number.find_first_not_of('0'), number.size()));
      return fmt::format("{}:{}", kind, number.empty() ? "0" : number);
    }
  }
  return {};
}

std::string_view kernel_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::size_t from = 0;
  while (true) {
    const std::size_t end = name.find_first_of("<(", from);
    if (end == std::string_view::npos) break;
    if (name.substr(end).starts_with(kAnonymous)) {
      from = end + kAnonymous.size();
      continue;
    }
    if (end > 0) name = name.substr(0, end);
    break;
  }
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return name;
}

EventRecorder::EventRecorder(EventFormat format, const EventTraceOptions& options, EventRecords& records)
    : format_(format), options_(options), records_(records) {}

EventRecorder::KinetoKind EventRecorder::kineto_kind(std::string_view category) {
  // Older versions write names with a capital.
  if (category.empty()) return KinetoKind::kIgnored;
  switch (category[0]) {
    case 'c':
      if (category == "cpu_op") return KinetoKind::kOperation;
      if (category == "cuda_runtime" || category == "cuda_driver") return KinetoKind::kRuntime;
      break;
    case 'p':
      if (category == "python_function") return KinetoKind::kPython;
      if (category == "privateuse1_runtime" || category == "privateuse1_driver") return KinetoKind::kRuntime;
      break;
    case 'k':
    case 'K':
      if (category == "kernel" || category == "Kernel") return KinetoKind::kDevice;
      break;
    case 'g':
      if (category == "gpu_memcpy" || category == "gpu_memset") return KinetoKind::kDevice;
      break;
    case 'M':
      if (category == "Memcpy" || category == "Memset") return KinetoKind::kDevice;
      break;
    case 'm':
      if (category == "mtia_ccp_events") return KinetoKind::kDevice;
      if (category == "mtia_runtime") return KinetoKind::kRuntime;
      break;
    case 'u':
      if (category == "user_annotation") return KinetoKind::kAnnotation;
      break;
    case 'x':
      if (category == "xpu_runtime") return KinetoKind::kRuntime;
      break;
    case 'h':
      if (category == "hip_runtime" || category == "hpu_op") return KinetoKind::kRuntime;
      break;
    case 'O':
      if (category == "Operator") return KinetoKind::kOperation;
      break;
    case 'T':
      if (category == "Trace") return KinetoKind::kProfile;
      break;
    case 'R':
      if (category == "Runtime") return KinetoKind::kRuntime;
      break;
    default: break;
  }
  return KinetoKind::kIgnored;
}

void EventRecorder::drop(const char* reason) { ++dropped_[reason]; }

bool EventRecorder::read_begin(const JsonEvent& event, EventRecord& record) {
  const std::optional<Nanoseconds> begin = parse_decimal(event.time, 3);
  if (!begin || *begin > kFarthestTime || *begin < -kFarthestTime) {
    drop("no time (ts) that is a number");
    return false;
  }
  record.begin = *begin;
  return true;
}

bool EventRecorder::read_times(const JsonEvent& event, EventRecord& record) {
  if (!read_begin(event, record)) return false;
  const std::optional<Nanoseconds> duration = parse_decimal(event.duration, 3);
  const char* reason = !duration                   ? "no duration (dur) that is a number"
                       : *duration < 0             ? "negative duration"
                       : *duration > kFarthestTime ? "a duration of more than 73 years"
                                                   : nullptr;
  if (reason != nullptr) {
    drop(reason);
    return false;
  }
  record.end = record.begin + *duration;
  return true;
}

std::uint32_t EventRecorder::lane_of(std::string_view process, std::string_view thread, bool on_gpu) {
  if (last_lane_ < records_.lanes.size()) {
    const EventLane& last = records_.lanes[last_lane_];
    if (last.on_gpu == on_gpu && records_.names[last.thread] == thread && records_.names[last.process] == process) {
      return last_lane_;
    }
  }
  lane_key_.assign(1, on_gpu ? 'g' : 'c');
  lane_key_.append(process).push_back(kSeparator);
  lane_key_.append(thread);
  const auto known = lane_index_.find(lane_key_);
  if (known != lane_index_.end()) return last_lane_ = known->second;
  last_lane_ = static_cast<std::uint32_t>(records_.lanes.size());
  if (last_lane_ > kLastLane) {
    throw InputError({}, "the trace has more than 2^26 threads", "give the traces of fewer processes at once");
  }
  lane_index_.emplace(lane_key_, last_lane_);
  EventLane lane;
  lane.process = records_.names.intern(process);
  lane.thread = records_.names.intern(thread);
  lane.on_gpu = on_gpu;
  records_.lanes.push_back(lane);
  return last_lane_;
}

void EventRecorder::add(const EventRecord& record) {
  records_.records.push_back(record);
  const bool moment = record.kind == RecordKind::kBegin || record.kind == RecordKind::kEnd;
  cover(record.begin, moment ? record.begin : record.end);
  if (record.kind != RecordKind::kScope && record.kind != RecordKind::kEnd) ++records_.stats.executions;
}

// Extends the time in which the program was profiled.
void EventRecorder::cover(Nanoseconds begin, Nanoseconds end) {
  EventTraceStats& stats = records_.stats;
  stats.first = records_.has_time ? std::min(stats.first, begin) : begin;
  stats.last = records_.has_time ? std::max(stats.last, end) : end;
  records_.has_time = true;
}

void EventRecorder::add_step(const EventRecord& record) {
  constexpr std::size_t kMost = 1'000'000;
  cover(record.begin, record.end);
  if (record.end > record.begin && records_.stats.steps.size() < kMost) {
    records_.stats.steps.push_back({record.begin, record.end});
  }
}

void EventRecorder::take(const JsonEvent& event) {
  if (event.phase == 'M') return take_metadata(event);
  switch (format_) {
    case EventFormat::kKineto: return take_kineto(event);
    case EventFormat::kTensorFlow: return take_tensorflow(event);
    case EventFormat::kXProf: return take_xprof(event);
    default: return take_chrome(event);
  }
}

void EventRecorder::take_metadata(const JsonEvent& event) {
  if (event.name == "process_name") process_names_[std::string(event.process)] = event.argument_name;
  if (event.name == "thread_name") {
    thread_names_[fmt::format("{}{}{}", event.process, kSeparator, event.thread)] = event.argument_name;
    if (event.argument_name.starts_with(kStream)) streamed_.emplace(event.process);
  }
}

std::string_view EventRecorder::process_name(std::string_view process) const {
  const auto named = process_names_.find(process);
  return named == process_names_.end() ? process : named->second;
}

std::string_view EventRecorder::thread_name(std::string_view process, std::string_view thread) const {
  const auto named = thread_names_.find(fmt::format("{}{}{}", process, kSeparator, thread));
  return named == thread_names_.end() ? std::string_view() : named->second;
}

// A module's forward, as flyball.torch.annotate marks it.
void EventRecorder::take_module_path(const JsonEvent& event) {
  EventRecord record;
  if (!read_times(event, record)) return;
  std::string path(event.name.substr(kModulePath.size()));
  std::replace(path.begin(), path.end(), '.', '/');
  record.kind = RecordKind::kScope;
  record.phase = Phase::kForward;
  record.tied = true;
  record.lane = lane_of(event.process, event.thread, false) & kLastLane;
  record.name = records_.names.intern(path);
  has_paths_ = true;
  add(record);
}

void EventRecorder::take_kineto(const JsonEvent& event) {
  if (event.phase != 'X') return;
  const KinetoKind kind = kineto_kind(event.category);
  if (kind == KinetoKind::kIgnored) return;
  const bool is_module = event.name.starts_with(kModule);
  if (kind == KinetoKind::kPython && !is_module) return;
  if (kind != KinetoKind::kDevice && event.name.starts_with(kModulePath)) return take_module_path(event);
  EventRecord record;
  if (!read_times(event, record)) return;
  if (kind == KinetoKind::kProfile) return cover(record.begin, record.end);
  if (kind == KinetoKind::kAnnotation && is_step(event.name)) return add_step(record);
  if (kind == KinetoKind::kAnnotation && is_parallel(event.name)) return cover(record.begin, record.end);
  std::string_view name = event.name;
  switch (kind) {
    case KinetoKind::kDevice: {
      record.kind = RecordKind::kDevice;
      record.link = event.correlation.value_or(kNoLink);
      record.external = static_cast<std::uint32_t>(event.external_id.value_or(0));
      name = kernel_name(name);
      const std::string gpu = event.device ? fmt::format("{}", *event.device) : std::string(event.process);
      record.lane = lane_of(gpu, event.thread, true) & kLastLane;
      record.name = records_.names.intern(name);
      return add(record);
    }
    case KinetoKind::kRuntime:
      record.kind = RecordKind::kRuntime;
      record.link = event.correlation.value_or(kNoLink);
      records_.has_runtime = records_.has_runtime || record.link != kNoLink;
      break;
    case KinetoKind::kPython:
      record.kind = RecordKind::kScope;
      record.phase = Phase::kForward;
      name.remove_prefix(kModule.size());
      record.module = records_.names.intern(module_class(name));
      has_modules_ = true;
      break;
    case KinetoKind::kAnnotation:
      record.kind = RecordKind::kScope;
      if (is_optimizer(name)) record.phase = Phase::kOptimizer;
      break;
    default:
      record.external = static_cast<std::uint32_t>(event.external_id.value_or(0));
      record.link = event.sequence.value_or(kNoLink);
      if (record.link < 0) record.link = kNoLink;
      if (name.starts_with(kEvaluate)) {
        name.remove_prefix(kEvaluate.size());
        record.phase = Phase::kBackward;
        record.tied = true;
      } else if (event.forward_thread.value_or(0) != 0) {
        record.phase = Phase::kBackward;
        record.tied = true;
      } else if (is_optimizer(name)) {
        record.phase = Phase::kOptimizer;
        record.kind = RecordKind::kScope;
      } else if (is_step(name)) {
        return add_step(record);
      } else if (record.link != kNoLink || !event.module_hierarchy.empty()) {
        record.phase = Phase::kForward;
      }
      if (!event.module_hierarchy.empty()) {
        record.module = records_.names.intern(module_path(event.module_hierarchy));
        has_modules_ = true;
      }
  }
  record.lane = lane_of(event.process, event.thread, false) & kLastLane;
  record.name = records_.names.intern(name);
  add(record);
}

void EventRecorder::take_chrome(const JsonEvent& event) {
  if (event.phase == 'X' && event.name.starts_with(kModulePath)) return take_module_path(event);
  EventRecord record;
  switch (event.phase) {
    case 'X':
      if (!read_times(event, record)) return;
      break;
    case 'B':
    case 'E':
      if (!read_begin(event, record)) return;
      record.kind = event.phase == 'B' ? RecordKind::kBegin : RecordKind::kEnd;
      record.end = std::numeric_limits<Nanoseconds>::max();  // sorts before what begins within it
      break;
    default: return;
  }
  if (is_step(event.name)) return event.phase == 'X' ? add_step(record) : cover(record.begin, record.begin);
  if (is_autograd(event.name)) record.phase = Phase::kBackward;
  if (is_optimizer(event.name)) record.phase = Phase::kOptimizer;
  record.lane = lane_of(event.process, event.thread, false) & kLastLane;
  record.name = records_.names.intern(event.name);
  add(record);
}

const EventRecorder::NamedOperation& EventRecorder::named_operation(std::string_view name, std::string_view type) {
  const std::uint32_t given = records_.names.intern(name);
  if (named_operations_.size() <= given) named_operations_.resize(given + std::size_t{1});
  NamedOperation& operation = named_operations_[given];
  if (operation.known && operation.type == type) return operation;
  if (contains(name, "/")) name = before_colon(name);
  operation = {true, std::string(type), records_.names.intern(name), tensorflow_phase(name, type)};
  return operation;
}

void EventRecorder::set_named(std::uint32_t name, Phase phase) {
  if (records_.named.size() <= name) {
    records_.named_phases.resize(name + std::size_t{1}, Phase::kUnknown);
    records_.named.resize(name + std::size_t{1});
  }
  records_.named[name] = true;
  records_.named_phases[name] = phase;
}

void EventRecorder::add_input(std::uint32_t from, std::uint32_t to) {
  if (known_inputs_.insert(std::uint64_t{from} << 32 | to).second) records_.inputs.emplace_back(from, to);
}

void EventRecorder::take_tensorflow(const JsonEvent& event) {
  if (event.phase != 'X') return;
  EventRecord record;
  if (!read_times(event, record)) return;
  record.kind = RecordKind::kNamed;
  record.lane = lane_of(event.process, event.thread, false) & kLastLane;
  const NamedOperation& operation =
      named_operation(event.argument_name.empty() ? event.name : event.argument_name, event.operation);
  record.name = operation.name;
  record.phase = operation.phase;
  set_named(record.name, record.phase);
  for (const std::string_view input : event.inputs) {
    if (input.empty() || input.front() == '^') continue;  // it waits for this operation, but takes nothing from it
    add_input(records_.names.intern(before_colon(input)), record.name);
  }
  add(record);
}

// Works out an operation's name once, since operations repeat. The name is empty where the event is none.
const EventRecorder::NamedOperation& EventRecorder::xprof_operation(const JsonEvent& event) {
  const std::string_view own = event.long_name.empty() ? event.name : event.long_name;
  const std::string_view text = !event.tf_op.empty()                                    ? event.tf_op
                                : !event.hlo_op.empty() && !event.argument_name.empty() ? event.argument_name
                                : event.hlo_op.empty() && is_tensorflow_operation(own)  ? own
                                                                                        : std::string_view();
  xprof_key_.assign(text).append(1, kSeparator).append(event.hlo_module).append(1, kSeparator).append(event.hlo_op);
  const auto [known, fresh] = xprof_operations_.try_emplace(xprof_key_);
  NamedOperation& operation = known->second;
  if (!fresh) return operation;
  XProfName name = is_tensorflow_operation(text) ? tensorflow_name(text) : jax_name(text);
  if (name.path.empty() && !event.hlo_op.empty()) name.path = fmt::format("{}/{}", event.hlo_module, event.hlo_op);
  operation = {true, {}, records_.names.intern(name.path), name.phase};
  return operation;
}

// Of a GPU's lines those of its streams tell what ran; the others repeat it by module, by step and by operation.
bool EventRecorder::is_xprof_work(const JsonEvent& event) const {
  const std::string_view line = thread_name(event.process, event.thread);
  return streamed_.contains(event.process) ? line.starts_with(kStream) : line == kXlaLine;
}

void EventRecorder::take_xprof(const JsonEvent& event) {
  constexpr char kPythonFrame = '$';
  if (event.phase != 'X' || event.name.starts_with(kPythonFrame)) return;
  const bool on_device = process_name(event.process).starts_with("/device:");
  if (on_device && !is_xprof_work(event)) return;
  EventRecord record;
  if (!read_times(event, record)) return;
  if (event.is_step && !on_device) return add_step(record);
  record.lane = lane_of(event.process, event.thread, false) & kLastLane;
  const NamedOperation& operation = xprof_operation(event);
  record.name = operation.name;
  record.phase = operation.phase;
  record.kind = RecordKind::kNamedCall;
  if (on_device) {
    const std::string_view kernel = kernel_name(event.name);
    if (operation.name == 0) {
      ++records_.stats.untied_kernels;
      record.name = records_.names.intern(kernel);
    } else if (options_.kernel_names && event.name != event.hlo_op) {
      record.name = records_.names.intern(fmt::format("{}/{}", records_.names[operation.name], kernel));
    }
    if (streamed_.contains(event.process)) {  // copies and kernels of one stream may overlap
      record.kind = RecordKind::kNamed;
      set_named(record.name, record.phase);
    }
  } else if (operation.name == 0) {
    record.kind = RecordKind::kScope;
    record.name = records_.names.intern(event.name);
  }
  add(record);
}

// For example "/job:localhost/replica:0/task:0/device:GPU:0/stream:all Compute". A kernel is listed in stream:all, in a
// stream of its own and, as its launch, in the device's own process; each is used once.
std::string EventRecorder::tensorflow_device(std::string_view process, bool& dropped) const {
  if (process.ends_with(" Tensors") || process == "Allocators") {
    dropped = true;
    return {};
  }
  std::string device = device_in(process);
  const bool stream = contains(process, "/stream:");
  const bool all = contains(process, "/stream:all");
  const bool streamed = std::find(streamed_gpus_.begin(), streamed_gpus_.end(), device) != streamed_gpus_.end();
  dropped = device.empty() || (device.starts_with("GPU") && streamed && !all) || (stream && streamed && !all);
  return device;
}

std::pair<std::string, std::string> EventRecorder::device_of(const EventLane& lane, bool& dropped) const {
  dropped = false;
  const std::string_view process = records_.names[lane.process];
  const std::string_view process_called = process_name(process);
  const auto mapped = [this](std::string_view name) {
    const auto known = options_.device_names.find(name);
    return known == options_.device_names.end() ? std::string() : known->second;
  };
  std::string device;
  if (format_ == EventFormat::kKineto) {
    device = lane.on_gpu ? fmt::format("GPU:{}", process) : "CPU:0";
  } else if (format_ == EventFormat::kTensorFlow) {
    if (std::string given = mapped(process_called); !given.empty()) return {std::string(process_called), given};
    device = tensorflow_device(process_called, dropped);
  } else if (format_ == EventFormat::kXProf) {
    device = process_called.starts_with("/host:") ? "CPU:0" : device_in(process_called);
    dropped = device.empty();
  } else {
    const std::string_view thread = records_.names[lane.thread];
    const std::string_view thread_called = thread_name(process, thread);
    const std::string_view text = options_.chrome_device == ChromeDevice::kProcess ? process_called
                                  : thread_called.empty()                          ? thread
                                                                                   : thread_called;
    if (options_.chrome_device != ChromeDevice::kNone) {
      if (std::string given = mapped(text); !given.empty()) return {std::string(text), given};
      device = device_in(text);
    }
    if (device.empty()) device = "CPU:0";
  }
  const std::string given = mapped(device);
  return {device, given.empty() ? device : given};
}

void EventRecorder::finish(DeviceTable& devices) {
  // Several threads may tell of one step.
  std::vector<StepSpan>& steps = records_.stats.steps;
  std::stable_sort(steps.begin(), steps.end(), [](const StepSpan& a, const StepSpan& b) { return a.begin < b.begin; });
  std::size_t kept = 0;
  for (const StepSpan& step : steps) {
    if (kept == 0 || step.begin >= steps[kept - 1].end) steps[kept++] = step;
  }
  steps.resize(kept);
  if (has_paths_) {  // what Python's frames tell of modules would double them
    std::erase_if(records_.records, [](const EventRecord& record) {
      return record.kind == RecordKind::kScope && record.module != 0 && !record.tied;
    });
  }
  records_.stats.without_modules =
      format_ == EventFormat::kKineto && records_.stats.executions > 0 && !has_paths_ && !has_modules_;
  for (const auto& [process, name] : process_names_) {
    if (contains(name, "/stream:all")) streamed_gpus_.push_back(device_in(name));
  }
  std::map<std::string, DeviceId> names;
  for (EventLane& lane : records_.lanes) {
    const auto [name, device] = device_of(lane, lane.dropped);
    if (!lane.dropped) names[name] = lane.device = devices.intern(device);
  }
  for (const auto& [name, device] : names) records_.stats.devices.push_back({name, device});
  for (const auto& [reason, count] : dropped_) records_.stats.dropped.push_back({reason, count});
  std::sort(records_.stats.dropped.begin(), records_.stats.dropped.end(),
            [](const DroppedEvents& a, const DroppedEvents& b) { return a.reason < b.reason; });
}

}  // namespace flyball
