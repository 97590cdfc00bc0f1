// A workload's file may have a table for the GPU, whose values take precedence. Layers are divided by dynamic
// programming over the first layer and the number of stages that are left.
#include "profile/workload_model.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "profile/activity_data.h"
#include "profile/data_file.h"

namespace flyball {
namespace {

constexpr std::string_view kWorkloadFolder = "workloads/";

// Groups of like layers, [kind, count, relative forward time], written out.
std::vector<Layer> read_layers(const DataTable& table, double unit_seconds) {
  std::vector<Layer> layers;
  for (const toml::node* node : table.elements("layers")) {
    const toml::array* group = node->as_array();
    if (group == nullptr || group->size() != 3) throw table.bad("layers");
    const auto kind = group->get(0)->value<std::string>();
    const auto count = group->get(1)->value<std::int64_t>();
    const auto relative = group->get(2)->value<double>();
    if (!kind || !count || !relative) throw table.bad("layers");
    layers.insert(layers.end(), static_cast<std::size_t>(*count), {*kind, Seconds(*relative * unit_seconds)});
  }
  return layers;
}

std::vector<PublishedPartition> read_partitions(const std::string& path, const DataTable& on) {
  std::vector<PublishedPartition> partitions;
  for (const toml::node* node : on.elements("partitions")) {
    const toml::table* table = node->as_table();
    if (table == nullptr) throw on.bad("partitions");
    const DataTable partition(path, *table);
    partitions.push_back({partition.list<int>("bounds"), partition.find<double>("imbalance").value_or(0.0)});
  }
  return partitions;
}

}  // namespace

const PublishedPartition* WorkloadModel::published(int stages) const {
  for (const PublishedPartition& partition : partitions) {
    if (partition.bounds.size() == static_cast<std::size_t>(stages) + 1) return &partition;
  }
  return nullptr;
}

std::vector<std::string> workload_models() { return data_file_names(kWorkloadFolder); }

WorkloadModel load_workload_model(std::string_view name, const GpuModel& gpu) {
  const std::vector<std::string> names = workload_models();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw UsageError(fmt::format("unknown workload '{}'; known are {}", name, fmt::join(names, ", ")));
  }
  const std::string path = fmt::format("{}{}.toml", kWorkloadFolder, name);
  const toml::table file = parse_data_file(path);
  const DataTable root(path, file);

  WorkloadModel workload;
  workload.name = root.get<std::string>("name");
  workload.title = root.get<std::string>("title");
  workload.source = root.get<std::string>("source");
  workload.microbatch_size = root.find<int>("microbatch_size").value_or(0);
  workload.microbatches = root.find<int>("microbatches").value_or(0);
  workload.tensor_parallel = root.find<int>("tensor_parallel").value_or(1);
  workload.backward_ratio = root.get<double>("backward_ratio");
  workload.forward = gpu.forward;
  workload.backward = gpu.backward;

  double tflop = root.get<double>("layer_tflop");
  double sustained_tflops = gpu.sustained_tflops;
  std::optional<double> unit_seconds;
  const auto all = root.find_table("on");
  if (const auto on = all ? all->find_table(gpu.name) : std::nullopt) {
    workload.microbatch_size = on->find<int>("microbatch_size").value_or(workload.microbatch_size);
    workload.microbatches = on->find<int>("microbatches").value_or(workload.microbatches);
    tflop = on->find<double>("layer_tflop").value_or(tflop);
    unit_seconds = on->find<double>("layer_time_s");
    workload.power_scale = on->find<double>("power_scale");
    if (workload.power_scale) sustained_tflops = on->get<double>("sustained_tflops");
    if (on->find_table("forward")) {
      workload.forward = read_activity(on->table("forward"));
      workload.backward = read_activity(on->table("backward"));
      workload.fitted = true;
    }
    workload.partitions = read_partitions(path, *on);
    workload.layers = read_layers(*on, unit_seconds.value_or(tflop / sustained_tflops));
  }
  if (workload.layers.empty()) workload.layers = read_layers(root, unit_seconds.value_or(tflop / sustained_tflops));
  return workload;
}

std::vector<int> balanced_bounds(std::span<const Layer> layers, int stages) {
  const std::size_t count = layers.size();
  std::vector<double> prefix(count + 1, 0.0);
  for (std::size_t i = 0; i < count; ++i) prefix[i + 1] = prefix[i] + layers[i].forward.value();

  // longest[s][i]: shortest possible longest stage when layers i.. go to s stages; cut[s][i]: where the first ends.
  const auto last = static_cast<std::size_t>(stages);
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> longest(last + 1, std::vector<double>(count + 1, kNone));
  std::vector<std::vector<std::size_t>> cut(last + 1, std::vector<std::size_t>(count + 1, 0));
  longest[0][count] = 0.0;
  for (std::size_t s = 1; s <= last; ++s) {
    for (std::size_t i = 0; i + s <= count; ++i) {
      for (std::size_t j = i + 1; j <= count; ++j) {
        const double value = std::max(prefix[j] - prefix[i], longest[s - 1][j]);
        if (value < longest[s][i]) {
          longest[s][i] = value;
          cut[s][i] = j;
        }
      }
    }
  }
  std::vector<int> bounds{0};
  for (std::size_t s = last, i = 0; s > 0; --s) {
    i = cut[s][i];
    bounds.push_back(static_cast<int>(i));
  }
  return bounds;
}

}  // namespace flyball
