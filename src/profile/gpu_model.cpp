// A model is read from its TOML file; a run is the arithmetic of gpu_physics.h, scaled by the time at the maximum
// clock.
#include "profile/gpu_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "profile/activity_data.h"
#include "profile/data_file.h"

namespace flyball {
namespace {

constexpr std::string_view kDeviceFolder = "devices/";
constexpr PhaseLimits kNoLimits{Watts(std::numeric_limits<double>::infinity())};

// The highest clock at which the computation draws no more than `limit` in the mean; the minimum where none is. The
// mean never falls with a higher clock: the energy beyond `busy` is a constant times V^2 for compute-bound work and one
// times V^2 f for memory-bound work, and the time that it is drawn in only gets shorter.
double knee_clock(const GpuCurve& gpu, const Activity& activity, Watts limit) {
  const auto keeps = [&](double clock) { return pace_of(gpu, activity, kNoLimits, clock).mean_power() <= limit; };
  double low = gpu.minimum.value();
  double high = gpu.maximum.value();
  if (keeps(high)) return high;
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    (keeps(middle) ? low : high) = middle;
  }
  return low;
}

GpuModel read_gpu_model(const std::string& name) {
  const std::string path = fmt::format("{}{}.toml", kDeviceFolder, name);
  const toml::table file = parse_data_file(path);
  const DataTable root(path, file);
  const DataTable clock = root.table("clock");
  const DataTable power = root.table("power");
  const DataTable voltage = root.table("voltage");
  const DataTable activity = root.table("activity");

  GpuModel gpu;
  gpu.name = root.get<std::string>("name");
  gpu.title = root.get<std::string>("title");
  gpu.minimum = Megahertz(clock.get<double>("minimum_mhz"));
  gpu.maximum = Megahertz(clock.get<double>("maximum_mhz"));
  gpu.step = Megahertz(clock.get<double>("step_mhz"));
  gpu.limit = Watts(power.get<double>("limit_w"));
  gpu.phase_limit = Watts(power.get<double>("phase_limit_w"));
  gpu.busy = Watts(power.get<double>("busy_w"));
  gpu.blocking = Watts(power.get<double>("blocking_w"));
  const auto mhz = voltage.list<double>("mhz");
  const auto relative = voltage.list<double>("relative");
  if (mhz.size() != relative.size() || mhz.size() < 2) throw voltage.bad("relative");
  for (std::size_t i = 0; i < mhz.size(); ++i) gpu.voltage.push_back({Megahertz(mhz[i]), relative[i]});
  gpu.sustained_tflops = root.table("compute").get<double>("sustained_tflops");
  gpu.forward = read_activity(activity.table("forward"));
  gpu.backward = read_activity(activity.table("backward"));
  return gpu;
}

}  // namespace

std::vector<Megahertz> GpuModel::clocks() const {
  std::vector<Megahertz> all;
  for (Megahertz clock = maximum; clock >= minimum; clock -= step) all.push_back(clock);
  return all;
}

ClockOption GpuModel::run(const Activity& activity, Seconds time_at_maximum, Megahertz clock) const {
  const double asked = std::clamp(clock.value(), minimum.value(), maximum.value());
  const double held = power_limit ? std::min(asked, knee_clock(curve(), activity, *power_limit)) : asked;
  const Pace pace = pace_of(curve(), activity, power_limit ? kNoLimits : PhaseLimits{phase_limit}, held);
  const double unit = time_at_maximum.value() / pace_of(curve(), activity, {phase_limit}, maximum.value()).time();
  return {
      Megahertz(asked), Seconds(unit * pace.time()),
      pace.compute_power * Seconds(unit * pace.compute_time) + pace.memory_power * Seconds(unit * pace.memory_time)};
}

std::vector<std::string> gpu_models() { return data_file_names(kDeviceFolder); }

GpuModel load_gpu_model(std::string_view name) {
  const std::vector<std::string> names = gpu_models();
  // The form factor may be left out where the papers leave it out.
  const std::string_view full = name == "a100"   ? "a100-pcie"
                                : name == "h100" ? "h100-sxm"
                                : name == "h200" ? "h200-sxm"
                                                 : name;
  if (std::find(names.begin(), names.end(), full) == names.end()) {
    throw UsageError(fmt::format("unknown GPU '{}'; known are {}", name, fmt::join(names, ", ")));
  }
  return read_gpu_model(std::string(full));
}

}  // namespace flyball
