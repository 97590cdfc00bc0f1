// Limits how much one user may ask of the agent, so that there is enough left for the others: requests and streamed
// events a second, open streams, leases. Root is a user like any other; over TCP the address is the user.
//
// The connection of a lease has requests of its own, so that a process that floods the agent costs no other process of
// the same user its heartbeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/units.h"
#include "net/http.h"

namespace flyball {

struct UserLimits {
  std::size_t streams = 64;     // open at a time
  double stream_events = 4000;  // that all open streams may send together in a second: four at 1 ms, all 64 at 16 ms
  std::size_t leases = 64;      // held at a time
  double requests = 2000;       // in a second; as many may come at once
};

// How much was refused.
struct LimitCounts {
  std::uint64_t requests = 0;
  std::uint64_t streams = 0;
  std::uint64_t leases = 0;
};

// Counts what each user takes. The functions throw HttpError 429, with Retry-After, where a limit is exceeded. A check
// costs one look into a map. May be used in the loop's thread only.
class UserBudgets {
 public:
  explicit UserBudgets(const UserLimits& limits) : limits_(limits) {}
  UserBudgets(const UserBudgets&) = delete;
  UserBudgets& operator=(const UserBudgets&) = delete;

  // Returns the name of a user, such as "uid 1000" or "10.0.0.7".
  [[nodiscard]] static std::string user_of(const Peer& peer);

  // `lease` is the lease that the request's connection holds, or empty.
  void check_request(const Peer& peer, const std::string& lease, Nanoseconds now);
  void check_lease(const Peer& peer, std::size_t held);
  // Takes a place for a stream, which is given back when the last copy of the result goes. Must not outlive the
  // budgets' loop.
  [[nodiscard]] std::shared_ptr<void> open_stream(const Peer& peer, Seconds interval);

  [[nodiscard]] const LimitCounts& refused() const { return refused_; }

 private:
  struct Bucket {
    double left = 0.0;
    Nanoseconds filled = 0;
  };
  struct Streams {
    std::size_t open = 0;
    double events = 0.0;  // a second
  };
  void forget_full(Nanoseconds now);

  UserLimits limits_;
  LimitCounts refused_;
  std::map<std::string, Bucket> buckets_;
  Nanoseconds forgotten_ = 0;  // when the full ones were last looked for
  // Shared with the streams' places.
  std::shared_ptr<std::map<std::string, Streams>> streams_ = std::make_shared<std::map<std::string, Streams>>();
};

}  // namespace flyball
