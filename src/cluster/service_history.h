// Orders jobs that wait by their Gittins index (policies/tiresias.cpp), which changes with every job that finishes.
//
// Let S be the service that a job needs in all, distributed as that of the jobs that have finished; a the service that
// the job has had; and D a quantum. Then the Gittins index is
//   G(a) = P(S - a <= D | S > a) / E[min(S - a, D) | S > a].
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "cluster/fitting_queue.h"

namespace flyball {

// Services of finished jobs, in GPU-seconds.
class ServiceHistory {
 public:
  // Adds a finished job. Cost: O(jobs), whose services are moved in memory and summed again.
  void add(double service);

  // Returns G of a job that has had this service; 0 for one that has had more than all that finished. Cost:
  // O(log jobs).
  [[nodiscard]] double gittins_index(double had, double quantum) const;

  // Returns an upper bound of the indices of jobs that have had a service from `low` to `high`. The bound is the index
  // at `high` itself if `low` equals `high`, or if no finished job's service lies between the two or between the ends
  // of their quanta. Cost: O(log jobs).
  [[nodiscard]] double most_index(double low, double high, double quantum) const;

 private:
  [[nodiscard]] std::size_t up_to(double service) const;  // how many are at most this
  [[nodiscard]] double index_of(std::size_t from, std::size_t to, double had, double quantum) const;
  // The sum of min(S - a, D) over the finished services S from index `from` on, with `had` for a. Those before index
  // `to` are reached within the quantum D.
  [[nodiscard]] double expected(std::size_t from, std::size_t to, double had, double quantum) const;

  std::vector<double> services_;   // rising
  std::vector<double> sums_{0.0};  // of the first n services
};

// Jobs that wait, by the service that they have had. The job of the highest index is found by bounds on ranges of jobs:
// jobs with about the same service have about the same index, so that most jobs need not be looked at. Not thread-safe.
class AttainedLine {
 public:
  // Cost: O(log jobs) on average.
  void add(double had, int job);
  void remove(double had, int job);

  // Goes through the jobs by falling index, equal ones by job. Line and history must outlive the walk, and must not
  // change meanwhile.
  class Walk {
   public:
    using Place = JobPlace<double>;  // by the negated index

    Walk(const AttainedLine& line, const ServiceHistory& history, double quantum);

    // Returns the next job, or null if there is none. Cost: O(log jobs) for each job popped, unless indices rise and
    // fall from one job to the next.
    [[nodiscard]] const Place* front();
    void pop() { heads_.pop(); }
    // How many jobs and ranges of jobs were looked at.
    [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

   private:
    struct Head {
      Place place;  // no job of the range comes before this
      int node;
      bool range;  // whether this stands for the node and all below it, rather than for the node alone
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
  // A node of a treap, which is sorted by (had, job).
  struct Node {
    double had;
    int job;
    std::uint32_t priority;
    int left = -1;
    int right = -1;
    // The next three are over the node and all below it.
    double least = 0.0;  // least service had
    double most = 0.0;
    int first = 0;  // lowest job
  };

  [[nodiscard]] Node& at(int node) { return nodes_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const Node& at(int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  void sum_up(int node);
  [[nodiscard]] int merge(int left, int right);
  // Splits off the nodes before (had, job).
  void split(int node, double had, int job, int& before, int& others);

  std::vector<Node> nodes_;
  std::vector<int> unused_;
  int root_ = -1;
};

}  // namespace flyball
