// The counted power of a size and speed is the belief, scaled to the nearest reading of the same size or, where there
// is none, bounded by the readings of other sizes.
#include "cluster/power_book.h"

#include <algorithm>

#include "base/index.h"

namespace flyball {

void PowerBook::add_kind(int kind) {
  const std::size_t costs = state_->kinds[at(kind)].sizes.size() * state_->kinds[at(kind)].speeds;
  metered_.emplace_back(costs);
  state_->counted_power.emplace_back(costs);
  state_->unmetered.push_back(false);
  recount(kind);
}

bool PowerBook::meter(int kind, int size, int speed, Watts power) {
  Watts& known = metered_[at(kind)][at(size) * state_->kinds[at(kind)].speeds + at(speed)];
  if (known == power) return false;
  known = power;
  return true;
}

void PowerBook::recount(int kind) {
  const ClusterJobKind& given = state_->kinds[at(kind)];
  const std::size_t sizes = given.sizes.size();
  std::vector<bool> known(sizes);
  for (std::size_t size = 0; size < sizes; ++size) known[size] = count_metered(kind, size);
  // A pipeline's power is known.
  state_->unmetered[at(kind)] =
      given.elastic && reserve_ > 0.0 && std::find(known.begin(), known.end(), true) == known.end();
  for (std::size_t size = 0; size < sizes; ++size) {
    if (known[size]) continue;
    std::size_t below = size;
    while (below > 0 && !known[below - 1]) --below;
    std::size_t above = size + 1;
    while (above < sizes && !known[above]) ++above;
    for (std::size_t speed = 0; speed < given.speeds; ++speed) {
      const Watts believed = state_->believed[at(kind)].at(size, speed).power();
      Watts counts = believed * (state_->unmetered[at(kind)] ? 1.0 + reserve_ : 1.0);
      if (below > 0 || above < sizes) {
        counts = believed;
        const auto bound = [&](std::size_t other) {
          const Watts all = state_->counted(kind, other, speed);
          const Watts each = all * (static_cast<double>(given.sizes[size]) / given.sizes[other]);
          counts = std::clamp(counts, std::min(all, each), std::max(all, each));
        };
        if (above < sizes) bound(above);
        if (below > 0) bound(below - 1);
      }
      state_->counted_power[at(kind)][size * given.speeds + speed] = counts;
    }
  }
}

// Returns false if nothing was metered at that size.
bool PowerBook::count_metered(int kind, std::size_t size) {
  const CostSheet& believed = state_->believed[at(kind)];
  const auto speeds = static_cast<int>(state_->kinds[at(kind)].speeds);
  const Watts* const metered = &metered_[at(kind)][size * at(speeds)];
  const auto next_metered = [&](int speed) {
    return static_cast<int>(
        std::find_if(metered + speed, metered + speeds, [](Watts power) { return power.value() > 0.0; }) - metered);
  };
  int nearest = next_metered(0);
  if (nearest == speeds) return false;
  int next = next_metered(nearest + 1);
  for (int speed = 0; speed < speeds; ++speed) {
    if (next < speeds && next - speed < speed - nearest) {
      nearest = next;
      next = next_metered(nearest + 1);
    }
    const double off = metered[nearest] / believed.at(size, at(nearest)).power();
    state_->counted_power[at(kind)][size * at(speeds) + at(speed)] = believed.at(size, at(speed)).power() * off;
  }
  return true;
}

}  // namespace flyball
