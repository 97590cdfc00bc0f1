// Decides how slow each pipeline of a job is taken to be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace flyball {

// How many operations at most are put into schedules when a straggler comes or goes. Schedules are then made again in
// the loop's thread, one for each different degree, at about 0.1 us per operation.
inline constexpr std::int64_t kMostOperationsOfNotice = 2'000'000;

// Returns how many different degrees there may be in a job with so many operations in an iteration; at least 2.
[[nodiscard]] std::size_t most_degrees(std::int64_t operations);

// Reduces the degrees to at most `most` (at least 2) different ones. Where there are more, those above the least are
// rounded up to one of the same list, about equally many to each. A pipeline that is taken to be slower than it is only
// saves less than it could; rounding never makes an iteration late. Cost: O(degrees log degrees).
void share_degrees(std::vector<double>& degrees, std::size_t most);

}  // namespace flyball
