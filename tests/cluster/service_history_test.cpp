#include "cluster/service_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "cluster/random.h"

namespace flyball {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Jobs of 10, 1000 and 4000 GPU-seconds have finished, the quantum is 3250. New: two of three end within it, after
// (10 + 1000 + 3250) / 3 on average: 2/4260. After 100: one of two, (900 + 3250) / 2: 1/4150. After 1000, which one has
// needed: the last ends within 3000: 1/3000. After 4000: none needed more.
TEST(ServiceHistory, GivesTheGittinsIndex) {
  ServiceHistory history;
  for (const double service : {1000.0, 10.0, 4000.0}) history.add(service);
  EXPECT_DOUBLE_EQ(history.gittins_index(0.0, 3250.0), 2.0 / 4260.0);
  EXPECT_DOUBLE_EQ(history.gittins_index(100.0, 3250.0), 1.0 / 4150.0);
  EXPECT_DOUBLE_EQ(history.gittins_index(1000.0, 3250.0), 1.0 / 3000.0);
  EXPECT_EQ(history.gittins_index(4000.0, 3250.0), 0.0);
  // Without a limit all end: 3/5010, and after 100: (900 + 3900) / 2.
  EXPECT_DOUBLE_EQ(history.gittins_index(0.0, kNoLimit), 3.0 / 5010.0);
  EXPECT_DOUBLE_EQ(history.gittins_index(100.0, kNoLimit), 2.0 / 4800.0);
}

// Many alike, some that differ in the last digit, some spread; services that are met exactly; histories that are short.
TEST(AttainedLine, IsWalkedAsIfSortedByIndex) {
  Random random(5);
  for (int trace = 0; trace < 60; ++trace) {
    const double quantum = trace % 3 == 0 ? 3250.0 : trace % 3 == 1 ? 3950.0 : kNoLimit;
    ServiceHistory history;
    AttainedLine line;
    std::vector<std::pair<double, int>> jobs;  // had
    const auto some_service = [&] {
      const double drawn = random.uniform();
      if (drawn < 0.2) return 3250.0;
      if (drawn < 0.4) return 3250.0 * (1.0 + 1e-15 * static_cast<double>(random.below(20)));
      return 12'000.0 * random.uniform() * random.uniform();
    };
    for (int job = 0; job < 300; ++job) {
      jobs.emplace_back(random.uniform() < 0.3 ? 0.0 : some_service(), job);
      line.add(jobs.back().first, job);
    }
    for (int round = 0; round < 30; ++round) {
      for (std::uint64_t more = random.below(4); more > 0; --more) history.add(some_service());
      for (int gone = 0; gone < 5; ++gone) {
        const std::size_t which = random.below(jobs.size());
        line.remove(jobs[which].first, jobs[which].second);
        jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(which));
      }
      std::vector<JobPlace<double>> expected;
      for (const auto& [had, job] : jobs) expected.push_back({-history.gittins_index(had, quantum), job});
      std::sort(expected.begin(), expected.end());
      std::vector<JobPlace<double>> walked;
      AttainedLine::Walk walk(line, history, quantum);
      for (; walk.front() != nullptr; walk.pop()) walked.push_back(*walk.front());
      ASSERT_EQ(walked, expected) << trace << " " << round;
    }
  }
}

// A hundred jobs have finished. The first eight of those that wait, among 50 and among 5,000 that have had from
// nothing to 10,000 GPU-seconds.
TEST(AttainedLine, LooksAtFewOfALongLine) {
  std::vector<std::size_t> looked_at;
  for (const int count : {50, 5000}) {
    ServiceHistory history;
    for (int i = 1; i <= 100; ++i) history.add(100.0 * i);
    AttainedLine line;
    for (int job = 0; job < count; ++job) line.add(10'000.0 * job / count, job);
    AttainedLine::Walk walk(line, history, 3250.0);
    for (int i = 0; i < 8; ++i) {
      ASSERT_NE(walk.front(), nullptr);
      walk.pop();
    }
    looked_at.push_back(walk.looked_at());
  }
  EXPECT_LT(looked_at[1], 400u);
  EXPECT_GT(looked_at[0], 8u);
}

}  // namespace
}  // namespace flyball
