#include "cli/account_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "account/clock_offset.h"
#include "account/events_ahead.h"
#include "account/processor_share.h"
#include "account/regression.h"
#include "account/sparse_power.h"
#include "base/error.h"
#include "base/processors.h"
#include "base/text.h"
#include "cli/console.h"
#include "cli/pipeline_options.h"
#include "draw/text_table.h"

namespace flyball {
namespace {

constexpr std::size_t kPictureBins = 700;
constexpr std::size_t kPictureLanes = 20;
constexpr std::uint64_t kWorthAThread = 30'000;  // executions; fewer are attributed in the time that a thread takes

// Shows how far a sweep has come, by the time of its events.
class WatchedEvents final : public EventSource {
 public:
  // `source` gives the events of the trace whose statistics these are.
  WatchedEvents(EventSource& source, const EventTraceStats& stats, ProgressBar& bar)
      : source_(source),
        bar_(bar),
        first_(stats.first),
        length_(std::max<double>(1.0, static_cast<double>(stats.last - stats.first))) {}
  bool next(TraceEvent& event) override {
    if (!source_.next(event)) return false;
    if (++count_ % 8192 == 0) bar_.update(static_cast<double>(event.begin - first_) / length_);
    return true;
  }

 private:
  EventSource& source_;
  ProgressBar& bar_;
  Nanoseconds first_;
  double length_;
  std::uint64_t count_ = 0;
};

bool overlap(const EventTraceStats& events, const PowerTraceStats& power, Nanoseconds shift) {
  return events.first + shift < power.last && power.first < events.last + shift;
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
    PowerTraceOptions options;
    options.device_names = settings.device_names;
    options.progress = [&bar](double share) { bar.update(share); };
    power_ = open_power_trace(power, options, devices_);
  }
  {
    ProgressBar bar("reading " + events);
    EventTraceOptions options;
    options.device_names = settings.device_names;
    options.kernel_names = settings.kernel_names;
    options.frames = settings.frames;
    options.progress = [&bar](double share) { bar.update(share); };
    events_ = open_event_trace(events, options, operations_, devices_);
  }
  settle_clock(settings);
  attribute_all(settings);
  note_traces();
}

// As they are; by the offset that a recording of ours brings; by where power follows the events.
void AccountRun::settle_clock(const AccountSettings& settings) {
  const EventTraceStats& events = events_->stats();
  const PowerTraceStats& power = power_->stats();
  if (settings.clock_offset) {
    shift_ = to_nanoseconds(*settings.clock_offset);
    notes_.push_back(fmt::format("clock offset {} given, added to the events' times", seconds_text(shift_)));
  } else if (settings.estimate_offset || !overlap(events, power, 0)) {
    if (!settings.estimate_offset && power.monotonic_offset && overlap(events, power, *power.monotonic_offset)) {
      shift_ = *power.monotonic_offset;
      notes_.push_back(fmt::format("the events' times are of the monotonic clock, {} added", seconds_text(shift_)));
    } else {
      const ClockOffset estimate = estimate_clock_offset(*events_, *power_);
      const std::string found = fmt::format(
          "clock offset {} ({}: correlation {:.3f}, next best {:.3f} at {:+.3f} s)", seconds_text(estimate.offset),
          name_of(estimate.verdict), estimate.correlation, estimate.runner_up, estimate.runner_up_offset.value());
      if (estimate.verdict == OffsetVerdict::kWeak || estimate.verdict == OffsetVerdict::kNoData) {
        if (!overlap(events, power, 0)) {
          throw InputError({events_path_},
                           fmt::format("the events and {} are of different times, and power does not tell how to lay "
                                       "one over the other; {}",
                                       power_path_, found),
                           "give --clock-offset TIME, to be added to the events' times");
        }
        notes_.push_back(found + ", not applied");
      } else {
        shift_ = estimate.offset;
        notes_.push_back(found + ", added to the events' times");
      }
    }
  }
  events_->rewind(shift_);
  power_->rewind(0);
}

void AccountRun::attribute_all(const AccountSettings& settings) {
  std::vector<ShareInterval> shares;
  if (!settings.jiffies.empty()) {
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
    }
  }
}

void AccountRun::attribute_power(const AccountSettings& settings, PowerSource& power) {
  ProgressBar bar("attributing");
  const EventTraceStats& stats = events_->stats();
  std::optional<EventsAhead> ahead;
  if (stats.executions >= kWorthAThread && usable_processors() > 1) ahead.emplace(*events_);
  WatchedEvents events(ahead ? static_cast<EventSource&>(*ahead) : *events_, stats, bar);
  if (!settings.regress) {
    footprint_ = make_footprint(attribute(events, power, {.multiplicity = multiplicity_}), operations_, devices_);
    return;
  }
  const RegressedAttribution result = attribute_by_regression(
      events, power, {.attribution = {.multiplicity = multiplicity_}, .sensor_window = settings.sensor_window});
  footprint_ = make_footprint(result.attribution, operations_, devices_);
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
  for (const PowerTraceDevice& device : power.devices) {
    if (device.gaps > 0) {
      notes_.push_back(fmt::format("{}: {}, {:.3f} s, in which nothing is measured", devices_.name(device.device),
                                   number_of(device.gaps, "gap"), device.gap_time.value()));
    }
    if (device.resets > 0) {
      notes_.push_back(
          fmt::format("{}: the counter began anew {}", devices_.name(device.device), number_of(device.resets, "time")));
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
  std::vector<bool> means(devices_.size());
  for (const PowerTraceDevice& device : power_->stats().devices) means[device.device] = device.means;
  SparsePower sparse(*power_, keep, std::move(means));
  return make_footprint(attribute(*events_, sparse, {.multiplicity = multiplicity_}), operations_, devices_);
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
  const Nanoseconds moved = shift_;
  bins = std::make_unique<ActivityBins>(stats.first + moved, stats.last + moved, kPictureBins);
  events_->rewind(shift_);
  power_->rewind(0);
  bins->add_power(*power_);
  bins->add_events(*events_, lane_of, picture.lanes.size());
  for (std::size_t i = 0; i < bins->devices(); ++i) picture.devices.push_back(devices_.name(static_cast<DeviceId>(i)));
  picture.activity = bins.get();
  return picture;
}

}  // namespace flyball
