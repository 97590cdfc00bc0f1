// read_pipeline: the pipeline file (TOML), key by key, each with its type and range.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "base/toml_file.h"
#include "pipeline/instruction.h"
#include "pipeline/pipeline_spec.h"
#include "profile/stage_limit.h"

namespace flyball {
namespace {

constexpr std::size_t kMostPipelineBytes = 1u << 20;
constexpr std::int64_t kMostReplicas = 1'000'000;
constexpr double kMostConstantSeconds = 1e6;
constexpr double kMostJoules = 1e9;

const std::vector<std::string> kKeys = {
    "schedule",      "stages",          "microbatches", "chunks", "split_backward", "blocking_power", "memory_limit",
    "data_parallel", "tensor_parallel", "dag",          "p2p",    "data_load",      "gradient_sync",  "optimizer_step"};
const std::vector<std::string> kOperationKeys = {"time", "energy"};
const std::vector<std::string> kTransferKeys = {"time", "energy", "occupies"};

class PipelineFile final : TomlFile {
 public:
  PipelineFile(std::string source, std::string_view text) : TomlFile(std::move(source), text) {
    check_keys(root(), kKeys, "");
  }

  PipelineSpec read() {
    PipelineSpec spec;
    if (const toml::node* node = root().get("schedule")) spec.schedule = schedule(*node);
    spec.stages = integer("stages", kMostStagesOfFile).value_or(spec.stages);
    spec.microbatches = integer("microbatches", kMostOperations).value_or(spec.microbatches);
    spec.chunks = integer("chunks", kMostOperations).value_or(spec.chunks);
    spec.data_parallel = integer("data_parallel", kMostReplicas).value_or(spec.data_parallel);
    spec.tensor_parallel = integer("tensor_parallel", kMostReplicas).value_or(spec.tensor_parallel);
    if (const toml::node* node = root().get("split_backward")) spec.split_backward = share(*node);
    if (const toml::node* node = root().get("blocking_power")) spec.blocking_power = powers(*node, spec.stages);
    if (const toml::node* node = root().get("memory_limit")) spec.memory_limit = memory_limits(*node, spec.stages);
    if (const toml::node* node = root().get("dag")) spec.dag_file = dag(*node);
    spec.p2p = operation("p2p", spec);
    spec.data_load = operation("data_load", spec);
    spec.gradient_sync = operation("gradient_sync", spec);
    spec.optimizer_step = operation("optimizer_step", spec);
    return spec;
  }

 private:
  std::optional<int> integer(const std::string& key, std::int64_t most) const {
    const toml::node* node = root().get(key);
    if (node == nullptr) return std::nullopt;
    return count(*node, key, most);
  }

  ScheduleKind schedule(const toml::node& node) const {
    const std::vector<std::string> names = schedule_names();
    const auto* value = node.as_string();
    if (value == nullptr) {
      fail(node, fmt::format("schedule is {}, it must be a string", type_name(node)), "write schedule = \"1f1b\"");
    }
    if (std::find(names.begin(), names.end(), value->get()) == names.end()) {
      const std::string nearest = nearest_name(value->get(), names);
      fail(node, fmt::format("unknown schedule '{}'", value->get()),
           nearest.empty() ? fmt::format("the schedules are {}", fmt::join(names, ", "))
                           : fmt::format("did you mean '{}'?", nearest));
    }
    return parse_schedule(value->get());
  }

  double share(const toml::node& node) const {
    const double value = number(node, "split_backward", 0.0, 1.0, "the weight gradients' share of a backward");
    if (value > 0.0 && value < 1.0) return value;
    fail(node, fmt::format("split_backward is {:g}, it must be between 0 and 1", value),
         "write for example split_backward = 0.5");
  }

  std::vector<Watts> powers(const toml::node& node, int stages) const {
    const auto power = [&](const toml::node& one) {
      return Watts(number(one, "blocking_power", 0.0, kMostBlockingWatts, "watts"));
    };
    return one_or_per_stage<Watts>(node, "blocking_power", stages, power);
  }

  std::vector<int> memory_limits(const toml::node& node, int stages) const {
    return one_or_per_stage<int>(node, "memory_limit", stages, [&](const toml::node& one) {
      const auto* text = one.as_string();
      if (text == nullptr) return count(one, "memory_limit", kMostOperations);
      const auto limit = parse_memory_limit(text->get());
      if (!limit) {
        fail(one, fmt::format("'{}' is no memory limit of at least one microbatch", text->get()),
             "write a number of microbatches, or a stage's memory for activations over that of one microbatch's: "
             "\"60GB/6.4GB\"");
      }
      return *limit;
    });
  }

  // `read` turns a node into a value.
  template <class Value, class Read>
  std::vector<Value> one_or_per_stage(const toml::node& node, const std::string& key, int stages,
                                      const Read& read) const {
    const auto* list = node.as_array();
    if (list == nullptr) return {read(node)};
    std::vector<Value> values;
    for (const toml::node& one : *list) values.push_back(read(one));
    if (values.empty()) fail(node, key + " is an empty array", "write one number, or one per stage");
    if (stages > 0 && values.size() != 1 && values.size() != static_cast<std::size_t>(stages)) {
      const bool links = key.starts_with("p2p.");
      fail(node, fmt::format("{} has {} numbers for {} {}", key, values.size(), stages, links ? "links" : "stages"),
           links ? "write one number, or one per link between neighbouring stages"
                 : "write one number, or one per stage");
    }
    return values;
  }

  std::string dag(const toml::node& node) const {
    const auto* value = node.as_string();
    if (value == nullptr || value->get().empty()) {
      fail(node, "dag must be the path of a JSON file", "write for example dag = \"dag.json\"");
    }
    for (const char* other : {"schedule", "microbatches", "chunks", "split_backward"}) {
      if (const toml::node* stated = root().get(other)) {
        fail(*stated, fmt::format("{} is stated beside dag, which says itself what runs in which order", other),
             fmt::format("remove {} or dag", other));
      }
    }
    for (const std::string_view table : {kP2pName, kDataLoadName, kGradientSyncName, kOptimizerStepName}) {
      if (const toml::node* stated = root().get(table)) {
        fail(*stated, fmt::format("[{}] is stated beside dag, whose operations take what the profile says", table),
             fmt::format("remove [{}], and give the DAG's operation a row in the profile", table));
      }
    }
    return value->get();
  }

  bool occupies_both(const toml::node& node) const {
    const auto* value = node.as_string();
    if (value != nullptr && value->get() == "both") return true;
    if (value != nullptr && value->get() == "receiver") return false;
    fail(node, "p2p.occupies must be one of two words",
         "write occupies = \"both\" where a stage that sends waits for the transfer, else \"receiver\"");
  }

  std::optional<ConstantOperation> operation(const std::string& key, PipelineSpec& spec) const {
    const toml::node* node = root().get(key);
    if (node == nullptr) return std::nullopt;
    const auto* table = node->as_table();
    if (table == nullptr) {
      fail(*node, fmt::format("{} is {}, it must be a table", key, type_name(*node)),
           fmt::format("write a line [{}] and below it time = 0.001 (seconds)", key));
    }
    const bool transfer = key == "p2p";
    check_keys(*table, transfer ? kTransferKeys : kOperationKeys, fmt::format(" in [{}]", key));
    const toml::node* occupies = transfer ? table->get("occupies") : nullptr;
    if (occupies != nullptr) spec.transfers_occupy_both = occupies_both(*occupies);
    const toml::node* time = table->get("time");
    if (time == nullptr) {
      // Without a stated time, the profile's counts.
      if (occupies != nullptr && table->get("energy") == nullptr) return std::nullopt;
      fail(*node, fmt::format("[{}] has no time", key), "add for example time = 0.001 (seconds)");
    }
    const int places = transfer && spec.stages > 0 && spec.chunks == 1 ? spec.stages - 1 : spec.stages;
    ConstantOperation read(one_or_per_stage<Seconds>(*time, key + ".time", places,
                                                     [&](const toml::node& one) { return seconds(one, *time, key); }),
                           {});
    if (const toml::node* energy = table->get("energy")) {
      read.energy = one_or_per_stage<Joules>(*energy, key + ".energy", places, [&](const toml::node& one) {
        return Joules(number(one, key + ".energy", 0.0, kMostJoules, "joules"));
      });
    }
    return read;
  }

  // In a list of several, 0 says that this place has none.
  Seconds seconds(const toml::node& one, const toml::node& all, const std::string& key) const {
    const bool several = all.is_array() && all.as_array()->size() > 1;
    const bool none = several && one.is_number() && one.value_or(1.0) == 0.0;
    return Seconds(none ? 0.0 : number(one, key + ".time", 1e-9, kMostConstantSeconds, "seconds"));
  }
};

}  // namespace

PipelineSpec read_pipeline(const std::string& source, std::string_view text) {
  return PipelineFile(source, text).read();
}

PipelineSpec read_pipeline_file(const std::filesystem::path& path) {
  PipelineSpec spec = read_pipeline(path.string(), read_text_file(path, kMostPipelineBytes));
  if (!spec.dag_file.empty()) spec.dag_file = (path.parent_path() / spec.dag_file).lexically_normal().string();
  return spec;
}

}  // namespace flyball
