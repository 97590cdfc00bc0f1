// Which layers can end the first k stages within a band is a sweep with two pointers over prefix sums; times are whole
// nanoseconds, and ratios are compared as products in 128 bits.
#include "pipeline/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"

namespace flyball {
namespace {

// A bound on the stage times: every stage takes at least `least` and at most `most`.
struct Band {
  Nanoseconds least = 0;
  Nanoseconds most = 0;
};

class Partitioner {
 public:
  Partitioner(std::vector<Nanoseconds> layers, int stages)
      : layers_(std::move(layers)), stages_(static_cast<std::size_t>(stages)), begin_at_(layers_.size() + 1, 0) {
    std::partial_sum(layers_.begin(), layers_.end(), begin_at_.begin() + 1);
  }

  std::vector<int> solve() {
    const Nanoseconds total = begin_at_.back();
    const Nanoseconds mean = total / static_cast<Nanoseconds>(stages_);  // the shortest stage is never longer
    Band best{0, total};
    Band band{0, total};
    while (band.least <= mean) {
      const auto most = least_most(band.least);
      if (!most) break;
      // From here on stages take `most` or longer and at least one takes `mean` or less.
      if (best.least > 0 && !better({mean, *most}, best)) break;
      band = {greatest_least(band.least, *most), *most};
      if (best.least == 0 || better(band, best)) best = band;
      ++band.least;
    }
    return earliest_bounds(best);
  }

 private:
  // Strictly smaller ratio; exact, since the products fit into 128 bits.
  static bool better(const Band& a, const Band& b) {
    __extension__ typedef __int128 Wide;
    return static_cast<Wide>(a.most) * b.least < static_cast<Wide>(b.most) * a.least;
  }

  // splits_[k][j]: layers j .. L can be cut into k stages within the band.
  bool feasible(const Band& band) {
    const std::size_t n = layers_.size();
    splits_.assign(stages_ + 1, std::vector<char>(n + 1, 0));
    splits_[0][n] = 1;
    for (std::size_t k = 1; k <= stages_; ++k) {
      // The next stage may begin anywhere in [low, high): both ends move left with j, `open` counts the choices.
      std::size_t low = n + 1;
      std::size_t high = n + 1;
      std::size_t open = 0;
      for (std::size_t j = n; j-- > 0;) {
        while (low > j + 1 && begin_at_[low - 1] - begin_at_[j] >= band.least) open += splits_[k - 1][--low] != 0;
        while (high > low && begin_at_[high - 1] - begin_at_[j] > band.most) open -= splits_[k - 1][--high] != 0;
        splits_[k][j] = open > 0;
      }
    }
    return splits_[stages_][0] != 0;
  }

  // The least upper bound that is possible with the given lower one.
  std::optional<Nanoseconds> least_most(Nanoseconds least) {
    Nanoseconds impossible = 0;
    Nanoseconds possible = begin_at_.back();
    if (!feasible({least, possible})) return std::nullopt;
    while (impossible + 1 < possible) {
      const Nanoseconds middle = impossible + (possible - impossible) / 2;
      (feasible({least, middle}) ? possible : impossible) = middle;
    }
    return possible;
  }

  // The greatest lower bound that is possible with the given upper one; `known` is one that is.
  Nanoseconds greatest_least(Nanoseconds known, Nanoseconds most) {
    Nanoseconds impossible = begin_at_.back() / static_cast<Nanoseconds>(stages_) + 1;
    while (known + 1 < impossible) {
      const Nanoseconds middle = known + (impossible - known) / 2;
      (feasible({middle, most}) ? known : impossible) = middle;
    }
    return known;
  }

  std::vector<int> earliest_bounds(const Band& band) {
    feasible(band);
    std::vector<int> bounds{0};
    std::size_t j = 0;
    for (std::size_t k = stages_; k-- > 0;) {
      std::size_t next = j + 1;
      while (begin_at_[next] - begin_at_[j] < band.least || splits_[k][next] == 0) ++next;
      bounds.push_back(static_cast<int>(next));
      j = next;
    }
    return bounds;
  }

  std::vector<Nanoseconds> layers_;
  std::size_t stages_;
  std::vector<Nanoseconds> begin_at_;  // where each layer begins when all run one after the other
  std::vector<std::vector<char>> splits_;
};

bool usable(Seconds time) { return time >= Seconds(1e-9) && time <= Seconds(1e6); }

}  // namespace

Partition partition_layers(std::span<const Seconds> layers, int stages, Seconds tail) {
  if (stages < 1) throw UsageError(fmt::format("cannot partition into {} stages; ask for at least one", stages));
  if (layers.size() < static_cast<std::size_t>(stages)) {
    throw UsageError(fmt::format("{} layers cannot fill {} stages; ask for at most {} stages", layers.size(), stages,
                                 layers.size()));
  }
  std::vector<Nanoseconds> times;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!usable(layers[i])) {
      throw UsageError(
          fmt::format("layer {} takes {} s; forward times must be between 1 ns and 1e6 s", i, layers[i].value()));
    }
    times.push_back(to_nanoseconds(layers[i]));
  }
  if (tail != Seconds(0) && !usable(tail)) {
    throw UsageError(fmt::format("the tail takes {} s; it must be 0 or between 1 ns and 1e6 s", tail.value()));
  }
  times.back() += to_nanoseconds(tail);

  Partition partition;
  partition.bounds = Partitioner(times, stages).solve();
  for (std::size_t s = 0; s + 1 < partition.bounds.size(); ++s) {
    const auto first = times.begin() + partition.bounds[s];
    const auto last = times.begin() + partition.bounds[s + 1];
    partition.stage_times.push_back(to_seconds(std::accumulate(first, last, Nanoseconds{0})));
  }
  const auto [shortest, longest] = std::minmax_element(partition.stage_times.begin(), partition.stage_times.end());
  partition.imbalance = *longest / *shortest;
  return partition;
}

}  // namespace flyball
