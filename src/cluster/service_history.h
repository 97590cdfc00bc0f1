// The order of jobs that wait by their Gittins index (policies/tiresias.cpp), which changes with every job that
// finishes.
//
// Let S be the service that a job needs in all, distributed as that of the jobs that have finished; a the service that
// the job has had; and D a quantum. Then
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
  // Adds a finished job. Cost: O(jobs), moved in memory and summed.
  void add(double service);

  // G of a job that has had this service; 0 for one that has had more than all that finished. Cost: O(log jobs).
  [[nodiscard]] double gittins_index(double had, double quantum) const;

  // An upper bound for the indices of jobs that have had from `low` to `high`. It is the index at `high` if `low`
  // equals `high`, and if no finished job lies between these two nor between the ends of their quanta. Cost: O(log
  // jobs).
  [[nodiscard]] double most_index(double low, double high, double quantum) const;

 private:
  [[nodiscard]] std::size_t up_to(double service) const;  // how many are at most this
  [[nodiscard]] double index_of(std::size_t from, std::size_t to, double had, double quantum) const;
  // What a job that has had `had` is expected to need, from the services `from` to `to` and those behind.
  [[nodiscard]] double expected(std::size_t from, std::size_t to, double had, double quantum) const;

  std::vector<double> services_;   // rising
  std::vector<double> sums_{0.0};  // of the first n services
};

// Jobs that wait, by the service that they have had. The job of the highest index is found by bounds: jobs with about
// the same service have about the same index, so that most need not be looked at.
class AttainedLine {
 public:
  // Cost: O(log jobs) on average.
  void add(double had, int job);
  void remove(double had, int job);

  [[nodiscard]] std::vector<int> jobs() const;

  // Goes through the jobs by falling index, equal ones by job. Line and history must outlive it, unchanged.
  class Walk {
   public:
    using Place = JobPlace<double>;  // by the negated index

    Walk(const AttainedLine& line, const ServiceHistory& history, double quantum);

    // The next job; null if there is none. Cost: O(log jobs) for each job popped, unless indices rise and fall from one
    // job to the next.
    [[nodiscard]] const Place* front();
    void pop() { heads_.pop(); }
    // How many jobs and ranges of jobs were looked at.
    [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

   private:
    struct Head {
      Place place;  // no job of the range comes before this
      int node;
      bool range;  // whether it stands for the node and all below it, or for the node alone
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
    // Over the node and all below it:
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
