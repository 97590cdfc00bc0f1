#include "account/account_options.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/record.h"

namespace flyball {

const Record<AccountOptions>& description_of(const AccountOptions* /*type*/) {
  using R = AccountOptions;
  static const auto kRecord =
      Record<R>::request("AccountOptions", "Of flyball_footprint_open in C and flyball.account in Python.")
          .field("events", &R::events,
                 {.text = "Event trace of TensorFlow, PyTorch or Chrome; several: several runs.",
                  .needed = true,
                  .fewest = 1,
                  .single = true})
          .field("power", &R::power,
                 {.text = "Power trace, one for every event trace.", .needed = true, .fewest = 1, .single = true})
          .field("jiffies", &R::jiffies,
                 {.text = "Of 'flyball record --jiffies', one for every event trace: a processor's energy is divided "
                          "first.",
                  .single = true})
          .field("method", &R::method, {.text = "regress: for kernels far shorter than the sensor's window."})
          .field("sensor_window_s", &R::sensor_window,
                 {.text = "Of the method regress: what one power reading averages over. Without: since the last one.",
                  .minimum = 0,
                  .maximum = 1e6})
          .field("share", &R::share, {.text = "Who shares power: distinct operations, or events."})
          .field("clock_offset_s", &R::clock_offset,
                 {.text = "Is added to the events' times. Without: 0 where the traces overlap, otherwise it is found.",
                  .minimum = -1e10,
                  .maximum = 1e10})
          .field("estimate_clock_offset", &R::estimate_clock_offset, {.text = "It is found in any case."})
          .field("event_devices", &R::event_devices,
                 {.text = "What the event trace calls a device, and which it is: {\"GPU:0\": \"GPU:4\"}."})
          .field("power_devices", &R::power_devices,
                 {.text = "The same of the power trace; what becomes one device is added up."})
          .field("counter_ranges_j", &R::counter_ranges,
                 {.text = "Where a counter of the power trace begins anew: {\"CPU:0\": 262143.32885} of RAPL.",
                  .minimum = 1e-9,
                  .maximum = 1e18})
          .field("chrome_device", &R::chrome_device,
                 {.text = "What of a Chrome trace names the device; none: all of it is CPU:0."})
          .field("utc_offset_s", &R::utc_offset,
                 {.text = "Of local times in the power trace, as nvidia-smi writes them.",
                  .minimum = -86400,
                  .maximum = 86400})
          .field("row_period_s", &R::row_period,
                 {.text = "Between rows of a power trace without times, as dcgmi dmon writes it.",
                  .minimum = 1e-9,
                  .maximum = 1e6})
          .field("similar", &R::similar,
                 {.text = "Pattern of layers built alike: in what matches, numbers count as one. Without: layer_3, "
                          "layers.3, h.3 and the like."})
          .field("summary", &R::summary, {.text = "Self-similar layers are added up."})
          .field("kernels", &R::kernels, {.text = "GPU kernels are tensors of their own."})
          .field("frames", &R::frames, {.text = "Modules' own time outside every operation counts, too."});
  return kRecord;
}

AccountRequest read_account_options(const std::string& source, std::string_view json) {
  const nlohmann::json parsed = parse_json(source, json);
  return account_request(record_of<AccountOptions>().read(JsonObject(parsed, source)));
}

AccountRequest account_request(const AccountOptions& options) {
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
    throw UsageError("a sensor's window is for the method regress; drop it, or choose that");
  }
  if (options.clock_offset && options.estimate_clock_offset) {
    throw UsageError("the clock offset is given and to be found; do one of both");
  }
  AccountRequest request;
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
