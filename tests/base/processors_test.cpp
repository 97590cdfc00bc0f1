#include "base/processors.h"

#include <gtest/gtest.h>

#include <thread>

namespace flyball {
namespace {

TEST(Processors, AreThoseThatMayBeUsed) {
  // On a thread of its own, so that the test program keeps all of them.
  std::thread([] {
    cpu_set_t all;
    ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
    EXPECT_EQ(usable_processors(), static_cast<unsigned>(CPU_COUNT(&all)));
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_processors(), 1u);
  }).join();
}

}  // namespace
}  // namespace flyball
