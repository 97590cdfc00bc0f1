// The distance is that of optimal string alignment: Levenshtein's, with a swap of neighbours as one more edit. Only
// three rows of its table are kept, on the stack, since names are at most 64 bytes long.
#include "base/nearest_name.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace flyball {
namespace {

constexpr std::size_t kLongest = 64;
constexpr std::size_t kMostCandidates = 100'000;

// Optimal string alignment distance, three rows of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::array<std::array<std::size_t, kLongest + 1>, 3> rows{};
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i + 2) % 3];
    const auto& two_above = rows[(i + 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > kLongest) return {};
  const std::string* nearest = nullptr;
  std::size_t least = 0;
  for (const std::string& candidate : candidates.first(std::min(candidates.size(), kMostCandidates))) {
    if (candidate.size() > kLongest) continue;
    const std::size_t tolerated = (std::max(name.size(), candidate.size()) + 2) / 3;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance > tolerated || (nearest != nullptr && distance >= least)) continue;
    nearest = &candidate;
    least = distance;
  }
  return nearest == nullptr ? std::string() : *nearest;
}

}  // namespace flyball
