// Requests: one token bucket for each user, or for each lease, which holds a second's worth. Streams: a count and a
// sum of events for each user, from which a stream's place subtracts its own when its last copy goes.
#include "agent/user_limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace flyball {
namespace {

constexpr std::size_t kManyBuckets = 1024;

[[noreturn]] void refuse(const std::string& words) { throw HttpError(429, words, {}, {{"Retry-After", "1"}}); }

}  // namespace

std::string UserBudgets::user_of(const Peer& peer) { return peer.local ? fmt::format("uid {}", peer.uid) : peer.party; }

// Forgets the users who have been away long enough to have a whole budget again.
void UserBudgets::forget_full(Nanoseconds now) {
  if (now - forgotten_ < kSecond) return;
  forgotten_ = now;
  std::erase_if(buckets_, [&](const auto& one) { return now - one.second.filled > kSecond; });
}

void UserBudgets::check_request(const Peer& peer, const std::string& lease, Nanoseconds now) {
  if (buckets_.size() >= kManyBuckets) forget_full(now);
  const std::string user = user_of(peer);
  const auto [found, is_new] = buckets_.try_emplace(lease.empty() ? user : "lease " + lease);
  Bucket& bucket = found->second;
  const double since = is_new ? 1.0 : to_seconds(now - bucket.filled).value();
  bucket.left = std::min(limits_.requests, bucket.left + since * limits_.requests);
  bucket.filled = now;
  if (bucket.left < 1.0) {
    ++refused_.requests;
    refuse(fmt::format("{} sends more than {:g} requests a second; this agent's limit is per_user.requests", user,
                       limits_.requests));
  }
  bucket.left -= 1.0;
}

void UserBudgets::check_lease(const Peer& peer, std::size_t held) {
  if (held < limits_.leases) return;
  ++refused_.leases;
  refuse(fmt::format("{} holds {} leases, which is the most (per_user.leases); give one back", user_of(peer), held));
}

std::shared_ptr<void> UserBudgets::open_stream(const Peer& peer, Seconds interval) {
  const std::string user = user_of(peer);
  const double events = 1.0 / interval.value();
  Streams& own = (*streams_)[user];
  if (own.open >= limits_.streams) {
    ++refused_.streams;
    refuse(fmt::format("{} has {} streams open, which is the most (per_user.streams); close one", user, own.open));
  }
  // The thousandth allows for rounding in the sum of many intervals.
  if (own.events + events > limits_.stream_events * 1.001) {
    ++refused_.streams;
    const std::string mend =
        own.open == 0 ? "" : fmt::format(" beside the {:g} of the {} that it has open", own.events, own.open);
    if (own.open == 0) streams_->erase(user);
    refuse(
        fmt::format("a stream of {:g} events a second is too much for {}{}: {:g} together are allowed "
                    "(per_user.stream_events); ask for a longer interval",
                    events, user, mend, limits_.stream_events));
  }
  ++own.open;
  own.events += events;
  return {nullptr, [all = streams_, user, events](void*) {
            Streams& left = (*all)[user];
            left.events -= events;
            if (--left.open == 0) all->erase(user);
          }};
}

}  // namespace flyball
