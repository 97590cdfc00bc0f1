// The run is changed with the models' parameters in the middle of their ranges, and once more for each end of each
// range; what these forecasts differ by widens the interval.
#include "forecast/run_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/error.h"
#include "forecast/run_interval.h"
#include "forecast/samples.h"

namespace flyball {
namespace {

struct ParameterRange {
  double low;
  double middle;
  double high;
};

// By which power of the number of nodes all-reduces grow beyond a ring's, from 6 to 16 nodes: -0.06, 0.14, 0.16, 0.23
// and 0.41. The range is that of the next such model at 90 %, by Student's t.
constexpr ParameterRange kBeyondRing{-0.23, 0.17, 0.58};
// The share of a step that does not depend on the batch, at the largest batch of one GPU: 0.059, 0.135, 0.135, 0.332
// and 0.694; the median, and the whole range since these are skewed.
constexpr ParameterRange kFixedShare{0.0, 0.135, 0.69};
constexpr double kRangeConfidence = 0.9;
// How far a measured all-reduce usually lies from a ring's fit to others of the same run.
constexpr double kUsualDeviation = 0.25;
constexpr double kDeviationWeight = 2.0;  // in measurements

struct Assumption {
  double beyond_ring = kBeyondRing.middle;
  double fixed_share = kFixedShare.middle;
};

bool of_a_batch(TrainingStage stage) { return usual_occurrence(stage) == Occurrence::kIteration; }

bool depends_on_batch(TrainingStage stage) {
  return of_a_batch(stage) && stage != TrainingStage::kCommunication && stage != TrainingStage::kWait &&
         stage != TrainingStage::kUpdate;
}

void scale(StageMeasurement& stage, double factor) {
  for (Seconds& time : stage.times) time = factor * time;
  for (auto& own : stage.recorded) {
    for (Joules& joules : own) joules = factor * joules;
  }
}

double batch_of_all(const RunDescription& run) { return run.samples / run.iterations_per_epoch(); }

// How the all-reduce changes from the measured number of nodes.
class AllReduceGrowth {
 public:
  explicit AllReduceGrowth(const RunDescription& run) : from_(static_cast<double>(run.nodes())) {
    if (run.all_reduces.empty()) return;
    fit_ = fit_ring(run.all_reduces);
    for (const AllReduceTime& one : run.all_reduces) most_ = std::max(most_, one.nodes);
  }

  [[nodiscard]] bool fitted() const { return fit_.has_value(); }
  [[nodiscard]] const RingFit& fit() const { return *fit_; }

  // Returns the time on `to` nodes over that on the measured number.
  [[nodiscard]] double factor(double to, double beyond_ring) const {
    if (to < 2.0) return 0.0;
    if (!fit_) return ring_growth(from_, to) * std::pow(to / from_, beyond_ring);
    return fit_->time(to) / fit_->time(from_) * beyond(to, beyond_ring);
  }
  // Returns the time on `to` nodes, for a run that was measured on one.
  [[nodiscard]] Seconds time(double to, double beyond_ring) const { return beyond(to, beyond_ring) * fit_->time(to); }

 private:
  // A fit has the steps that a power of the number of nodes stands for otherwise, so that the middle adds nothing to
  // it. The ends of the range are off by the deviation of the fit and, beyond the greatest measured number, by the
  // power.
  [[nodiscard]] double beyond(double to, double beyond_ring) const {
    const double end = (beyond_ring < kBeyondRing.middle ? kBeyondRing.low : kBeyondRing.high) - kBeyondRing.middle;
    const double farther = to > most_ ? end * std::log(to / most_) : 0.0;
    const double off = std::hypot(farther, normal_quantile(0.5 + 0.5 * kRangeConfidence) * fit_->deviation);
    return std::exp((beyond_ring - kBeyondRing.middle) / std::abs(end) * off);
  }

  double from_;
  std::optional<RingFit> fit_;
  int most_ = 0;
};

void change_communication(RunDescription& run, const AllReduceGrowth& growth, double from, double to,
                          double beyond_ring) {
  for (NodeType& type : run.node_types) {
    StageMeasurement& stage = type.stage(TrainingStage::kCommunication);
    if (from > 1.0) {
      scale(stage, growth.factor(to, beyond_ring));
      continue;
    }
    if (!stage.stated) stage.where = type.where;
    stage.stated = true;
    stage.occurrence = Occurrence::kIteration;
    stage.times = {growth.time(to, beyond_ring)};
    stage.recorded = {};
    set_usual_activity(type, type.has(Component::kAccelerator));
  }
}

RunDescription changed(RunDescription run, const RunChange& question, const Assumption& assumed) {
  const double nodes = static_cast<double>(run.nodes());
  const double iterations = run.iterations_per_epoch();
  const AllReduceGrowth growth(run);
  for (std::size_t t = 0; t < question.counts.size(); ++t) {
    if (question.counts[t]) run.node_types[t].count = *question.counts[t];
  }
  const double batch = question.global_batch ? *question.global_batch / batch_of_all(run) : 1.0;
  for (NodeType& type : run.node_types) type.batch *= batch;
  const double more = run.iterations_per_epoch() / iterations;
  for (NodeType& type : run.node_types) {
    for (std::size_t s = 0; s < kTrainingStages; ++s) {
      const auto which = static_cast<TrainingStage>(s);
      StageMeasurement& stage = type.stages[s];
      if (of_a_batch(which) && stage.occurrence != Occurrence::kIteration) scale(stage, more);
      if (depends_on_batch(which)) scale(stage, assumed.fixed_share + (1.0 - assumed.fixed_share) * batch);
    }
  }
  const double to = static_cast<double>(run.nodes());
  if (to != nodes) change_communication(run, growth, nodes, to, assumed.beyond_ring);
  return run;
}

bool wait_is_measured(const RunDescription& run) {
  return std::any_of(run.node_types.begin(), run.node_types.end(),
                     [](const NodeType& type) { return type.stage(TrainingStage::kWait).stated; });
}

Seconds mean_wait(const RunForecast& forecast, std::int64_t nodes) {
  Seconds sum(0);
  for (const NodeTypeForecast& type : forecast.node_types) sum += type.count * type.wait;
  return sum / static_cast<double>(nodes);
}

// Takes the measured waits out, and returns the spread that stands for them where none is stated.
std::optional<double> derive_wait(RunDescription& run, double confidence) {
  const Seconds measured = mean_wait(forecast_run(run, confidence), run.nodes());
  for (NodeType& type : run.node_types) type.stage(TrainingStage::kWait) = {};
  const bool stated = std::any_of(run.node_types.begin(), run.node_types.end(),
                                  [](const NodeType& type) { return type.spread.has_value(); });
  if (stated || run.nodes() == 1) return std::nullopt;
  const auto with_spread = [&run](double spread) {
    RunDescription copy = run;
    for (NodeType& type : copy.node_types) type.spread = spread;
    return copy;
  };
  double low = 0.0;
  double high = 0.5;  // the most that RUN.toml may state
  for (int round = 0; round < 16; ++round) {
    const double middle = 0.5 * (low + high);
    const bool less = mean_wait(forecast_run(with_spread(middle), confidence), run.nodes()) < measured;
    (less ? low : high) = middle;
  }
  run = with_spread(0.5 * (low + high));
  return 0.5 * (low + high);
}

std::string in_milliseconds(Seconds time) { return fmt::format("{:.3g} ms", 1e3 * time.value()); }

Seconds communication_of(const RunDescription& run) {
  Seconds longest(0);
  for (const NodeType& type : run.node_types) {
    const StageMeasurement& stage = type.stage(TrainingStage::kCommunication);
    if (!stage.stated) continue;
    const double times = stage.occurrence == Occurrence::kIteration ? 1.0 : run.iterations_per_epoch();
    longest = std::max(longest, mean_of(stage.times) / times);
  }
  return longest;
}

void note_nodes(const RunDescription& before, const RunChange& question, ChangedRun& result) {
  const double to = static_cast<double>(result.run.nodes());
  const auto at = [&](double beyond_ring) {
    Assumption assumed;
    assumed.beyond_ring = beyond_ring;
    return communication_of(changed(before, question, assumed));
  };
  const AllReduceGrowth growth(before);
  std::string text =
      fmt::format("communication: {} on {} nodes", in_milliseconds(communication_of(before)), before.nodes());
  text += fmt::format(", {} on {}", in_milliseconds(communication_of(result.run)), to);
  const Seconds low = at(kBeyondRing.low);
  const Seconds high = at(kBeyondRing.high);
  if (high > low * (1.0 + 1e-9) || low > high * (1.0 + 1e-9)) {
    text += fmt::format(" ({} to {})", in_milliseconds(std::min(low, high)), in_milliseconds(std::max(low, high)));
  }
  text += growth.fitted()
              ? fmt::format(": a ring, fitted to [all_reduce] ({} a step)", in_milliseconds(growth.fit().step))
              : std::string(": a ring's, and growth beyond it as five other models had");
  result.notes.push_back(std::move(text));
}

}  // namespace

double ring_growth(double from, double to) { return (to - 1.0) / to / ((from - 1.0) / from); }

namespace {

RingFit least_squares(const std::vector<AllReduceTime>& measured) {
  // Minimises sum of (a x + b y - 1)^2 with x = 2 (n-1) / t and y = 2 (n-1) / (n t).
  double xx = 0.0;
  double xy = 0.0;
  double yy = 0.0;
  double x1 = 0.0;
  double y1 = 0.0;
  for (const AllReduceTime& one : measured) {
    const double x = 2.0 * (one.nodes - 1.0) / one.time.value();
    const double y = x / one.nodes;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (determinant > 1e-12 * xx * yy) {
    const double a = (yy * x1 - xy * y1) / determinant;
    const double b = (xx * y1 - xy * x1) / determinant;
    if (a >= 0.0 && b >= 0.0) return {Seconds(a), Seconds(b), 0.0};
    if (b < 0.0) return {Seconds(x1 / xx), Seconds(0), 0.0};
  }
  return {Seconds(0), Seconds(y1 / yy), 0.0};
}

}  // namespace

RingFit fit_ring(const std::vector<AllReduceTime>& measured) {
  RingFit fit = least_squares(measured);
  double squares = kDeviationWeight * kUsualDeviation * kUsualDeviation;
  for (const AllReduceTime& one : measured) squares += std::pow(fit.time(one.nodes) / one.time - 1.0, 2);
  const auto count = static_cast<double>(measured.size());
  const double variance = squares / (kDeviationWeight + std::max(0.0, count - 2.0));
  fit.deviation = std::sqrt(variance * (1.0 + 1.0 / count));
  return fit;
}

ChangedRun change_run(const RunDescription& run, const RunChange& question, double confidence) {
  ChangedRun result;
  RunDescription before = run;
  std::int64_t nodes = 0;
  for (std::size_t t = 0; t < run.node_types.size(); ++t) {
    nodes += question.counts.empty() ? run.node_types[t].count : question.counts[t].value_or(run.node_types[t].count);
  }
  if (run.nodes() == 1 && nodes > 1 && run.all_reduces.empty()) {
    throw UsageError(
        fmt::format("--nodes {}: one measured node says nothing of communication; add [all_reduce] with "
                    "nodes = [2, 4] and milliseconds = [..., ...] to RUN.toml",
                    nodes));
  }
  if (question.global_batch && *question.global_batch > run.samples) {
    throw UsageError(
        fmt::format("--global-batch {:g}: the data set has {:g} samples", *question.global_batch, run.samples));
  }
  std::optional<double> derived;
  // With the same nodes and batches the measured wait holds.
  const bool other_batch = question.global_batch && std::abs(*question.global_batch / batch_of_all(run) - 1.0) > 1e-9;
  const bool measured_wait = wait_is_measured(run) && (nodes != run.nodes() || other_batch);
  if (measured_wait) derived = derive_wait(before, confidence);

  result.run = changed(before, question, {});
  result.forecast = forecast_run(result.run, confidence);
  const Joules energy = result.forecast.energy;
  double above = std::pow((result.forecast.interval.high - energy).value(), 2);
  double below = std::pow((energy - result.forecast.interval.low).value(), 2);
  const double wider = normal_quantile(0.5 + 0.5 * confidence) / normal_quantile(0.5 + 0.5 * kRangeConfidence);
  const std::array<Assumption, 4> ends = {
      Assumption{kBeyondRing.low, kFixedShare.middle}, Assumption{kBeyondRing.high, kFixedShare.middle},
      Assumption{kBeyondRing.middle, kFixedShare.low}, Assumption{kBeyondRing.middle, kFixedShare.high}};
  for (const Assumption& end : ends) {
    const double off = wider * (forecast_run(changed(before, question, end), confidence).energy - energy).value();
    (off > 0.0 ? above : below) += off * off;
  }
  result.forecast.interval = {confidence, std::max(Joules(0), energy - Joules(std::sqrt(below))),
                              energy + Joules(std::sqrt(above))};

  if (nodes != run.nodes() && communication_of(result.run) > Seconds(0)) note_nodes(before, question, result);
  if (derived) {
    result.notes.push_back(
        fmt::format("wait: {} nodes waited as if they differed by {:.2g} %, from which that of {} follows", run.nodes(),
                    100.0 * *derived, nodes));
  } else if (measured_wait) {
    result.notes.push_back(
        fmt::format("wait: the measured one is not that of {} nodes; it follows from spread", nodes));
  }
  if (question.global_batch) {
    result.notes.push_back(
        fmt::format("a node takes {:.6g} samples an iteration in place of {:.6g}: {:.3g} % of the time is taken not to "
                    "depend on them ({:.3g} to {:.3g} %)",
                    result.run.node_types.front().batch, run.node_types.front().batch, 100.0 * kFixedShare.middle,
                    100.0 * kFixedShare.low, 100.0 * kFixedShare.high));
  }
  if (std::abs(batch_of_all(result.run) / batch_of_all(run) - 1.0) > 1e-9) {
    result.notes.push_back(
        fmt::format("the global batch is {:.6g}, was {:.6g}: how many epochs it then takes to learn as much is not "
                    "forecast",
                    batch_of_all(result.run), batch_of_all(run)));
  }
  return result;
}

}  // namespace flyball
