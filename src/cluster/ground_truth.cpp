// The table is a tree with one axis per level; a lookup interpolates between two neighbours on every axis.
#include "cluster/ground_truth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "profile/data_file.h"
#include "profile/embedded_data.h"

namespace flyball {
namespace {

constexpr std::size_t kDepth = 4;  // GPUs, nodes, local batch, clock
constexpr std::string_view kFolder = "cluster/";
constexpr std::string_view kSuffix = ".csv";

using Key = std::array<double, kDepth>;

Key key_of(const JobConfiguration& configuration) {
  return {std::log(configuration.gpus), std::log(configuration.nodes), std::log(configuration.local_batch()),
          std::log(configuration.clock.value())};
}

}  // namespace

GroundTruth::GroundTruth(const std::string& source, const MeasurementSet& measured) {
  for (const auto& [model, rows] : measured) {
    // Sorted in the order in which the axes nest; the points of a configuration that was measured twice are averaged in
    // the logarithms.
    std::map<Key, std::pair<Point, int>> sorted;
    std::set<int> batches;
    for (const JobMeasurement& row : rows) {
      if (row.cost.energy.value() <= 0.0) {
        throw InputError({source}, fmt::format("{} has no energies", model),
                         "a table that jobs run on needs the column step_energy_j (and clock_mhz)");
      }
      auto& [point, count] = sorted[key_of(row.configuration)];
      point.log_time += std::log(row.cost.time.value());
      point.log_power += std::log(row.cost.power().value() / row.configuration.gpus);
      point.use.utilisation += row.use.utilisation;
      point.use.memory_gib += row.use.memory_gib;
      ++count;
      batches.insert(static_cast<int>(std::lround(row.configuration.batch_size)));
    }
    models_.push_back(model);
    batch_sizes_.emplace_back(batches.begin(), batches.end());
    roots_.push_back(axes_.size());
    axes_.emplace_back();
    std::array<std::size_t, kDepth> open{roots_.back()};  // the axis that is being filled at each depth
    const Key* last = nullptr;
    for (const auto& [key, entry] : sorted) {
      bool fresh = last == nullptr;
      for (std::size_t depth = 0; depth < kDepth; ++depth) {
        fresh = fresh || key[depth] != (*last)[depth];
        if (!fresh) continue;
        const std::size_t child = depth + 1 < kDepth ? axes_.size() : points_.size();
        axes_[open[depth]].keys.push_back(key[depth]);
        axes_[open[depth]].children.push_back(child);
        if (depth + 1 < kDepth) {
          open[depth + 1] = child;
          axes_.emplace_back();
        }
      }
      const auto& [sum, count] = entry;
      points_.push_back(
          {sum.log_time / count, sum.log_power / count, {sum.use.utilisation / count, sum.use.memory_gib / count}});
      last = &key;
    }
  }
}

int GroundTruth::find_model(std::string_view name) const {
  const auto found = std::find(models_.begin(), models_.end(), name);
  return found == models_.end() ? -1 : static_cast<int>(found - models_.begin());
}

const std::vector<int>& GroundTruth::batch_sizes(int model) const {
  return batch_sizes_[static_cast<std::size_t>(model)];
}

GroundTruth::Point GroundTruth::interpolate(std::size_t axis, std::size_t depth, const double* coordinates) const {
  const std::vector<double>& keys = axes_[axis].keys;
  const std::vector<std::size_t>& children = axes_[axis].children;
  const double x = coordinates[depth];
  const auto child = [&](std::size_t i) {
    return depth + 1 < kDepth ? interpolate(children[i], depth + 1, coordinates) : points_[children[i]];
  };
  const auto above = static_cast<std::size_t>(std::lower_bound(keys.begin(), keys.end(), x) - keys.begin());
  if (above == keys.size() || above == 0) {
    const std::size_t edge = above == 0 ? 0 : above - 1;
    Point point = child(edge);
    if (depth + 1 == kDepth) point.log_time -= x - keys[edge];
    return point;
  }
  const double share = (x - keys[above - 1]) / (keys[above] - keys[above - 1]);
  if (share == 1.0) return child(above);
  const Point low = child(above - 1);
  const Point high = child(above);
  return {low.log_time + share * (high.log_time - low.log_time),
          low.log_power + share * (high.log_power - low.log_power),
          {low.use.utilisation + share * (high.use.utilisation - low.use.utilisation),
           low.use.memory_gib + share * (high.use.memory_gib - low.use.memory_gib)}};
}

IterationCost GroundTruth::at(int model, const JobConfiguration& configuration) const {
  const Key key = key_of(configuration);
  const Point point = interpolate(roots_[static_cast<std::size_t>(model)], 0, key.data());
  const Seconds time(std::exp(point.log_time));
  return {time, Watts(std::exp(point.log_power) * configuration.gpus) * time};
}

GpuUse GroundTruth::use(int model, const JobConfiguration& configuration) const {
  const Key key = key_of(configuration);
  return interpolate(roots_[static_cast<std::size_t>(model)], 0, key.data()).use;
}

std::vector<std::string> ground_truth_gpus() {
  std::vector<std::string> names;
  for (std::string_view path : embedded_files()) {
    if (!path.starts_with(kFolder) || !path.ends_with(kSuffix)) continue;
    path.remove_prefix(kFolder.size());
    path.remove_suffix(kSuffix.size());
    names.emplace_back(path);
  }
  return names;
}

GroundTruth load_ground_truth(std::string_view gpu) {
  const std::vector<std::string> names = ground_truth_gpus();
  // "a100" finds the first A100.
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return name == gpu || (name.starts_with(gpu) && name.size() > gpu.size() && name[gpu.size()] == '-');
  });
  if (found == names.end()) {
    throw UsageError(fmt::format("no cluster table for a GPU '{}'; there are {} (or give one with --table)", gpu,
                                 fmt::join(names, ", ")));
  }
  const std::string source = fmt::format("{}{}{}", kFolder, *found, kSuffix);
  // The shipped tables state every clock.
  return {source, read_measurements(source, embedded_file(source), Megahertz(1.0))};
}

}  // namespace flyball
