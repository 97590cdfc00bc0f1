// Events are sorted into kinds by their names. The times of a step's stages are the lengths of unions of such events.
#include "forecast/pytorch_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/time_text.h"
#include "trace/json_events.h"

namespace flyball {
namespace {

constexpr std::string_view kStepName = "ProfilerStep#";

enum class Kind { kStep, kLoad, kBackward, kCommunication, kTransfer, kUpdate, kZeroGrad, kNone };

struct Range {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  long number = -1;  // of ProfilerStep#N
};

Kind kind_of(std::string_view name) {
  if (name.starts_with(kStepName)) return Kind::kStep;
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

using Events = std::vector<std::pair<Kind, Range>>;

// The complete events ("X") that kind_of() knows, and what the trace says of its run.
Events read_events(ByteSource& bytes, TracedSteps& traced) {
  Events events;
  JsonEventReader reader(bytes);
  const auto take = [&](const JsonEvent& event) {
    if (event.category == "kernel" || event.category == "gpu_memcpy") traced.accelerator = true;
    const Kind kind = kind_of(event.name);
    if (event.phase != 'X' || kind == Kind::kNone) return;
    const std::optional<Nanoseconds> begin = parse_decimal(event.time, 3);
    const std::optional<Nanoseconds> length = parse_decimal(event.duration, 3);
    if (!begin || !length || *begin < -kFarthestTime || *begin > kFarthestTime || *length < 0 ||
        *length > kFarthestTime)
      return;
    Range range{*begin, *begin + *length};
    if (kind == Kind::kStep) {
      const char* end = event.name.data() + event.name.size();
      std::from_chars(event.name.data() + kStepName.size(), end, range.number);
    }
    events.emplace_back(kind, range);
  };
  reader.read(take, {});
  if (reader.truncated()) {
    throw InputError({bytes.name()}, fmt::format("cut off at byte {}", reader.whole_bytes()),
                     "export the trace again, with torch.profiler's export_chrome_trace");
  }
  traced.world_size = reader.world_size();
  return events;
}

// Time inside [begin, end) that any of the ranges covers.
Nanoseconds covered(std::vector<Range> ranges, Nanoseconds begin, Nanoseconds end) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  Nanoseconds sum = 0;
  Nanoseconds reached = begin;
  for (const Range& range : ranges) {
    const Nanoseconds from = std::max(range.begin, reached);
    const Nanoseconds until = std::min(range.end, end);
    if (until <= from) continue;
    sum += until - from;
    reached = until;
  }
  return sum;
}

// The steps of a trace in which nobody called the profiler's step(): each lasts from the end of one optimizer's step to
// the end of the next.
std::vector<Range> steps_between_updates(const Events& events) {
  std::vector<Nanoseconds> ends;
  for (const auto& [kind, range] : events) {
    if (kind == Kind::kUpdate) ends.push_back(range.end);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<Range> steps;
  for (std::size_t k = 1; k < ends.size(); ++k) steps.push_back({ends[k - 1], ends[k]});
  return steps;
}

std::string range_of(const std::vector<long>& numbers) {
  return fmt::format("steps {} to {}", numbers.front(), numbers.back());
}

// Leaves every rank the steps that all have. A loop that began to trace one rank a step later has other positions for
// the same steps, and all-reduces of different steps would be compared.
void keep_common(const std::vector<std::string>& sources, std::vector<TracedSteps>& ranks) {
  std::vector<long> common = ranks.front().numbers;
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<long>& own = ranks[r].numbers;
    if (own.empty() != common.empty()) {
      throw InputError(
          {sources[r]},
          fmt::format("{} its steps, other than {}", own.empty() ? "does not number" : "numbers", sources.front()),
          "call the profiler's step() after each step on all ranks");
    }
    if (own.empty() && ranks[r].steps != ranks.front().steps) {
      throw InputError({sources[r]},
                       fmt::format("{} steps, {} in {}", ranks[r].steps, ranks.front().steps, sources.front()),
                       "trace the same steps of all ranks, or call the profiler's step(), which numbers them");
    }
    std::vector<long> both;
    std::set_intersection(common.begin(), common.end(), own.begin(), own.end(), std::back_inserter(both));
    if (both.empty() && !own.empty()) {
      throw InputError(
          {sources[r]},
          fmt::format("{}, none in common with {} of {}", range_of(own), range_of(common), sources.front()),
          "trace the same steps of all ranks, three or more, of which the first is left out");
    }
    common = std::move(both);
  }
  if (common.empty()) return;
  for (TracedSteps& rank : ranks) {
    std::vector<std::size_t> kept;
    for (std::size_t k = 0; k < rank.steps; ++k) {
      if (std::binary_search(common.begin(), common.end(), rank.numbers[k])) kept.push_back(k);
    }
    const auto keep = [&kept](std::vector<Seconds>& times) {
      if (times.empty()) return;
      std::vector<Seconds> list;
      for (const std::size_t k : kept) list.push_back(times[k]);
      times = std::move(list);
    };
    for (std::vector<Seconds>& times : rank.times) keep(times);
    keep(rank.iterations);
    rank.numbers = common;
    rank.steps = common.size();
  }
}

}  // namespace

TracedSteps read_pytorch_steps(ByteSource& bytes) {
  TracedSteps traced;
  Events events = read_events(bytes, traced);
  std::vector<Range> steps;
  for (const auto& [kind, range] : events) {
    if (kind == Kind::kStep && range.end > range.begin) steps.push_back(range);
  }
  if (steps.empty()) steps = steps_between_updates(events);
  std::sort(steps.begin(), steps.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  // A device's rows repeat the host's steps. Of those of one number only the first counts, which is the host's.
  // Numbered steps may overlap by as much as a time is rounded.
  std::vector<Range> apart;
  for (const Range& step : steps) {
    const bool next =
        apart.empty() || (step.number < 0 ? step.begin >= apart.back().end : step.number > apart.back().number);
    if (next) apart.push_back(step);
  }
  if (apart.size() >= 3) apart.erase(apart.begin());
  const auto add = [&traced](TrainingStage stage, Nanoseconds time) {
    traced.times[index_of(stage)].push_back(to_seconds(std::max<Nanoseconds>(0, time)));
  };
  traced.communication =
      std::any_of(events.begin(), events.end(), [](const auto& event) { return event.first == Kind::kCommunication; });
  std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.second.begin < b.second.begin; });
  for (const Range& step : apart) {
    std::array<std::vector<Range>, 7> kinds;
    auto event = std::lower_bound(events.begin(), events.end(), step.begin,
                                  [](const auto& one, Nanoseconds time) { return one.second.begin < time; });
    for (; event != events.end() && event->second.begin < step.end; ++event) {
      kinds[static_cast<std::size_t>(event->first)].push_back(event->second);
    }
    const auto of = [&](Kind kind) -> const std::vector<Range>& { return kinds[static_cast<std::size_t>(kind)]; };
    if (of(Kind::kBackward).empty()) continue;
    Range backward{step.end, step.begin};
    for (const Range& range : of(Kind::kBackward)) {
      backward = {std::min(backward.begin, range.begin), std::max(backward.end, range.end)};
    }
    std::vector<Range> hidden = of(Kind::kCommunication);
    const Nanoseconds load = covered(of(Kind::kLoad), step.begin, step.end);
    const Nanoseconds transfer = covered(of(Kind::kTransfer), step.begin, backward.begin);
    const Nanoseconds update =
        covered(of(Kind::kUpdate), step.begin, step.end) + covered(of(Kind::kZeroGrad), step.begin, step.end);
    const Nanoseconds before =
        covered(of(Kind::kZeroGrad), step.begin, backward.begin) + covered(of(Kind::kLoad), step.begin, backward.begin);
    add(TrainingStage::kLoadData, load);
    add(TrainingStage::kTransfer, transfer);
    add(TrainingStage::kForward, backward.begin - step.begin - before - transfer);
    add(TrainingStage::kBackward, backward.end - backward.begin);
    add(TrainingStage::kCommunication, covered(std::move(hidden), backward.end, step.end));
    add(TrainingStage::kUpdate, update);
    traced.iterations.push_back(to_seconds(step.end - step.begin));
    if (step.number >= 0) traced.numbers.push_back(step.number);
    ++traced.steps;
  }
  if (traced.numbers.size() != traced.steps) traced.numbers.clear();
  if (traced.steps == 0) {
    throw InputError({bytes.name()}, "no ProfilerStep with a backward pass",
                     "profile training steps with torch.profiler.profile(...) and call its step() after each");
  }
  return traced;
}

TracedSteps steps_of_ranks(const std::vector<std::string>& sources, std::vector<TracedSteps> ranks, RankTimes which) {
  if (ranks.size() == 1) return ranks.front();
  keep_common(sources, ranks);
  constexpr std::size_t kCommunication = index_of(TrainingStage::kCommunication);
  constexpr std::size_t kWait = index_of(TrainingStage::kWait);
  TracedSteps all = ranks.front();
  all.ranks = ranks.size();
  for (const TracedSteps& rank : ranks) {
    all.accelerator = all.accelerator || rank.accelerator;
    all.communication = all.communication || rank.communication;
    all.world_size = std::max(all.world_size, rank.world_size);
    for (std::size_t k = 0; k < all.steps; ++k) {
      Seconds& shortest = all.times[kCommunication][k];
      shortest = std::min(shortest, rank.times[kCommunication][k]);
    }
  }
  for (TracedSteps& rank : ranks) {
    for (std::size_t k = 0; k < all.steps; ++k) {
      rank.times[kWait].push_back(rank.times[kCommunication][k] - all.times[kCommunication][k]);
      if (which == RankTimes::kEach) rank.iterations[k] -= rank.times[kWait][k];
    }
    rank.times[kCommunication] = all.times[kCommunication];
    if (which == RankTimes::kEach) rank.times[kWait].clear();
  }
  const auto joined = [&ranks, which](const auto& of) {
    std::vector<Seconds> list = of(ranks.front());
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const std::vector<Seconds>& own = of(ranks[r]);
      if (which == RankTimes::kEach) list.insert(list.end(), own.begin(), own.end());
      for (std::size_t k = 0; which == RankTimes::kMean && k < own.size(); ++k) list[k] += own[k];
    }
    for (Seconds& time : list) {
      if (which == RankTimes::kMean) time = time / static_cast<double>(ranks.size());
    }
    return list;
  };
  for (std::size_t s = 0; s < kTrainingStages; ++s) {
    all.times[s] = joined([s](const TracedSteps& rank) -> const std::vector<Seconds>& { return rank.times[s]; });
  }
  all.iterations = joined([](const TracedSteps& rank) -> const std::vector<Seconds>& { return rank.iterations; });
  return all;
}

}  // namespace flyball
