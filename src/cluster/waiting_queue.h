// A queue of jobs that wait, in groups within which the order (by work left) never changes while they wait. A walk goes
// through all jobs in order by merging the groups, and merges them only as far as it gets, so that a decision looks
// only at jobs that it may serve. How the jobs of different groups compare may change from walk to walk, since only the
// first jobs of the groups are compared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/policy.h"

namespace flyball {

// Not thread-safe.
class WaitingQueue {
 public:
  struct Place {
    double work;
    int job;
    auto operator<=>(const Place&) const = default;
  };

  void resize(std::size_t groups) { groups_.resize(groups); }
  [[nodiscard]] std::size_t groups() const { return groups_.size(); }
  [[nodiscard]] std::size_t size() const { return size_; }

  // The jobs of a group, least work last.
  [[nodiscard]] const std::vector<Place>& places(std::size_t group) const { return groups_[group]; }

  // Adds a job. Cost: O(jobs of the group with less work), which are moved in memory.
  void add(std::size_t group, Place place) {
    std::vector<Place>& places = groups_[group];
    places.insert(std::lower_bound(places.begin(), places.end(), place, std::greater<>()), place);
    ++size_;
  }
  // Adds many jobs at once. Cost: that of sorting the jobs of the group.
  void add(std::size_t group, const std::vector<Place>& many) {
    std::vector<Place>& places = groups_[group];
    places.insert(places.end(), many.begin(), many.end());
    std::sort(places.begin(), places.end(), std::greater<>());
    size_ += many.size();
  }
  void remove(std::size_t group, Place place) {
    std::vector<Place>& places = groups_[group];
    places.erase(std::lower_bound(places.begin(), places.end(), place, std::greater<>()));
    --size_;
  }

  // Goes through all jobs by rising key, equal ones by job. `key_of(group, work)` must rise with the work. The queue
  // must outlive the walk and not change meanwhile. Cost of a step: O(log groups).
  template <class KeyOf>
  class Walk {
   public:
    struct Item {
      double key;
      int job;
      std::size_t group;
      auto operator<=>(const Item&) const = default;
    };

    Walk(const WaitingQueue& queue, KeyOf key_of) : queue_(&queue), key_of_(std::move(key_of)) {
      at_.resize(queue.groups());
      for (std::size_t group = 0; group < at_.size(); ++group) push(group);
    }

    [[nodiscard]] bool done() const { return heads_.empty(); }
    [[nodiscard]] const Item& front() const { return heads_.top(); }
    // Tells whether a job of this key comes before all that are left.
    [[nodiscard]] bool comes_after(double key, int job) const {
      return done() || std::pair(key, job) < std::pair(front().key, front().job);
    }
    void pop() {
      const std::size_t group = heads_.top().group;
      heads_.pop();
      ++at_[group];
      ++passed_;
      push(group);
    }
    // Leaves out the front job and the rest of its group.
    void drop_group() {
      dropped_.push_back(heads_.top().group);
      heads_.pop();
    }

    // Returns how many jobs come before this key and job, among those walked past and those of dropped groups. Cost:
    // O(dropped groups * log jobs).
    [[nodiscard]] std::size_t before(double key, int job) const {
      std::size_t count = passed_;
      for (const std::size_t group : dropped_) {
        const std::vector<Place>& places = queue_->groups_[group];
        const auto later = std::partition_point(places.begin(), places.end(), [&](const Place& one) {
          return std::pair(key_of_(group, one.work), one.job) >= std::pair(key, job);
        });
        const auto ahead = static_cast<std::size_t>(places.end() - later);
        count += ahead - std::min(ahead, at_[group]);
      }
      return count;
    }

   private:
    void push(std::size_t group) {
      const std::vector<Place>& places = queue_->groups_[group];
      if (at_[group] == places.size()) return;
      const Place& next = places[places.size() - 1 - at_[group]];
      heads_.push({key_of_(group, next.work), next.job, group});
    }

    const WaitingQueue* queue_;
    KeyOf key_of_;
    std::vector<std::size_t> at_;  // by group: places walked past
    std::priority_queue<Item, std::vector<Item>, std::greater<>> heads_;
    std::vector<std::size_t> dropped_;
    std::size_t passed_ = 0;
  };

  template <class KeyOf>
  [[nodiscard]] Walk<KeyOf> walk(KeyOf key_of) const {
    return Walk<KeyOf>(*this, std::move(key_of));
  }

 private:
  std::vector<std::vector<Place>> groups_;  // by falling work, so that the job served first is taken from the end
  std::size_t size_ = 0;
};

// Keeps track of which jobs of a cluster wait, from the events that a policy gets and the decisions that it makes. The
// work of a job is its iterations left. `group_of(ClusterJob)` must not change while a job waits.
class WaitingJobs {
 public:
  WaitingQueue queue;

  // Must be called at the beginning of a decision. The first call reads all jobs of the cluster. There are `groups`
  // groups per kind, and `group_of(job)` must be below their number in all.
  template <class GroupOf>
  void read(const ClusterState& cluster, const ClusterEvents& events, GroupOf group_of, std::size_t groups = 1) {
    const bool is_first = where_.empty() && queue.groups() == 0;
    queue.resize(groups * cluster.kinds.size());
    where_.resize(cluster.jobs.size());
    if (!is_first) {
      enter(cluster, std::exchange(stopped_, {}), group_of);
      enter(cluster, events.arrived, group_of);
      for (const int job : events.finished) leave(job);  // last: a job may be cancelled as soon as it waits
      return;
    }
    std::vector<int> all;
    std::copy_if(cluster.active.begin(), cluster.active.end(), std::back_inserter(all),
                 [&](int job) { return !cluster.jobs[static_cast<std::size_t>(job)].has_gpus(); });
    enter(cluster, all, group_of);
  }

  // Must be called at the end of a decision. A job that loses its GPUs waits from the next decision on, with the work
  // that is left when it has lost them.
  void note(const Decision& decision) {
    for (const Assignment& given : decision.assignments) {
      if (given.gpus > 0) {
        leave(given.job);
      } else {
        stopped_.push_back(given.job);
      }
    }
  }

 private:
  static constexpr std::size_t kMany = 64;
  struct Where {
    std::size_t group = 0;
    WaitingQueue::Place place{0.0, -1};  // job -1: it does not wait
  };

  template <class GroupOf>
  void enter(const ClusterState& cluster, const std::vector<int>& jobs, GroupOf group_of) {
    std::vector<std::vector<WaitingQueue::Place>> many(jobs.size() > kMany ? queue.groups() : 0);
    for (const int job : jobs) {
      Where& where = where_[static_cast<std::size_t>(job)];
      if (where.place.job >= 0) continue;
      where = {group_of(cluster.jobs[static_cast<std::size_t>(job)]), {cluster.remaining_iterations(job), job}};
      if (many.empty()) {
        queue.add(where.group, where.place);
      } else {
        many[where.group].push_back(where.place);
      }
    }
    for (std::size_t group = 0; group < many.size(); ++group) {
      if (!many[group].empty()) queue.add(group, many[group]);
    }
  }

  void leave(int job) {
    Where& where = where_[static_cast<std::size_t>(job)];
    if (where.place.job < 0) return;
    queue.remove(where.group, where.place);
    where.place.job = -1;
  }

  std::vector<Where> where_;  // by job
  std::vector<int> stopped_;  // by the last decision
};

}  // namespace flyball
