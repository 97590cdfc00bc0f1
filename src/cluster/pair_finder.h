// Chooses the jobs that share GPUs in pairs (policies/gandiva.cpp): those that use their GPUs least. Each is paired
// with the job of least use that asks for as many GPUs and fits into the memory beside it.
//
// The finder remembers which jobs it has compared in vain, so that the next time it looks only at new jobs and at those
// that they fit.
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
  // For each job, the jobs with which it must not be paired; symmetric. May only grow while its jobs are candidates.
  using Refused = std::map<int, std::set<int>>;

  // Adds a candidate, or does nothing if it is there with the same values. `memory`, the need per GPU, should have few
  // different values. Cost: O(log jobs).
  void put(const Candidate& candidate, int gpus, double memory);
  // Removes a candidate; does nothing for other jobs.
  void remove(int job);

  // Pairs jobs whose needs add up to at most `memory`, lowest candidates first, until at least `lacking` GPUs are
  // saved. Paired jobs are no candidates any more. The first of each pair is the lower candidate. Cost: O((new jobs,
  // and their refused pairs) * needs * log jobs).
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
