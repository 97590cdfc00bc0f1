// A rank is kept while it is slow; what it reports again, to a server that may have been away, is nothing new.
#include "server/found_stragglers.h"

namespace flyball {

bool FoundStragglers::take(const PaceReport& report, double now) {
  if (!(report.slowdown > 1.0)) return forget(report.rank);
  const auto [place, is_new] = found_.try_emplace(report.rank);
  Found& found = place->second;
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

}  // namespace flyball
