// Estimates what a training will take before anything is measured, as a range, from the model, its tokens and the GPUs.
//
// Time is 6 N D floating-point operations (Kaplan et al. 2020, arXiv 2001.08361, section 2.1) over what the GPUs can do
// times the share of it that the training uses (MFU). Energy is time by the GPUs' power at load, times what the node
// draws beside them, times the site's PUE. Each of the four factors has a middle value and a spread from published
// figures (hardware_table.h), or the user's value and no spread.
//
// The range. The logarithms of a table's n figures are taken to be normal, so that the next figure lies within
// t(n-1) s sqrt(1 + 1/n) of their mean. Half widths of independent factors add up by their squares. For 6 N D to hold,
// sequences must be short against 12 times the model's width; mixtures of experts count the active parameters.
//
// All functions are pure. Cost: some microseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "forecast/hardware_table.h"

namespace flyball {

struct EstimateRequest {
  const TrainingGpu* gpu = nullptr;
  std::int64_t gpus = 1;
  double parameters = 0.0;                  // N; of a mixture of experts all of them
  std::optional<double> active_parameters;  // that a token uses, in place of N
  double tokens = 0.0;                      // D
  bool recompute = false;             // the forward is computed twice, 8 N D; `utilization` then counts both (HFU)
  std::optional<double> utilization;  // of the whole run, restarts included
  std::optional<Watts> power;         // of a GPU at load
  std::optional<double> node_factor;  // node's power over its GPUs', from 1
  std::optional<double> pue;          // from 1
  double confidence = 0.9;            // in (0, 1)
};

// A value, and the ends of the range that holds it with the asked confidence; all three the same where it was stated.
struct ValueRange {
  double low = 0.0;
  double middle = 0.0;
  double high = 0.0;
};

struct EstimateFactor {
  ValueRange range;
  std::string from;  // "stated", or what it rests on
};

struct Estimate {
  EstimateRequest request;
  double operations = 0.0;
  EstimateFactor utilization, power_w, node_factor, pue;
  ValueRange gpu_hours;
  ValueRange seconds;   // with all GPUs
  ValueRange gpu_kwh;   // the GPUs alone
  ValueRange node_kwh;  // with host, network cards, fans and power supplies
  ValueRange site_kwh;  // with cooling and distribution
};

[[nodiscard]] Estimate estimate_run(const EstimateRequest& request);

// Returns a run description (docs/formats/run.md) whose stages and powers are the estimate's middle, with comments that
// say so. Its forecast takes the estimate's energy without PUE. `sequence` is how many tokens a sample has, `batch` how
// many samples an iteration takes on all nodes.
[[nodiscard]] std::string estimated_run_text(const Estimate& estimate, std::int64_t sequence, std::int64_t batch);

}  // namespace flyball
