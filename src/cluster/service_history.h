// The order of jobs that wait by their Gittins index (policies/tiresias.cpp), which changes with every job that
// finishes.
//
// With S the service that a job needs in all, a what it has had, and a quantum D,
//   G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a],
// the distribution of S being that of the jobs that have finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "cluster/fitting_queue.h"

namespace flyball {

// Services of finished jobs, GPU-seconds.
class ServiceHistory {
 public:
  // O(jobs), as memory is moved and summed.
  void add(double service);

  // Of a job that has had so much; 0 for one that has had more than all. O(log jobs).
  [[nodiscard]] double gittins_index(double had, double quantum) const;

  // What no index of jobs that have had from `low` to `high` exceeds, and of one of them is: for `low` and `high`
  // alike, and where nothing finished between them, or between where their quanta end, it is the index at `high`.
  // O(log jobs).
  [[nodiscard]] double most_index(double low, double high, double quantum) const;

 private:
  [[nodiscard]] std::size_t up_to(double service) const;  // how many are at most that
  [[nodiscard]] double index_of(std::size_t from, std::size_t to, double had, double quantum) const;
  // Of what `from` to `to` and those behind need, for a job that has had `had`.
  [[nodiscard]] double expected(std::size_t from, std::size_t to, double had, double quantum) const;

  std::vector<double> services_;   // rising
  std::vector<double> sums_{0.0};  // of the first so many
};

// Jobs that wait, by what they have had, with who comes first by Gittins index found by bounds: those who have had
// about as much have about the same index, so that most are never looked at.
class AttainedLine {
 public:
  // O(log jobs) on average.
  void add(double had, int job);
  void remove(double had, int job);

  [[nodiscard]] std::vector<int> jobs() const;

  // From the highest index down, equal ones by job. Both must outlive it, unchanged.
  class Walk {
   public:
    using Place = JobPlace<double>;  // by the index, negated

    Walk(const AttainedLine& line, const ServiceHistory& history, double quantum);

    // nullptr: none. O(log jobs) for each that is popped, where indices do not go up and down between one job and the
    // next.
    [[nodiscard]] const Place* front();
    void pop() { heads_.pop(); }
    // How many jobs and ranges of jobs were weighed.
    [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

   private:
    struct Head {
      Place place;  // no job of the range comes before that
      int node;
      bool range;  // the node and all below, or it alone
      bool operator<(const Head& other) const { return other.place < place; }
    };
    void push_range(int node);

    const AttainedLine* line_;
    const ServiceHistory* history_;
    double quantum_;
    std::priority_queue<Head> heads_;
    std::size_t looked_at_ = 0;
  };

 private:
  // Of a treap by (had, job).
  struct Node {
    double had;
    int job;
    std::uint32_t priority;
    int left = -1;
    int right = -1;
    // Of it and all below:
    double least = 0.0;  // had
    double most = 0.0;
    int first = 0;  // job
  };

  [[nodiscard]] Node& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  void sum_up(int node);
  [[nodiscard]] int merge(int left, int right);
  // Those before (had, job), and the others.
  void split(int node, double had, int job, int& before, int& others);

  std::vector<Node> nodes_;
  std::vector<int> unused_;
  int root_ = -1;
};

}  // namespace flyball
