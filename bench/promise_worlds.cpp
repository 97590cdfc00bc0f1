// What plans promise, and what trainings by them do in worlds that are not ideal: eight pipelines, every planner,
// several sets of boards. Virtual time: what else the machine does plays no part. Prints a Markdown table.
//
// Usage: promise_worlds [--seeds N] [--planner NAME] [--world N] [--switch-latency S] [--steps-per-clock N]
// [--iterations N] [--no-transfers] [--no-loading] [--no-lead] [--ideal]; exit status 1 where a promise is not kept:
// time or saving is more than a point off, or a planner that promises what maximum clocks take needs 1 % more than
// they. uniform and those of Zeus take the least energy, whatever the time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/virtual_training.h"

namespace flyball::testing {
namespace {

struct NamedWorld {
  const char* name;
  TrainingWorld world;
};

std::vector<NamedWorld> worlds() {
  // gpu, forwards, backwards, microbatches, transfers (2 ms within a socket, 10 ms across, 40 ms across nodes)
  std::vector<NamedWorld> all;
  const auto add = [&](const char* name, const char* gpu, std::vector<double> forward, std::vector<double> backward,
                       int microbatches, std::vector<double> transfer) {
    TrainingWorld world;
    world.gpu = gpu;
    world.forward_s = std::move(forward);
    world.backward_s = std::move(backward);
    world.microbatches = microbatches;
    world.transfer_s = std::move(transfer);
    all.push_back({name, std::move(world)});
  };
  add("2 stages, short", "a100", {0.02, 0.025}, {0.04, 0.05}, 8, {0.002});
  add("2 stages, long", "a100", {0.1, 0.12}, {0.25, 0.3}, 8, {0.010});
  add("4 stages, GPT-3 1.3B", "a100", {0.0444, 0.0444, 0.0518, 0.0474}, {0.1162, 0.1162, 0.1356, 0.1239}, 12,
      {0.002, 0.010, 0.002});
  add("4 equal stages, short", "a100", {0.02, 0.02, 0.02, 0.02}, {0.04, 0.04, 0.04, 0.04}, 8, {0.002, 0.010, 0.002});
  add("4 stages of A40, long", "a40", {0.094, 0.094, 0.094, 0.1}, {0.245, 0.245, 0.245, 0.26}, 12,
      {0.002, 0.015, 0.002});
  add("6 uneven stages", "a100", {0.03, 0.035, 0.03, 0.03, 0.03, 0.04}, {0.07, 0.08, 0.07, 0.07, 0.07, 0.1}, 12,
      {0.002, 0.002, 0.010, 0.002, 0.002});
  add("8 equal stages, short", "a100", std::vector<double>(8, 0.015), std::vector<double>(8, 0.03), 16,
      {0.002, 0.002, 0.002, 0.005, 0.002, 0.002, 0.002});
  add("8 stages of A40, two nodes", "a40", {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.11},
      {0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.27}, 16, {0.002, 0.005, 0.002, 0.040, 0.002, 0.005, 0.002});
  return all;
}

struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
};

Spread spread_of(const std::vector<double>& values) {
  Spread spread;
  for (const double value : values) spread.mean += value / static_cast<double>(values.size());
  for (const double value : values) spread.deviation += (value - spread.mean) * (value - spread.mean);
  const double degrees = std::max(1.0, static_cast<double>(values.size()) - 1.0);
  return {spread.mean, std::sqrt(spread.deviation / degrees)};
}

int run(int argc, char** argv) {
  int seeds = 3;
  bool ideal = false;
  bool clocks_ahead = true;
  bool transfers = true;
  bool loading = true;
  int steps_per_clock = 5;
  int iterations = 12;
  std::string only_planner;
  int only_world = 0;
  std::optional<Seconds> switch_latency;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--seeds" && i + 1 < argc) {
      seeds = std::max(1, std::atoi(argv[++i]));
    } else if (option == "--planner" && i + 1 < argc) {
      only_planner = argv[++i];
    } else if (option == "--world" && i + 1 < argc) {
      only_world = std::atoi(argv[++i]);
    } else if (option == "--switch-latency" && i + 1 < argc) {
      switch_latency = Seconds(std::atof(argv[++i]));
    } else if (option == "--steps-per-clock" && i + 1 < argc) {
      steps_per_clock = std::atoi(argv[++i]);
    } else if (option == "--iterations" && i + 1 < argc) {
      iterations = std::atoi(argv[++i]);
    } else if (option == "--no-transfers") {
      transfers = false;
    } else if (option == "--no-loading") {
      loading = false;
    } else if (option == "--no-lead") {
      clocks_ahead = false;
    } else if (option == "--ideal") {
      ideal = true;
    } else {
      std::fprintf(stderr, "promise_worlds: what is '%s'?\n", argv[i]);
      return 2;
    }
  }
  std::printf(
      "| pipeline | planner | slower %%, promised | measured | saving %%, promised | measured | worst off | kept |\n"
      "|---|---|--:|--:|--:|--:|--:|---|\n");
  bool all_kept = true;
  int number = 0;
  for (const NamedWorld& named : worlds()) {
    if (++number != only_world && only_world > 0) continue;
    for (const char* planner : {"perseus", "joint", "envpipe", "uniform", "zeus-global", "zeus-per-stage"}) {
      if (!only_planner.empty() && only_planner != planner) continue;
      std::vector<double> promised_slower;
      std::vector<double> promised_saving;
      std::vector<double> slower;
      std::vector<double> saving;
      double worst_time = 0.0;
      double worst_saving = 0.0;
      double slowest = 0.0;
      for (int seed = 1; seed <= seeds; ++seed) {
        TrainingWorld world = named.world;
        world.seed = ideal ? 0 : static_cast<std::uint32_t>(seed);
        world.switch_latency = switch_latency;
        world.clocks_ahead = clocks_ahead;
        world.steps_per_clock = steps_per_clock;
        if (!transfers) world.transfer_s.clear();
        if (!loading) world.load_s = 0.0;
        const PromiseFigures found = keep_promise(world, planner, iterations);
        promised_slower.push_back(found.promised_slower);
        promised_saving.push_back(found.promised_saving);
        slower.push_back(found.slower);
        saving.push_back(found.saving);
        slowest = std::max(slowest, found.slower);
        const double off = found.slower - found.promised_slower;
        if (std::abs(off) > std::abs(worst_time)) worst_time = off;
        const double less = found.saving - found.promised_saving;
        if (std::abs(less) > std::abs(worst_saving)) worst_saving = less;
      }
      const std::string_view name = planner;
      const bool keeps_time = name == "perseus" || name == "joint" || name == "envpipe";
      const bool kept = std::abs(worst_time) <= 1.0 && std::abs(worst_saving) <= 1.0 && (slowest <= 1.0 || !keeps_time);
      all_kept = all_kept && kept;
      const auto text = [](const Spread& spread) {
        return fmt::format("{:.2f} ± {:.2f}", spread.mean, spread.deviation);
      };
      std::printf("%s\n", fmt::format("| {} | {} | {} | {} | {} | {} | {:+.2f}, {:+.2f} | {} |", named.name, planner,
                                      text(spread_of(promised_slower)), text(spread_of(slower)),
                                      text(spread_of(promised_saving)), text(spread_of(saving)), worst_time,
                                      worst_saving, kept ? "yes" : "**no**")
                              .c_str());
      std::fflush(stdout);
    }
  }
  return all_kept ? 0 : 1;
}

}  // namespace
}  // namespace flyball::testing

int main(int argc, char** argv) {
  try {
    return flyball::testing::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "promise_worlds: %s\n", error.what());
    return 2;
  }
}
