// How slow each pipeline of a job is to be taken for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flyball {

// Schedules are made anew in the loop's thread whenever a straggler comes or goes, one for each degree that differs: so
// many operations, at most, are looked at then. About 0.1 us each.
inline constexpr std::int64_t kMostOperationsOfNotice = 2'000'000;

// How many different degrees there may be in a job with so many operations in an iteration; at least 2.
[[nodiscard]] std::size_t most_degrees(std::int64_t operations);

// Where there are more than `most` (at least 2) different ones, those above the least are rounded up to one of the same
// list, about as many to each. A pipeline that is taken for slower than it is comes early, and saves less; never late.
// Cost: degrees log degrees.
void share_degrees(std::vector<double>& degrees, std::size_t most);

}  // namespace flyball
