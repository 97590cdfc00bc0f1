// Runs the parts of the fit in the order in which they need one another, and writes the fitted model as files.
#include "replay/fit_iteration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/counted.h"
#include "base/error.h"
#include "base/index.h"
#include "replay/fit_powers.h"
#include "replay/fit_times.h"

namespace flyball {
namespace {

// A table of the pipeline file; empty where nothing takes time.
std::string constant_table(const std::string& name, const std::vector<Fitted>& times, const std::string& place,
                           const std::string& further = "") {
  constexpr double kLeastSeconds = 1e-9;
  std::vector<std::string> numbers;
  std::vector<std::string> deviations;
  bool any = false;
  for (const Fitted& time : times) {
    any = any || time.value >= kLeastSeconds;
    numbers.push_back(time.value >= kLeastSeconds ? fmt::format("{:.6g}", time.value) : "0");
    deviations.push_back(fmt::format("{:.2g}", time.deviation));
  }
  if (!any) return "";
  const bool several = numbers.size() > 1;
  return fmt::format("\n[{}]\n# standard deviations{}: {}\ntime = {}{}{}\n{}", name, several ? ", " + place : "",
                     fmt::join(deviations, ", "), several ? "[" : "", fmt::join(numbers, ", "), several ? "]" : "",
                     further);
}

}  // namespace

IterationModel fit_iteration(const RecordedIteration& iteration, const std::vector<std::size_t>& points) {
  const RecordedRuns& runs = iteration.runs();
  if (points.size() < kLeastPoints) {
    throw InputError({runs.source},
                     fmt::format("there are {} to fit to, {} are needed",
                                 counted(static_cast<long>(points.size()), "point"), kLeastPoints),
                     "record more plans with other clocks, after those that warm up");
  }
  IterationModel model;
  model.instructions = runs.instructions;
  model.top = runs.top;
  for (const std::size_t p : points) model.points.push_back(runs.points[p].number);
  fit_operations(iteration, points, model);
  fit_loading(iteration, points, model);
  fit_transfers(iteration, points, model);
  fit_powers(iteration, points, model);
  model.time_constants = runs.stages;  // a transfer per link, and the part once per iteration
  return model;
}

std::string fitted_profile(const RecordedIteration& iteration, const IterationModel& model) {
  const RecordedRuns& runs = iteration.runs();
  std::string text = fmt::format(
      "# fitted to {} of {}\n"
      "# time_sd and energy_sd: standard deviations of the mean\n"
      "stage,instruction,frequency,time,energy,time_sd,energy_sd\n",
      counted(static_cast<long>(model.points.size()), "point"), runs.source);
  for (int stage = 0; stage < runs.stages; ++stage) {
    for (int k = 0; k < static_cast<int>(model.instructions.size()); ++k) {
      for (const Microbatches of : {Microbatches::kAll, Microbatches::kFirst, Microbatches::kLast}) {
        const Fitted ratio = model.own[model.place(stage, k)].of(of);
        if (of != Microbatches::kAll && ratio.value == 1.0) continue;
        for (const ClockCost& cost : model.costs[model.place(stage, k)]) {
          const Seconds time = ratio.value * cost.time;
          const double time_deviation =
              std::hypot((ratio.value * cost.time_deviation).value(), (ratio.deviation * cost.time).value());
          const double energy_deviation =
              std::hypot((cost.power_deviation * time).value(), cost.power.value() * time_deviation);
          fmt::format_to(std::back_inserter(text), "{},{},{},{:.6g},{:.6g},{:.3g},{:.3g}\n", stage,
                         own_name(model.instructions[at(k)], of), cost.clock.value(), time.value(),
                         (cost.power * time).value(), time_deviation, energy_deviation);
        }
      }
    }
    for (const WaitingPower& waiting : model.waiting[at(stage)]) {
      fmt::format_to(std::back_inserter(text), "{},waiting,{},1,{:.6g},0,{:.3g}\n", stage, waiting.clock.value(),
                     waiting.power.value(), waiting.deviation.value());
    }
  }
  return text;
}

std::string fitted_pipeline(const RecordedIteration& iteration, const IterationModel& model) {
  const RecordedRuns& runs = iteration.runs();
  std::string text = fmt::format("# fitted to {} of {}\nschedule = \"{}\"\nstages = {}\nmicrobatches = {}\n",
                                 counted(static_cast<long>(model.points.size()), "point"), runs.source,
                                 schedule_name(iteration.schedule()), runs.stages, runs.microbatches);
  text += constant_table("p2p", model.transfer, "per link", "occupies = \"both\"\n");
  text += constant_table("data_load", model.loading, "per stage");
  text += constant_table("optimizer_step", {model.once}, "");
  return text;
}

}  // namespace flyball
