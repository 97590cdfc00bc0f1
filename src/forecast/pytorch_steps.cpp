#include "forecast/pytorch_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace flyball {
namespace {

using Json = nlohmann::json;

enum class Kind { kStep, kLoad, kBackward, kCommunication, kTransfer, kUpdate, kZeroGrad, kNone };

// Microseconds, as in the file.
struct Range {
  double begin = 0.0;
  double end = 0.0;
};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

Kind kind_of(std::string_view name) {
  if (name.starts_with("ProfilerStep#")) return Kind::kStep;
  if (name.starts_with("enumerate(DataLoader)#")) return Kind::kLoad;
  if (name.starts_with("Optimizer.step#")) return Kind::kUpdate;
  if (name.starts_with("Optimizer.zero_grad#")) return Kind::kZeroGrad;
  if (contains(name, "allreduce") || contains(name, "all_reduce") || contains(name, "AllReduce") ||
      name.starts_with("nccl:") || name.starts_with("gloo:")) {
    return Kind::kCommunication;
  }
  if (name.starts_with("autograd::engine::evaluate_function")) return Kind::kBackward;
  if (contains(name, "Memcpy HtoD")) return Kind::kTransfer;
  return Kind::kNone;
}

// Keeps of every complete event ("X") of traceEvents what kind_of() knows, and forgets the rest while it reads.
class TraceReader : public nlohmann::json_sax<Json> {
 public:
  explicit TraceReader(std::string source) : source_(std::move(source)) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (depth_ != event_depth_) return true;
    if (key_ == "name") name_ = value;
    if (key_ == "ph") complete_ = value == "X";
    if (key_ == "cat" && (value == "kernel" || value == "gpu_memcpy")) accelerator = true;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_events_ && depth_ == event_depth_) {
      name_.clear();
      complete_ = false;
      range_ = {-1.0, -1.0};
    }
    return true;
  }
  bool end_object() override {
    if (in_events_ && depth_ == event_depth_) keep();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    if (!in_events_ && (key_ == "traceEvents" || depth_ == 1)) {  // some versions write the bare list
      in_events_ = true;
      found = true;
      event_depth_ = depth_ + 1;
      array_depth_ = depth_;
    }
    return true;
  }
  bool end_array() override {
    if (in_events_ && depth_ == array_depth_) in_events_ = false;
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&, const Json::exception&) override {
    throw InputError({source_}, fmt::format("no JSON at byte {}", byte),
                     "export the trace again, with torch.profiler's export_chrome_trace");
  }

  std::vector<std::pair<Kind, Range>> events;
  bool found = false;
  bool accelerator = false;

 private:
  bool number(double value) {
    if (in_events_ && depth_ == event_depth_) {
      if (key_ == "ts") range_.begin = value;
      if (key_ == "dur") range_.end = value;
    }
    return true;
  }

  void keep() {
    const Kind kind = kind_of(name_);
    if (!complete_ || kind == Kind::kNone || !(range_.end >= 0.0) || !std::isfinite(range_.begin + range_.end)) return;
    events.emplace_back(kind, Range{range_.begin, range_.begin + range_.end});
  }

  std::string source_;
  std::string key_;
  std::string name_;
  Range range_;
  int depth_ = 0;
  int event_depth_ = -1;
  int array_depth_ = -1;
  bool in_events_ = false;
  bool complete_ = false;
};

// Time inside [begin, end) that any of the ranges covers.
double covered(std::vector<Range> ranges, double begin, double end) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  double sum = 0.0;
  double reached = begin;
  for (const Range& range : ranges) {
    const double from = std::max(range.begin, reached);
    const double until = std::min(range.end, end);
    if (until <= from) continue;
    sum += until - from;
    reached = until;
  }
  return sum;
}

// Where nobody called the profiler's step(): from one optimizer's step to the end of the next.
std::vector<Range> steps_between_updates(const std::vector<std::pair<Kind, Range>>& events) {
  std::vector<double> ends;
  for (const auto& [kind, range] : events) {
    if (kind == Kind::kUpdate) ends.push_back(range.end);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<Range> steps;
  for (std::size_t k = 1; k < ends.size(); ++k) steps.push_back({ends[k - 1], ends[k]});
  return steps;
}

}  // namespace

TracedSteps read_pytorch_steps(const std::string& source, std::string_view text) {
  TraceReader reader(source);
  Json::sax_parse(text, &reader);
  if (!reader.found) {
    throw InputError({source}, "no traceEvents", "export it with torch.profiler's export_chrome_trace");
  }
  std::vector<Range> steps;
  for (const auto& [kind, range] : reader.events) {
    if (kind == Kind::kStep && range.end > range.begin) steps.push_back(range);
  }
  if (steps.empty()) steps = steps_between_updates(reader.events);
  std::sort(steps.begin(), steps.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // A device's rows repeat the host's steps; of overlapping ones the first, which is the host's, counts.
  std::vector<Range> apart;
  for (const Range& step : steps) {
    if (apart.empty() || step.begin >= apart.back().end) apart.push_back(step);
  }
  if (apart.size() >= 3) apart.erase(apart.begin());
  TracedSteps traced;
  traced.accelerator = reader.accelerator;
  const auto add = [&traced](TrainingStage stage, double microseconds) {
    traced.times[index_of(stage)].emplace_back(std::max(0.0, microseconds) * 1e-6);
  };
  traced.communication = std::any_of(reader.events.begin(), reader.events.end(),
                                     [](const auto& event) { return event.first == Kind::kCommunication; });
  std::sort(reader.events.begin(), reader.events.end(),
            [](const auto& a, const auto& b) { return a.second.begin < b.second.begin; });
  for (const Range& step : apart) {
    std::array<std::vector<Range>, 7> kinds;
    auto event = std::lower_bound(reader.events.begin(), reader.events.end(), step.begin,
                                  [](const auto& one, double time) { return one.second.begin < time; });
    for (; event != reader.events.end() && event->second.begin < step.end; ++event) {
      kinds[static_cast<std::size_t>(event->first)].push_back(event->second);
    }
    const auto of = [&](Kind kind) -> const std::vector<Range>& { return kinds[static_cast<std::size_t>(kind)]; };
    if (of(Kind::kBackward).empty()) continue;
    Range backward{step.end, step.begin};
    for (const Range& range : of(Kind::kBackward)) {
      backward = {std::min(backward.begin, range.begin), std::max(backward.end, range.end)};
    }
    std::vector<Range> hidden = of(Kind::kCommunication);
    const double load = covered(of(Kind::kLoad), step.begin, step.end);
    const double transfer = covered(of(Kind::kTransfer), step.begin, backward.begin);
    const double update =
        covered(of(Kind::kUpdate), step.begin, step.end) + covered(of(Kind::kZeroGrad), step.begin, step.end);
    const double before =
        covered(of(Kind::kZeroGrad), step.begin, backward.begin) + covered(of(Kind::kLoad), step.begin, backward.begin);
    add(TrainingStage::kLoadData, load);
    add(TrainingStage::kTransfer, transfer);
    add(TrainingStage::kForward, backward.begin - step.begin - before - transfer);
    add(TrainingStage::kBackward, backward.end - backward.begin);
    add(TrainingStage::kCommunication, covered(std::move(hidden), backward.end, step.end));
    add(TrainingStage::kUpdate, update);
    traced.iterations.emplace_back((step.end - step.begin) * 1e-6);
    ++traced.steps;
  }
  if (traced.steps == 0) {
    throw InputError({source}, "no ProfilerStep with a backward pass",
                     "profile training steps with torch.profiler.profile(...) and call its step() after each");
  }
  return traced;
}

TracedSteps steps_of_ranks(const std::vector<std::string>& sources, const std::vector<TracedSteps>& ranks) {
  TracedSteps all = ranks.front();
  all.ranks = ranks.size();
  if (ranks.size() == 1) return all;
  const auto share = 1.0 / static_cast<double>(ranks.size());
  std::vector<Seconds>& wait = all.times[index_of(TrainingStage::kWait)];
  wait.assign(all.steps, Seconds(0));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].steps != all.steps) {
      throw InputError({sources[r]}, fmt::format("{} steps, {} in {}", ranks[r].steps, all.steps, sources.front()),
                       "trace the same steps of all ranks");
    }
    all.accelerator = all.accelerator || ranks[r].accelerator;
    all.communication = all.communication || ranks[r].communication;
  }
  for (std::size_t k = 0; k < all.steps; ++k) {
    all.iterations[k] = Seconds(0);
    for (const TracedSteps& rank : ranks) all.iterations[k] += share * rank.iterations[k];
    for (std::size_t s = 0; s < kTrainingStages; ++s) {
      if (ranks.front().times[s].empty()) continue;
      Seconds mean(0);
      Seconds shortest = ranks.front().times[s][k];
      for (const TracedSteps& rank : ranks) {
        mean += share * rank.times[s][k];
        shortest = std::min(shortest, rank.times[s][k]);
      }
      const bool communication = static_cast<TrainingStage>(s) == TrainingStage::kCommunication;
      all.times[s][k] = communication ? shortest : mean;
      if (communication) wait[k] = mean - shortest;
    }
  }
  return all;
}

}  // namespace flyball
