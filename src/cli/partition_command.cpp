// flyball partition: layers to stages with the least imbalance.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/option_values.h"
#include "draw/text_table.h"
#include "pipeline/layer_times.h"
#include "pipeline/partition.h"

namespace flyball {
namespace {

struct PartitionOptions {
  std::string latencies;
  std::optional<int> stages;
  std::optional<Seconds> tail;
  std::optional<std::string> format;
};

std::string partition_json(const LayerTimes& layers, const Partition& partition) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t s = 0; s < partition.stage_times.size(); ++s) {
    const auto begin = static_cast<std::size_t>(partition.bounds[s]);
    const auto end = static_cast<std::size_t>(partition.bounds[s + 1]);
    stages.push_back({{"stage", s},
                      {"first_layer", layers.names[begin]},
                      {"last_layer", layers.names[end - 1]},
                      {"layers", end - begin},
                      {"time", partition.stage_times[s].value()}});
  }
  const nlohmann::ordered_json result = {
      {"bounds", partition.bounds}, {"imbalance", partition.imbalance}, {"stages", stages}};
  return result.dump(2) + "\n";
}

std::string partition_text(const LayerTimes& layers, const Partition& partition) {
  TextTable table({"stage", "layers", "<first", "<last", "time (s)"});
  for (std::size_t s = 0; s < partition.stage_times.size(); ++s) {
    const auto begin = static_cast<std::size_t>(partition.bounds[s]);
    const auto end = static_cast<std::size_t>(partition.bounds[s + 1]);
    table.add_row({fmt::to_string(s), fmt::to_string(end - begin), layers.names[begin], layers.names[end - 1],
                   format_fixed(partition.stage_times[s].value(), 6)});
  }
  return fmt::format("{}\nimbalance (longest stage over shortest): {:.4f}\nbounds: {}\n", table.str(),
                     partition.imbalance, fmt::join(partition.bounds, ", "));
}

void run_partition(const PartitionOptions& options) {
  const InterruptExit exit;
  std::optional<WorkLine> line("splitting layers");
  const LayerTimes layers = read_layer_times_file(options.latencies);
  const Partition partition = partition_layers(layers.times, options.stages.value(), options.tail.value_or(Seconds(0)));
  line.reset();
  print_result(options.format == "json" ? partition_json(layers, partition) : partition_text(layers, partition));
}

}  // namespace

void add_partition_command(const Command& program) {
  const Command command = program.add_subcommand("partition", "split a model's layers into stages of least imbalance");
  const auto options = std::make_shared<PartitionOptions>();
  command
      .add_option("LATENCIES", options->latencies,
                  "CSV layer,time: forward time of every layer in s, in the order of the model")
      .type_name("FILE")
      .required();
  add_value(command, "--stages", options->stages, parse_count, "N", "number of stages of the pipeline").required();
  add_value(command, "--tail", options->tail, parse_duration_or_zero, "TIME",
            "time of what only the last stage can run, on top of its layers (a language model's head)");
  add_format(command, options->format);
  command.footer(
      "The ratio of the longest to the shortest stage is the least possible (Perseus,\n"
      "appendix B). Layers keep their order.\n\n"
      "Examples:\n"
      "  flyball partition examples/layers/gpt3-1.3b-a100.csv --stages 4\n"
      "  flyball partition examples/layers/gpt3-1.3b-a100.csv --stages 8 --format json");
  command.callback([options] { run_partition(*options); });
}

}  // namespace flyball
