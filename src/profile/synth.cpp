// Clocks fall from the highest, as an online profiler's sweep does, until the energy has risen five times in a row.
// Noise is a hash of what is measured and the seed, turned into a nearly normal number, so that a row does not depend
// on the others.
#include "profile/synth.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/fingerprint.h"
#include "base/rise_count.h"
#include "profile/gpu_model.h"
#include "profile/random_bits.h"
#include "profile/workload_model.h"

namespace flyball {
namespace {

constexpr double kLargestNoise = 0.05;

// Noise is a function of what is measured, not of the order of measuring: adding a stage or a clock changes no other
// row. Only integer arithmetic and exact sums, so that every machine draws the same. Nearly normal with variance 1: the
// sum of twelve uniform numbers less its mean.
double standard_noise(std::uint64_t seed, std::string_view what) {
  std::uint64_t state = hash_text(what) ^ (seed * 0x9e3779b97f4a7c15u);
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += next_uniform(state);
  return sum;
}

struct Subject {
  GpuModel gpu;
  WorkloadModel workload;
};

OperationProfile sweep(const Subject& subject, const SynthRequest& request, int stage, std::string_view instruction,
                       const Activity& activity, Seconds time_at_maximum) {
  OperationProfile operation;
  operation.stage = stage;
  operation.instruction = instruction;
  const double power_scale = subject.workload.power_scale.value_or(1.0);
  RiseCount count;
  const Seconds shortest = subject.gpu.run(activity, time_at_maximum, subject.gpu.maximum).time;
  for (const Megahertz clock : subject.gpu.clocks()) {
    ClockOption option = subject.gpu.run(activity, time_at_maximum, clock);
    const bool held = request.power_limit && option.time == shortest;
    const std::string key =
        fmt::format("{}/{}/{}/{}/{:.0f}/", subject.gpu.name, subject.workload.name, stage, instruction, clock.value());
    option.time = option.time * (1.0 + request.noise_relative * standard_noise(request.seed, key + "time"));
    option.energy =
        power_scale * option.energy * (1.0 + request.noise_relative * standard_noise(request.seed, key + "energy"));
    operation.options.push_back(option);
    // Where a power limit holds the clock, energies differ by their noise alone.
    if (!held && count.add(option.energy) == kRisesToStop) break;
  }
  return operation;
}

std::vector<std::string> describe(const Subject& subject, const SynthRequest& request, const std::vector<int>& bounds,
                                  bool published) {
  const WorkloadModel& workload = subject.workload;
  const GpuModel& gpu = subject.gpu;
  std::vector<std::string> lines{
      "SYNTHETIC profile: computed from a model of the GPU, not measured. docs/profiles.md describes the model, what",
      "it is calibrated to, and what it is not.",
      "Workload: " + workload.title + ".",
      fmt::format("GPU: {}; one GPU of each of {} stages{}.", gpu.title, request.stages,
                  workload.tensor_parallel > 1 ? fmt::format(", tensor parallel {}", workload.tensor_parallel) : ""),
      fmt::format("Layers of the stages: [{}], {}.", fmt::join(bounds, ", "),
                  published ? "as published (" + workload.source + ")" : "split for the shortest longest stage"),
  };
  lines.emplace_back(
      workload.fitted
          ? "Shares and powers were set by hand for this workload on this GPU (there, \"What was set by hand\")."
          : "No energy published for this workload on this GPU went into it.");
  if (workload.power_scale) {
    lines.emplace_back(
        "An iteration at maximum clocks takes the time and the energy of a measured one, to which both were");
    lines.emplace_back("fitted (there, \"Fitted to measured iterations\").");
  }
  if (workload.microbatches > 0) {
    lines.push_back(
        fmt::format("Published run: {} microbatches of {} samples.", workload.microbatches, workload.microbatch_size));
  }
  lines.push_back(fmt::format("Blocking power: {:.0f} W.", gpu.blocking.value()));
  std::string limited;
  if (request.power_limit) {
    const double watts = request.power_limit->value();
    lines.push_back(
        fmt::format("Power limit: {:g} W; above the clock at which an operation draws as much, a higher one", watts));
    lines.emplace_back("changes nothing.");
    limited = fmt::format(" --power-limit {:g}", watts);
  }
  lines.push_back(
      fmt::format("Made by: flyball profile synth --gpu {} --workload {} --stages {} --noise {} --seed {}{}", gpu.name,
                  workload.name, request.stages, 100.0 * request.noise_relative, request.seed, limited));
  lines.emplace_back("Units: frequency MHz, time s, energy J.");
  return lines;
}

}  // namespace

SynthProfile synthesize_profile(const SynthRequest& request) {
  GpuModel gpu = load_gpu_model(request.gpu);
  WorkloadModel workload = load_workload_model(request.workload, gpu);
  if (request.power_limit) {
    // The scale of all powers comes after the GPU's model.
    const double scale = workload.power_scale.value_or(1.0);
    gpu.power_limit = *request.power_limit / scale;
    if (!(*gpu.power_limit > gpu.busy)) {
      throw UsageError(fmt::format(
          "a power limit of {:g} W: {} draws {:.4g} W while it computes, whatever the clock; choose a higher "
          "limit (its own is {:g} W)",
          request.power_limit->value(), gpu.name, scale * gpu.busy.value(), gpu.limit.value()));
    }
  }
  const Subject subject{std::move(gpu), std::move(workload)};
  const std::vector<Layer>& layers = subject.workload.layers;
  if (request.stages < 1 || static_cast<std::size_t>(request.stages) > layers.size()) {
    throw UsageError(fmt::format("{} stages asked for: '{}' has {} layers, so choose 1 to {}", request.stages,
                                 subject.workload.name, layers.size(), layers.size()));
  }
  if (!(request.noise_relative >= 0.0 && request.noise_relative <= kLargestNoise)) {
    throw UsageError(fmt::format("relative noise {} is outside 0 to {}", request.noise_relative, kLargestNoise));
  }

  SynthProfile result;
  const PublishedPartition* published = subject.workload.published(request.stages);
  result.bounds = published != nullptr ? published->bounds : balanced_bounds(layers, request.stages);
  result.blocking = subject.gpu.blocking;
  result.microbatches = subject.workload.microbatches;
  result.comment = describe(subject, request, result.bounds, published != nullptr);
  result.profile.source = fmt::format("synthetic {} on {}", subject.workload.name, subject.gpu.name);
  result.profile.stages = request.stages;
  for (int stage = 0; stage < request.stages; ++stage) {
    const auto at = static_cast<std::size_t>(stage);
    Seconds forward;
    for (int i = result.bounds[at]; i < result.bounds[at + 1]; ++i) {
      forward += layers[static_cast<std::size_t>(i)].forward;
    }
    const Seconds backward = forward * subject.workload.backward_ratio;
    result.profile.operations.push_back(sweep(subject, request, stage, "forward", subject.workload.forward, forward));
    result.profile.operations.push_back(
        sweep(subject, request, stage, "backward", subject.workload.backward, backward));
  }
  return result;
}

std::string synthesize_layer_times(std::string_view gpu_name, std::string_view workload_name) {
  const GpuModel gpu = load_gpu_model(gpu_name);
  const WorkloadModel workload = load_workload_model(workload_name, gpu);
  std::string text = "# SYNTHETIC layer times: computed from a model, not measured (docs/profiles.md).\n";
  text +=
      fmt::format("# Workload {} on {}: forward of one microbatch at the maximum clock, s.\n", workload.name, gpu.name);
  for (const PublishedPartition& partition : workload.partitions) {
    if (partition.imbalance == 0.0) continue;
    text += fmt::format("# Published for {} stages: [{}], imbalance {:.2f} ({}).\n", partition.bounds.size() - 1,
                        fmt::join(partition.bounds, ", "), partition.imbalance, workload.source);
  }
  text += "layer,kind,time\n";
  for (std::size_t i = 0; i < workload.layers.size(); ++i) {
    text += fmt::format("{},{},{:.6g}\n", i, workload.layers[i].kind, workload.layers[i].forward.value());
  }
  return text;
}

std::vector<std::string> synth_gpus() { return gpu_models(); }
std::vector<std::string> synth_workloads() { return workload_models(); }

}  // namespace flyball
