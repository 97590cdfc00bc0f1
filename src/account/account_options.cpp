// Contradictions and bounds are checked in account_request(), which every door passes; the description tells programs
// of the same bounds.
#include "account/account_options.h"

#include <fmt/format.h>

#include <type_traits>

#include "base/counted.h"
#include "base/error.h"
#include "base/record.h"

namespace flyball {
namespace {

// In seconds and joules. Every door takes the same: nanoseconds since 1970 with an offset of so much are still whole
// numbers of 64 bits.
constexpr double kMostOffset = 4e9;
constexpr double kLongestWindow = 3e6;
constexpr double kShortestPeriod = 1e-9;
constexpr double kLeastRange = 1e-9;
constexpr double kMostRange = 1e18;

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
  check_names(names.event_devices, options.event_devices);
  check_names(names.power_devices, options.power_devices);
  check_names(names.counter_ranges, options.counter_ranges);
}

}  // namespace

Record<AccountOptions> description_of(const AccountOptions* /*type*/) {
  using R = AccountOptions;
  return Record<R>::request("AccountOptions", "Of flyball_footprint_open in C and flyball.account in Python.")
      .field("events", &R::events, "Event trace of TensorFlow, PyTorch or Chrome; several: several runs.",
             {.needed = true, .fewest = 1, .single = true})
      .field("power", &R::power, "Power trace, one for every event trace.",
             {.needed = true, .fewest = 1, .single = true})
      .field("jiffies", &R::jiffies,
             "Of 'flyball record --jiffies', one for every event trace: a processor's energy is divided first.",
             {.single = true})
      .field("method", &R::method, "regress: for kernels far shorter than the sensor's window.")
      .field("sensor_window_s", &R::sensor_window,
             "Of the method regress: what one power reading averages over. Without: since the last one.",
             {.minimum = 0, .maximum = kLongestWindow})
      .field("share", &R::share, "Who shares power: distinct operations, or events.")
      .field("clock_offset_s", &R::clock_offset,
             "Is added to the events' times. Without: 0 where the traces overlap, otherwise it is found.",
             {.minimum = -kMostOffset, .maximum = kMostOffset})
      .field("estimate_clock_offset", &R::estimate_clock_offset, "It is found in any case.")
      .field("event_devices", &R::event_devices,
             "What the event trace calls a device, and which it is: {\"GPU:0\": \"GPU:4\"}.")
      .field("power_devices", &R::power_devices, "The same of the power trace; what becomes one device is added up.")
      .field("counter_ranges_j", &R::counter_ranges,
             "Where a counter of the power trace begins anew: {\"CPU:0\": 262143.32885} of RAPL.",
             {.minimum = kLeastRange, .maximum = kMostRange})
      .field("chrome_device", &R::chrome_device, "What of a Chrome trace names the device; none: all of it is CPU:0.")
      .field("utc_offset_s", &R::utc_offset, "Of local times in the power trace, as nvidia-smi writes them.",
             {.minimum = -86400, .maximum = 86400})
      .field("row_period_s", &R::row_period, "Between rows of a power trace without times, as dcgmi dmon writes it.",
             {.minimum = kShortestPeriod, .maximum = kLongestWindow})
      .field("similar", &R::similar,
             "Pattern of layers built alike: in what matches, numbers count as one. Without: layer_3, layers.3, h.3 "
             "and the like.")
      .field("summary", &R::summary, "Self-similar layers are added up.")
      .field("kernels", &R::kernels, "GPU kernels are tensors of their own.")
      .field("frames", &R::frames, "Modules' own time outside every operation counts, too.");
}

AccountRequest read_account_options(const std::string& source, std::string_view json) {
  try {
    const nlohmann::json parsed = parse_json(source, json);
    return account_request(record_of<AccountOptions>().read(JsonObject(parsed, source)));
  } catch (const InputError& error) {  // a program's own arguments are no file of somebody's
    throw UsageError(error.what());
  }
}

AccountRequest account_request(const AccountOptions& options, const AccountNames& names) {
  if (options.events.empty() || options.power.empty()) {
    throw UsageError("an account needs an event trace and a power trace");
  }
  if (options.events.size() != options.power.size()) {
    throw UsageError(fmt::format("{} but {}; give one power trace for every event trace",
                                 counted(std::ssize(options.events), "event trace"),
                                 counted(std::ssize(options.power), "power trace")));
  }
  if (!options.jiffies.empty() && options.jiffies.size() != options.events.size()) {
    throw UsageError("give one jiffies trace for every event trace, or none");
  }
  const bool regress = options.method == AccountMethod::kRegress;
  if (options.sensor_window && !regress) {
    throw UsageError(fmt::format("{} is for the method regress; drop it, or choose that", names.sensor_window));
  }
  if (options.clock_offset && options.estimate_clock_offset) {
    throw UsageError("the clock offset is given and to be found; do one of both");
  }
  check_values(options, names);
  AccountRequest request;
  request.settings.names = names;
  request.settings.regress = regress;
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
  request.settings.power.utc_offset = options.utc_offset;
  request.settings.power.row_period = options.row_period;
  if (!options.similar.empty()) request.similar = SelfSimilar(options.similar);
  for (std::size_t i = 0; i < options.events.size(); ++i) {
    request.runs.push_back({options.events[i], options.power[i], options.jiffies.empty() ? "" : options.jiffies[i]});
  }
  request.summary = options.summary;
  return request;
}

}  // namespace flyball
