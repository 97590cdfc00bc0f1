#include "profile/gpu_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "profile/activity_data.h"
#include "profile/data_file.h"

namespace flyball {
namespace {

constexpr std::string_view kFolder = "devices/";

double relative_voltage(const GpuModel& gpu, double clock_mhz) {
  const auto& points = gpu.voltage;
  if (clock_mhz <= points.front().clock.value()) return points.front().relative;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double low = points[i - 1].clock.value();
    const double high = points[i].clock.value();
    if (clock_mhz > high) continue;
    const double at = (clock_mhz - low) / (high - low);
    return points[i - 1].relative + at * (points[i].relative - points[i - 1].relative);
  }
  return points.back().relative;
}

// Dynamic power at a clock over that at the maximum clock: capacitance times V^2 f.
double relative_dynamic(const GpuModel& gpu, double clock_mhz) {
  const double voltage = relative_voltage(gpu, clock_mhz);
  return voltage * voltage * clock_mhz / gpu.maximum.value();
}

// The clock at which compute-bound work really runs when `clock_mhz` is asked for.
double regulated_clock(const GpuModel& gpu, Watts compute, double clock_mhz) {
  const double allowed = (gpu.phase_limit - gpu.busy) / compute;
  if (relative_dynamic(gpu, clock_mhz) <= allowed) return clock_mhz;
  double low = gpu.minimum.value();
  double high = clock_mhz;
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    (relative_dynamic(gpu, middle) <= allowed ? low : high) = middle;
  }
  return low;
}

GpuModel read_gpu_model(const std::string& name) {
  const std::string path = fmt::format("{}{}.toml", kFolder, name);
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
  const double top = maximum.value();
  const double asked = std::clamp(clock.value(), minimum.value(), top);
  const double share = activity.clocked_share;

  // In units of the time that the work would take at the maximum clock without a power limit.
  const double regulated = regulated_clock(*this, activity.compute, asked);
  const double compute_time = share * top / regulated;
  const double memory_time = 1.0 - share;
  const double unit =
      time_at_maximum.value() / (share * top / regulated_clock(*this, activity.compute, top) + memory_time);

  const Watts compute_power = busy + activity.compute * relative_dynamic(*this, regulated);
  const Watts memory_power = busy + activity.memory * relative_dynamic(*this, asked);
  return {Megahertz(asked), Seconds(unit * (compute_time + memory_time)),
          compute_power * Seconds(unit * compute_time) + memory_power * Seconds(unit * memory_time)};
}

std::vector<std::string> gpu_models() { return data_file_names(kFolder); }

GpuModel load_gpu_model(std::string_view name) {
  const std::vector<std::string> names = gpu_models();
  // The form factor may be left out where the papers leave it out.
  const std::string_view full = name == "a100" ? "a100-pcie" : name == "h100" ? "h100-sxm" : name;
  if (std::find(names.begin(), names.end(), full) == names.end()) {
    throw UsageError(fmt::format("unknown GPU '{}'; known are {}", name, fmt::join(names, ", ")));
  }
  return read_gpu_model(std::string(full));
}

}  // namespace flyball
