// Which jobs are put on the same GPUs two at a time (policies/gandiva.cpp): those that use theirs least, each with
// the one of least use that asks for as many GPUs and fits in the memory beside it.
//
// Whom it has tried in vain to pair with one another is remembered, so that the next time only those that have come
// since are looked at, and whom of the others they fit.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace flyball {

class PairFinder {
 public:
  struct Candidate {
    double utilisation;  // of its GPUs
    int job;
    auto operator<=>(const Candidate&) const = default;
  };
  // What two of each other's jobs were refused; both ways. May only grow while its jobs are candidates.
  using Refused = std::map<int, std::set<int>>;

  // What a job needs of each GPU's memory has few values, as there are few kinds of jobs. Putting one again with the
  // same changes nothing. O(log jobs).
  void put(const Candidate& candidate, int gpus, double memory);
  // Nothing happens to one that is no candidate.
  void remove(int job);

  // Pairs jobs whose needs add up to at most `memory`, in rising order of candidates, until at least `lacking` GPUs
  // are saved. Who is paired is no candidate any more. The first of a pair is the lesser candidate. O((new jobs, and
  // their refused pairs) * needs * log jobs).
  [[nodiscard]] std::vector<std::pair<int, int>> pair_up(double memory, std::int64_t lacking, const Refused& refused);

  // How many candidates pair_up() has looked at.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

 private:
  struct Group {  // alike in GPUs and memory
    std::set<Candidate> all;
    std::set<Candidate> fresh;  // of these: not yet tried with one another and with the rest
  };
  using Groups = std::map<double, Group>;  // by memory
  struct Where {
    Candidate candidate;
    int gpus;
    double memory;
  };
  struct Pair {
    Candidate first;
    Candidate second;
    int gpus;
  };

  void find_pairs(Groups& groups, int gpus, double memory, const Refused& refused, std::vector<Pair>& pairs);

  std::map<int, Groups> groups_;  // by GPUs
  std::map<int, Where> where_;    // by job
  std::size_t looked_at_ = 0;
};

}  // namespace flyball
