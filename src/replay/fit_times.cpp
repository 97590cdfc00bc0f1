// Operations. The mean time per clock, the latency of a clock change and the ratio of first microbatches to others are
// estimated in turn, from one another, until they agree. An operation that follows one of another clock runs at that
// other clock for the latency, and so takes t(c) + latency * (1 - t(c) / t(before)), in which all but the latency is
// known.
//
// Transfers. An iteration's time is piecewise linear and convex in the times of the links. Its derivative by a link's
// time is the number of that link's transfers on the critical path. Of a link for which no point waits at the values
// that are tried first the derivatives say nothing, though a point may wait for it where it is longer. So each link is
// also tried at longer times, and the search goes on from the best of them.
#include "replay/fit_times.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "base/index.h"
#include "replay/least_squares.h"

namespace flyball {
namespace {

using Part = RecordedIteration::Part;

struct Sample {
  std::size_t point = 0;
  Megahertz clock;
  Megahertz before;  // the clock of the operation before
  double seconds = 0.0;
  Microbatches of = Microbatches::kAll;
};

// Per stage and instruction.
using Samples = std::vector<std::vector<Sample>>;

Samples samples_of(const RecordedIteration& iteration, const std::vector<std::size_t>& points,
                   const IterationModel& model) {
  const RecordedRuns& runs = iteration.runs();
  Samples samples(model.place(runs.stages, 0));
  for (int i = 0; i < iteration.dag().size(); ++i) {
    const RecordedIteration::Node& node = iteration.node(i);
    if (node.part != Part::kComputation) continue;
    const std::size_t before = iteration.node(node.before).index;
    for (const std::size_t p : points) {
      const RecordedPoint& point = runs.points[p];
      samples[model.place(node.stage, node.place)].push_back(
          {p, point.clock[node.index], point.clock[before], point.taken[node.index].value(), node.of});
    }
  }
  return samples;
}

bool is_first(const Sample& sample) { return sample.of == Microbatches::kFirst; }

using ByClock = std::map<Megahertz, std::vector<const Sample*>, std::greater<>>;

// Samples of first microbatches are in only where nothing else ran at their clock.
ByClock by_clock(const std::vector<Sample>& samples) {
  ByClock groups;
  for (const Microbatches of : {Microbatches::kAll, Microbatches::kLast, Microbatches::kFirst}) {
    for (const Sample& sample : samples) {
      if (sample.of != of) continue;
      if (of == Microbatches::kFirst && groups.contains(sample.clock) && !is_first(*groups[sample.clock].front())) {
        continue;
      }
      groups[sample.clock].push_back(&sample);
    }
  }
  return groups;
}

// How much of the latency shows in the sample's time.
double late_share(const IterationModel& model, int stage, int instruction, const Sample& sample) {
  const Seconds own = model.time(stage, instruction, sample.clock);
  return 1.0 - own / model.time(stage, instruction, sample.before);
}

double late(const IterationModel& model, int stage, int instruction, const Sample& sample) {
  return model.latency.value * late_share(model, stage, instruction, sample);
}

// What the sample would have taken at its clock alone, and of a microbatch between if it is of an end.
double alone(const IterationModel& model, int stage, int instruction, const Sample& sample, const OwnRatios& ends) {
  return (sample.seconds - late(model, stage, instruction, sample)) / ends.of(sample.of).value;
}

// Means by clock. The first round knows no costs and takes the times as they are.
std::vector<ClockCost> mean_times(const IterationModel& model, int stage, int instruction, const ByClock& groups,
                                  const OwnRatios& ends) {
  const bool begun = !model.costs[model.place(stage, instruction)].empty();
  std::vector<ClockCost> costs;
  for (const auto& [clock, group] : groups) {
    double sum = 0.0;
    for (const Sample* sample : group) {
      sum += begun ? alone(model, stage, instruction, *sample, ends) : sample->seconds;
    }
    costs.push_back({clock, Seconds(sum / static_cast<double>(group.size())), {}, {}, {}});
  }
  return costs;
}

// Calls `visit` with stage, instruction and place of each.
template <class Visit>
void for_each_place(const IterationModel& model, int stages, const Visit& visit) {
  for (int stage = 0; stage < stages; ++stage) {
    for (int k = 0; k < static_cast<int>(model.instructions.size()); ++k) visit(stage, k, model.place(stage, k));
  }
}

// The logarithms of the times of first or last microbatches over those of the others, a mean for each clock of both.
std::vector<double> logarithms_of(const IterationModel& model, int stage, int instruction, Microbatches of,
                                  const std::vector<Sample>& samples, const ByClock& groups) {
  std::map<Megahertz, std::pair<double, int>> sums;
  for (const Sample& sample : samples) {
    if (sample.of != of || groups.at(sample.clock).front()->of != Microbatches::kAll) continue;
    const double own = sample.seconds - late(model, stage, instruction, sample);
    auto& [sum, count] = sums[sample.clock];
    sum += std::log(own / model.time(stage, instruction, sample.clock).value());
    ++count;
  }
  std::vector<double> means;
  for (const auto& [clock, one] : sums) means.push_back(one.first / one.second);
  return means;
}

// Fills the ratios of one end of an instruction, those that the model has and those by which the others' times are told
// from an end's at clocks at which nothing else ran: where a stage does not tell, of all stages together.
void fit_end(IterationModel& model, int stages, int instruction, Microbatches of, const Samples& samples,
             const std::vector<ByClock>& groups, std::vector<OwnRatios>& ends) {
  const auto place_of = [of](OwnRatios& ratios) -> Fitted& {
    return of == Microbatches::kFirst ? ratios.first : ratios.last;
  };
  double sum = 0.0;
  std::size_t count = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const std::size_t place = model.place(stage, instruction);
    const std::vector<double> means = logarithms_of(model, stage, instruction, of, samples[place], groups[place]);
    sum = std::accumulate(means.begin(), means.end(), sum);
    count += means.size();
    place_of(model.own[place]) = Fitted{1.0, 0.0};
    if (const auto apart = time_apart(means)) {
      const double ratio = std::exp(apart->logarithm);
      place_of(model.own[place]) = {ratio, ratio * apart->deviation};
    }
  }
  const double all = count > 0 ? std::exp(sum / static_cast<double>(count)) : 1.0;
  for (int stage = 0; stage < stages; ++stage) {
    const std::size_t place = model.place(stage, instruction);
    place_of(ends[place]) = place_of(model.own[place]);
    if (place_of(ends[place]).value == 1.0) place_of(ends[place]).value = all;
  }
}

// How far the points' means of a clock lie apart, relative to it, over all stages and clocks of an instruction. A
// second run lies as far from the first as one point from another, however often the operation repeats within a run.
double point_to_point(const IterationModel& model, int stages, int instruction, const std::vector<ByClock>& groups,
                      const std::vector<OwnRatios>& ends) {
  double squares = 0.0;
  long freedom = 0;
  double all_squares = 0.0;
  long all = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const std::size_t place = model.place(stage, instruction);
    for (const auto& [clock, group] : groups[place]) {
      const double time = model.time(stage, instruction, clock).value();
      std::map<std::size_t, std::pair<double, int>> sums;
      for (const Sample* sample : group) {
        const double off = alone(model, stage, instruction, *sample, ends[place]) / time - 1.0;
        auto& [sum, count] = sums[sample->point];
        sum += off;
        ++count;
        all_squares += off * off;
        ++all;
      }
      for (const auto& [point, one] : sums) squares += std::pow(one.first / one.second, 2);
      freedom += static_cast<long>(sums.size()) - 1;
    }
  }
  if (freedom > 0) return std::sqrt(squares / static_cast<double>(freedom));
  return all > 0 ? std::sqrt(all_squares / static_cast<double>(all)) : 0.0;
}

// The residuals: all points' times against what the model says, and priors that links take some 50 ms or less and are
// alike within 5 ms, and that the part once per iteration is about half a second or less. A prior that is missed by as
// much weighs no more than one point that is missed by 0.1 %: it decides where the data say nothing, above all between
// neighbours of which only the sum is known.
class IterationTimes final : public ceres::CostFunction {
 public:
  IterationTimes(const RecordedIteration& iteration, const std::vector<std::size_t>& points,
                 const IterationModel& model)
      : iteration_(&iteration), links_(iteration.runs().stages - 1) {
    ReplayParts parts;
    parts.transfers = parts.once = false;
    parts.measured_operations = true;
    for (const std::size_t p : points) {
      const RecordedPoint& point = iteration.runs().points[p];
      points_.push_back({point.time.value(), iteration.durations(model, point, parts)});
    }
    set_num_residuals(static_cast<int>(points.size()) + links_ + 2);
    mutable_parameter_block_sizes()->push_back(links_ + 1);
  }

  bool Evaluate(double const* const* parameters, double* residuals, double** jacobians) const override {
    const double* values = parameters[0];
    double* jacobian = jacobians == nullptr ? nullptr : jacobians[0];
    const int width = links_ + 1;
    if (jacobian != nullptr) std::fill_n(jacobian, num_residuals() * width, 0.0);
    for (std::size_t p = 0; p < points_.size(); ++p) {
      std::vector<Nanoseconds> durations = points_[p].durations;
      for (std::size_t i = 0; i < durations.size(); ++i) {
        const int k = parameter_of(static_cast<int>(i));
        if (k >= 0) durations[i] = to_nanoseconds(Seconds(values[k]));
      }
      const Timeline timeline = emulate(iteration_->dag(), durations);
      const double per_mille = 1e3 / points_[p].seconds;
      residuals[p] = to_seconds(timeline.makespan).value() * per_mille - 1e3;
      if (jacobian == nullptr) continue;
      for (const int i : critical_path(iteration_->dag(), timeline)) {
        const int k = parameter_of(i);
        if (k >= 0) jacobian[static_cast<int>(p) * width + k] += per_mille;
      }
    }
    double mean = 0.0;
    for (int k = 0; k < links_; ++k) mean += values[k] / links_;
    const int first = static_cast<int>(points_.size());
    const int mean_row = first + width;
    for (int k = 0; k < links_; ++k) residuals[first + k] = (values[k] - mean) / kAlike;
    residuals[first + links_] = values[links_] / kOnce;
    residuals[mean_row] = mean / kLink;
    if (jacobian == nullptr) return true;
    jacobian[(first + links_) * width + links_] = 1.0 / kOnce;
    for (int k = 0; k < links_; ++k) {
      jacobian[mean_row * width + k] = 1.0 / links_ / kLink;
      for (int other = 0; other < links_; ++other) {
        jacobian[(first + k) * width + other] = ((other == k ? 1.0 : 0.0) - 1.0 / links_) / kAlike;
      }
    }
    return true;
  }

 private:
  static constexpr double kLink = 0.05;    // s
  static constexpr double kAlike = 0.005;  // s
  static constexpr double kOnce = 0.5;     // s

  struct Measured {
    double seconds = 0.0;
    std::vector<Nanoseconds> durations;
  };

  // A transfer's link, the last one for the part once per iteration, -1 for what is known.
  [[nodiscard]] int parameter_of(int i) const {
    const RecordedIteration::Node& node = iteration_->node(i);
    if (node.part == Part::kTransfer) return node.place;
    return node.part == Part::kOnce ? links_ : -1;
  }

  const RecordedIteration* iteration_;
  int links_;
  std::vector<Measured> points_;
};

// Half the sum of squares.
double loss_at(const IterationTimes& cost, const std::vector<double>& values) {
  std::vector<double> residuals(at(cost.num_residuals()));
  const double* block = values.data();
  cost.Evaluate(&block, residuals.data(), nullptr);
  double squares = 0.0;
  for (const double residual : residuals) squares += residual * residual;
  return 0.5 * squares;
}

// Returns `begin` with the one link at the one time that explain the points best, or unchanged where no change of a
// single link explains them better than `least`.
std::vector<double> longer_link(const IterationTimes& cost, const std::vector<double>& begin, double least) {
  constexpr double kShortest = 0.002;  // s
  constexpr double kLongest = 0.5;
  constexpr double kFurther = 1.2;
  std::vector<double> values = begin;
  for (std::size_t k = 0; k + 1 < begin.size(); ++k) {
    for (double time = kShortest; time < kLongest; time *= kFurther) {
      std::vector<double> tried = begin;
      tried[k] = time;
      const double loss = loss_at(cost, tried);
      if (loss >= least) continue;
      least = loss;
      values = std::move(tried);
    }
  }
  return values;
}

}  // namespace

void fit_operations(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model) {
  constexpr int kRounds = 30;
  const int stages = iteration.runs().stages;
  const Samples samples = samples_of(iteration, points, model);
  std::vector<ByClock> groups;
  for (const auto& one : samples) groups.push_back(by_clock(one));
  model.costs.assign(samples.size(), {});
  model.latency = {};
  model.own.assign(samples.size(), {});
  std::vector<OwnRatios> ends(samples.size());
  double squares = 0.0;
  double weight = 0.0;
  long changes = 0;
  for (int round = 0; round < kRounds; ++round) {
    for_each_place(model, stages, [&](int stage, int k, std::size_t place) {
      model.costs[place] = mean_times(model, stage, k, groups[place], ends[place]);
    });
    double product = 0.0;
    weight = squares = 0.0;
    changes = 0;
    for_each_place(model, stages, [&](int stage, int k, std::size_t place) {
      for (const Sample& sample : samples[place]) {
        if (is_first(sample) || sample.before == sample.clock) continue;
        const double share = late_share(model, stage, k, sample);
        const double over = sample.seconds - model.time(stage, k, sample.clock, sample.of).value();
        product += share * over;
        weight += share * share;
        squares += std::pow(over - model.latency.value * share, 2);
        ++changes;
      }
    });
    // No time is negative, and times alone cannot tell a latency from none where no clock ever changes.
    model.latency.value = weight > 0.0 ? std::max(0.0, product / weight) : 0.0;
    for (int k = 0; k < static_cast<int>(model.instructions.size()); ++k) {
      for (const Microbatches of : {Microbatches::kFirst, Microbatches::kLast}) {
        fit_end(model, stages, k, of, samples, groups, ends);
      }
    }
  }
  if (changes > 1 && weight > 0.0) {
    model.latency.deviation = std::sqrt(squares / static_cast<double>(changes - 1) / weight);
  }

  for (int k = 0; k < static_cast<int>(model.instructions.size()); ++k) {
    const double apart = point_to_point(model, stages, k, groups, ends);
    for (int stage = 0; stage < stages; ++stage) {
      const std::size_t place = model.place(stage, k);
      for (ClockCost& cost : model.costs[place]) {
        std::map<std::size_t, int> seen;
        for (const Sample* sample : groups[place].at(cost.clock)) ++seen[sample->point];
        cost.time_deviation = cost.time * (apart / std::sqrt(static_cast<double>(seen.size())));
      }
    }
  }
}

void fit_loading(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model) {
  const RecordedRuns& runs = iteration.runs();
  for (int stage = 0; stage < runs.stages; ++stage) {
    double sum = 0.0;
    double squares = 0.0;
    double count = 0.0;
    for (const std::size_t p : points) {
      for (int m = 0; m < runs.microbatches; ++m) {
        const double seconds = runs.points[p].load[runs.load_index(stage, m)].value();
        sum += seconds;
        squares += seconds * seconds;
        count += 1.0;
      }
    }
    const double mean = sum / count;
    model.loading.push_back({mean, std::sqrt(std::max(0.0, squares / count - mean * mean) / count)});
  }
}

void fit_transfers(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model) {
  const int links = iteration.runs().stages - 1;
  std::vector<double> values(at(links), 0.003);
  values.push_back(0.05);
  // The problem owns the cost function and outlives its last use.
  auto* cost = new IterationTimes(iteration, points, model);
  ceres::Problem problem;
  problem.AddResidualBlock(cost, nullptr, values.data());
  for (int k = 0; k <= links; ++k) problem.SetParameterLowerBound(values.data(), k, 0.0);
  double least = solve_least_squares(problem, iteration.runs().source);
  // The problem keeps the place of the values, so that they are copied there and never moved. Each round frees one link
  // or more from where no point waits for it.
  for (int round = 0; round < links; ++round) {
    const std::vector<double> best = values;
    const std::vector<double> longer = longer_link(*cost, best, least);
    if (longer == best) break;
    std::copy(longer.begin(), longer.end(), values.begin());
    const double left = solve_least_squares(problem, iteration.runs().source);
    if (left >= least) {
      std::copy(best.begin(), best.end(), values.begin());
      break;
    }
    least = left;
  }
  const Eigen::MatrixXd covariance = covariance_of(*cost, {values.data()});
  for (int k = 0; k <= links; ++k) {
    const Fitted fitted{values[at(k)], std::sqrt(std::max(0.0, covariance(k, k)))};
    if (k < links) {
      model.transfer.push_back(fitted);
    } else {
      model.once = fitted;
    }
  }
}

}  // namespace flyball
