#include "net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <array>

#include "base/file_descriptor.h"

namespace flyball {
namespace {

FileDescriptor event(unsigned count) { return FileDescriptor(::eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK)); }

// Both of two descriptors are readable before the loop runs. The action of the one that comes first forgets the other,
// whose event is already on its way, and waits for a third, which nobody ever writes.
TEST(EventLoop, AnEventOfAForgottenDescriptorIsNoneOfTheNextOnes) {
  EventLoop loop;
  const std::array<FileDescriptor, 2> ready = {event(1), event(1)};
  const FileDescriptor quiet = event(0);
  std::array<EventLoop::Handle, 2> handles;
  EventLoop::Handle next;
  int told = 0;
  bool quiet_told = false;
  for (std::size_t i = 0; i < 2; ++i) {
    handles[i] = loop.when_readable(ready[i].get(), [&, i] {
      ++told;
      handles[1 - i].reset();
      next = loop.when_readable(quiet.get(), [&] { quiet_told = true; });
    });
  }
  const auto end = loop.after(Seconds(0.2), [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(quiet_told);
}

TEST(EventLoop, ADescriptorThatBecomesReadableIsToldOnce) {
  EventLoop loop;
  const FileDescriptor later = event(0);
  int told = 0;
  const auto handle = loop.when_readable(later.get(), [&] {
    ++told;
    loop.stop();
  });
  const auto write = loop.after(Seconds(0.01), [&] { ASSERT_EQ(::eventfd_write(later.get(), 1), 0); });
  loop.run();
  EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace flyball
