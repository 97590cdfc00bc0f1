// Chooses the jobs that share GPUs in pairs (policies/gandiva.cpp): the jobs that use their GPUs least. Each of them is
// paired with the job of least use that asks for as many GPUs and fits into the memory beside it.
//
// The finder remembers which jobs it has compared in vain, so that the next time it looks only at new jobs and at the
// jobs beside which these fit.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace flyball {

// Not thread-safe.
class PairFinder {
 public:
  struct Candidate {
    double utilisation;  // of the job's GPUs
    int job;
    auto operator<=>(const Candidate&) const = default;
  };
  // For each job, the jobs with which it must not be paired, in both directions. While jobs are candidates, the map may
  // gain entries of theirs, but must not lose any.
  using Refused = std::map<int, std::set<int>>;

  // Adds a candidate, or does nothing if it is there with the same values. `memory` is its need per GPU, which should
  // have few different values. Cost: O(log jobs).
  void put(const Candidate& candidate, int gpus, double memory);
  // Removes a candidate; does nothing for other jobs.
  void remove(int job);

  // Pairs jobs whose needs of memory add up to at most `memory`, lowest candidates first, until at least `lacking` GPUs
  // are saved. Returns the pairs, the lower candidate of each first. Paired jobs are no candidates any more. Cost:
  // O((new jobs + their refused pairs) * different needs * log jobs).
  [[nodiscard]] std::vector<std::pair<int, int>> pair_up(double memory, std::int64_t lacking, const Refused& refused);

  // How many candidates pair_up() has looked at.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

 private:
  struct Group {  // jobs of equal GPUs and memory
    std::set<Candidate> all;
    std::set<Candidate> fresh;  // those not yet compared with one another and with the rest
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
