// A wall clock that can be set, for a program that loads this before the C library (LD_PRELOAD): it is ahead by as many
// seconds as the file FLYBALL_WALL_CLOCK holds at that moment, an integer of 64 bits in the machine's byte order.
// Without the variable it leaps a year forth or back with every look.
//
// Nothing but the wall clock changes. libfaketime also shifts timers of the monotonic clock that are set to a point in
// time: those that are due at once never come, and a server loses its timeouts.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using Offset = const std::atomic<std::int64_t>;

// The file is mapped, since a clock is read often. Null without one.
Offset* map_file() {
  const char* path = std::getenv("FLYBALL_WALL_CLOCK");
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* mapped = ::mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<Offset*>(mapped);
}

time_t ahead() {
  static constexpr time_t kYear = time_t{365} * 86'400;
  static Offset* const offset = map_file();
  static std::atomic<unsigned> looks{0};
  if (offset != nullptr) return *offset;
  return looks++ % 2 == 0 ? kYear : -kYear;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
  return status;
}

extern "C" int gettimeofday(timeval* now, void*) noexcept {
  timespec precise{};
  const int status = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {precise.tv_sec, precise.tv_nsec / 1000};
  return status;
}

extern "C" time_t time(time_t* now) noexcept {
  timespec precise{};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) *now = precise.tv_sec;
  return precise.tv_sec;
}
