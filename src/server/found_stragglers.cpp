// A rank is kept while it is slow; what it reports again, to a server that may have been away, is nothing new.
#include "server/found_stragglers.h"

namespace flyball {

namespace {

template <class Key>
bool take_one(std::map<Key, FoundStragglers::Found>& all, const Key& key, const PaceReport& report, double now) {
  if (!(report.slowdown > 1.0)) return all.erase(key) > 0;
  const auto [place, is_new] = all.try_emplace(key);
  FoundStragglers::Found& found = place->second;
  const bool same = !is_new && found.slowdown == report.slowdown && found.since == report.since &&
                    found.cause == report.cause && found.detail == report.detail;
  if (same) return false;
  if (is_new || found.since != report.since) found.found_unix = now;
  found.slowdown = report.slowdown;
  found.since = report.since;
  found.cause = report.cause;
  found.detail = report.detail;
  return true;
}

}  // namespace

bool FoundStragglers::take(const PaceReport& report, double now) {
  if (report.of == PaceOf::kComputing) return take_one(found_, report.rank, report, now);
  return take_one(transfers_, {report.rank, report.of}, report, now);
}

bool FoundStragglers::forget(int rank) {
  const std::size_t transfers = std::erase_if(transfers_, [rank](const auto& one) { return one.first.first == rank; });
  return found_.erase(rank) + transfers > 0;
}

}  // namespace flyball
