// Jobs that wait, kept so that a decision looks at those who may be served and not at all: in groups within which the
// order never changes (by work left, which does not change while a job waits), merged as far as a walk gets. What the
// work of a group costs may change from walk to walk; only the groups' heads are weighed against one another.
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

  // Of a group, the least work last.
  [[nodiscard]] const std::vector<Place>& places(std::size_t group) const { return groups_[group]; }

  // O(jobs of the group behind it, moved in memory).
  void add(std::size_t group, Place place) {
    std::vector<Place>& places = groups_[group];
    places.insert(std::lower_bound(places.begin(), places.end(), place, std::greater<>()), place);
    ++size_;
  }
  // Many at once: O(jobs of the group, sorted).
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

  // From the least key up, equal ones by job. `key_of(group, work)` rises with the work. A step is O(log groups).
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
    void pop() {
      const std::size_t group = heads_.top().group;
      heads_.pop();
      ++at_[group];
      ++passed_;
      push(group);
    }
    // None of the rest of the front's group will be served.
    void drop_group() {
      dropped_.push_back(heads_.top().group);
      heads_.pop();
    }

    // How many of all come before such a one: those that were walked past, and those of dropped groups.
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
  std::vector<std::vector<Place>> groups_;  // falling, so that who is served first is taken from the end
  std::size_t size_ = 0;
};

// Which of a cluster's jobs wait, by what a policy hears and says, with the iterations that they have left as their
// work. `group_of(ClusterJob)` of a job that waits does not change while it does.
class WaitingJobs {
 public:
  WaitingQueue queue;

  // At the beginning of a decision. The first call reads all jobs of the cluster, for `groups` groups a kind.
  template <class GroupOf>
  void read(const ClusterState& cluster, const ClusterEvents& events, GroupOf group_of, std::size_t groups = 1) {
    if (!where_.empty() || queue.groups() > 0) {
      where_.resize(cluster.jobs.size());
      for (const int job : events.finished) leave(job);
      enter(cluster, std::exchange(stopped_, {}), group_of);
      return enter(cluster, events.arrived, group_of);
    }
    queue.resize(groups * cluster.kinds.size());
    where_.resize(cluster.jobs.size());
    std::vector<int> all;
    std::copy_if(cluster.active.begin(), cluster.active.end(), std::back_inserter(all),
                 [&](int job) { return !cluster.jobs[static_cast<std::size_t>(job)].has_gpus(); });
    enter(cluster, all, group_of);
  }

  // At its end. Who loses GPUs waits from the next decision on, with the work that is left when it has lost them.
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
