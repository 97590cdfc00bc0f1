// A bucket fills at the given rate up to two seconds' worth. Full buckets are forgotten once a second at most; names
// beyond the limit share one bucket.
#include "server/rate_limit.h"

#include <algorithm>

namespace flyball {
namespace {

constexpr std::chrono::seconds kClearEvery{1};

}  // namespace

RateLimit::Bucket& RateLimit::bucket_of(std::string_view name, double most, Clock::time_point now) {
  const auto found = buckets_.find(name);
  if (found != buckets_.end()) return found->second;
  // After two seconds of silence a bucket is full and can be forgotten.
  if (buckets_.size() >= most_buckets_ && now - cleared_ >= kClearEvery) {
    cleared_ = now;
    std::erase_if(buckets_, [&](const auto& entry) { return now - entry.second.filled >= std::chrono::seconds(2); });
  }
  if (buckets_.size() < most_buckets_) return buckets_.emplace(std::string(name), Bucket{most, now}).first->second;
  if (others_.filled == Clock::time_point{}) others_ = {most, now};
  return others_;
}

bool RateLimit::admit(std::string_view name, double per_second, Clock::time_point now, double cost) {
  const double most = 2.0 * per_second;
  Bucket& bucket = bucket_of(name, most, now);
  bucket.left = std::min(most, bucket.left + per_second * std::chrono::duration<double>(now - bucket.filled).count());
  bucket.filled = now;
  cost = std::min(cost, std::max(most, 1.0));
  if (bucket.left < cost) return false;
  bucket.left -= cost;
  return true;
}

}  // namespace flyball
