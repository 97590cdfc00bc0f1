// Sorting of more records than memory may hold: sorted runs on disk, merged as they are read.
//
// A Record is trivially copyable, has sort_key() (64 bits, unsigned) and comes_before(other), which orders records of one
// key; equal ones stay in the order of their coming. Within the budget nothing is written. Cost: a radix sort of the
// keys, O(n) a run, and O(n log runs) for the merge. A run that came as a few stretches in order, as threads one after
// the other do, costs a merge of these instead, and one that came in order a look at each record.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "account/lazy_memory.h"
#include "account/spill_file.h"

namespace flyball {

template <class Record>
[[nodiscard]] bool sorted_before(const Record& a, const Record& b) {
  const std::uint64_t ka = a.sort_key();
  const std::uint64_t kb = b.sort_key();
  return ka != kb ? ka < kb : a.comes_before(b);
}

template <class Record>
class ExternalSorter {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  explicit ExternalSorter(std::size_t memory_bytes)
      : capacity_(std::max<std::size_t>(memory_bytes / kBytesPerRecord / kBlock, 1) * kBlock),
        memory_bytes_(memory_bytes),
        records_(capacity_) {}

  void add(const Record& record) {
    const std::uint64_t key = record.sort_key();
    if (count_ == 0) {
      least_ = most_ = key;
      stretches_.clear();
    } else if (sorted_before(record, records_[count_ - 1]) && stretches_.size() <= kMostStretches) {
      stretches_.push_back(count_);
    }
    least_ = std::min(least_, key);
    most_ = std::max(most_, key);
    records_[count_++] = record;
    if (count_ == capacity_) spill();
  }

  // After the last add(). Everything can be read any number of times then.
  void finish() {
    if (runs_.empty()) {
      sort();
    } else {
      if (count_ > 0) spill();
      records_ = {};
    }
    rewind();
  }

  void rewind() {
    position_ = 0;
    if (runs_.empty()) return;
    const std::size_t share = std::max<std::size_t>(memory_bytes_ / runs_.size() / sizeof(Record), 256);
    readers_.clear();
    heap_.clear();
    for (std::uint32_t i = 0; i < runs_.size(); ++i) {
      readers_.push_back({runs_[i].begin, runs_[i].end, {}, 0, std::min<std::size_t>(share, 65536)});
      if (refill(readers_.back())) heap_.push_back(i);
    }
    std::make_heap(heap_.begin(), heap_.end(), [this](std::uint32_t a, std::uint32_t b) { return later(a, b); });
  }

  [[nodiscard]] bool next(Record& record) {
    if (runs_.empty()) {
      if (position_ == count_) return false;
      record = at(position_);
      ++position_;
      return true;
    }
    if (heap_.empty()) return false;
    const auto less = [this](std::uint32_t a, std::uint32_t b) { return later(a, b); };
    std::pop_heap(heap_.begin(), heap_.end(), less);
    Reader& reader = readers_[heap_.back()];
    record = reader.buffer[reader.at++];
    if (reader.at < reader.buffer.size() || refill(reader)) {
      std::push_heap(heap_.begin(), heap_.end(), less);
    } else {
      heap_.pop_back();
    }
    return true;
  }

  [[nodiscard]] std::uint64_t spilled_bytes() const { return file_.size(); }

 private:
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::size_t kMostStretches = 32;  // beyond it the radix sort is faster
  // A record, its word in order_, and the word's copy while the radix sort moves it.
  static constexpr std::size_t kBytesPerRecord = sizeof(Record) + 2 * sizeof(std::uint64_t);

  struct Run {
    std::uint64_t begin;  // bytes in the file
    std::uint64_t end;
  };
  struct Reader {
    std::uint64_t begin;
    std::uint64_t end;
    std::vector<Record> buffer;
    std::size_t at;
    std::size_t capacity;
  };

  // The record that is the i-th after sort().
  [[nodiscard]] const Record& at(std::size_t i) const {
    return records_[stretches_.empty() ? i : order_[i] & index_mask()];
  }

  bool refill(Reader& reader) {
    const std::uint64_t left = (reader.end - reader.begin) / sizeof(Record);
    reader.buffer.resize(std::min<std::uint64_t>(reader.capacity, left));
    reader.at = 0;
    if (left == 0) return false;
    file_.read(reader.begin, reader.buffer.data(), reader.buffer.size() * sizeof(Record));
    reader.begin += reader.buffer.size() * sizeof(Record);
    return true;
  }

  // Runs are in the order of their coming, so that of equal records the earlier run goes first.
  [[nodiscard]] bool later(std::uint32_t a, std::uint32_t b) const {
    const Record& ra = readers_[a].buffer[readers_[a].at];
    const Record& rb = readers_[b].buffer[readers_[b].at];
    return a < b ? sorted_before(rb, ra) : !sorted_before(ra, rb);
  }

  [[nodiscard]] std::uint64_t index_mask() const { return (std::uint64_t{1} << index_bits_) - 1; }

  // Words of 64 bits are sorted: a record's index in the low bits, as much of its key as there is room for above it.
  // Records that this leaves equal are then compared.
  void sort() {
    if (stretches_.empty()) return;
    index_bits_ = static_cast<unsigned>(std::bit_width(count_));
    const auto key_bits = static_cast<unsigned>(std::bit_width(most_ - least_));
    const unsigned lost = std::max(key_bits + index_bits_, 64u) - 64;
    order_ = LazyMemory<std::uint64_t>(count_);
    for (std::size_t i = 0; i < count_; ++i) order_[i] = (records_[i].sort_key() - least_) >> lost << index_bits_ | i;
    LazyMemory<std::uint64_t> other(count_);
    if (stretches_.size() < kMostStretches) {
      merge_stretches(other);
    } else {
      sort_digits(key_bits - lost, other);
    }
    std::uint64_t* const last = order_.begin() + count_;
    for (std::uint64_t* begin = order_.begin(); begin != last;) {
      std::uint64_t* end = begin + 1;
      while (end != last && *end >> index_bits_ == *begin >> index_bits_) ++end;
      if (end - begin > 1) {
        std::stable_sort(begin, end, [this](std::uint64_t a, std::uint64_t b) {
          return sorted_before(records_[a & index_mask()], records_[b & index_mask()]);
        });
      }
      begin = end;
    }
  }

  // Neighbours two by two, until one is left.
  void merge_stretches(LazyMemory<std::uint64_t>& other) {
    std::vector<std::size_t> ends(stretches_.begin(), stretches_.end());
    ends.push_back(count_);
    while (ends.size() > 1) {
      std::size_t begin = 0;
      std::size_t left = 0;
      for (std::size_t i = 0; i < ends.size(); i += 2) {
        const std::size_t middle = ends[i];
        const std::size_t end = i + 1 < ends.size() ? ends[i + 1] : middle;
        merge(order_.begin() + begin, order_.begin() + middle, order_.begin() + end, other.begin() + begin);
        ends[left++] = begin = end;
      }
      ends.resize(left);
      order_.swap(other);
    }
  }

  // Of [first, middle) and [middle, last), without a branch on what chance decides.
  static void merge(const std::uint64_t* first, const std::uint64_t* middle, const std::uint64_t* last,
                    std::uint64_t* to) {
    const std::uint64_t* second = middle;
    while (first != middle && second != last) {
      const std::uint64_t a = *first;
      const std::uint64_t b = *second;
      *to++ = std::min(a, b);
      first += a < b ? 1 : 0;
      second += a < b ? 0 : 1;
    }
    to = std::copy(first, middle, to);
    std::copy(second, last, to);
  }

  void sort_digits(unsigned key_bits, LazyMemory<std::uint64_t>& other) {
    constexpr unsigned kDigit = 12;
    for (unsigned shift = index_bits_; shift < index_bits_ + key_bits; shift += kDigit) {
      std::array<std::uint32_t, 1u << kDigit> starts{};
      const auto digit = [shift](std::uint64_t word) { return (word >> shift) & ((1u << kDigit) - 1); };
      for (std::size_t i = 0; i < count_; ++i) ++starts[digit(order_[i])];
      std::uint32_t sum = 0;
      for (std::uint32_t& start : starts) sum += std::exchange(start, sum);
      for (std::size_t i = 0; i < count_; ++i) other[starts[digit(order_[i])]++] = order_[i];
      order_.swap(other);
    }
  }

  void spill() {
    sort();
    std::vector<Record> block;
    block.reserve(kBlock);
    const std::uint64_t begin = file_.size();
    for (std::size_t i = 0; i < count_; ++i) {
      block.push_back(at(i));
      if (block.size() == kBlock || i + 1 == count_) {
        file_.append(block.data(), block.size() * sizeof(Record));
        block.clear();
      }
    }
    runs_.push_back({begin, file_.size()});
    order_ = {};
    count_ = 0;
  }

  std::size_t capacity_;  // records
  std::size_t memory_bytes_;
  LazyMemory<Record> records_;
  std::size_t count_ = 0;
  std::uint64_t least_ = 0;
  std::uint64_t most_ = 0;              // of their keys
  std::vector<std::size_t> stretches_;  // where those in order begin, but the first; empty: all are in order
  unsigned index_bits_ = 0;
  LazyMemory<std::uint64_t> order_;
  std::size_t position_ = 0;

  SpillFile file_;
  std::vector<Run> runs_;
  std::vector<Reader> readers_;
  std::vector<std::uint32_t> heap_;  // of readers that have a record, the earliest on top
};

}  // namespace flyball
