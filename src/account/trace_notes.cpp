// One sentence for each count that is not zero.
#include "account/trace_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>

#include "base/counted.h"

namespace flyball {
namespace {

std::string number_of(std::uint64_t count, std::string_view noun) { return counted(static_cast<long>(count), noun); }

}  // namespace

void note_traces(const TraceNames& files, const EventTraceStats& events, const PowerTraceStats& power,
                 const std::vector<FootprintDevice>& devices, FootprintNotes& notes) {
  if (events.truncated) {
    notes.push_back(fmt::format("{} is cut off at byte {}; what is whole was read", files.events, events.truncated_at));
  }
  for (const std::string& missing : events.missing) notes.push_back(fmt::format("{}: {}", files.events, missing));
  for (const DroppedEvents& dropped : events.dropped) {
    notes.push_back(
        fmt::format("{}: {} left out: {}", files.events, number_of(dropped.count, "event"), dropped.reason));
  }
  if (events.untied_kernels > 0) {
    notes.push_back(fmt::format("{}: {} without the operation that launched them, named after the kernel", files.events,
                                number_of(events.untied_kernels, "kernel")));
  }
  if (events.without_modules) {
    notes.push_back(
        fmt::format("{}: no modules are named in it; annotate the model (flyball.torch.annotate), or profile it with "
                    "with_stack=True, or a TorchScript model with with_modules=True",
                    files.events));
  }
  if (events.too_deep > 0) {
    notes.push_back(fmt::format("{}: {} nested more than 1,000 deep, counted as the call at that depth", files.events,
                                number_of(events.too_deep, "call")));
  }
  for (const DroppedReadings& dropped : power.dropped) {
    notes.push_back(fmt::format("{}: {} left out, the first in line {}: {}", files.power,
                                number_of(dropped.count, "reading"), dropped.first_line, dropped.reason));
  }
  if (power.truncated) notes.push_back(fmt::format("{} is cut off in the middle of a row", files.power));
  for (const PowerTraceSensor& sensor : power.sensors) {
    if (sensor.gaps > 0) {
      notes.push_back(fmt::format("{}: {}, {:.3f} s, in which nothing is measured", sensor.name,
                                  number_of(sensor.gaps, "gap"), sensor.gap_time.value()));
    }
    if (sensor.ends_failing) {
      notes.push_back(
          fmt::format("{}: its readings fail from its last row on, after which nothing is measured", sensor.name));
    }
    if (sensor.resets > 0) {
      notes.push_back(fmt::format("{}: the counter began anew {}", sensor.name, number_of(sensor.resets, "time")));
    }
    if (sensor.wraps > 0) {
      notes.push_back(fmt::format("{}: the counter passed its range {}", sensor.name, number_of(sensor.wraps, "time")));
    }
    if (sensor.duplicates > 0) {
      notes.push_back(fmt::format("{}: {} left out, each with a later one of the same time", sensor.name,
                                  number_of(sensor.duplicates, "reading")));
    }
    if (sensor.readings == 1) {
      notes.push_back(fmt::format("{}: a single reading, from which no energy follows", sensor.name));
    }
  }
  for (const FootprintDevice& device : devices) {
    if (device.uncovered <= Seconds(0)) continue;
    if (device.powered <= Seconds(0)) {
      notes.push_back(fmt::format("{}: has events and no power", device.device));
    } else if (device.uncovered > 0.001 * device.busy) {
      notes.push_back(
          fmt::format("{}: {:.3f} s of events lie outside the power trace", device.device, device.uncovered.value()));
    }
  }
}

void note_unattributed(const std::vector<FootprintDevice>& devices, std::string_view option, FootprintNotes& notes) {
  std::vector<std::string> silent;
  std::string heard;
  Joules energy;
  for (const FootprintDevice& device : devices) {
    if (!on_processor(device.device)) continue;
    if (device.events > 0) {
      heard = heard.empty() ? device.device : heard;
    } else if (device.idle > Joules(0)) {
      silent.push_back(device.device);
      energy += device.idle;
    }
  }
  if (silent.empty() || heard.empty()) return;
  std::string note = fmt::format("{}: {:.3f} J within the profile are not attributed, since no event is on {}",
                                 fmt::join(silent, ", "), energy.value(), silent.size() == 1 ? "it" : "them");
  if (!option.empty()) note += fmt::format("; {} {}={} attributes them together", option, silent.front(), heard);
  notes.push_back(std::move(note));
}

std::vector<std::string> shared_gpus(const std::vector<RankFile>& ranks, const EventTraceStats& events,
                                     const DeviceNames& mapped, std::string_view option, const DeviceTable& devices) {
  std::map<DeviceId, std::vector<std::string>> names;
  for (const TracedDevice& traced : events.devices) {
    if (!devices.name(traced.device).starts_with("GPU")) continue;
    for (const RankFile& file : ranks) {
      if (!traced.name.starts_with(fmt::format("{}/", file.rank))) continue;
      if (mapped.find(traced.name) == mapped.end()) names[traced.device].push_back(traced.name);
    }
  }
  std::vector<std::string> warnings;
  for (const auto& [id, of_ranks] : names) {
    if (of_ranks.size() < 2) continue;
    warnings.push_back(fmt::format(
        "{} are taken for one GPU, {}; where each rank sees a GPU of its own, say which: {} {}=GPU:1, and so on",
        fmt::join(of_ranks, " and "), devices.name(id), option, of_ranks.back()));
  }
  return warnings;
}

}  // namespace flyball
