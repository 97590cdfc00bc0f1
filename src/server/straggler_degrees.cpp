// The degrees are sorted and divided into groups of about equal size. Each is rounded up to the largest of its group.
#include "server/straggler_degrees.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>

namespace flyball {

std::size_t most_degrees(std::int64_t operations) {
  return static_cast<std::size_t>(
      std::max<std::int64_t>(2, kMostOperationsOfNotice / std::max<std::int64_t>(1, operations)));
}

void share_degrees(std::vector<double>& degrees, std::size_t most) {
  assert(most >= 2);
  const std::set<double> all(degrees.begin(), degrees.end());
  if (all.size() <= most) return;
  const std::vector<double> above(std::next(all.begin()), all.end());
  std::vector<double> shared;  // the largest of each group
  const std::size_t groups = most - 1;
  for (std::size_t i = 1; i <= groups; ++i) shared.push_back(above[i * above.size() / groups - 1]);
  for (double& degree : degrees) {
    if (degree > *all.begin()) degree = *std::lower_bound(shared.begin(), shared.end(), degree);
  }
}

}  // namespace flyball
