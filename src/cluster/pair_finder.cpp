// Candidates are grouped by GPUs and memory, so that a candidate is compared with groups that fit, not with every job.
#include "cluster/pair_finder.h"

#include <algorithm>
#include <optional>

namespace flyball {

void PairFinder::put(const Candidate& candidate, int gpus, double memory) {
  const auto found = where_.find(candidate.job);
  if (found != where_.end()) {
    const Where& known = found->second;
    if (known.candidate == candidate && known.gpus == gpus && known.memory == memory) return;
    remove(candidate.job);
  }
  where_[candidate.job] = {candidate, gpus, memory};
  Group& group = groups_[gpus][memory];
  group.all.insert(candidate);
  group.fresh.insert(candidate);
}

void PairFinder::remove(int job) {
  const auto found = where_.find(job);
  if (found == where_.end()) return;
  Group& group = groups_.at(found->second.gpus).at(found->second.memory);
  group.all.erase(found->second.candidate);
  group.fresh.erase(found->second.candidate);
  where_.erase(found);
}

std::vector<std::pair<int, int>> PairFinder::pair_up(double memory, std::int64_t lacking, const Refused& refused) {
  std::vector<Pair> found;
  for (auto& [gpus, groups] : groups_) find_pairs(groups, gpus, memory, refused, found);
  // Jobs of different numbers of GPUs are independent, except that all count towards what is lacking.
  std::sort(found.begin(), found.end(), [](const Pair& a, const Pair& b) { return a.first < b.first; });
  std::vector<std::pair<int, int>> pairs;
  std::vector<Pair> too_many;
  for (const Pair& one : found) {
    if (lacking > 0) {
      pairs.emplace_back(one.first.job, one.second.job);
      lacking -= one.gpus;
      remove(one.first.job);
      remove(one.second.job);
    } else {
      too_many.push_back(one);
    }
  }
  for (auto& [gpus, groups] : groups_) {
    for (auto& [needed, group] : groups) group.fresh.clear();
  }
  // Jobs of the pairs that are left over may still be paired with one another.
  for (const Pair& one : too_many) {
    for (const Candidate& candidate : {one.first, one.second}) {
      const Where& where = where_.at(candidate.job);
      Group& group = groups_.at(where.gpus).at(where.memory);
      group.all.insert(candidate);
      group.fresh.insert(candidate);
    }
  }
  return pairs;
}

// Finds pairs and removes them from the groups. Two jobs that are not fresh are known not to fit, so that a job that is
// not fresh is looked at only if a fresh one that may fit comes after it.
void PairFinder::find_pairs(Groups& groups, int gpus, double memory, const Refused& refused, std::vector<Pair>& pairs) {
  std::optional<Candidate> last;  // the last job looked at
  const auto after = [&](const std::set<Candidate>& candidates) {
    return last ? candidates.upper_bound(*last) : candidates.begin();
  };
  while (true) {
    const Candidate* next = nullptr;
    double needed = 0.0;
    bool is_fresh = false;
    for (const auto& [mine, group] : groups) {
      const bool may_fit = std::any_of(groups.begin(), groups.upper_bound(memory - mine), [&](const auto& other) {
        return !other.second.fresh.empty() && (!last || *last < *other.second.fresh.rbegin());
      });
      const std::set<Candidate>& some = may_fit ? group.all : group.fresh;
      const auto first = after(some);
      if (first == some.end() || (next != nullptr && !(*first < *next))) continue;
      next = &*first;
      needed = mine;
      is_fresh = group.fresh.count(*first) != 0;
    }
    if (next == nullptr) return;
    ++looked_at_;
    const Candidate one = *next;
    last = one;
    const auto not_with = refused.find(one.job);
    const Candidate* best = nullptr;
    double other_needs = 0.0;
    for (auto other = groups.begin(); other != groups.upper_bound(memory - needed); ++other) {
      const std::set<Candidate>& some = is_fresh ? other->second.all : other->second.fresh;
      for (auto it = after(some); it != some.end() && (best == nullptr || *it < *best); ++it) {
        ++looked_at_;
        if (not_with != refused.end() && not_with->second.count(it->job) != 0) continue;
        best = &*it;
        other_needs = other->first;
      }
    }
    if (best == nullptr) continue;
    const Pair pair{one, *best, gpus};
    pairs.push_back(pair);
    for (const auto& [candidate, of] : {std::pair(pair.first, needed), std::pair(pair.second, other_needs)}) {
      groups.at(of).all.erase(candidate);
      groups.at(of).fresh.erase(candidate);
    }
  }
}

}  // namespace flyball
