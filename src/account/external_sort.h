// Sorting of more records than memory may hold: sorted runs on disk, merged as they are read.
//
// A Record is trivially copyable, has sort_key() (64 bits, unsigned) and comes_before(other), which orders records of one
// key; equal ones stay in the order of their coming. Within the budget nothing is written. Cost: a radix sort of the
// keys, O(n) a run, and O(n log runs) for the merge; a run that is in order already costs one look at each record.
// Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

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
        memory_bytes_(memory_bytes) {}

  void add(const Record& record) {
    if (count_ % kBlock == 0 && count_ / kBlock == blocks_.size()) {
      blocks_.push_back(std::make_unique_for_overwrite<Record[]>(kBlock));
    }
    const std::uint64_t key = record.sort_key();
    least_ = count_ == 0 ? key : std::min(least_, key);
    most_ = count_ == 0 ? key : std::max(most_, key);
    sorted_ = count_ == 0 || (sorted_ && !sorted_before(record, (*this)[count_ - 1]));
    (*this)[count_++] = record;
    if (count_ == capacity_) spill();
  }

  // After the last add(). Everything can be read any number of times then.
  void finish() {
    if (runs_.empty()) {
      sort();
    } else {
      if (count_ > 0) spill();
      blocks_.clear();
      blocks_.shrink_to_fit();
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
      record = (*this)[sorted_ ? position_ : order_[position_] & index_mask()];
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

  [[nodiscard]] Record& operator[](std::size_t i) { return blocks_[i / kBlock][i % kBlock]; }

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
    if (sorted_) return;
    index_bits_ = static_cast<unsigned>(std::bit_width(count_));
    const auto key_bits = static_cast<unsigned>(std::bit_width(most_ - least_));
    const unsigned lost = std::max(key_bits + index_bits_, 64u) - 64;
    order_.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) order_[i] = ((*this)[i].sort_key() - least_) >> lost << index_bits_ | i;
    std::vector<std::uint64_t> other(count_);
    constexpr unsigned kDigit = 12;
    for (unsigned shift = index_bits_; shift < index_bits_ + key_bits - lost; shift += kDigit) {
      std::array<std::uint32_t, 1u << kDigit> starts{};
      const auto digit = [shift](std::uint64_t word) { return (word >> shift) & ((1u << kDigit) - 1); };
      for (const std::uint64_t word : order_) ++starts[digit(word)];
      std::uint32_t sum = 0;
      for (std::uint32_t& start : starts) sum += std::exchange(start, sum);
      for (const std::uint64_t word : order_) other[starts[digit(word)]++] = word;
      order_.swap(other);
    }
    for (auto begin = order_.begin(); begin != order_.end();) {
      auto end = begin + 1;
      while (end != order_.end() && *end >> index_bits_ == *begin >> index_bits_) ++end;
      if (end - begin > 1) {
        std::stable_sort(begin, end, [this](std::uint64_t a, std::uint64_t b) {
          return sorted_before((*this)[a & index_mask()], (*this)[b & index_mask()]);
        });
      }
      begin = end;
    }
  }

  void spill() {
    sort();
    std::vector<Record> block;
    block.reserve(kBlock);
    const std::uint64_t begin = file_.size();
    for (std::size_t i = 0; i < count_; ++i) {
      block.push_back((*this)[sorted_ ? i : order_[i] & index_mask()]);
      if (block.size() == kBlock || i + 1 == count_) {
        file_.append(block.data(), block.size() * sizeof(Record));
        block.clear();
      }
    }
    runs_.push_back({begin, file_.size()});
    count_ = 0;
    order_ = {};
  }

  std::size_t capacity_;  // records
  std::size_t memory_bytes_;
  std::vector<std::unique_ptr<Record[]>> blocks_;
  std::size_t count_ = 0;  // records in blocks_
  std::uint64_t least_ = 0;
  std::uint64_t most_ = 0;  // of their keys
  bool sorted_ = true;      // as they came; otherwise order_ says how
  unsigned index_bits_ = 0;
  std::vector<std::uint64_t> order_;
  std::size_t position_ = 0;

  SpillFile file_;
  std::vector<Run> runs_;
  std::vector<Reader> readers_;
  std::vector<std::uint32_t> heap_;  // of readers that have a record, the earliest on top
};

}  // namespace flyball
