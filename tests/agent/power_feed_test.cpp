#include "agent/power_feed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/memory_gpu.h"

namespace flyball {
namespace {

using testing::MemoryGpu;

std::size_t threads_of_this_process() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t count = 0;
  while (status >> word) {
    if (word == "Threads:") status >> count;
  }
  return count;
}

// Each listener that left used to cost a thread while a driver hung, and a quarter of a second. All twenty now share
// what the first one cost: the reading that hangs, the one that goes on with the other GPU, and the one that watches
// both.
TEST(PowerFeed, ListenersOfADriverThatHangsLeaveNoThreadsBehind) {
  const auto well = std::make_shared<MemoryGpu>(0);
  const auto hanging = std::make_shared<MemoryGpu>(1);
  PowerFeed feed({well, hanging}, {}, Sampler::Options{});
  std::thread([] {}).join();  // the thread sanitizer has one of its own from the first on
  const std::size_t before = threads_of_this_process();
  hanging->hang_reads(true);
  for (int i = 0; i < 20; ++i) {
    const PowerFeed::Listener listener(feed);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for a reading of its own to begin, and hang
    feed.rest();
  }
  EXPECT_LE(threads_of_this_process(), before + 3);
  EXPECT_EQ(feed.listeners(), 0u);
  hanging->hang_reads(false);
}

// Without listeners its threads go, and the next listener begins anew.
TEST(PowerFeed, ASamplerThatNobodyNeedsIsEndedAndBeginsAnew) {
  const auto gpu = std::make_shared<MemoryGpu>(0);
  PowerFeed feed({gpu}, {}, Sampler::Options{});
  std::thread([] {}).join();  // the thread sanitizer has one of its own from the first on
  const std::size_t before = threads_of_this_process();
  { const PowerFeed::Listener listener(feed); }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (threads_of_this_process() > before && std::chrono::steady_clock::now() < end) {
    feed.rest();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LE(threads_of_this_process(), before);
  EXPECT_FALSE(feed.latest(0).has_value());
  const PowerFeed::Listener again(feed);
  while (!feed.latest(0) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(feed.latest(0).has_value());
}

}  // namespace
}  // namespace flyball
