// Sorting in memory and on disk against std::stable_sort.
#include "account/external_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace flyball {
namespace {

struct Record {
  std::uint64_t key;
  std::uint32_t rank;
  std::uint32_t number;  // in which it came

  [[nodiscard]] std::uint64_t sort_key() const { return key; }
  [[nodiscard]] bool comes_before(const Record& other) const { return rank < other.rank; }
};

std::vector<std::uint32_t> sorted_by(const std::vector<Record>& records, std::size_t memory_bytes, bool& spilled) {
  ExternalSorter<Record> sorter(memory_bytes);
  for (const Record& record : records) sorter.add(record);
  sorter.finish();
  spilled = sorter.spilled_bytes() > 0;
  std::vector<std::uint32_t> first;
  std::vector<std::uint32_t> again;
  Record record{};
  while (sorter.next(record)) first.push_back(record.number);
  sorter.rewind();
  while (sorter.next(record)) again.push_back(record.number);
  EXPECT_EQ(first, again);
  return first;
}

std::vector<std::uint32_t> expected_of(std::vector<Record> records) {
  std::stable_sort(records.begin(), records.end(),
                   [](const Record& a, const Record& b) { return a.key != b.key ? a.key < b.key : a.rank < b.rank; });
  std::vector<std::uint32_t> numbers;
  for (const Record& record : records) numbers.push_back(record.number);
  return numbers;
}

TEST(ExternalSort, SortsStably) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {0u, 1u, 2u, 4096u, 4097u, 50'000u}) {
    for (const std::uint64_t keys : {std::uint64_t{1}, std::uint64_t{300}, ~std::uint64_t{0}}) {
      std::vector<Record> records;
      for (std::uint32_t i = 0; i < count; ++i) {
        records.push_back({random() % keys, static_cast<std::uint32_t>(random() % 3), i});
      }
      const std::vector<std::uint32_t> numbers = expected_of(records);
      bool spilled = false;
      EXPECT_EQ(sorted_by(records, std::size_t{1} << 24, spilled), numbers) << count << " records, " << keys << " keys";
      EXPECT_FALSE(spilled);
      EXPECT_EQ(sorted_by(records, 1, spilled), numbers) << count << " records, " << keys << " keys, on disk";
      EXPECT_EQ(spilled, count >= 4096);
    }
  }
}

// A few stretches in order are merged, many are sorted; with keys that leave no room for indices beside them, too.
TEST(ExternalSort, MergesStretchesStably) {
  std::mt19937_64 random(2);
  for (const std::size_t stretches : {2u, 3u, 7u, 31u, 32u, 33u, 100u}) {
    for (const std::uint64_t keys : {std::uint64_t{40}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
      std::vector<Record> records;
      for (std::size_t i = 0; i < stretches; ++i) {
        const std::size_t begin = records.size();
        for (std::size_t k = random() % 900 + 1; k > 0; --k) {
          records.push_back({random() % keys, static_cast<std::uint32_t>(random() % 3), 0});
        }
        std::sort(records.begin() + static_cast<std::ptrdiff_t>(begin), records.end(),
                  [](const Record& a, const Record& b) { return a.key != b.key ? a.key < b.key : a.rank < b.rank; });
      }
      for (std::size_t i = 0; i < records.size(); ++i) records[i].number = static_cast<std::uint32_t>(i);
      bool spilled = false;
      EXPECT_EQ(sorted_by(records, std::size_t{1} << 24, spilled), expected_of(records))
          << stretches << " stretches, " << keys << " keys";
      EXPECT_EQ(sorted_by(records, 1, spilled), expected_of(records)) << "on disk";
    }
  }
}

}  // namespace
}  // namespace flyball
