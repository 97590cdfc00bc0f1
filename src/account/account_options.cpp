// Contradictions and bounds are checked in account_request(), which every door passes; the description tells programs
// of the same bounds.
#include "account/account_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <type_traits>

#include "base/counted.h"
#include "base/error.h"
#include "base/record.h"

namespace flyball {
namespace {

// Bounds in seconds and joules, the same for every interface. A time in nanoseconds since 1970 still fits 64 bits when
// an offset of at most kMostOffset is added.
constexpr double kMostOffset = 4e9;
constexpr double kLongestWindow = 3e6;
constexpr double kShortestPeriod = 1e-9;
constexpr double kLeastRange = 1e-9;
constexpr double kMostRange = 1e18;
constexpr double kMostPower = 1e6;

void check_bounds(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  throw UsageError(fmt::format("{} is {:g}; it must be from {:g} to {:g}", name, value, least, most));
}

template <class Map>
void check_names(std::string_view option, const Map& map) {
  for (const auto& [name, value] : map) {
    bool is_empty = name.empty();
    if constexpr (std::is_same_v<typename Map::mapped_type, std::string>) is_empty = is_empty || value.empty();
    if (is_empty) throw UsageError(fmt::format("{}: a device's name is empty", option));
  }
}

void check_values(const AccountOptions& options, const AccountNames& names) {
  if (options.sensor_window) check_bounds(names.sensor_window, options.sensor_window->value(), 0.0, kLongestWindow);
  if (options.clock_offset) {
    check_bounds(names.clock_offset, options.clock_offset->value(), -kMostOffset, kMostOffset);
  }
  check_bounds(names.row_period, options.row_period.value(), kShortestPeriod, kLongestWindow);
  for (const auto& [name, range] : options.counter_ranges) {
    check_bounds(fmt::format("{} {}", names.counter_ranges, name), range.value(), kLeastRange, kMostRange);
  }
  for (const auto& [name, power] : options.static_powers) {
    check_bounds(fmt::format("{} {}", names.static_powers, name), power.value(), 0.0, kMostPower);
  }
  check_names(names.static_powers, options.static_powers);
  check_names(names.event_devices, options.event_devices);
  check_names(names.power_devices, options.power_devices);
  check_names(names.counter_ranges, options.counter_ranges);
}

// The ranks by node, which is by power trace. A rank's number is what the traces say, if they all say one and no two of
// them the same; else its place among the event traces.
std::vector<TraceFiles> nodes_of(const AccountOptions& options) {
  std::vector<int> numbers;
  for (const std::string& events : options.events) numbers.push_back(rank_in_trace(events));
  std::vector<int> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  const bool told = sorted.front() != kNoRank && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  std::vector<TraceFiles> nodes;
  for (std::size_t i = 0; i < options.events.size(); ++i) {
    const std::size_t source = options.power.size() == 1 ? 0 : i;
    auto node = std::find_if(nodes.begin(), nodes.end(), [&](const TraceFiles& known) {
      std::error_code missing;  // a file that is not there is told of when it is read
      return known.power == options.power[source] ||
             std::filesystem::equivalent(known.power, options.power[source], missing);
    });
    if (node == nodes.end()) {
      node = nodes.emplace(nodes.end());
      node->power = options.power[source];
      if (!options.jiffies.empty()) node->jiffies = options.jiffies[source];
    }
    node->events += (node->events.empty() ? "" : ", ") + options.events[i];
    node->ranks.push_back({options.events[i], told ? numbers[i] : static_cast<int>(i)});
  }
  return nodes;
}

}  // namespace

Record<AccountOptions> description_of(const AccountOptions* /*type*/) {
  using R = AccountOptions;
  return Record<R>::request("AccountOptions", "Options of flyball_footprint_open in C and flyball.account in Python.")
      .field("events", &R::events,
             "Event trace of TensorFlow, PyTorch, JAX or Chrome. Several traces: one of each run, or of each rank.",
             {.needed = true, .fewest = 1, .single = true})
      .field("power", &R::power, "Power trace, one for every event trace; of ranks also one for all.",
             {.needed = true, .fewest = 1, .single = true})
      .field("jiffies", &R::jiffies,
             "Jiffies trace that 'flyball record --jiffies' wrote, one for every event trace. The energy of processors "
             "and their memory is first divided between the program and all else that ran.",
             {.single = true})
      .field("method", &R::method,
             "How operations are given their power. auto: by the method that fits the traces, for each device. sweep: "
             "operations that run at the same time share it. regress: fitted to all readings, for kernels far shorter "
             "than the sensor's window. both: the sweep, corrected by fitted powers, for counters.")
      .field("sensor_window_s", &R::sensor_window,
             "Time over which a power reading averages, for the methods auto and regress. If it is missing, the time "
             "since the last reading.",
             {.minimum = 0, .maximum = kLongestWindow})
      .field("share", &R::share,
             "What has a share of a device's power at each moment: every distinct operation once, or every event.")
      .field("clock_offset_s", &R::clock_offset,
             "Time to add to the events' times. If it is missing: 0 if the traces overlap, otherwise an offset that is "
             "searched.",
             {.minimum = -kMostOffset, .maximum = kMostOffset})
      .field("estimate_clock_offset", &R::estimate_clock_offset,
             "Whether the offset of the events' times is searched even if the traces overlap.")
      .field("event_devices", &R::event_devices,
             "Devices by their names in the event trace: with {\"GPU:0\": \"GPU:4\"}, what the trace calls GPU:0 is "
             "GPU:4.")
      .field("power_devices", &R::power_devices,
             "Devices by their names in the power trace. The powers of names that become one device are added.")
      .field("counter_ranges_j", &R::counter_ranges,
             "Value at which a counter of the power trace returns to 0, by the counter's name: {\"CPU:0\": "
             "262143.32885} for RAPL.",
             {.minimum = kLeastRange, .maximum = kMostRange})
      .field(
          "static_powers_w", &R::static_powers,
          "Power that a device draws while nothing runs on it, by which static and dynamic energy are told apart. Of "
          "devices that are missing, it is found where nothing ran for long enough.",
          {.minimum = 0, .maximum = kMostPower})
      .field("chrome_device", &R::chrome_device,
             "What in a Chrome trace has a device's name; none: everything ran on CPU:0.")
      .field("utc_offset_s", &R::utc_offset,
             "How far local time was ahead of UTC, for local times in the power trace, as nvidia-smi writes them.",
             {.minimum = -86400, .maximum = 86400})
      .field("row_period_s", &R::row_period,
             "Time between two rows of a power trace without times, as dcgmi dmon writes it.",
             {.minimum = kShortestPeriod, .maximum = kLongestWindow})
      .field("similar", &R::similar,
             "ECMAScript pattern of layers that are built alike: where it matches, numbers become *. Empty: layer_3, "
             "layers.3, h.3 and the like are alike.")
      .field("summary", &R::summary, "Whether self-similar layers are added up.")
      .field("kernels", &R::kernels,
             "Whether GPU kernels have rows of their own, below the operations that launched them.")
      .field("frames", &R::frames,
             "Whether the time and energy that modules spend outside of all operations count, too.")
      .field("ranks", &R::ranks,
             "Whether the event traces are of the ranks of one job, which are added up, and not of several runs. Ranks "
             "with the same power trace are on one node.")
      .field("batch", &R::batch, "Number of samples that a step trains on, on all ranks together.",
             {.minimum = 1, .maximum = 1e9});
}

AccountRequest read_account_options(const std::string& source, std::string_view json) {
  return account_request(read_options_text<AccountOptions>(source, json));
}

AccountRequest account_request(const AccountOptions& options, const AccountNames& names) {
  if (options.events.empty() || options.power.empty()) {
    throw UsageError("an account needs an event trace and a power trace");
  }
  const bool one_power = options.ranks && options.power.size() == 1;
  if (options.events.size() != options.power.size() && !one_power) {
    throw UsageError(fmt::format("{} but {}; give one power trace for every event trace{}",
                                 counted(std::ssize(options.events), "event trace"),
                                 counted(std::ssize(options.power), "power trace"),
                                 options.ranks ? ", or one for all ranks" : ", or say that they are ranks of one job"));
  }
  if (!options.jiffies.empty() && options.jiffies.size() != options.power.size()) {
    throw UsageError(
        fmt::format("give one jiffies trace for every {} trace, or none", options.ranks ? "power" : "event"));
  }
  const bool fits_windows = options.method == AccountMethod::kAuto || options.method == AccountMethod::kRegress;
  if (options.sensor_window && !fits_windows) {
    throw UsageError(
        fmt::format("{} is for the methods auto and regress; drop it, or choose one of them", names.sensor_window));
  }
  if (options.clock_offset && options.estimate_clock_offset) {
    throw UsageError("a clock offset is given, and is also to be searched; ask for one of the two");
  }
  check_values(options, names);
  AccountRequest request;
  request.settings.names = names;
  request.settings.method = options.method;
  request.settings.sensor_window = options.sensor_window.value_or(Seconds(0));
  request.settings.multiplicity = options.share;
  request.settings.clock_offset = options.clock_offset;
  request.settings.estimate_offset = options.estimate_clock_offset;
  request.settings.events.device_names = options.event_devices;
  request.settings.events.kernel_names = options.kernels;
  request.settings.events.frames = options.frames;
  request.settings.events.chrome_device = options.chrome_device;
  request.settings.power.device_names = options.power_devices;
  request.settings.power.counter_ranges = options.counter_ranges;
  request.settings.static_powers = options.static_powers;
  request.settings.power.utc_offset = options.utc_offset;
  request.settings.power.row_period = options.row_period;
  if (!options.similar.empty()) request.similar = SelfSimilar(options.similar);
  request.ranks = options.ranks;
  request.samples = options.batch.value_or(0);
  if (options.ranks) {
    request.runs = nodes_of(options);
  } else {
    for (std::size_t i = 0; i < options.events.size(); ++i) {
      const std::string jiffies = options.jiffies.empty() ? std::string() : options.jiffies[i];
      request.runs.push_back({options.events[i], options.power[i], jiffies});
    }
  }
  request.summary = options.summary;
  return request;
}

}  // namespace flyball
