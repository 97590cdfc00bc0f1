// With pauses of an hour, so that only waking makes another turn.
#include "base/periodic_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "base/contain.h"

namespace flyball {
namespace {

constexpr Seconds kHour{3600.0};

TEST(PeriodicThread, TakesAnotherTurnWhenItIsWoken) {
  std::promise<void> first;
  std::promise<void> second;
  int turns = 0;
  PeriodicThread thread("a test", kHour, [&] {
    ++turns;
    if (turns == 1) first.set_value();
    if (turns == 2) second.set_value();
    return kHour;
  });
  first.get_future().wait();
  thread.wake();
  second.get_future().wait();
}

TEST(PeriodicThread, TakesAnotherTurnWhereItIsWokenDuringOne) {
  std::promise<void> begun;
  std::promise<void> woken;
  std::promise<void> second;
  int turns = 0;
  PeriodicThread thread("a test", kHour, [&] {
    if (++turns == 1) begun.set_value();
    if (turns == 1) woken.get_future().wait();
    if (turns == 2) second.set_value();
    return kHour;
  });
  begun.get_future().wait();
  thread.wake();
  woken.set_value();
  second.get_future().wait();
}

TEST(PeriodicThread, GoesOnAfterATurnThatThrows) {
  std::promise<void> second;
  int turns = 0;
  PeriodicThread thread("a test", Seconds(0.001), [&]() -> Seconds {
    if (++turns == 1) throw std::runtime_error("the first turn fails");
    if (turns == 2) second.set_value();
    return kHour;
  });
  second.get_future().wait();
  EXPECT_GE(contained_exceptions(), 1U);
}

TEST(PeriodicThread, TakesNoTurnOnceItWasStopped) {
  std::promise<void> begun;
  std::promise<void> stopped;
  int turns = 0;
  {
    PeriodicThread thread("a test", kHour, [&] {
      if (++turns == 1) begun.set_value();
      if (turns == 1) stopped.get_future().wait();
      return Seconds(0.0);
    });
    begun.get_future().wait();
    thread.stop();
    thread.wake();
    stopped.set_value();
  }
  EXPECT_EQ(turns, 1);
}

}  // namespace
}  // namespace flyball
