// Daly's mean time is split into what is lost of the computing and what restarts take, since the two differ in power.
#include "forecast/interruptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>

#include "forecast/samples.h"

namespace flyball {
namespace {

// Beyond it, e^20 tries from one checkpoint to the next, the mean says nothing any more.
constexpr double kMostFailuresBetween = 20.0;

PerComponent<bool> components_at_work(const NodeType& type, const Pause& pause,
                                      std::initializer_list<Component> usual) {
  if (pause.active) return *pause.active;
  PerComponent<bool> active{};
  for (const Component component : usual) {
    const bool replaced = component == Component::kAccelerator && !type.has(component);
    active[index_of(replaced ? Component::kProcessor : component)] = true;
  }
  return active;
}

InterruptionForecast paused(const RunDescription& run, std::string name, const Pause& pause, double times, Seconds time,
                            std::initializer_list<Component> usual) {
  InterruptionForecast own{std::move(name), times, time, {}};
  for (const NodeType& type : run.node_types) {
    const PerComponent<bool> active = components_at_work(type, pause, usual);
    PerComponent<Joules> joules{};
    for (std::size_t c = 0; c < kComponents; ++c) {
      if (!type.components[c]) continue;
      joules[c] = type.count * ((active[c] ? type.components[c]->active : type.components[c]->idle) * time);
    }
    own.joules.push_back(joules);
  }
  return own;
}

// An interruption after the last iteration counts, one at a fraction of an iteration does not.
double times_of(const RunDescription& run, const Pause& pause, double iterations) {
  return std::floor(iterations / pause.every.value_or(run.iterations_per_epoch()) + 1e-9);
}

Seconds between_failures_of_job(const RunDescription& run) {
  return run.restarts->between_failures / static_cast<double>(run.nodes());
}

}  // namespace

Interruptions interruptions_of(const RunDescription& run, double iterations, Seconds time,
                               const std::vector<PerComponent<Watts>>& powers) {
  Interruptions all;
  const auto add = [&](const char* name, const std::optional<Pause>& pause, std::initializer_list<Component> usual) {
    if (!pause) return;
    const double times = times_of(run, *pause, iterations);
    all.list.push_back(paused(run, name, *pause, times, times * pause->time, usual));
    time += all.list.back().time;
  };
  add("checkpoint", run.checkpoint, {Component::kDisk, Component::kMemory});
  add("evaluation", run.evaluation, {Component::kAccelerator, Component::kMemory});
  if (!run.restarts || time <= Seconds(0)) return all;

  const Pause& restart = run.restarts->pause;
  const Seconds mean = between_failures_of_job(run);
  const double stretches = run.checkpoint ? std::max(1.0, iterations / *run.checkpoint->every) : 1.0;
  const double failures_between = time / stretches / mean;
  const double failures_in_restart = restart.time / mean;
  if (failures_between > kMostFailuresBetween || failures_in_restart > kMostFailuresBetween) {
    throw InputError(restart.where,
                     fmt::format("the job fails every {:.4g} h, and {:.4g} h pass {}: it would hardly ever end",
                                 mean.value() / 3600.0, std::max(time / stretches, restart.time).value() / 3600.0,
                                 failures_between > kMostFailuresBetween
                                     ? run.checkpoint ? "between two checkpoints" : "without a checkpoint"
                                     : "in a restart"),
                     run.checkpoint ? "make checkpoints more often, or correct node_hours_between_failures"
                                    : "add [checkpoint] with every = 1000 and seconds = 30");
  }
  // Failures of computing, each of which may be followed by failures of its restarts.
  const double failures = stretches * std::expm1(failures_between);
  const Seconds lost = std::max(Seconds(0), failures * mean - time);  // rounding may put it below
  const Seconds restarts = failures * std::expm1(failures_in_restart) * mean;
  InterruptionForecast repeated{"repeated_work", failures, lost, {}};
  Watts computing(0);
  for (const PerComponent<Watts>& own : powers) {
    PerComponent<Joules> joules{};
    for (std::size_t c = 0; c < kComponents; ++c) {
      joules[c] = own[c] * lost;
      computing += own[c];
    }
    repeated.joules.push_back(joules);
  }
  all.list.push_back(std::move(repeated));
  all.list.push_back(paused(run, "restart", restart, failures * std::exp(failures_in_restart), restarts,
                            {Component::kDisk, Component::kMemory}));
  const Joules restarting = all.list.back().energy();
  all.lost = computing * lost + restarting;
  // Variance of a compound Poisson sum: so many failures, each with an even share of a stretch and a restart.
  const double whole = (computing * (time / stretches)).value();
  const double each = restarts > Seconds(0) ? restarting.value() * (restart.time / restarts) : 0.0;
  all.failure_deviation = Joules(std::sqrt(failures * (whole * whole / 3.0 + whole * each + each * each)));
  return all;
}

std::optional<std::string> sentence_on_failures(const RunDescription& run, const RunForecast& forecast) {
  if (!run.restarts) return std::nullopt;
  const Seconds mean = between_failures_of_job(run);
  const Seconds iteration = forecast.node_types.front().iteration;
  std::string text = fmt::format("{} nodes fail every {:.3g} h together: {:.3g} failures are to be expected",
                                 run.nodes(), mean.value() / 3600.0, forecast.duration / mean);
  if (run.checkpoint && run.checkpoint->time > Seconds(0) && iteration > Seconds(0)) {
    const Seconds best(std::sqrt(2.0 * run.checkpoint->time.value() * mean.value()));
    text += fmt::format("; a checkpoint every {:.0f} iterations would lose the least time (Young 1974)",
                        std::max(1.0, std::round(best / iteration)));
  }
  return text;
}

}  // namespace flyball
