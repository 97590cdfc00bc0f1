// Factors are handled as logarithms: a middle, and half the width of the range round it.
#include "forecast/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace flyball {
namespace {

constexpr double kNodeSpread = 0.10;  // assumed: two measurements are too few to tell one
constexpr std::int64_t kMostGpusOfNode = 8;

struct LogFactor {
  double middle = 0.0;
  double half_width = 0.0;
};

LogFactor operator+(LogFactor a, LogFactor b) { return {a.middle + b.middle, std::hypot(a.half_width, b.half_width)}; }

LogFactor exactly(double value) { return {std::log(value), 0.0}; }

ValueRange range_of(LogFactor factor) {
  return {std::exp(factor.middle - factor.half_width), std::exp(factor.middle),
          std::exp(factor.middle + factor.half_width)};
}

double mean_of_logs(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += std::log(value);
  return sum / static_cast<double>(values.size());
}

// Where the next figure lies after these, two at least.
LogFactor next_figure(const std::vector<double>& values, double confidence) {
  const auto count = static_cast<double>(values.size());
  const double mean = mean_of_logs(values);
  double squares = 0.0;
  for (const double value : values) squares += (std::log(value) - mean) * (std::log(value) - mean);
  const double deviation = std::sqrt(squares / (count - 1.0));
  const boost::math::students_t student(count - 1.0);
  return {mean, quantile(student, 0.5 + 0.5 * confidence) * deviation * std::sqrt(1.0 + 1.0 / count)};
}

std::vector<double> values_of(std::span<const PublishedFigure> figures) {
  std::vector<double> values;
  for (const PublishedFigure& figure : figures) values.push_back(figure.value);
  return values;
}

// One figure for each family of runs: the geometric mean.
std::vector<double> utilizations() {
  std::map<std::string_view, std::vector<double>> families;
  for (const PublishedRun& run : calibrating_runs()) families[run.family].push_back(run.utilization());
  std::vector<double> values;
  for (const auto& [family, own] : families) values.push_back(std::exp(mean_of_logs(own)));
  return values;
}

struct Sourced {
  LogFactor factor;
  std::string from;
};

EstimateFactor shown(const Sourced& known) { return {range_of(known.factor), known.from}; }

Sourced utilization_of(const EstimateRequest& request) {
  if (request.utilization) return {exactly(*request.utilization), "stated"};
  const std::vector<double> values = utilizations();
  LogFactor factor = next_figure(values, request.confidence);
  factor.middle = std::min(factor.middle, 0.0);
  return {factor, fmt::format("whole runs of {} families", values.size())};
}

Sourced power_of(const EstimateRequest& request) {
  if (request.power) return {exactly(request.power->value()), "stated"};
  const TrainingGpu& gpu = *request.gpu;
  LogFactor factor = next_figure(values_of(load_shares()), request.confidence);
  if (gpu.load_share) factor.middle = std::log(*gpu.load_share);
  factor.middle += std::log(gpu.limit.value());
  return {factor, fmt::format("{:g} W limit, {}", gpu.limit.value(),
                              gpu.load_share ? fmt::format("load measured on {}", gpu.name)
                                             : fmt::format("load of {} other models", load_shares().size()))};
}

Sourced node_of(const EstimateRequest& request) {
  if (request.node_factor) return {exactly(*request.node_factor), "stated"};
  const boost::math::normal normal(0.0, kNodeSpread);
  return {{mean_of_logs(values_of(node_factors())), quantile(normal, 0.5 + 0.5 * request.confidence)},
          fmt::format("{} measured kinds of node, spread assumed", node_factors().size())};
}

Sourced pue_of(const EstimateRequest& request) {
  if (request.pue) return {exactly(*request.pue), "stated"};
  return {next_figure(values_of(site_pues()), request.confidence), fmt::format("{} sites", site_pues().size())};
}

// A share cannot be above 1, a node not draw less than its GPUs, nor a site less than its nodes.
void keep_within(EstimateFactor& factor, double least, double most) {
  factor.range.low = std::clamp(factor.range.low, least, most);
  factor.range.high = std::clamp(factor.range.high, least, most);
}

std::string some_digits(double value) {
  return value >= 100.0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// The largest number of GPUs, up to eight, into which all can be divided.
std::int64_t gpus_of_node(std::int64_t gpus) {
  std::int64_t most = std::min(gpus, kMostGpusOfNode);
  while (gpus % most != 0) --most;
  return most;
}

}  // namespace

Estimate estimate_run(const EstimateRequest& request) {
  Estimate estimate;
  estimate.request = request;
  estimate.operations =
      (request.recompute ? 8.0 : 6.0) * request.active_parameters.value_or(request.parameters) * request.tokens;
  const Sourced utilization = utilization_of(request);
  const Sourced power = power_of(request);
  const Sourced node = node_of(request);
  const Sourced pue = pue_of(request);
  estimate.utilization = shown(utilization);
  estimate.power_w = shown(power);
  estimate.node_factor = shown(node);
  estimate.pue = shown(pue);
  keep_within(estimate.utilization, 0.0, 1.0);
  keep_within(estimate.node_factor, 1.0, HUGE_VAL);
  keep_within(estimate.pue, 1.0, HUGE_VAL);

  LogFactor hours = exactly(estimate.operations / (request.gpu->peak_flops * 3600.0));
  hours = {hours.middle - utilization.factor.middle, utilization.factor.half_width};
  estimate.gpu_hours = range_of(hours);
  estimate.seconds = range_of(hours + exactly(3600.0 / static_cast<double>(request.gpus)));
  const LogFactor gpu_kwh = hours + power.factor + exactly(1e-3);
  estimate.gpu_kwh = range_of(gpu_kwh);
  estimate.node_kwh = range_of(gpu_kwh + node.factor);
  estimate.site_kwh = range_of(gpu_kwh + node.factor + pue.factor);
  return estimate;
}

std::string estimated_run_text(const Estimate& estimate, std::int64_t sequence, std::int64_t batch) {
  const EstimateRequest& request = estimate.request;
  const std::int64_t per_node = gpus_of_node(request.gpus);
  const std::int64_t nodes = request.gpus / per_node;
  const double samples = request.tokens / static_cast<double>(sequence);
  const double iteration = estimate.seconds.middle * static_cast<double>(batch) / samples;
  const double gpu_w = estimate.power_w.range.middle;
  const double host_w = gpu_w * static_cast<double>(per_node) * (estimate.node_factor.range.middle - 1.0);
  const double forward = iteration / (request.recompute ? 4.0 : 3.0);
  std::string text = fmt::format(
      "# What a training run will cost: flyball forecast THIS_FILE. Every key: docs/formats/run.md.\n"
      "# Nothing here was measured. Lines marked ESTIMATE hold the middle of an estimate; put measured values in "
      "their\n"
      "# place, one after the other: flyball forecast init reads them from traces.\n"
      "# {} parameters, {} tokens, {} x {}, MFU {:.3g} ({}). Cooling and distribution (PUE) are not in it.\n"
      "# The forecast's interval is about iterations that vary. The estimate itself may be off: {} to {} kWh.\n"
      "name = \"estimated run\"\n"
      "samples = {:.10g}  # sequences of {} tokens\n"
      "iteration_seconds = {:.10g}  # ESTIMATE\n\n"
      "[[nodes]]\n"
      "name = \"{}\"\n"
      "count = {}\n"
      "batch = {:.10g}  # sequences of one node in one iteration\n\n"
      "[nodes.power_w]\n"
      "accelerator = {{ active = {:.10g}, idle = {:.10g}, count = {} }}  # ESTIMATE: at load throughout, idle is not "
      "known\n"
      "processor = {{ active = {:.10g}, idle = {:.10g} }}  # ESTIMATE: all of the node but its GPUs\n\n",
      request.parameters, request.tokens, request.gpus, request.gpu->board, estimate.utilization.range.middle,
      estimate.utilization.from, some_digits(estimate.node_kwh.low), some_digits(estimate.node_kwh.high), samples,
      sequence, iteration, request.gpu->name, nodes, static_cast<double>(batch) / static_cast<double>(nodes), gpu_w,
      gpu_w, per_node, host_w, host_w);
  for (const std::string_view stage : {"set_dataset", "load_data", "preprocess", "transfer", "model_in_out"}) {
    text += fmt::format("[nodes.stage.{}]\nseconds = 0.0  # ESTIMATE: hidden\n", stage);
  }
  text += fmt::format("[nodes.stage.forward]\nseconds = {:.10g}  # ESTIMATE: communication that is seen is in it\n",
                      forward);
  text += fmt::format("[nodes.stage.backward]\nseconds = {:.10g}  # ESTIMATE: likewise\n", iteration - forward);
  for (const std::string_view stage : {"communication", "update", "wait"}) {
    text += fmt::format("[nodes.stage.{}]\nseconds = 0.0  # ESTIMATE: in forward and backward\n", stage);
  }
  return text;
}

}  // namespace flyball
