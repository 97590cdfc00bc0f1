// Jobs that wait for as many GPUs as they asked for, each with a place in an order that does not change while they
// wait. Who comes first of those for whom there is room is found without looking at those for whom there is none.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>

namespace flyball {

template <class Key>
struct JobPlace {
  Key key;
  int job;
  auto operator<=>(const JobPlace&) const = default;
};

// Not thread-safe, also for reading.
template <class Key>
class FittingQueue {
 public:
  using Place = JobPlace<Key>;

  // O(log jobs), each.
  void add(int gpus, const Place& place) {
    places_[gpus].insert(place);
    ++size_;
  }
  void remove(int gpus, const Place& place) {
    const auto of_size = places_.find(gpus);
    size_ -= of_size->second.erase(place);
    if (of_size->second.empty()) places_.erase(of_size);
  }

  // The first of those that ask for at most so many GPUs. O(different numbers of GPUs).
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
  // By number of GPUs, each in order.
  [[nodiscard]] const std::map<int, std::set<Place>>& places() const { return places_; }

 private:
  std::map<int, std::set<Place>> places_;
  std::size_t size_ = 0;
  mutable std::size_t looked_at_ = 0;
};

}  // namespace flyball
