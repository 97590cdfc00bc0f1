#include "cluster/pair_finder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "cluster/random.h"

namespace flyball {
namespace {

struct Listed {
  double utilisation;
  int job;
  int gpus;
  double memory;
};

// The rule, anew from all candidates.
std::vector<std::pair<int, int>> pair_plainly(std::vector<Listed> all, double memory, std::int64_t lacking,
                                              const PairFinder::Refused& refused) {
  std::sort(all.begin(), all.end(), [](const Listed& a, const Listed& b) {
    return std::pair(a.utilisation, a.job) < std::pair(b.utilisation, b.job);
  });
  std::vector<std::pair<int, int>> pairs;
  std::vector<bool> taken(all.size(), false);
  for (std::size_t i = 0; i < all.size() && lacking > 0; ++i) {
    for (std::size_t k = i + 1; k < all.size() && !taken[i]; ++k) {
      const auto with = refused.find(all[i].job);
      if (taken[k] || all[k].gpus != all[i].gpus || all[k].memory > memory - all[i].memory) continue;
      if (with != refused.end() && with->second.count(all[k].job) != 0) continue;
      taken[i] = taken[k] = true;
      pairs.emplace_back(all[i].job, all[k].job);
      lacking -= all[i].gpus;
    }
  }
  return pairs;
}

// Jobs come, go, change and are refused one another, and now and then few GPUs lack: always as from all anew.
TEST(PairFinder, PairsAsIfAllWereTriedAgain) {
  Random random(3);
  const auto below = [&](int count) { return static_cast<int>(random.below(static_cast<std::uint64_t>(count))); };
  for (int trace = 0; trace < 40; ++trace) {
    PairFinder finder;
    PairFinder::Refused refused;
    std::map<int, Listed> listed;
    int next = 0;
    std::size_t pairs_made = 0;
    for (int round = 0; round < 60; ++round) {
      for (int come = below(6); come > 0; --come) {
        const int job = next++;
        listed[job] = {0.1 * below(8), job, 1 << below(3), 2.0 + 3.0 * below(5)};
      }
      for (auto& [job, one] : listed) {
        if (below(10) == 0) one.utilisation = 0.1 * below(8);
        finder.put({one.utilisation, job}, one.gpus, one.memory);
        for (const auto& [other, of_other] : listed) {
          if (other == job || below(25) != 0) continue;
          refused[job].insert(other);
          refused[other].insert(job);
        }
      }
      if (!listed.empty() && below(3) == 0) {
        const int gone = std::next(listed.begin(), below(static_cast<int>(listed.size())))->first;
        listed.erase(gone);
        finder.remove(gone);
      }
      const std::int64_t lacking = below(4) == 0 ? 1 + below(6) : 1000;
      std::vector<Listed> all;
      for (const auto& [job, one] : listed) all.push_back(one);
      const auto expected = pair_plainly(all, 12.0, lacking, refused);
      ASSERT_EQ(finder.pair_up(12.0, lacking, refused), expected) << trace << " " << round;
      for (const auto& [first, second] : expected) {
        listed.erase(first);
        listed.erase(second);
      }
      pairs_made += expected.size();
    }
    EXPECT_GT(pairs_made, 20u);
  }
}

// Jobs of 9 GiB do not fit beside one another in 16: once it has tried them, two new ones of 3 GiB cost the same to
// place, whether 50 or 5,000 are left. The new ones have the least utilisation, so each is looked at, and each looks
// at one of those.
TEST(PairFinder, LooksOnlyAtWhatIsNew) {
  for (const int jobs : {50, 5000}) {
    PairFinder finder;
    for (int job = 0; job < jobs; ++job) finder.put({0.5 + 1e-5 * job, job}, 1, 9.0);
    EXPECT_TRUE(finder.pair_up(16.0, 1'000'000, {}).empty());
    const std::size_t before = finder.looked_at();
    finder.put({0.1, jobs}, 1, 3.0);
    finder.put({0.2, jobs + 1}, 2, 3.0);
    finder.put({0.3, jobs + 2}, 1, 9.0);
    const auto pairs = finder.pair_up(16.0, 1'000'000, {});
    EXPECT_EQ(pairs, (std::vector<std::pair<int, int>>{{jobs, jobs + 2}}));
    EXPECT_LE(finder.looked_at() - before, 10u) << jobs;
  }
}

}  // namespace
}  // namespace flyball
