// A wall clock that leaps a year forth or back with every look, for a program that loads this before the C library. The
// monotonic clock is left alone.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr time_t kYear = time_t{365} * 86'400;

time_t leap() {
  static std::atomic<unsigned> looks{0};
  return looks++ % 2 == 0 ? kYear : -kYear;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += leap();
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
