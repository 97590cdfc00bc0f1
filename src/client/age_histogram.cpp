// An age's bucket is eight times the logarithm (base 2) of its microseconds; a percentile is the upper end of the
// bucket in which the count passes the wanted share.
#include "client/age_histogram.h"

#include <algorithm>
#include <cmath>

namespace flyball {

void AgeHistogram::record(Nanoseconds age) {
  age = std::max<Nanoseconds>(age, 0);
  std::size_t bucket = 0;
  if (age > 1000) {
    const double octaves = std::log2(static_cast<double>(age) / 1000.0);
    bucket = std::min(static_cast<std::size_t>(octaves * kPerOctave), kBuckets - 1);
  }
  ++buckets_[bucket];
  ++count_;
  largest_ = std::max(largest_, age);
}

Nanoseconds AgeHistogram::percentile(double share) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen < wanted) continue;
    const double upper = 1000.0 * std::exp2(static_cast<double>(i + 1) / kPerOctave);
    return std::min(static_cast<Nanoseconds>(upper), largest_);
  }
  return largest_;
}

}  // namespace flyball
