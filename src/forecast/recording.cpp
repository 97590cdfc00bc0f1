// A device's power trace is kept as its integral, so that the energy of a span is the difference of two look-ups.
#include "forecast/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "base/nearest_name.h"
#include "base/text.h"
#include "trace/power_trace.h"

namespace flyball {
namespace {

constexpr Component kProcessor = Component::kProcessor;
constexpr Component kAccelerator = Component::kAccelerator;
constexpr Component kMemory = Component::kMemory;

// The curve's value at `time`, or at the nearer end if `time` lies outside.
Joules at(const EnergyCurve& curve, Seconds time) {
  const auto after = std::lower_bound(curve.times.begin(), curve.times.end(), time);
  if (after == curve.times.begin()) return curve.joules.front();
  if (after == curve.times.end()) return curve.joules.back();
  const auto k = static_cast<std::size_t>(after - curve.times.begin());
  const double share = (time - curve.times[k - 1]) / (curve.times[k] - curve.times[k - 1]);
  return curve.joules[k - 1] + share * (curve.joules[k] - curve.joules[k - 1]);
}

struct Level {
  Watts power;
  Seconds time;
};

// Mean powers of a component between the changes of its sensors.
std::vector<Level> levels_of(const Recording& recording, Component component) {
  const auto [begin, end] = recording.common_span();
  std::vector<Seconds> times;
  for (const auto& [device, curve] : recording.devices) {
    const Component* own = Recording::component_of(device);
    if (own != nullptr && *own == component) times.insert(times.end(), curve.times.begin(), curve.times.end());
  }
  std::sort(times.begin(), times.end());
  std::vector<Level> levels;
  Seconds last = begin;
  for (const Seconds time : times) {
    if (time <= last || time > end) continue;
    levels.push_back({recording.between(component, last, time) / (time - last), time - last});
    last = time;
  }
  return levels;
}

ComponentPower two_levels(std::vector<Level> levels) {
  std::sort(levels.begin(), levels.end(), [](const Level& a, const Level& b) { return a.power < b.power; });
  Seconds time(0);
  Joules energy(0);
  for (const Level& level : levels) {
    time += level.time;
    energy += level.power * level.time;
  }
  // Otsu's method: the split of greatest variance between the two means is that of least variance around them.
  ComponentPower best{energy / time, energy / time};
  double greatest = 0.0;
  Seconds low_time(0);
  Joules low_energy(0);
  for (std::size_t k = 0; k + 1 < levels.size(); ++k) {
    low_time += levels[k].time;
    low_energy += levels[k].power * levels[k].time;
    const Seconds high_time = time - low_time;
    if (high_time <= Seconds(0)) break;
    const Watts low = low_energy / low_time;
    const Watts high = (energy - low_energy) / high_time;
    const double between = low_time / time * (high_time / time) * (high - low).value() * (high - low).value();
    if (between > greatest) {
      greatest = between;
      best = {high, low};
    }
  }
  return best;
}

void need_something(const Recording& recording) {
  const auto [begin, end] = recording.common_span();
  if (end > begin) return;
  throw InputError({recording.source}, "no two readings of a GPU:n, CPU:n or DRAM:n device at the same time",
                   "record with flyball record -o power.csv -- ./train");
}

}  // namespace

Joules EnergyCurve::between(Seconds begin, Seconds end) const { return at(*this, end) - at(*this, begin); }

void Recording::add(const std::string& device, Seconds begin, Seconds end, Watts power) {
  EnergyCurve& curve = devices[device];
  if (curve.times.empty()) {
    curve.times.push_back(begin);
    curve.joules.emplace_back(0);
  }
  if (end <= curve.times.back()) return;
  curve.joules.push_back(curve.joules.back() + power * (end - curve.times.back()));
  curve.times.push_back(end);
}

const Component* Recording::component_of(std::string_view device) {
  if (device.starts_with("GPU:")) return &kAccelerator;
  if (device.starts_with("CPU:")) return &kProcessor;
  if (device.starts_with("DRAM:")) return &kMemory;
  return nullptr;
}

std::pair<Seconds, Seconds> Recording::common_span() const {
  Seconds begin(0);
  Seconds end(std::numeric_limits<double>::infinity());
  bool any = false;
  for (const auto& [device, curve] : devices) {
    if (component_of(device) == nullptr) continue;
    any = true;
    begin = std::max(begin, curve.times.front());
    end = std::min(end, curve.times.back());
  }
  return {begin, any ? std::max(begin, end) : begin};
}

bool Recording::has(Component component) const {
  return std::any_of(devices.begin(), devices.end(), [component](const auto& entry) {
    const Component* own = component_of(entry.first);
    return own != nullptr && *own == component;
  });
}

Joules Recording::between(Component component, Seconds begin, Seconds end) const {
  Joules sum(0);
  for (const auto& [device, curve] : devices) {
    const Component* own = component_of(device);
    if (own != nullptr && *own == component) sum += curve.between(begin, end);
  }
  return sum;
}

Recording read_recording(const std::string& file) {
  DeviceTable devices;
  const std::unique_ptr<PowerTrace> trace = open_power_trace(file, {}, devices);
  const PowerTraceStats& stats = trace->stats();
  for (const DroppedReadings& dropped : stats.dropped) {
    if (!dropped.reason.starts_with("negative")) continue;
    throw InputError({file, dropped.first_line}, dropped.reason, "remove the row, or record again");
  }
  const Seconds whole = to_seconds(stats.last - stats.first);
  constexpr double kMostGaps = 0.01;
  for (const PowerTraceSensor& sensor : stats.sensors) {
    if (sensor.gap_time <= kMostGaps * whole) continue;
    throw InputError({file},
                     fmt::format("nothing is known of {} for {:.4g} s of {:.4g} s", sensor.name,
                                 sensor.gap_time.value(), whole.value()),
                     "cut the trace where its readings or its counter stop, or record again");
  }
  Recording recording{file, to_seconds(stats.first).value(), {}};
  const Nanoseconds first = stats.first;
  PowerSegment segment;
  while (trace->next(segment)) {
    recording.add(devices.name(segment.device), to_seconds(segment.begin - first), to_seconds(segment.end - first),
                  segment.power);
  }
  return recording;
}

std::vector<StageSpan> read_spans(const std::string& source, std::string_view text) {
  CsvReader csv(source, text, {"iteration", "stage", "begin", "end"});
  std::vector<StageSpan> spans;
  while (csv.next()) {
    StageSpan span;
    span.iteration = csv.integer("iteration");
    const std::string name(csv.text("stage"));
    const auto stage = value_named<TrainingStage>(name);
    if (!stage) {
      throw InputError(csv.where("stage"), fmt::format("unknown stage '{}'", name),
                       fmt::format("the stages are {}", fmt::join(kNamesOf<TrainingStage>, ", ")));
    }
    span.stage = *stage;
    span.begin = csv.number("begin");
    span.end = csv.number("end");
    if (span.end < span.begin) {
      throw InputError(csv.where("end"), "the span ends before it begins", "write timestamps in seconds");
    }
    spans.push_back(span);
  }
  if (spans.empty()) throw InputError({source, csv.line(), 1}, "no spans", "write one row a stage and iteration");
  return spans;
}

void attach_recording(NodeType& type, const Recording& recording, const std::vector<StageSpan>& spans) {
  need_something(recording);
  const auto [first, last] = recording.common_span();
  // Sensors change some time after what they show, so that a span may reach beyond the recording by as much.
  const Seconds margin = 0.05 * (last - first);
  struct Measured {
    Seconds time;
    PerComponent<Joules> joules{};
  };
  PerStage<std::map<long, Measured>> stages;
  for (const StageSpan& span : spans) {
    const Seconds begin(span.begin - recording.first_timestamp);
    const Seconds end(span.end - recording.first_timestamp);
    if (begin < first - margin || end > last + margin) {
      throw InputError(
          {recording.source},
          fmt::format("{} of iteration {} lies outside the recording, {:.3f} s to {:.3f} s from its first row",
                      name_of(span.stage), span.iteration, begin.value(), end.value()),
          "write spans in the recording's clock (its header has the offset of CLOCK_MONOTONIC)");
    }
    const bool once = usual_occurrence(span.stage) == Occurrence::kRun;
    Measured& measured = stages[index_of(span.stage)][once ? 0 : span.iteration];
    measured.time += end - begin;
    for (std::size_t c = 0; c < kComponents; ++c) {
      measured.joules[c] += recording.between(static_cast<Component>(c), begin, end);
    }
  }
  for (std::size_t s = 0; s < kTrainingStages; ++s) {
    if (stages[s].empty()) continue;
    const auto which = static_cast<TrainingStage>(s);
    StageMeasurement& stage = type.stage(which);
    if (!stage.stated) {
      stage.stated = true;
      stage.occurrence = usual_occurrence(which);
      stage.where = type.where;
    }
    stage.times.clear();
    for (auto& own : stage.recorded) own.clear();
    for (const auto& [iteration, measured] : stages[s]) {
      stage.times.push_back(measured.time);
      for (std::size_t c = 0; c < kComponents; ++c) {
        if (recording.has(static_cast<Component>(c))) stage.recorded[c].push_back(measured.joules[c]);
      }
    }
  }
  set_usual_activity(type, type.has(Component::kAccelerator) || recording.has(Component::kAccelerator));
}

PerComponent<std::optional<ComponentPower>> calibrate(const Recording& recording) {
  need_something(recording);
  PerComponent<std::optional<ComponentPower>> powers;
  for (std::size_t c = 0; c < kComponents; ++c) {
    const auto component = static_cast<Component>(c);
    if (!recording.has(component)) continue;
    const std::vector<Level> levels = levels_of(recording, component);
    if (!levels.empty()) powers[c] = two_levels(levels);
  }
  return powers;
}

PerComponent<std::optional<ComponentPower>> calibrate(const Recording& recording, const std::vector<StageSpan>& spans,
                                                      const NodeType& type) {
  PerComponent<std::optional<ComponentPower>> powers = calibrate(recording);
  const bool accelerator = recording.has(Component::kAccelerator);
  for (std::size_t c = 0; c < kComponents; ++c) {
    if (!powers[c]) continue;
    std::array<Seconds, 2> time{};
    std::array<Joules, 2> energy{};
    for (const StageSpan& span : spans) {
      const StageMeasurement& stage = type.stage(span.stage);
      const bool active = (stage.stated ? stage.active : usual_activity(span.stage, accelerator))[c];
      const Seconds begin(span.begin - recording.first_timestamp);
      const Seconds end(span.end - recording.first_timestamp);
      time[active ? 1 : 0] += end - begin;
      energy[active ? 1 : 0] += recording.between(static_cast<Component>(c), begin, end);
    }
    if (time[1] > Seconds(0)) powers[c]->active = energy[1] / time[1];
    if (time[0] > Seconds(0)) powers[c]->idle = energy[0] / time[0];
    powers[c]->idle = std::min(powers[c]->idle, powers[c]->active);
  }
  return powers;
}

std::vector<std::pair<Seconds, Watts>> power_steps(const Recording& recording, std::size_t steps) {
  const auto [begin, end] = recording.common_span();
  std::vector<std::pair<Seconds, Watts>> list;
  if (end <= begin || steps == 0) return list;
  const Seconds step = (end - begin) / static_cast<double>(steps);
  for (std::size_t k = 0; k < steps; ++k) {
    const Seconds from = begin + static_cast<double>(k) * step;
    Joules energy(0);
    for (std::size_t c = 0; c < kComponents; ++c) {
      energy += recording.between(static_cast<Component>(c), from, from + step);
    }
    list.emplace_back(from, energy / step);
  }
  return list;
}

}  // namespace flyball
