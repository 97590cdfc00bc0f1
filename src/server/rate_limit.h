// Limits how many requests a client may make, by a token bucket for each name.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace flyball {

// Not thread-safe. There are at most `most_buckets` buckets, and one more that all further names share, so that a
// client that makes up names cannot take more memory.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateLimit(std::size_t most_buckets = 20'000) : most_buckets_(most_buckets) {}

  // Returns whether `name` may make one more request. A name may make `per_second` requests on average, and twice as
  // many at once. This request counts as `cost` requests, or as the most that may come at once where that is less.
  [[nodiscard]] bool admit(std::string_view name, double per_second, Clock::time_point now, double cost = 1.0);

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

 private:
  struct Bucket {
    double left = 0.0;
    Clock::time_point filled;
  };

  Bucket& bucket_of(std::string_view name, double most, Clock::time_point now);

  std::size_t most_buckets_;
  std::map<std::string, Bucket, std::less<>> buckets_;
  Bucket others_;
  Clock::time_point cleared_;
};

}  // namespace flyball
