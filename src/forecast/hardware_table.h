// Published figures that an estimate before any measurement rests on: what GPUs can do and draw, and how far whole
// runs, power at load, nodes and sites differ. docs/forecast-estimates.md says where each was read, and when.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/units.h"

namespace flyball {

struct TrainingGpu {
  std::string_view name;             // as a user writes it: "h100"
  std::string_view board;            // "NVIDIA H100 SXM5 80 GB"
  double peak_flops;                 // per second, dense, with 16-bit factors on the matrix units
  Watts limit;                       // the board's default power limit
  std::optional<double> load_share;  // measured power while training over the limit, of this model
  std::string_view source;
};

// A whole training run with its published hours. Runs of one family count as one figure.
struct PublishedRun {
  std::string_view family;
  std::string_view name;
  double parameters;
  double tokens;
  double gpu_hours;
  double peak_flops;
  std::string_view source;

  // Share of the peak that 6 N D operations in these hours are.
  [[nodiscard]] constexpr double utilization() const {
    return 6.0 * parameters * tokens / (gpu_hours * 3600.0 * peak_flops);
  }
};

struct PublishedFigure {
  std::string_view name;
  double value;
  std::string_view source;
};

// What was emitted to make hardware, spread over its life.
struct EmbodiedCarbon {
  double server_kg;  // without its GPUs
  double gpu_kg;
  double gpus_per_server;
  double life_years;
  double use;  // share of its life in which it works
  std::string_view source;

  [[nodiscard]] constexpr double kg_per_gpu_hour() const {
    return (server_kg / gpus_per_server + gpu_kg) / (life_years * 365.0 * 24.0 * use);
  }
};

// The mean carbon intensity of a country's electricity.
struct RegionIntensity {
  std::string_view code;  // ISO 3166, three letters
  std::string_view name;
  double grams_per_kwh;
};

[[nodiscard]] std::span<const TrainingGpu> training_gpus();
[[nodiscard]] std::span<const PublishedRun> calibrating_runs();
[[nodiscard]] std::span<const PublishedFigure> load_shares();   // GPU power while training over its limit
[[nodiscard]] std::span<const PublishedFigure> node_factors();  // node's power over that of its GPUs
[[nodiscard]] std::span<const PublishedFigure> site_pues();     // power usage effectiveness
[[nodiscard]] const EmbodiedCarbon& published_embodied_carbon();
[[nodiscard]] std::span<const RegionIntensity> region_intensities();
[[nodiscard]] std::string_view region_source();

// Returns the model or region of that name, in any case of letters; null where there is none.
[[nodiscard]] const TrainingGpu* find_gpu_model(std::string_view name);
[[nodiscard]] const RegionIntensity* find_region(std::string_view code_or_name);

}  // namespace flyball
