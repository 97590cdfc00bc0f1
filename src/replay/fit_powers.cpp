// The powers are fitted to the energies of all stages and points at once. How long each stage runs which instruction at
// which clock comes from a replay with the model's times, as it does later when energies are predicted. What a stage's
// forward and backward draw together is well known from such runs, but often not how it divides between them. A weak
// prior that both draw alike decides what the data leave open.
#include "replay/fit_powers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/index.h"
#include "replay/least_squares.h"

namespace flyball {
namespace {

constexpr double kPerMille = 1e3;  // residuals are in thousandths of the measured energy
// Powers of a stage's instructions that are e times apart count as 1 / kAlike thousandths, and a limit that is e times
// what is expected as 1 / kNearLimit.
constexpr double kAlike = 1.0 / 3.0;
constexpr double kNearLimit = 0.03;
constexpr double kAsAtRest = 0.2;
constexpr double kSquare = 0.25;

// The parameters: a scale per stage and instruction, of each instruction its share and its exponent, then these.
enum After { kBase, kRise, kWaitingExponent, kLimit, kAfterCount };

// Where a parameter may lie, and where the search begins.
struct Bounds {
  double least;
  double start;
  double most;
};

// Powers are in units of that of the stage that drew most on average.
constexpr Bounds kScale{0.2, 1.6, 8.0};
constexpr Bounds kShare{0.02, 0.3, 0.95};
constexpr Bounds kExponent{1.0, 3.0, 5.0};
constexpr Bounds kAfter[kAfterCount] = {{0.02, 0.2, 1.0}, {0.005, 0.2, 1.0}, {0.5, 2.0, 6.0}, {0.5, 1.1, 8.0}};
// The search begins at each of these limits: powers above a limit do not change with it, and so do not show the way.
constexpr double kFirstLimits[] = {1.1, 1.5, 3.0};

// The search runs over u without bounds: a parameter lies u / sqrt(1 + u^2) of the way from the middle of its bounds to
// one of them. A search that runs into bounds was seen to stay there and to end far from the best.
class EnergyResiduals {
 public:
  EnergyResiduals(const RecordedIteration& iteration, const std::vector<std::size_t>& points,
                  const IterationModel& model)
      : stages_(iteration.runs().stages), instructions_(static_cast<int>(model.instructions.size())) {
    std::map<Megahertz, int> index;
    for (const std::size_t p : points) {
      const RecordedPoint& point = iteration.runs().points[p];
      const auto uses = clock_use(iteration, point, iteration.durations(model, point));
      for (int stage = 0; stage < stages_; ++stage) {
        const ClockUse& use = uses[at(stage)];
        StageUse own{point.drawn[at(stage)].value(), {}};
        for (std::size_t c = 0; c < use.clocks.size(); ++c) {
          const auto [entry, is_new] = index.try_emplace(use.clocks[c], static_cast<int>(x_.size()));
          if (is_new) x_.push_back(use.clocks[c] / model.top);
          for (int k = 0; k <= instructions_; ++k) {
            const double seconds = use.seconds[at(k)][c];
            if (seconds > 0.0) own.pieces.push_back({entry->second, k, seconds});
          }
        }
        uses_.push_back(std::move(own));
        most_ = std::max(most_, uses_.back().drawn / point.time.value());
      }
    }
    const auto add = [&](Bounds bounds, double unit) {
      bounds_.push_back({bounds.least * unit, bounds.start * unit, bounds.most * unit});
    };
    for (int i = 0; i < scales(); ++i) add(kScale, most_);
    for (int k = 0; k < instructions_; ++k) {
      add(kShare, 1.0);
      add(kExponent, 1.0);
    }
    for (int k = 0; k < kAfterCount; ++k) add(kAfter[k], k == kWaitingExponent ? 1.0 : most_);
  }

  [[nodiscard]] int scales() const { return stages_ * instructions_; }
  [[nodiscard]] int parameters() const { return scales() + 2 * instructions_ + kAfterCount; }
  [[nodiscard]] int residuals() const {
    const auto stages_and_points = static_cast<int>(uses_.size());
    return stages_and_points + stages_and_points / stages_ + stages_ * (instructions_ - 1) + 3;
  }

  // Where the search begins, as u; `limit` is in units of the power of the stage that drew most.
  [[nodiscard]] std::vector<double> start(double limit) const {
    std::vector<double> u;
    for (Bounds one : bounds_) {
      if (u.size() + 1 == bounds_.size()) one.start = limit * most_;
      const double y = 2.0 * (one.start - one.least) / (one.most - one.least) - 1.0;
      u.push_back(y / std::sqrt(1.0 - y * y));
    }
    return u;
  }

  // What the parameters are at u.
  template <class T>
  std::vector<T> values(const T* u) const {
    using std::sqrt;
    std::vector<T> all;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      const T y = u[i] / sqrt(1.0 + u[i] * u[i]);
      all.push_back(bounds_[i].least + 0.5 * (bounds_[i].most - bounds_[i].least) * (1.0 + y));
    }
    return all;
  }
  // Their derivatives by u.
  [[nodiscard]] Eigen::VectorXd slopes(const std::vector<double>& u) const {
    Eigen::VectorXd all(static_cast<Eigen::Index>(u.size()));
    for (std::size_t i = 0; i < u.size(); ++i) {
      all[static_cast<Eigen::Index>(i)] =
          0.5 * (bounds_[i].most - bounds_[i].least) * std::pow(1.0 + u[i] * u[i], -1.5);
    }
    return all;
  }

  template <class T>
  bool operator()(T const* const* parameters, T* residual) const {
    const std::vector<T> all = values(parameters[0]);
    const auto scale = [&](int s, int k) -> const T& { return all[at(s * instructions_ + k)]; };
    const auto shape = [&](int i) -> const T& { return all[at(scales() + i)]; };
    const auto after = [&](int i) -> const T& { return shape(2 * instructions_ + i); };
    T sum(0.0);
    int stage = 0;
    for (const StageUse& use : uses_) {
      T energy(0.0);
      for (const Piece& piece : use.pieces) {
        const double x = x_[at(piece.clock)];
        if (piece.instruction == instructions_) {
          energy += piece.seconds * power_while_waiting(after(kBase), after(kRise), after(kWaitingExponent), x);
        } else {
          const int k = piece.instruction;
          energy += piece.seconds * computing_power(scale(stage, k), shape(2 * k), shape(2 * k + 1), after(kLimit), x);
        }
      }
      const T off = kPerMille * (energy / use.drawn - 1.0);
      *residual++ = off;
      sum += off;
      if (++stage < stages_) continue;
      // All stages together, which is what a plan is judged by.
      *residual++ = sum / std::sqrt(static_cast<double>(stages_));
      sum = T(0.0);
      stage = 0;
    }
    using std::log;
    for (int s = 0; s < stages_; ++s) {
      for (int k = 1; k < instructions_; ++k) {
        *residual++ = log(scale(s, k) / scale(s, 0)) / kAlike;
      }
    }
    // Where no clock reaches the limit, it is taken to lie a little above what is drawn on average.
    *residual++ = log(after(kLimit) / (kAfter[kLimit].start * most_)) / kNearLimit;
    // At clocks at which nobody waited, waiting is taken to draw as much again as at rest, with the square of the
    // clock.
    *residual++ = log(after(kRise) / after(kBase)) / kAsAtRest;
    *residual++ = (after(kWaitingExponent) - 2.0) / kSquare;
    return true;
  }

 private:
  struct Piece {
    int clock = 0;
    int instruction = 0;  // the number of instructions stands for waiting
    double seconds = 0.0;
  };
  struct StageUse {
    double drawn = 0.0;  // J
    std::vector<Piece> pieces;
  };

  int stages_;
  int instructions_;
  std::vector<double> x_;  // clocks over the highest
  std::vector<StageUse> uses_;
  double most_ = 0.0;  // W: the mean power of the stage and point that drew most
  std::vector<Bounds> bounds_;
};

// The deviation of a power whose derivatives are g by the parameters of these indices.
double deviation_of(const Eigen::VectorXd& g, const std::vector<int>& indices, const Eigen::MatrixXd& covariance) {
  double variance = 0.0;
  for (std::size_t a = 0; a < indices.size(); ++a) {
    for (std::size_t b = 0; b < indices.size(); ++b) {
      variance +=
          g[static_cast<Eigen::Index>(a)] * g[static_cast<Eigen::Index>(b)] * covariance(indices[a], indices[b]);
    }
  }
  return std::sqrt(std::max(0.0, variance));
}

void fill_powers(const RecordedIteration& iteration, const Eigen::MatrixXd& covariance, IterationModel& model) {
  const int instructions = static_cast<int>(model.instructions.size());
  const int scales = iteration.runs().stages * instructions;
  const int after = scales + 2 * instructions;
  using Four = ceres::Jet<double, 4>;
  using Three = ceres::Jet<double, 3>;
  const PowerLaw& power = model.power;
  for (int stage = 0; stage < iteration.runs().stages; ++stage) {
    std::set<Megahertz, std::greater<>> clocks;
    for (int k = 0; k < instructions; ++k) {
      const std::size_t place = model.place(stage, k);
      const std::vector<int> indices = {static_cast<int>(place), scales + 2 * k, scales + 2 * k + 1, after + kLimit};
      for (ClockCost& cost : model.costs[place]) {
        const Four watts =
            computing_power(Four(power.scale[place].value, 0), Four(power.share[at(k)].value, 1),
                            Four(power.exponent[at(k)].value, 2), Four(power.limit.value, 3), cost.clock / model.top);
        cost.power = Watts(watts.a);
        cost.power_deviation = Watts(deviation_of(watts.v, indices, covariance));
        clocks.insert(cost.clock);
      }
    }
    std::vector<WaitingPower> waiting;
    for (const Megahertz clock : clocks) {
      const Three watts = power_while_waiting(Three(power.waiting_base.value, 0), Three(power.waiting_rise.value, 1),
                                              Three(power.waiting_exponent.value, 2), clock / model.top);
      const std::vector<int> indices = {after + kBase, after + kRise, after + kWaitingExponent};
      waiting.push_back({clock, Watts(watts.a), Watts(deviation_of(watts.v, indices, covariance))});
    }
    model.waiting.push_back(std::move(waiting));
  }
}

}  // namespace

void fit_powers(const RecordedIteration& iteration, const std::vector<std::size_t>& points, IterationModel& model) {
  const int instructions = static_cast<int>(model.instructions.size());
  auto* functor = new EnergyResiduals(iteration, points, model);  // owned by the cost function
  ceres::DynamicAutoDiffCostFunction<EnergyResiduals, 8> cost(functor);
  cost.AddParameterBlock(functor->parameters());
  cost.SetNumResiduals(functor->residuals());
  std::vector<double> best;
  double least = 0.0;
  for (const double first : kFirstLimits) {
    std::vector<double> u = functor->start(first);
    ceres::Problem::Options options;
    options.cost_function_ownership = ceres::DO_NOT_TAKE_OWNERSHIP;
    ceres::Problem problem(options);
    problem.AddResidualBlock(&cost, nullptr, u.data());
    const double left = solve_least_squares(problem, iteration.runs().source);
    if (!best.empty() && left >= least) continue;
    best = std::move(u);
    least = left;
  }

  const Eigen::VectorXd slopes = functor->slopes(best);
  const Eigen::MatrixXd covariance = slopes.asDiagonal() * covariance_of(cost, {best.data()}) * slopes.asDiagonal();
  const std::vector<double> values = functor->values(best.data());
  const auto fitted = [&](int i) { return Fitted{values[at(i)], std::sqrt(std::max(0.0, covariance(i, i)))}; };
  PowerLaw& power = model.power;
  const int scales = functor->scales();
  for (int i = 0; i < scales; ++i) power.scale.push_back(fitted(i));
  for (int k = 0; k < instructions; ++k) {
    power.share.push_back(fitted(scales + 2 * k));
    power.exponent.push_back(fitted(scales + 2 * k + 1));
  }
  const int after = scales + 2 * instructions;
  power.waiting_base = fitted(after + kBase);
  power.waiting_rise = fitted(after + kRise);
  power.waiting_exponent = fitted(after + kWaitingExponent);
  power.limit = fitted(after + kLimit);
  model.power_constants = functor->parameters();
  fill_powers(iteration, covariance, model);
}

}  // namespace flyball
