// Keeps each string once, under an index; 0 is the empty string. An index, and the text that it stands for, stay valid.
// Memory grows with the number of different strings. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace flyball {

class StringPool {
 public:
  StringPool() { look_up({}); }

  // Returns the index of a string, which is added if it is new. Cost: one comparison if this string followed the same
  // string the last time, too, which is usual where a program repeats itself; otherwise a hash and a comparison.
  std::uint32_t intern(std::string_view text) {
    const std::uint32_t expected = entries_[last_].follower;
    if (entries_[expected].text == text) return last_ = expected;
    const std::uint32_t id = look_up(text);
    entries_[last_].follower = id;
    return last_ = id;
  }
  [[nodiscard]] std::string_view operator[](std::uint32_t id) const { return entries_[id].text; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(entries_.size()); }

 private:
  struct Entry {
    std::string_view text;
    std::uint32_t follower = 0;
  };

  std::uint32_t look_up(std::string_view text) {
    if (const auto known = index_.find(text); known != index_.end()) return known->second;
    const std::uint32_t id = size();
    entries_.push_back({owned_.emplace_back(text)});
    index_.emplace(entries_.back().text, id);
    return id;
  }

  std::deque<std::string> owned_;  // a deque, so that views of its strings stay valid
  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::uint32_t> index_;
  std::uint32_t last_ = 0;
};

}  // namespace flyball
