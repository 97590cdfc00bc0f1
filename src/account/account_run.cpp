// A run opens both traces, settles how the events' clock lies to the power's (as it is, by the recording's own offset,
// or by correlation), then sweeps once; further sweeps for quality and pictures rewind the sources, which keep their
// records in memory. What was found or left out is collected as notes.
#include "account/account_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "account/attribution_method.h"
#include "account/clock_offset.h"
#include "account/fit_notes.h"
#include "account/footprint_file.h"
#include "account/host_events.h"
#include "account/processor_share.h"
#include "account/rank_footprint.h"
#include "account/sparse_power.h"
#include "account/trace_notes.h"
#include "account/work_class.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr std::size_t kPictureBins = 700;
constexpr std::size_t kPictureLanes = 20;

using Progress = std::function<void(double)>;

// Reports the progress of a sweep, by the time of its events.
class WatchedEvents final : public EventSource {
 public:
  WatchedEvents(EventTrace& source, const Progress& progress)
      : source_(source),
        progress_(progress),
        first_(source.stats().first),
        length_(std::max<double>(1.0, static_cast<double>(source.stats().last - first_))) {}
  bool next(TraceEvent& event) override {
    if (!source_.next(event)) return false;
    if (++count_ % 8192 == 0) progress_(static_cast<double>(event.begin - first_) / length_);
    return true;
  }

 private:
  EventTrace& source_;
  const Progress& progress_;
  Nanoseconds first_;
  double length_;
  std::uint64_t count_ = 0;
};

bool overlap(const EventTraceStats& events, const PowerTraceStats& power, Nanoseconds shift) {
  return events.first + shift < power.last && power.first < events.last + shift;
}

// Jiffies divide the energy of a socket, so that a sensor which the power map names socket n must measure socket n.
void require_sockets(const PowerTrace& power, const DeviceTable& devices, const AccountNames& names) {
  for (const PowerTraceSensor& sensor : power.stats().sensors) {
    const std::string& device = devices.name(sensor.device);
    const std::optional<int> socket = socket_named(device);
    const std::optional<int> own = socket_named(sensor.name);
    const auto& sums = power.stats().sums;
    const bool summed =
        std::any_of(sums.begin(), sums.end(), [&](const auto& sum) { return sum.device == sensor.device; });
    if (!socket || (own ? own == socket : !summed)) continue;
    throw UsageError(
        fmt::format("{3} {0}={1}: {4} would divide the energy of {0} by what ran on socket {2}; drop one of the two",
                    sensor.name, device, *socket, names.power_devices, names.jiffies));
  }
}

// Whether each device's readings are means over their segments. A sum has mean powers if all of its parts have.
std::vector<bool> sensors_mean(const PowerTrace& power, const DeviceTable& devices) {
  std::vector<bool> means(devices.size(), true);
  for (const PowerTraceSensor& sensor : power.stats().sensors) {
    means[sensor.device] = means[sensor.device] && sensor.means;
  }
  return means;
}

std::string seconds_text(Nanoseconds time) {
  const bool none = time > -500 && time < 500;
  return none ? "0.000000 s" : fmt::format("{:+.6f} s", to_seconds(time).value());
}

// One run: its two traces on one clock, and what is computed from them.
class AccountRun {
 public:
  // Adds names to the tables, which must outlive the run, as must all other arguments. Throws what the readers throw.
  AccountRun(const TraceFiles& files, const AccountSettings& settings, const AccountListener& listener,
             OperationTable& operations, DeviceTable& devices);

  [[nodiscard]] const Footprint& footprint() const { return footprint_; }
  [[nodiscard]] const FootprintNotes& notes() const { return notes_; }

  // Repeats the sweep with only every `keep`-th reading of each device (Smaragdine 5.4.1: sample sparsing).
  [[nodiscard]] Footprint sparser(std::size_t keep);

  // Power over time, and the activity of the tree's most telling parts.
  [[nodiscard]] PowerPicture picture(const EnergyTree& tree);

  // Sweeps once more, and tells of every event.
  void tell_events(AccountedEvents& accounted);

 private:
  void settle_clock();
  [[nodiscard]] ClockOffset estimate_offset(Nanoseconds shift);
  void find_clock();
  void check_clock(bool warn);
  [[nodiscard]] std::vector<ShareInterval> shares_of_processors() const;
  [[nodiscard]] FootprintDevice* device_named(DeviceId id);  // none where no trace of this run names it
  void find_copies();
  void attribute_all();
  void attribute_power();
  void measure_communication();
  void add_rest(const std::vector<ProgramPower::Rest>& rest);
  [[nodiscard]] AttributionOptions attribution_options() const;
  [[nodiscard]] Footprint footprint_of(const Attribution& attribution) const;
  void note_devices();
  [[noreturn]] void throw_nothing_ran() const;
  [[nodiscard]] Progress progress_of(std::string doing) const;

  const TraceFiles& files_;
  const AccountSettings& settings_;
  const AccountListener& listener_;
  OperationTable& operations_;
  DeviceTable& devices_;
  std::unique_ptr<EventTrace> events_;
  std::unique_ptr<PowerTrace> power_;
  std::vector<ShareInterval> shares_;          // of processors, by jiffies; empty: all is the program's
  std::vector<std::vector<DeviceId>> copies_;  // of host events, by device
  Nanoseconds shift_ = 0;                      // added to the events' times
  Footprint footprint_;
  std::vector<OperationShare> fitted_;  // of devices that a regression decides
  FootprintNotes notes_;
};

AccountRun::AccountRun(const TraceFiles& files, const AccountSettings& settings, const AccountListener& listener,
                       OperationTable& operations, DeviceTable& devices)
    : files_(files), settings_(settings), listener_(listener), operations_(operations), devices_(devices) {
  PowerTraceOptions power = settings.power;
  power.progress = progress_of("reading " + files.power);
  power_ = files.power_text ? open_power_text(files.power, *files.power_text, power, devices_)
                            : open_power_trace(files.power, power, devices_);
  EventTraceOptions events = settings.events;
  events.progress = progress_of("reading " + files.events);
  events_ = files.ranks.empty() ? open_event_trace(files.events, events, operations_, devices_)
                                : open_ranked_traces(files.ranks, events, operations_, devices_);
  if (events_->stats().executions == 0) throw_nothing_ran();
  settle_clock();
  attribute_all();
  note_devices();
  // Jiffies divide socket by socket, and allow no sums.
  const std::string_view option = files_.jiffies.empty() ? settings_.names.power_devices : "";
  note_unattributed(footprint_.devices, option, notes_);
  for (const std::string& text : shared_gpus(files_.ranks, events_->stats(), settings_.events.device_names,
                                             settings_.names.event_devices, devices_)) {
    notes_.push_back(text);
    if (listener_.warning) listener_.warning(text);
  }
  note_traces({files_.events, files_.power}, events_->stats(), power_->stats(), footprint_.devices, notes_);
}

Progress AccountRun::progress_of(std::string doing) const {
  if (!listener_.progress) return [](double) {};
  listener_.progress(doing, 0.0);
  return [this, doing = std::move(doing)](double share) { listener_.progress(doing, share); };
}

// Notes which entries of the device maps were applied, and which were not.
void AccountRun::note_devices() {
  std::vector<std::string> event_names;
  for (const TracedDevice& device : events_->stats().devices) event_names.push_back(device.name);
  std::vector<std::string> power_names;
  for (const PowerTraceSensor& sensor : power_->stats().sensors) power_names.push_back(sensor.name);
  const AccountNames& names = settings_.names;
  const auto note_unmet = [this](std::string_view option, const auto& map, const std::string& path,
                                 const std::vector<std::string>& there) {
    // Each node's run has all entries, those of other nodes' ranks among them.
    const auto is_elsewhere = [this](const std::string& device) {
      const std::size_t slash = device.find('/');
      if (files_.ranks.empty() || slash == std::string::npos) return false;
      return std::none_of(files_.ranks.begin(), files_.ranks.end(), [&](const RankFile& file) {
        return device.substr(0, slash) == fmt::format("{}", file.rank);
      });
    };
    for (const auto& [name, value] : map) {
      if (std::find(there.begin(), there.end(), name) != there.end()) continue;
      if (is_elsewhere(name)) continue;
      notes_.push_back(fmt::format("{} {}=... changes nothing: {} has {}", option, name, path, fmt::join(there, ", ")));
    }
  };
  note_unmet(names.event_devices, settings_.events.device_names, files_.events, event_names);
  note_unmet(names.power_devices, settings_.power.device_names, files_.power, power_names);
  note_unmet(names.counter_ranges, settings_.power.counter_ranges, files_.power, power_names);
  if (settings_.events.chrome_device != ChromeDevice::kProcess && events_->stats().format != EventFormat::kChrome) {
    notes_.push_back(fmt::format("{} changes nothing: {} is {}", names.chrome_device, files_.events,
                                 name_of(events_->stats().format)));
  }
  if (settings_.power.row_period != PowerTraceOptions().row_period && power_->stats().format != PowerFormat::kDcgm) {
    notes_.push_back(fmt::format("{} changes nothing: {} has times of its own", names.row_period, files_.power));
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

// Throws that nothing ran. Without events no offset can lay them over the power, but the clocks are not the cause.
void AccountRun::throw_nothing_ran() const {
  const EventTraceStats& stats = events_->stats();
  std::string problem = fmt::format("nothing ran in this trace: its list has {}, and none is an operation that ran",
                                    stats.entries == 1 ? "one entry" : fmt::format("{} entries", stats.entries));
  for (const DroppedEvents& dropped : stats.dropped) problem += fmt::format("; {}: {}", dropped.reason, dropped.count);
  throw InputError({files_.events}, problem,
                   "see that the profiler was on while the program worked, and that this is its event trace");
}

ClockOffset AccountRun::estimate_offset(Nanoseconds shift) {
  const Progress progress = progress_of("checking the clocks");
  events_->rewind(shift);
  power_->rewind(0);
  WatchedEvents events(*events_, progress);
  return estimate_clock_offset(events, *power_);
}

// Decides by how much the events' times are shifted: by the offset that the user gave; not at all if the traces overlap
// as they are; by the offset that a recording of Flyball's states; else by the one at which power follows the events.
void AccountRun::settle_clock() {
  const EventTraceStats& events = events_->stats();
  const PowerTraceStats& power = power_->stats();
  bool found = false;
  if (settings_.clock_offset) {
    shift_ = to_nanoseconds(*settings_.clock_offset);
    notes_.push_back(fmt::format("clock offset {} given, added to the events' times", seconds_text(shift_)));
  } else if (!settings_.estimate_offset && overlap(events, power, 0)) {
    // The traces overlap as they are.
  } else if (!settings_.estimate_offset && power.monotonic_offset && overlap(events, power, *power.monotonic_offset)) {
    shift_ = *power.monotonic_offset;
    notes_.push_back(fmt::format("the events' times are of the monotonic clock, {} added", seconds_text(shift_)));
  } else {
    find_clock();
    found = true;
  }
  if (!found) check_clock(!settings_.clock_offset);
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
    throw InputError({files_.events},
                     fmt::format("the times of the events and of {} do not overlap, and the power does not show by how "
                                 "much to shift the events; {}",
                                 files_.power, found),
                     fmt::format("give {}, which is added to the events' times", settings_.names.clock_offset));
  }
  notes_.push_back(found + ", not applied");
}

// Checks whether power follows the events at their present times. Otherwise, a clock that is off by less than the
// traces' length would not be noticed. Notes what was found, and warns if the times are certainly wrong, unless the
// user has chosen them.
void AccountRun::check_clock(bool warn) {
  constexpr double kAsWell = 0.9;  // of the best correlation
  const ClockOffset found = estimate_offset(shift_);
  // Offsets are stated as options take them: relative to the times in the trace.
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
        "done; {}={:+.3f} does it",
        fit, settings_.names.clock_offset, best.value());
    notes_.push_back(text);
    if (warn && listener_.warning) listener_.warning(fmt::format("{}: {}", files_.events, text));
  }
}

std::vector<ShareInterval> AccountRun::shares_of_processors() const {
  if (files_.jiffies.empty()) return {};
  require_sockets(*power_, devices_, settings_.names);
  const std::string text = read_text_file(files_.jiffies);
  std::vector<ShareInterval> shares = processor_shares(read_jiffies(files_.jiffies, text));
  if (shares.empty() || shares.front().begin >= power_->stats().last || shares.back().end <= power_->stats().first) {
    throw InputError({files_.jiffies}, "the jiffies do not cover the power trace",
                     "record both at once: flyball record -o power.csv --jiffies jiffies.csv -- ...");
  }
  return shares;
}

void AccountRun::tell_events(AccountedEvents& accounted) {
  events_->rewind(shift_);
  power_->rewind(0);
  const Progress progress = progress_of("telling events");
  WatchedEvents events(*events_, progress);
  HostEvents all(events, copies_);
  ProgramPower power(*power_, shares_, devices_);
  accounted.begin(std::min(events_->stats().first, power_->stats().first), operations_, devices_);
  account_events(all, power, settings_.multiplicity, fitted_, accounted);
}

void AccountRun::find_copies() {
  std::vector<DeviceId> heard;
  for (const TracedDevice& device : events_->stats().devices) heard.push_back(device.device);
  std::vector<DeviceId> measured;
  for (const PowerTraceSensor& sensor : power_->stats().sensors) measured.push_back(sensor.device);
  copies_ = host_copies(heard, measured, devices_);
  if (const std::string note = note_on_copies(copies_, devices_); !note.empty()) notes_.push_back(note);
}

void AccountRun::attribute_all() {
  shares_ = shares_of_processors();
  if (!shares_.empty()) find_copies();
  attribute_power();
  if (!events_->stats().steps.empty()) {
    power_->rewind(0);
    ProgramPower again(*power_, shares_, devices_);
    footprint_.steps = energy_of_steps(events_->stats().steps, again, devices_);
  }
  measure_communication();
}

FootprintDevice* AccountRun::device_named(DeviceId id) {
  for (FootprintDevice& device : footprint_.devices) {
    if (device.device == devices_.name(id)) return &device;
  }
  return nullptr;
}

// Adds what of a processor's energy was not the program's.
void AccountRun::add_rest(const std::vector<ProgramPower::Rest>& rest) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    FootprintDevice* device = device_named(static_cast<DeviceId>(i));
    if (device == nullptr) continue;
    device->other_processes = Joules(rest[i].other);
    device->system = Joules(rest[i].system);
    device->monitor = Joules(rest[i].monitor);
    device->measured += Joules(rest[i].other + rest[i].system + rest[i].monitor);
    if (!shares_.empty() && rest[i].uncovered > 0.001 * device->measured.value()) {
      notes_.push_back(
          fmt::format("{}: {:.3f} s with {:.3f} J lie outside the jiffies and were not divided among processes",
                      device->device, to_seconds(rest[i].uncovered_time).value(), rest[i].uncovered));
    }
  }
}

// Sweeps once more, where anything communicates.
void AccountRun::measure_communication() {
  std::vector<bool> communicates(operations_.size());
  bool any = false;
  for (std::size_t i = 0; i < communicates.size(); ++i) {
    const auto id = static_cast<OperationId>(i);
    communicates[i] = work_class(operations_.name(id), operations_.phase(id)) == WorkClass::kCommunicate;
    any = any || communicates[i];
  }
  if (!any) return;
  events_->rewind(shift_);
  power_->rewind(0);
  ProgramPower power(*power_, shares_, devices_);
  const std::vector<CommunicationTime> times =
      communication_time(*events_, power, [&communicates](OperationId id) { return communicates[id]; });
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (FootprintDevice* device = device_named(static_cast<DeviceId>(i))) device->communication = times[i];
  }
}

AttributionOptions AccountRun::attribution_options() const {
  const EventTraceStats& stats = events_->stats();
  return {.multiplicity = settings_.multiplicity, .window = ProfiledWindow{stats.first, stats.last}};
}

Footprint AccountRun::footprint_of(const Attribution& attribution) const {
  Footprint footprint = make_footprint(attribution, operations_, devices_);
  footprint.profiled = to_seconds(events_->stats().last - events_->stats().first);
  return footprint;
}

void AccountRun::attribute_power() {
  const Progress progress = progress_of("attributing");
  std::vector<ProgramPower::Rest> rest;
  const Traces traces = [&](const TracePass& pass) {
    events_->rewind(shift_);
    power_->rewind(0);
    WatchedEvents events(*events_, progress);
    HostEvents all(events, copies_);
    ProgramPower power(*power_, shares_, devices_);
    pass(all, power);
    rest = power.rest();
  };
  const RegressedAttribution result = attribute_by_method(
      traces, {attribution_options(), settings_.method, settings_.sensor_window, sensors_mean(*power_, devices_)});
  footprint_ = footprint_of(result.attribution);
  for (const OperationShare& share : result.attribution.operations) {
    const auto fitted = [&share](const RegressionFit& fit) {
      return fit.device == share.device && fit.method != AccountMethod::kSweep;
    };
    if (std::any_of(result.fits.begin(), result.fits.end(), fitted)) fitted_.push_back(share);
  }
  note_fits(result.fits, devices_, settings_.method, settings_.names.method, notes_);
  add_rest(rest);
  tell_static_energy(footprint_, settings_.static_powers, settings_.names.static_powers, notes_);
}

Footprint AccountRun::sparser(std::size_t keep) {
  events_->rewind(shift_);
  power_->rewind(0);
  SparsePower sparse(*power_, keep, sensors_mean(*power_, devices_));
  return footprint_of(attribute(*events_, sparse, attribution_options()));
}

PowerPicture AccountRun::picture(const EnergyTree& tree) {
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
  const auto bins =
      std::make_shared<ActivityBins>(stats.first, stats.last, kPictureBins);  // these times include the shift
  events_->rewind(shift_);
  power_->rewind(0);
  bins->add_power(*power_);
  bins->add_events(*events_, lane_of, picture.lanes.size());
  for (std::size_t i = 0; i < bins->devices(); ++i) picture.devices.push_back(devices_.name(static_cast<DeviceId>(i)));
  picture.activity = bins;
  return picture;
}

std::filesystem::path trace_in(const std::filesystem::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"}) {
    std::filesystem::path path = folder / (name + ending);
    if (std::filesystem::exists(path)) return path;
  }
  throw InputError({folder.string()}, fmt::format("there is no {} in this folder", name),
                   "a run's folder holds events.json or events.json.gz, and power.csv or power.csv.gz");
}

constexpr std::size_t kSparsings[] = {1, 2, 3, 4, 5, 6, 8, 10};

}  // namespace

AccountResult account_runs(const AccountRequest& request, const AccountListener& listener) {
  OperationTable operations;
  DeviceTable devices;
  std::vector<Footprint> footprints;
  std::unique_ptr<AccountRun> first;  // for its picture
  AccountResult result;
  for (std::size_t i = 0; i < request.runs.size(); ++i) {
    const TraceFiles& files = request.runs[i];
    auto run = std::make_unique<AccountRun>(files, request.settings, listener, operations, devices);
    footprints.push_back(run->footprint());
    for (const std::string& note : run->notes()) {
      const std::string one = request.ranks ? fmt::format("node n{}", i) : fmt::format("run {}", i + 1);
      result.notes.push_back(request.runs.size() > 1 ? fmt::format("{} ({}): {}", one, files.events, note) : note);
    }
    if (request.each_event != nullptr) run->tell_events(*request.each_event);
    if (request.picture && !first) first = std::move(run);
  }
  const auto together = [&request](std::span<const Footprint> all) {
    return request.ranks ? sum_of_ranks(all) : mean_of_runs(all);
  };
  result.footprint = together(footprints);
  result.footprint.steps.samples = request.samples;
  // With hundreds of thousands of names, a summary or a tree takes as long as the account itself. Each run is
  // summarised by itself, since what the layers of a run draw varies together.
  if (request.summary) {
    for (Footprint& run : footprints) run = summarised(run, request.similar);
    result.summary = together(footprints);
    result.summary.steps.samples = request.samples;
  }
  if (request.tree) result.tree = make_energy_tree(result.footprint, operations);
  if (request.picture) result.picture = first->picture(result.tree);
  return result;
}

QualityFigures measure_quality(const std::vector<std::string>& runs, const SelfSimilar& similar,
                               const AccountListener& listener) {
  QualityFigures figures;
  figures.runs = runs;
  OperationTable operations;
  DeviceTable devices;
  std::vector<Footprint> footprints;
  std::size_t folders = 0;
  std::vector<double> sums(std::size(kSparsings), 0.0);
  for (const std::string& run : runs) {
    if (!std::filesystem::is_directory(run)) {
      footprints.push_back(summarised(read_footprint_file(run), similar));
      continue;
    }
    const TraceFiles files{trace_in(run, "events.json").string(), trace_in(run, "power.csv").string(), {}};
    AccountSettings settings;
    settings.method = AccountMethod::kSweep;  // as its sparser footprints
    AccountRun account(files, settings, listener, operations, devices);
    footprints.push_back(summarised(account.footprint(), similar));
    ++folders;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += similarity(footprints.back(), summarised(account.sparser(kSparsings[i]), similar));
    }
  }
  figures.quality = quality_of_runs(footprints);
  for (std::size_t i = 0; folders > 0 && i < sums.size(); ++i) {
    figures.sparsing.push_back({kSparsings[i], sums[i] / static_cast<double>(folders)});
  }
  return figures;
}

}  // namespace flyball
