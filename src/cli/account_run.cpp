#include "cli/account_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "account/clock_offset.h"
#include "account/processor_share.h"
#include "account/regression.h"
#include "account/sparse_power.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/pipeline_options.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr std::size_t kPictureBins = 700;
constexpr std::size_t kPictureLanes = 20;

// Shows how far a sweep has come, by the time of its events.
class WatchedEvents final : public EventSource {
 public:
  WatchedEvents(EventTrace& source, ProgressBar& bar)
      : source_(source),
        bar_(bar),
        first_(source.stats().first),
        length_(std::max<double>(1.0, static_cast<double>(source.stats().last - first_))) {}
  bool next(TraceEvent& event) override {
    if (!source_.next(event)) return false;
    if (++count_ % 8192 == 0) bar_.update(static_cast<double>(event.begin - first_) / length_);
    return true;
  }

 private:
  EventTrace& source_;
  ProgressBar& bar_;
  Nanoseconds first_;
  double length_;
  std::uint64_t count_ = 0;
};

bool overlap(const EventTraceStats& events, const PowerTraceStats& power, Nanoseconds shift) {
  return events.first + shift < power.last && power.first < events.last + shift;
}

// Jiffies divide a socket's energy: what the power map calls socket n must be of that socket.
void require_sockets(const PowerTrace& power, const DeviceTable& devices) {
  for (const PowerTraceSensor& sensor : power.stats().sensors) {
    const std::string& device = devices.name(sensor.device);
    const std::optional<int> socket = socket_named(device);
    const std::optional<int> own = socket_named(sensor.name);
    const auto& sums = power.stats().sums;
    const bool summed =
        std::any_of(sums.begin(), sums.end(), [&](const auto& sum) { return sum.device == sensor.device; });
    if (!socket || (own ? own == socket : !summed)) continue;
    throw UsageError(
        fmt::format("--power-device {0}={1}: --jiffies would divide the energy of {0} by what ran on socket {2}; drop "
                    "one of the two",
                    sensor.name, device, *socket));
  }
}

std::string number_of(std::uint64_t count, std::string_view noun) { return counted(static_cast<long>(count), noun); }

std::string fit_text(const RegressionFit& fit) {
  const std::string fitted =
      fmt::format("{} fitted to {}", number_of(fit.unknowns, "power"), number_of(fit.readings, "reading"));
  if (fit.deviation <= Watts(0)) return fitted + " that do not vary, which tell nothing of single operations";
  const std::string varied = fmt::format("{} with a standard deviation of {:.3g} W", fitted, fit.deviation.value());
  if (!fit.explained) return varied + "; too few to judge the fit";
  return fmt::format("{}; powers fitted to one half explain {:.1f} % of the variance in the other", varied,
                     100.0 * *fit.explained);
}

std::string seconds_text(Nanoseconds time) { return format_signed(to_seconds(time).value(), 6) + " s"; }

}  // namespace

AccountRun::AccountRun(const std::string& events, const std::string& power, const AccountSettings& settings,
                       OperationTable& operations, DeviceTable& devices)
    : operations_(operations),
      devices_(devices),
      events_path_(events),
      power_path_(power),
      multiplicity_(settings.multiplicity) {
  {
    ProgressBar bar("reading " + power);
    PowerTraceOptions options = settings.power;
    options.progress = [&bar](double share) { bar.update(share); };
    power_ = open_power_trace(power, options, devices_);
  }
  {
    ProgressBar bar("reading " + events);
    EventTraceOptions options = settings.events;
    options.progress = [&bar](double share) { bar.update(share); };
    events_ = open_event_trace(events, options, operations_, devices_);
  }
  if (events_->stats().executions == 0) throw_nothing_ran();
  settle_clock(settings);
  attribute_all(settings);
  note_devices(settings);
  note_traces();
}

// What the device maps did, and what they did not.
void AccountRun::note_devices(const AccountSettings& settings) {
  std::vector<std::string> event_names;
  for (const TracedDevice& device : events_->stats().devices) event_names.push_back(device.name);
  std::vector<std::string> power_names;
  for (const PowerTraceSensor& sensor : power_->stats().sensors) power_names.push_back(sensor.name);
  const auto note_unmet = [this](const char* option, const auto& map, const std::string& path,
                                 const std::vector<std::string>& there) {
    for (const auto& [name, value] : map) {
      if (std::find(there.begin(), there.end(), name) != there.end()) continue;
      notes_.push_back(fmt::format("{} {}=... changes nothing: {} has {}", option, name, path, fmt::join(there, ", ")));
    }
  };
  note_unmet("--event-device", settings.events.device_names, events_path_, event_names);
  note_unmet("--power-device", settings.power.device_names, power_path_, power_names);
  note_unmet("--counter-range", settings.power.counter_ranges, power_path_, power_names);
  if (settings.events.chrome_device != ChromeDevice::kProcess && events_->stats().format != EventFormat::kChrome) {
    notes_.push_back(
        fmt::format("--chrome-device changes nothing: {} is {}", events_path_, name_of(events_->stats().format)));
  }
  if (settings.power.row_period != PowerTraceOptions().row_period && power_->stats().format != PowerFormat::kDcgm) {
    notes_.push_back(fmt::format("--row-period changes nothing: {} has times of its own", power_path_));
  }
  for (const PowerTraceSum& sum : power_->stats().sums) {
    std::string note = fmt::format("{} is the sum of {} of the power trace", devices_.name(sum.device),
                                   fmt::join(sum.sensors, " and "));
    if (sum.partial > Seconds(0)) {
      note += fmt::format("; for {:.3f} s only some of them are measured", sum.partial.value());
    }
    notes_.push_back(std::move(note));
  }
}

// Not a matter of clocks, though no offset lays nothing over power.
void AccountRun::throw_nothing_ran() const {
  const EventTraceStats& stats = events_->stats();
  std::string problem = fmt::format("nothing ran in this trace: its list has {}, and none is an operation that ran",
                                    stats.entries == 1 ? "one entry" : fmt::format("{} entries", stats.entries));
  for (const DroppedEvents& dropped : stats.dropped) problem += fmt::format("; {}: {}", dropped.reason, dropped.count);
  throw InputError({events_path_}, problem,
                   "see that the profiler was on while the program worked, and that this is its event trace");
}

ClockOffset AccountRun::estimate_offset(Nanoseconds shift) {
  ProgressBar bar("checking the clocks");
  events_->rewind(shift);
  power_->rewind(0);
  WatchedEvents events(*events_, bar);
  return estimate_clock_offset(events, *power_);
}

// As they are; by the offset that a recording of ours brings; by where power follows the events.
void AccountRun::settle_clock(const AccountSettings& settings) {
  const EventTraceStats& events = events_->stats();
  const PowerTraceStats& power = power_->stats();
  bool found = false;
  if (settings.clock_offset) {
    shift_ = to_nanoseconds(*settings.clock_offset);
    notes_.push_back(fmt::format("clock offset {} given, added to the events' times", seconds_text(shift_)));
  } else if (!settings.estimate_offset && overlap(events, power, 0)) {
    // As they are.
  } else if (!settings.estimate_offset && power.monotonic_offset && overlap(events, power, *power.monotonic_offset)) {
    shift_ = *power.monotonic_offset;
    notes_.push_back(fmt::format("the events' times are of the monotonic clock, {} added", seconds_text(shift_)));
  } else {
    find_clock();
    found = true;
  }
  if (!found) check_clock(!settings.clock_offset);
  events_->rewind(shift_);
  power_->rewind(0);
}

void AccountRun::find_clock() {
  const bool apart = !overlap(events_->stats(), power_->stats(), 0);
  const ClockOffset estimate = estimate_offset(0);
  const std::string found = fmt::format("clock offset {} ({}: correlation {:.3f}, next best {:.3f} at {:+.3f} s)",
                                        seconds_text(estimate.offset), name_of(estimate.verdict), estimate.correlation,
                                        estimate.runner_up, estimate.runner_up_offset.value());
  if (estimate.verdict == OffsetVerdict::kCertain || estimate.verdict == OffsetVerdict::kAmbiguous) {
    shift_ = estimate.offset;
    notes_.push_back(found + ", added to the events' times");
    return;
  }
  if (apart) {
    throw InputError({events_path_},
                     fmt::format("the events and {} are of different times, and power does not tell how to lay "
                                 "one over the other; {}",
                                 power_path_, found),
                     "give --clock-offset TIME, to be added to the events' times");
  }
  notes_.push_back(found + ", not applied");
}

// Whether power follows the events as they lie now, which a clock that is wrong by less than the traces' length does not
// show otherwise. Says what was found, and warns where it is certain that they lie wrong, unless the user laid them so.
void AccountRun::check_clock(bool warn) {
  constexpr double kAsWell = 0.9;  // of the best correlation
  const ClockOffset found = estimate_offset(shift_);
  // Offsets as --clock-offset takes them: of the times in the trace, not of those that lie here.
  const Seconds added = to_seconds(shift_);
  const Seconds best = added + to_seconds(found.offset);
  const std::string_view now = shift_ == 0 ? "as they are" : "as they lie now";
  const std::string fit =
      fmt::format("{:+.3f} s ({}: correlation {:.3f}, {} {:.3f}, next best {:.3f} at {:+.3f} s)", best.value(),
                  name_of(found.verdict), found.correlation, now, found.correlation_unshifted, found.runner_up,
                  (added + found.runner_up_offset).value());
  switch (found.verdict) {
    case OffsetVerdict::kNoData:
      notes_.emplace_back("clocks not checked: no device is in both traces of which work and power change");
      return;
    case OffsetVerdict::kWeak:
      notes_.push_back(fmt::format(
          "clocks not checked: power hardly follows the events, as where a device works all the time (correlation "
          "{:.3f} at best, {} {:.3f}); see that both are of one run, and of the same devices",
          found.correlation, now, found.correlation_unshifted));
      return;
    default: break;
  }
  if (found.correlation_unshifted >= kAsWell * found.correlation) {
    notes_.push_back(fmt::format("clocks agree: power follows the events best at {}", fit));
  } else if (found.verdict == OffsetVerdict::kAmbiguous) {
    notes_.push_back(fmt::format(
        "clocks not checked for certain: power follows the events best at {}, as it may by chance where traces "
        "are short or regular; check the time of a known event",
        fit));
  } else {
    const std::string text = fmt::format(
        "clocks apart, or the sensor late: power follows the events best with {} added to their times, which was not "
        "done; --clock-offset={:+.3f}s does it",
        fit, best.value());
    notes_.push_back(text);
    if (warn) print_warning(fmt::format("{}: {}", events_path_, text));
  }
}

void AccountRun::attribute_all(const AccountSettings& settings) {
  std::vector<ShareInterval> shares;
  if (!settings.jiffies.empty()) {
    require_sockets(*power_, devices_);
    const std::string text = read_text_file(settings.jiffies);
    shares = processor_shares(read_jiffies(settings.jiffies, text));
    if (shares.empty() || shares.front().begin >= power_->stats().last || shares.back().end <= power_->stats().first) {
      throw InputError({settings.jiffies}, "the jiffies do not cover the power trace",
                       "record both at once: flyball record -o power.csv --jiffies jiffies.csv -- ...");
    }
  }
  ProgramPower power(*power_, shares, devices_);
  attribute_power(settings, power);
  for (std::size_t i = 0; i < power.rest().size(); ++i) {
    const ProgramPower::Rest& rest = power.rest()[i];
    const std::string& name = devices_.name(static_cast<DeviceId>(i));
    for (FootprintDevice& device : footprint_.devices) {
      if (device.device != name) continue;
      device.other_processes = Joules(rest.other);
      device.system = Joules(rest.system);
      device.monitor = Joules(rest.monitor);
      device.measured += Joules(rest.other + rest.system + rest.monitor);
      if (!shares.empty() && rest.uncovered > 0.001 * device.measured.value()) {
        notes_.push_back(
            fmt::format("{}: {:.3f} s with {:.3f} J lie outside the jiffies and were not divided among processes", name,
                        to_seconds(rest.uncovered_time).value(), rest.uncovered));
      }
    }
  }
}

AttributionOptions AccountRun::attribution_options() const {
  const EventTraceStats& stats = events_->stats();
  return {.multiplicity = multiplicity_, .window = ProfiledWindow{stats.first, stats.last}};
}

Footprint AccountRun::footprint_of(const Attribution& attribution) const {
  Footprint footprint = make_footprint(attribution, operations_, devices_);
  footprint.profiled = to_seconds(events_->stats().last - events_->stats().first);
  return footprint;
}

void AccountRun::attribute_power(const AccountSettings& settings, PowerSource& power) {
  ProgressBar bar("attributing");
  const AttributionOptions options = attribution_options();
  WatchedEvents events(*events_, bar);
  if (!settings.regress) {
    footprint_ = footprint_of(attribute(events, power, options));
    return;
  }
  const RegressedAttribution result =
      attribute_by_regression(events, power, {.attribution = options, .sensor_window = settings.sensor_window});
  footprint_ = footprint_of(result.attribution);
  for (const RegressionFit& fit : result.fits) {
    if (fit.readings == 0) {
      notes_.push_back(fmt::format("{}: no reading to fit, shared by the sweep", devices_.name(fit.device)));
      continue;
    }
    notes_.push_back(devices_.name(fit.device) + ": " + fit_text(fit));
    if (fit.readings < 2 * fit.unknowns) {
      notes_.push_back(fmt::format("{}: few readings for so many operations; --method sweep may be as good",
                                   devices_.name(fit.device)));
    }
  }
}

void AccountRun::note_traces() {
  const EventTraceStats& events = events_->stats();
  if (events.truncated) {
    notes_.push_back(
        fmt::format("{} is cut off at byte {}; what is whole was read", events_path_, events.truncated_at));
  }
  for (const DroppedEvents& dropped : events.dropped) {
    notes_.push_back(
        fmt::format("{}: {} left out: {}", events_path_, number_of(dropped.count, "event"), dropped.reason));
  }
  if (events.untied_kernels > 0) {
    notes_.push_back(fmt::format("{}: {} without the operation that launched them, named after the kernel",
                                 events_path_, number_of(events.untied_kernels, "kernel")));
  }
  if (events.too_deep > 0) {
    notes_.push_back(fmt::format("{}: {} nested more than 1,000 deep, counted as the call at that depth", events_path_,
                                 number_of(events.too_deep, "call")));
  }
  const PowerTraceStats& power = power_->stats();
  for (const DroppedReadings& dropped : power.dropped) {
    notes_.push_back(fmt::format("{}: {} left out, the first in line {}: {}", power_path_,
                                 number_of(dropped.count, "reading"), dropped.first_line, dropped.reason));
  }
  if (power.truncated) notes_.push_back(fmt::format("{} is cut off in the middle of a row", power_path_));
  for (const PowerTraceSensor& sensor : power.sensors) {
    if (sensor.gaps > 0) {
      notes_.push_back(fmt::format("{}: {}, {:.3f} s, in which nothing is measured", sensor.name,
                                   number_of(sensor.gaps, "gap"), sensor.gap_time.value()));
    }
    if (sensor.resets > 0) {
      notes_.push_back(fmt::format("{}: the counter began anew {}", sensor.name, number_of(sensor.resets, "time")));
    }
    if (sensor.wraps > 0) {
      notes_.push_back(
          fmt::format("{}: the counter passed its range {}", sensor.name, number_of(sensor.wraps, "time")));
    }
    if (sensor.duplicates > 0) {
      notes_.push_back(fmt::format("{}: {} left out, each with a later one of the same time", sensor.name,
                                   number_of(sensor.duplicates, "reading")));
    }
    if (sensor.readings == 1) {
      notes_.push_back(fmt::format("{}: a single reading, from which no energy follows", sensor.name));
    }
  }
  for (const FootprintDevice& device : footprint_.devices) {
    if (device.uncovered <= Seconds(0)) continue;
    if (device.powered <= Seconds(0)) {
      notes_.push_back(fmt::format("{}: has events and no power", device.device));
    } else if (device.uncovered > 0.001 * device.busy) {
      notes_.push_back(
          fmt::format("{}: {:.3f} s of events lie outside the power trace", device.device, device.uncovered.value()));
    }
  }
}

Footprint AccountRun::sparser(std::size_t keep) {
  events_->rewind(shift_);
  power_->rewind(0);
  // A sum is one of means where all of it are.
  std::vector<bool> means(devices_.size(), true);
  for (const PowerTraceSensor& sensor : power_->stats().sensors) {
    means[sensor.device] = means[sensor.device] && sensor.means;
  }
  SparsePower sparse(*power_, keep, std::move(means));
  return footprint_of(attribute(*events_, sparse, attribution_options()));
}

PowerPicture AccountRun::picture(const EnergyTree& tree, std::unique_ptr<ActivityBins>& bins) {
  PowerPicture picture;
  const std::vector<std::size_t> parts = telling_parts(tree, kPictureLanes);
  for (const std::size_t part : parts) picture.lanes.push_back(part == 0 ? "model" : tree.nodes[part].path);

  std::vector<std::size_t> lane_of(operations_.size(), std::numeric_limits<std::size_t>::max());
  for (std::size_t i = 0; i < lane_of.size(); ++i) {
    const std::string& name = operations_.name(static_cast<OperationId>(i));
    for (std::size_t lane = 0; lane < picture.lanes.size(); ++lane) {
      const std::string& path = tree.nodes[parts[lane]].path;
      if (path.empty()) lane_of[i] = lane;
      if (name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '/')) lane_of[i] = lane;
    }
  }
  const EventTraceStats& stats = events_->stats();
  bins = std::make_unique<ActivityBins>(stats.first, stats.last, kPictureBins);  // with the clock's offset in them
  events_->rewind(shift_);
  power_->rewind(0);
  bins->add_power(*power_);
  bins->add_events(*events_, lane_of, picture.lanes.size());
  for (std::size_t i = 0; i < bins->devices(); ++i) picture.devices.push_back(devices_.name(static_cast<DeviceId>(i)));
  picture.activity = bins.get();
  return picture;
}

}  // namespace flyball
