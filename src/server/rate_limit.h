// How many requests a client may make: a token bucket per name.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace flyball {

// One thread.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // Whether `name` may make one more request, at `per_second` on average and twice as many at once.
  [[nodiscard]] bool admit(std::string_view name, double per_second, Clock::time_point now);

 private:
  struct Bucket {
    double left = 0.0;
    Clock::time_point filled;
  };

  static constexpr std::size_t kMostBuckets = 20'000;

  std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace flyball
