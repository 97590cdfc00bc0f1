// A queue of jobs that wait for as many GPUs as they asked for, in an order that does not change while they wait. The
// first job for which there is room is found without looking at the jobs for which there is none.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>

namespace flyball {

// The place of a job in an order: by key, equal ones by job.
template <class Key>
struct JobPlace {
  Key key;
  int job;
  auto operator<=>(const JobPlace&) const = default;
};

// Not thread-safe, not even for reading, since first() counts its work.
template <class Key>
class FittingQueue {
 public:
  using Place = JobPlace<Key>;

  // add() and remove() cost O(log jobs). remove() requires that the job is there.
  void add(int gpus, const Place& place) {
    places_[gpus].insert(place);
    ++size_;
  }
  void remove(int gpus, const Place& place) {
    const auto of_size = places_.find(gpus);
    size_ -= of_size->second.erase(place);
    if (of_size->second.empty()) places_.erase(of_size);
  }

  // Returns the first of the jobs that ask for at most this many GPUs. Cost: O(different numbers of GPUs).
  [[nodiscard]] std::optional<Place> first(int gpus) const {
    std::optional<Place> best;
    for (const auto& [needed, places] : places_) {
      if (needed > gpus) break;
      ++looked_at_;
      if (!best || *places.begin() < *best) best = *places.begin();
    }
    return best;
  }

  // How many jobs first() has looked at.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // The jobs by number of GPUs, each list in order.
  [[nodiscard]] const std::map<int, std::set<Place>>& places() const { return places_; }

 private:
  std::map<int, std::set<Place>> places_;
  std::size_t size_ = 0;
  mutable std::size_t looked_at_ = 0;
};

}  // namespace flyball
