#include "server/rate_limit.h"

#include <algorithm>

namespace flyball {

bool RateLimit::admit(std::string_view name, double per_second, Clock::time_point now) {
  const double most = 2.0 * per_second;
  auto found = buckets_.find(name);
  if (found == buckets_.end()) {
    // Who has been silent for a minute starts over with a full bucket anyway.
    if (buckets_.size() >= kMostBuckets) {
      std::erase_if(buckets_, [&](const auto& entry) { return now - entry.second.filled > std::chrono::minutes(1); });
    }
    if (buckets_.size() >= kMostBuckets) return false;
    found = buckets_.emplace(std::string(name), Bucket{most, now}).first;
  }
  Bucket& bucket = found->second;
  bucket.left = std::min(most, bucket.left + per_second * std::chrono::duration<double>(now - bucket.filled).count());
  bucket.filled = now;
  if (bucket.left < 1.0) return false;
  bucket.left -= 1.0;
  return true;
}

}  // namespace flyball
