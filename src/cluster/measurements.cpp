// Reads one row at a time. The header tells Flyball's own columns from those of Pollux and Sia.
#include "cluster/measurements.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace flyball {
namespace {

constexpr int kMostGpus = 65536;
constexpr double kMostBatch = 1e9;

double number_within(const CsvReader& csv, std::string_view column, double least, double most, std::string_view unit) {
  return csv.number_within(column, least, most, unit, "measure the configuration again, or delete the row");
}

int count_of(const CsvReader& csv, std::string_view column) {
  return csv.count(column, kMostGpus, "count GPUs and nodes from 1");
}

double step_time(const CsvReader& csv, std::string_view column) { return number_within(csv, column, 1e-9, 1e6, "s"); }

void check_nodes(const CsvReader& csv, std::string_view column, int gpus, int nodes) {
  if (nodes <= gpus) return;
  throw InputError(csv.where(column), fmt::format("{} nodes for {} GPUs", nodes, gpus),
                   "every node of a job has at least one of its GPUs");
}

JobMeasurement own_row(const CsvReader& csv, Megahertz default_clock) {
  JobMeasurement row;
  row.configuration.gpus = count_of(csv, "gpus");
  row.configuration.nodes = csv.has_column("nodes") ? count_of(csv, "nodes") : 1;
  check_nodes(csv, csv.has_column("nodes") ? "nodes" : "gpus", row.configuration.gpus, row.configuration.nodes);
  row.configuration.batch_size = number_within(csv, "batch_size", 1e-3, kMostBatch, "samples");
  row.configuration.clock =
      csv.has_column("clock_mhz") ? Megahertz(number_within(csv, "clock_mhz", 1.0, 1e6, "MHz")) : default_clock;
  row.cost.time = Seconds(step_time(csv, "step_time_s"));
  if (csv.has_column("step_energy_j")) {
    row.cost.energy = Joules(number_within(csv, "step_energy_j", 1e-9, 1e12, "J"));
  }
  if (csv.has_column("gpu_utilisation")) {
    row.use = {number_within(csv, "gpu_utilisation", 1e-3, 1.0, ", as a share,"),
               number_within(csv, "memory_gib", 1e-3, 1e5, "GiB")};
  }
  return row;
}

// "21" means a node with two GPUs and a node with one.
void read_placement(const CsvReader& csv, JobConfiguration& configuration) {
  const std::string_view digits = csv.text("placement");
  configuration.gpus = 0;
  configuration.nodes = 0;
  for (const char digit : digits) {
    if (digit < '1' || digit > '9') {
      throw InputError(csv.where("placement"), fmt::format("placement is '{}'", digits),
                       "write one digit from 1 to 9 per node: how many GPUs the job has there");
    }
    configuration.gpus += digit - '0';
    ++configuration.nodes;
  }
  if (configuration.nodes == 0 || configuration.nodes > 64) {
    throw InputError(csv.where("placement"), fmt::format("{} nodes", configuration.nodes),
                     "write one digit from 1 to 9 per node, for 1 to 64 nodes");
  }
}

JobMeasurement artifact_row(const CsvReader& csv, Megahertz default_clock) {
  JobMeasurement row;
  if (csv.has_column("placement")) {
    read_placement(csv, row.configuration);
  } else {
    row.configuration.gpus = count_of(csv, "num_replicas");
    row.configuration.nodes = count_of(csv, "num_nodes");
    check_nodes(csv, "num_nodes", row.configuration.gpus, row.configuration.nodes);
  }
  row.configuration.batch_size = number_within(csv, "local_bsz", 1e-3, kMostBatch, "samples") * row.configuration.gpus;
  row.configuration.clock = default_clock;
  row.cost.time = Seconds(step_time(csv, "step_time"));
  return row;
}

}  // namespace

MeasurementSet read_measurements(const std::string& source, std::string_view text, Megahertz default_clock) {
  CsvReader csv(source, text, {});
  const bool artifact =
      csv.has_column("local_bsz") && csv.has_column("step_time") &&
      (csv.has_column("placement") || (csv.has_column("num_nodes") && csv.has_column("num_replicas")));
  if (!artifact) {
    for (const char* column : {"gpus", "batch_size", "step_time_s"}) {
      if (csv.has_column(column)) continue;
      throw InputError({source, csv.line(), 1}, fmt::format("the header has no column '{}'", column),
                       "the first line must be model,gpus,nodes,batch_size,clock_mhz,step_time_s,step_energy_j");
    }
  }
  if (csv.has_column("gpu_utilisation") != csv.has_column("memory_gib")) {
    throw InputError({source, csv.line(), 1}, "the header has one of gpu_utilisation and memory_gib, not both",
                     "whether jobs may share a GPU takes both; add the other column, or delete this one");
  }
  const std::string file = std::filesystem::path(source).stem().string();
  MeasurementSet measured;
  while (csv.next()) {
    std::string model = file;
    if (csv.has_column("model")) {
      model = std::string(csv.text("model"));
      if (model.empty()) throw InputError(csv.where("model"), "the model has no name", "write the name of the network");
    }
    measured[std::move(model)].push_back(artifact ? artifact_row(csv, default_clock) : own_row(csv, default_clock));
  }
  if (measured.empty()) {
    throw InputError({source, csv.line(), 1}, "the file has a header but no rows",
                     "add one row per measured configuration");
  }
  return measured;
}

MeasurementSet read_measurements_file(const std::filesystem::path& path, Megahertz default_clock) {
  return read_measurements(path.string(), read_text_file(path), default_clock);
}

}  // namespace flyball
